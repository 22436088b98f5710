package app

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func TestPermissions(t *testing.T) {
	t.Parallel()
	const no, warn, ok = "refused", "warned of", "used"
	for _, tc := range []struct {
		mode               fs.FileMode
		inConfig, readOnly bool
		want               string
	}{
		{0o600, true, false, ok},
		{0o640, true, false, ok},
		{0o660, true, false, ok}, // its group is the operator's choice
		{0o644, true, false, no},
		{0o604, true, false, no},
		{0o644, true, true, warn}, // as a container mounts it
		{0o444, true, true, warn},
		{0o644, false, false, warn},
		{0o444, false, false, warn},
		{0o444, false, true, warn},
		{0o440, false, true, ok},
		{0o666, false, false, no},
		{0o602, false, false, no},
		{0o602, true, false, no},
		{0o622, true, false, no},
		{0o602, false, true, ok}, // nobody can write it there
		{0o666, false, true, warn},
		{0o601, true, false, ok},
	} {
		refusal, warning := permissions(tc.mode, tc.inConfig, tc.readOnly)
		got := ok
		if refusal != "" {
			got = no
		} else if warning != "" {
			got = warn
		}
		if got != tc.want {
			t.Errorf("%o, below /etc %v, on a read-only mount %v: %s (%s%s), want %s", tc.mode, tc.inConfig, tc.readOnly, got, refusal, warning, tc.want)
		}
	}
}

// Real files: of the server's keys and of channels, below the folder that stands for /etc and elsewhere, and by a link.
func TestSecretFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	etc, run := filepath.Join(dir, "etc"), filepath.Join(dir, "run")
	for _, d := range []string{etc, run} {
		if err := os.Mkdir(d, 0o755); err != nil { //nolint:gosec // as /etc is
			t.Fatal(err)
		}
	}
	file := func(path string, mode fs.FileMode, text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file(filepath.Join(etc, "readable"), 0o644, "x")
	file(filepath.Join(etc, "mine"), 0o600, "x")
	file(filepath.Join(run, "readable"), 0o644, "x")
	file(filepath.Join(run, "writable"), 0o606, "x")
	if err := os.Symlink("../etc/readable", filepath.Join(run, "link")); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	v, err := newVault(Config{Server: config.Server{SecretDir: []string{etc, dir}}, Log: slog.New(slog.NewTextHandler(&log, nil))}, storetest.Memory(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	v.etc = etc
	for name, want := range map[string]string{
		etc + "/mine": "", etc + "/readable": "chmod o-r", run + "/readable": "", run + "/writable": "chmod o-w", dir + "/run/link": "",
	} {
		for range 2 {
			_, err := v.find(1, definition.Setting{File: name})
			if strings.HasSuffix(name, "link") {
				if err == nil || !strings.Contains(err.Error(), "chmod o-r") {
					t.Errorf("%s leads to a file below /etc that everybody may read, and was used", name)
				}
				continue
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if n := strings.Count(log.String(), "everybody on this machine may read it"); n != 1 || !strings.Contains(log.String(), run+"/readable") {
		t.Errorf("%d warnings instead of one: %s", n, log.String())
	}
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for mode, want := range map[fs.FileMode]bool{0o600: true, 0o606: false, 0o644: true} {
		_, err := newVault(Config{Server: config.Server{SecretKeyFile: file(filepath.Join(dir, "key"), mode, key)}}, storetest.Memory(t), time.Now)
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "--secret-key-file: it is not used: everybody on this machine may write it") {
			t.Errorf("a key file with mode %o: %v", mode, err)
		}
	}
}
