package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
)

// linksSuffix ends the name of the file beside a SQLite database that holds the key of links. No backup takes it along.
const linksSuffix = "-links"

// linkKeys are the keys that sign links with authority. They come from the settings, else for SQLite from a file beside the
// database, which the first start makes. Where neither is, as on PostgreSQL and in memory without the setting, there are none.
func (a *App) linkKeys() (key.LinkKeys, error) {
	keys := a.config.LinkKey.Reveal()
	if a.config.LinkKeyFile != "" {
		raw, err := readRegular(os.Open, os.Stat, a.config.LinkKeyFile, a.vault.judge(a.config.LinkKeyFile))
		if err != nil {
			return key.LinkKeys{}, fmt.Errorf("--link-key-file: %w", err)
		}
		keys += "\n" + string(raw)
		a.vault.own = append(a.vault.own, a.config.LinkKeyFile)
	}
	where := config.LinkKeyEnv + " and --link-key-file"
	if strings.TrimSpace(keys) == "" {
		if !store.IsFile(a.config.DB) {
			return key.LinkKeys{}, nil
		}
		where = a.config.DB + linksSuffix
		raw, err := a.keyBeside(where)
		if err != nil {
			return key.LinkKeys{}, err
		}
		if raw == nil {
			return key.LinkKeys{}, nil
		}
		keys = string(raw)
	}
	ring, err := key.ParseLinkKeys(keys)
	if err != nil {
		return ring, fmt.Errorf("the keys of %s: %w", where, err)
	}
	return ring, nil
}

// keyBeside reads the file beside the database, and makes it where there is none; nil: it cannot be made there.
func (a *App) keyBeside(path string) ([]byte, error) {
	a.vault.own = append(a.vault.own, path)
	raw, err := readRegular(os.Open, os.Stat, path, a.vault.judge(path))
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return raw, err
	}
	made := make([]byte, secretBytes)
	_, _ = rand.Read(made) // it never fails: without chance the process ends
	text := []byte(base64.StdEncoding.EncodeToString(made) + "\n")
	if err := writeOnce(path, text); err != nil {
		if errors.Is(err, fs.ErrExist) { // another process was first
			return readRegular(os.Open, os.Stat, path, a.vault.judge(path))
		}
		a.log.Warn("there is no key for links, because its file could not be made", "path", path, "error", err, "setting", "--link-key-file")
		return nil, nil
	}
	return text, nil
}

// writeOnce makes a file for its owner alone, whole or not at all; fs.ErrExist: there is one.
func writeOnce(path string, text []byte) (err error) {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part") // for its owner alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(part.Name())) }()
	_, err = part.Write(text)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	return os.Link(part.Name(), path)
}

// Links sign links with authority; without a key they refuse.
func (a *App) Links() key.LinkKeys { return a.links }
