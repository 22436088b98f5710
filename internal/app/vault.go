package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// maxSecretFile bounds a file that holds a secret, in bytes.
	maxSecretFile = 64 << 10
	// vaultTimeout bounds the look-up of a secret, which a message waits for.
	vaultTimeout = 5 * time.Second
	// vaultFresh is how long a value counts as the present one: a changed secret is in use soon, and a batch of
	// messages asks once.
	vaultFresh = 10 * time.Second
)

// vault gives channels the secrets that their definitions name. The author of definitions decides where a secret is
// sent, so the operator's settings say what may be named at all: which variables of the environment, files in which
// folders; the process's own secrets never. Errors name where it was looked for, never what was found.
type vault struct {
	store *store.Store
	ring  *secret.Keyring // nil: the server has no key
	now   func() time.Time
	env   []string // patterns of names
	dirs  []string
	own   []string // files that belong to this process
	etc   string   // see configRoot
	log   *slog.Logger

	mu     sync.Mutex
	known  map[place]knownSecret
	warned map[string]bool // paths
}

// place is where a value was found.
type place struct {
	workspace subject.WorkspaceID
	setting   definition.Setting
}

type knownSecret struct {
	value secret.Value
	until time.Time
}

func newVault(c Config, s *store.Store, now func() time.Time) (*vault, error) {
	v := &vault{store: s, now: now, env: c.SecretEnv, dirs: c.SecretDir, etc: configRoot, log: c.Log, known: map[place]knownSecret{}, warned: map[string]bool{}}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	keys := c.SecretKey.Reveal()
	if c.SecretKeyFile != "" {
		v.own = append(v.own, c.SecretKeyFile)
		raw, err := readRegular(os.Open, os.Stat, c.SecretKeyFile, v.judge(c.SecretKeyFile))
		if err != nil {
			return nil, fmt.Errorf("--secret-key-file: %w", err)
		}
		keys += "\n" + string(raw)
	}
	if strings.TrimSpace(keys) == "" {
		return v, nil
	}
	var err error
	if v.ring, err = secret.ParseKeyring(keys); err != nil {
		return nil, fmt.Errorf("the keys of %s and --secret-key-file: %w", config.SecretKeyEnv, err)
	}
	return v, nil
}

var errNoSecretKey = fmt.Errorf("this server has no key for secrets: start it with %s or --secret-key-file", config.SecretKeyEnv)

// resolve gives the value of a setting, as it was at most vaultFresh ago; longer when the database does not answer.
func (v *vault) resolve(ws subject.WorkspaceID, s definition.Setting) (string, error) {
	if s.Secret == "" && s.Env == "" && s.File == "" {
		return s.Value, nil
	}
	at, now := place{ws, s}, v.now()
	v.mu.Lock()
	known, ok := v.known[at]
	v.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.value.Reveal(), nil
	}
	value, err := v.find(ws, s)
	if ok && s.Secret != "" && (store.Unavailable(err) || errors.Is(err, context.DeadlineExceeded)) {
		value, err = known.value.Reveal(), nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		delete(v.known, at)
		return "", err
	}
	v.known[at] = knownSecret{secret.New(value), now.Add(vaultFresh)}
	return value, nil
}

// find looks a value up.
func (v *vault) find(ws subject.WorkspaceID, s definition.Setting) (string, error) {
	switch {
	case s.Secret != "":
		ctx, cancel := context.WithTimeout(context.Background(), vaultTimeout)
		defer cancel()
		row, ok, err := v.store.SecretByName(ctx, ws, s.Secret)
		if err != nil {
			return "", err
		}
		if !ok {
			return "", fmt.Errorf("there is no secret named %s", s.Secret)
		}
		value, err := v.open(ws, row)
		return value.Reveal(), err
	case s.Env != "":
		return v.variable(s.Env)
	case s.File != "":
		return v.file(s.File)
	}
	return "", errors.New("it is kept nowhere")
}

func (v *vault) open(ws subject.WorkspaceID, row store.Secret) (secret.Value, error) {
	if v.ring == nil {
		return secret.Value{}, errNoSecretKey
	}
	value, err := v.ring.Open(secret.Place{Workspace: int64(ws), Name: row.Name}, row.Sealed)
	if err != nil {
		return secret.Value{}, fmt.Errorf("the secret %s: %w; set it again", row.Name, err)
	}
	return value, nil
}

// variable reads a variable of the environment that the operator has not kept back.
func (v *vault) variable(name string) (string, error) {
	if own(name) {
		return "", fmt.Errorf("the environment variable %s belongs to this process and is not for channels", name)
	}
	if !slices.ContainsFunc(v.env, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}) {
		return "", fmt.Errorf("the environment variable %s is not among those that --secret-env lets channels read", name)
	}
	value := os.Getenv(name)
	if value == "" {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	return value, nil
}

// own reports whether a variable holds a secret of the process: its settings, its API key, its database's password.
func own(name string) bool {
	return strings.HasPrefix(name, "CARILLON_") || slices.Contains([]string{"PGPASSWORD", "PGPASSFILE", "PGSSLPASSWORD"}, name)
}

// file reads a file below one of the folders that are for secrets. No link leads out of them.
func (v *vault) file(name string) (string, error) {
	for _, dir := range v.dirs {
		inside := name
		if filepath.IsAbs(name) {
			var err error
			if inside, err = filepath.Rel(dir, name); err != nil || !filepath.IsLocal(inside) {
				continue
			}
		}
		value, err := v.fileIn(dir, inside)
		if errors.Is(err, os.ErrNotExist) && !filepath.IsAbs(name) {
			continue // it may be in the next one
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return value, nil
	}
	if filepath.IsAbs(name) {
		return "", fmt.Errorf("%s is in none of the folders from which --secret-dir lets channels read", name)
	}
	return "", fmt.Errorf("%s is in none of the folders of --secret-dir", name)
}

func (v *vault) fileIn(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", cause(err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return "", cause(err)
	}
	for _, file := range v.own {
		if ours, err := os.Stat(file); err == nil && os.SameFile(ours, info) {
			return "", errors.New("it belongs to this process and is not for channels")
		}
	}
	raw, err := readRegular(root.Open, root.Stat, name, v.judge(filepath.Join(dir, name)))
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(raw), "\r\n")
	if value == "" {
		return "", errors.New("it is empty")
	}
	return value, nil
}

// judge refuses a file that others may use, and warns, once for each path.
func (v *vault) judge(path string) func(*os.File) error {
	return func(file *os.File) error {
		whole, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		return secretFile(file, whole, v.etc, func(path, why string) {
			v.mu.Lock()
			defer v.mu.Unlock()
			if !v.warned[path] && len(v.warned) < maxWarned {
				v.warned[path] = true
				v.log.Warn("a file with a secret", "path", path, "why", why)
			}
		})
	}
}

// maxWarned bounds the paths that are remembered.
const maxWarned = 1000

// readRegular reads a small file. A device or a pipe is none: reading it may never end.
func readRegular(open func(string) (*os.File, error), stat func(string) (os.FileInfo, error), name string, judge func(*os.File) error) ([]byte, error) {
	info, err := stat(name)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close()
	if err := judge(file); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if len(raw) > maxSecretFile {
		return nil, fmt.Errorf("it is larger than %d KiB", maxSecretFile>>10)
	}
	return raw, err
}

// cause is what went wrong with a path that the caller names already.
func cause(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// check says, for the definitions that are being applied, why a secret cannot be used now.
func (v *vault) check(ctx context.Context, ws subject.WorkspaceID) (func(name string) error, error) {
	rows, err := v.store.Secrets(ctx, ws)
	if err != nil {
		return nil, err
	}
	return func(name string) error {
		at := slices.IndexFunc(rows, func(row store.Secret) bool { return row.Name == name })
		if at < 0 {
			return fmt.Errorf("there is no secret named %s", name)
		}
		_, err := v.open(ws, rows[at])
		return err
	}, nil
}

// SetSecret seals a secret and keeps it.
func (v *vault) SetSecret(ctx context.Context, ws store.Workspace, actor, name string, value secret.Value) error {
	for field, err := range map[string]error{"path.name": secret.CheckName(name), "body.value": secret.CheckValue(value)} {
		if err != nil {
			p := client.NewProblem(http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity), client.CodeInvalidRequest, err.Error())
			p.Field = field
			return p
		}
	}
	if v.ring == nil {
		p := client.NewProblem(http.StatusConflict, http.StatusText(http.StatusConflict), client.CodeNotPossible, errNoSecretKey.Error())
		p.Hint = "openssl rand -base64 32 makes a key; keep a copy, without it no secret can be opened"
		return p
	}
	sealed := v.ring.Seal(secret.Place{Workspace: int64(ws.ID), Name: name}, value)
	return v.store.PutSecret(ctx, ws.ID, v.now(), name, sealed, store.Audit{Actor: actor, Action: "set secret", Target: name})
}

// Secrets lists secrets without their values.
func (v *vault) Secrets(ctx context.Context, ws store.Workspace) (client.Secrets, error) {
	rows, err := v.store.Secrets(ctx, ws.ID)
	if err != nil {
		return client.Secrets{}, err
	}
	list := client.Secrets{Items: make([]client.Secret, len(rows))}
	for i, row := range rows {
		list.Items[i] = client.Secret{Name: row.Name, UpdatedAt: row.UpdatedAt, State: client.SecretUsable}
		switch _, err := v.open(ws.ID, row); {
		case err != nil:
			list.Items[i].State = client.SecretSealed
		case !v.ring.Sealed(row.Sealed):
			list.Items[i].State = client.SecretOldKey
		}
	}
	return list, nil
}

// RemoveSecret removes a secret.
func (v *vault) RemoveSecret(ctx context.Context, ws store.Workspace, actor, name string) error {
	return v.store.DeleteSecret(ctx, ws.ID, v.now(), name, store.Audit{Actor: actor, Action: "remove secret", Target: name})
}
