package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/client"
)

// remote finds the server that a command talks to.
type remote struct {
	Server  string `name:"server" env:"CARILLON_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The server."`
	Key     string `name:"key" env:"CARILLON_KEY" placeholder:"KEY" help:"An API key of that server."`
	KeyFile string `name:"key-file" env:"CARILLON_KEY_FILE" placeholder:"FILE" help:"A file that holds the API key, so that no list of processes shows it."`
}

// tries bounds how often a command asks a server that is busy or restarting: three times within a second.
const tries = 3

func (r remote) client() (*client.Client, error) {
	secret, err := r.secret()
	if err != nil {
		return nil, err
	}
	return client.New(r.Server, secret, client.WithRetries(tries))
}

// mostKey bounds what is read of a file that is to hold an API key.
const mostKey = 4 << 10

// AfterApply makes the command line take precedence over the environment.
func (r *remote) AfterApply(c *kong.Context) error {
	var given, inFile bool
	for _, path := range c.Path {
		given = given || path.Flag != nil && path.Flag.Name == "key"
		inFile = inFile || path.Flag != nil && path.Flag.Name == "key-file"
	}
	switch {
	case given && inFile:
		return errors.New("give --key or --key-file, not both")
	case given:
		r.KeyFile = ""
	}
	return nil
}

// secret is the API key.
func (r remote) secret() (string, error) {
	if r.KeyFile == "" {
		return r.Key, nil
	}
	f, err := os.Open(r.KeyFile)
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostKey))
	if err != nil {
		return "", fmt.Errorf("read the API key: %w", err)
	}
	words := strings.Fields(string(text))
	if len(words) != 1 {
		return "", fmt.Errorf("%s does not hold one API key and nothing else", r.KeyFile)
	}
	return words[0], nil
}

// call makes one call and says which server could not be reached.
func call[T any](r remote, what func(*client.Client) (T, error)) (T, error) {
	c, err := r.client()
	if err != nil {
		var none T
		return none, err
	}
	answer, err := what(c)
	var unreachable *net.OpError
	if errors.As(err, &unreachable) {
		return answer, fmt.Errorf("%s cannot be reached: %w\n    carillon serve starts a server; --server or CARILLON_SERVER names another one", r.Server, unreachable.Err)
	}
	return answer, err
}
