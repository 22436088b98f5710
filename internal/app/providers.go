package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/channel/inbox"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/channel/webhook"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/outlet"
	"github.com/carillonhq/carillon/internal/outbound"
)

// maxSecretFile bounds a file that holds a secret, in bytes.
const maxSecretFile = 64 << 10

// Providers lists the built-in providers of channels. For checking definitions, where nothing is opened, client and
// clk may be nil.
func Providers(client *outbound.Client, clk clock.Clock) []channel.Provider {
	return []channel.Provider{
		memory.Provider(), inbox.Provider(), httpchan.Provider(client),
		smtp.Provider(smtp.Options{Dial: client.Dial, Clock: clk}), webhook.Provider(client, clk),
	}
}

// DefinitionOptions says which providers and settings definitions may name.
func DefinitionOptions(providers []channel.Provider) definition.Options {
	return definition.Options{Providers: outlet.Providers(providers)}
}

// secret resolves a setting of a channel. Errors name where it was looked for, never what was found. Whoever writes
// definitions decides where a secret is sent, so the process's own settings, the database's password among them,
// are not given out.
func secret(s definition.Setting) (string, error) {
	switch {
	case s.Env == "CARILLON_KEY", slices.ContainsFunc(config.Settings(), func(c config.Setting) bool { return c.Env == s.Env }):
		return "", fmt.Errorf("the environment variable %s belongs to this process and is not for channels", s.Env)
	case s.Env != "":
		value, ok := os.LookupEnv(s.Env)
		if !ok || value == "" {
			return "", fmt.Errorf("the environment variable %s is not set", s.Env)
		}
		return value, nil
	case s.File != "":
		raw, err := readSecret(s.File)
		if err != nil {
			return "", err
		}
		value := strings.TrimRight(string(raw), "\r\n")
		if value == "" {
			return "", errors.New(s.File + " is empty")
		}
		return value, nil
	}
	return s.Value, nil
}

// readSecret reads a file that holds a secret. A device or a pipe is none: reading it may never end.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if len(raw) > maxSecretFile {
		return nil, fmt.Errorf("%s is larger than %d KiB", path, maxSecretFile>>10)
	}
	return raw, err
}
