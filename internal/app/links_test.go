package app

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/store"
)

// The key of links lies beside the database and not in it: it is made once, for its owner alone, and no backup holds it.
func TestKeyOfLinks(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "carillon.db")
	start := func(change func(*Config)) *App {
		t.Helper()
		c := Config{Server: config.Server{Database: config.Database{DB: db}, Listen: "127.0.0.1:0", Migrate: true}}
		if change != nil {
			change(&c)
		}
		a, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a
	}
	l := key.Link{Purpose: key.LinkUnsubscribe, Workspace: 1, Subject: "ada"}
	first, err := start(nil).Links().Sign(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(nil).Links().Open(l.Purpose, first, time.Now()); err != nil {
		t.Errorf("after a new start: %v", err)
	}
	info, err := os.Stat(db + "-links")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if err := store.Backup(t.Context(), db, copied); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(db + "-links")
	if err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(copied)
	raw, wrong := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || wrong != nil || len(raw) != 32 || strings.Contains(string(backup), strings.TrimSpace(string(text))) || strings.Contains(string(backup), string(raw)) {
		t.Errorf("the backup holds the key, or there is none: %v, %v", err, wrong)
	}
	// The settings win over the file.
	other := secret.New(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 32))))
	if _, err := start(func(c *Config) { c.LinkKey = other }).Links().Open(l.Purpose, first, time.Now()); err == nil {
		t.Error("the file beside the database was used although the settings give a key")
	}
	if err := os.Chmod(db+"-links", 0o606); err != nil { //nolint:gosec // it is what is refused
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Server: config.Server{Database: config.Database{DB: db}, Listen: "127.0.0.1:0", Migrate: true}}); err == nil || !strings.Contains(err.Error(), "everybody on this machine may write it") {
		t.Errorf("a key that everybody may write: %v", err)
	}
}

// A database in memory leaves no file.
func TestKeyOfLinksInMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	a, err := Start(t.Context(), Config{Server: config.Server{Database: config.Database{DB: ":memory:"}, Listen: "127.0.0.1:0", Migrate: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := os.ReadDir("."); err != nil || len(found) != 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
	if text, err := a.Links().Sign(key.Link{Purpose: key.LinkUnsubscribe, Workspace: 1, Subject: "ada"}); err == nil {
		t.Errorf("signed without a key: %s", text)
	}
}
