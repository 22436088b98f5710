package store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
)

// atWork makes a database as a killed process leaves it, in a folder of its own: the file, its log and the file beside it. The
// backup was made while the process ran.
func atWork(t *testing.T) (path, backup string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "carillon.db")
	s := opened(t, from)
	defer s.Close()
	f := setup(t, s)
	if _, err := s.Recognise(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	backup = filepath.Join(t.TempDir(), "backup.db")
	f.must(store.Backup(t.Context(), from, backup))
	f.add(store.OccasionWrites{Events: []store.EventRow{f.event("later")}})
	path = filepath.Join(t.TempDir(), "carillon.db")
	for _, end := range []string{"", "-wal", "-epoch"} {
		sh(t, from+end, path+end)
	}
	return path, backup
}

// A start is refused, with the remedy, if it would ruin a file or begin with an empty database unnoticed. It then changes no
// file.
// Shows: reliability 26.
func TestStartsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, path, backup string)
		want   error // nil: it starts
		remedy string
	}{
		"after a kill":         {func(*testing.T, string, string) {}, nil, ""},
		"a copy over the file": {func(t *testing.T, path, backup string) { t.Helper(); sh(t, backup, path) }, store.ErrForeignLog, "carillon.db-wal"},
		"another file in its place": {func(t *testing.T, path, backup string) {
			t.Helper()
			if err := os.Rename(backup, path); err != nil {
				t.Fatal(err)
			}
		}, store.ErrForeignLog, "carillon.db-wal"},
		"the log of another one": {func(t *testing.T, path, _ string) {
			t.Helper()
			other, _ := atWork(t)
			sh(t, other+"-wal", path+"-wal")
		}, store.ErrForeignLog, "carillon.db-wal"},
		"the log of another one, and the file beside is lost": {func(t *testing.T, path, _ string) {
			t.Helper()
			other, _ := atWork(t)
			sh(t, other+"-wal", path+"-wal")
			gone(t, path+"-epoch")
		}, store.ErrForeignLog, "carillon.db-wal"},
		"another file in its place, and no log": {func(t *testing.T, path, backup string) {
			t.Helper()
			if err := errors.Join(os.Rename(backup, path), os.Remove(path+"-wal")); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
		"no file":     {func(t *testing.T, path, _ string) { t.Helper(); gone(t, path, path+"-wal") }, store.ErrMissing, "restore"},
		"a log alone": {func(t *testing.T, path, _ string) { t.Helper(); gone(t, path, path+"-epoch") }, store.ErrForeignLog, "move"},
		"an empty file": {func(t *testing.T, path, _ string) {
			t.Helper()
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}, store.ErrMissing, "restore"},
		"half a file": {func(t *testing.T, path, backup string) {
			t.Helper()
			sh(t, backup, path)
			gone(t, path+"-wal")
			if err := os.Truncate(path, 8192); err != nil {
				t.Fatal(err)
			}
		}, store.ErrDamaged, "restore --force"},
		"no database": {func(t *testing.T, path, _ string) {
			t.Helper()
			if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.ErrDamaged, "restore --force"},
		"a page that is none": {func(t *testing.T, path, backup string) {
			t.Helper()
			sh(t, backup, path)
			gone(t, path+"-wal")
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, 3996), 100)
			}
			if err = errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
		}, store.ErrDamaged, "restore --force"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, backup := atWork(t)
			c.change(t, path, backup)
			before := folder(t, filepath.Dir(path))
			s, err := store.Open(t.Context(), path, store.Options{})
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Recognise(t.Context(), now); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.remedy) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if after := folder(t, filepath.Dir(path)); after != before {
				t.Errorf("it changed what it found:\n%s\n%s", before, after)
			}
		})
	}
}

func gone(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// folder returns the content of a folder, except the token in the file -epoch, which the next start finds out again.
func folder(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "-epoch") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(e.Name() + " " + fmt.Sprintf("%x", sha256.Sum256(text)) + "\n")
	}
	return b.String()
}

// A store whose file was replaced, moved or removed returns ErrReplaced instead of an answer, notifies its process once, and
// leaves no file under the name when it is closed.
// Shows: reliability 26.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	rename := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, path, backup string)
		there  bool // another file lies under the name, which stays as it is
		moved  bool // the file lies under the name .moved, and has every row
	}{
		"removed":              {func(t *testing.T, path, _ string) { t.Helper(); gone(t, path) }, false, false},
		"removed with its log": {func(t *testing.T, path, _ string) { t.Helper(); gone(t, path, path+"-wal", path+"-shm") }, false, false},
		"moved":                {func(t *testing.T, path, _ string) { t.Helper(); rename(t, path, path+".moved") }, false, true},
		"moved and replaced": {func(t *testing.T, path, backup string) {
			t.Helper()
			rename(t, path, path+".moved")
			rename(t, backup, path)
		}, true, true},
		"replaced":     {func(t *testing.T, path, backup string) { t.Helper(); rename(t, backup, path) }, true, false},
		"written over": {func(t *testing.T, path, backup string) { t.Helper(); sh(t, backup, path) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "carillon.db")
			s := opened(t, path)
			f := setup(t, s)
			reported := 0
			s.OnReplaced(func(error) { reported++ })
			_, err := s.Recognise(t.Context(), now)
			f.must(err)
			f.add(store.OccasionWrites{Events: []store.EventRow{f.event("before")}})
			backup := filepath.Join(t.TempDir(), "backup.db")
			f.must(store.Backup(t.Context(), path, backup))
			f.add(store.OccasionWrites{Events: []store.EventRow{f.event("since")}})
			want, err := os.ReadFile(backup)
			f.must(err)

			c.change(t, path, backup)
			f.mustBe(ingest(t.Context(), s, f.ws, ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
				return store.OccasionWrites{Events: []store.EventRow{f.event("lost")}}, nil
			}), store.ErrReplaced)
			_, err = s.Counts(t.Context(), f.ws)
			f.mustBe(err, store.ErrReplaced)
			if reported != 1 {
				t.Errorf("reported %d times", reported)
			}
			f.must(s.Close())
			for _, end := range []string{"-wal", "-shm"} {
				if _, err := os.Stat(path + end); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is left: %v", end, err)
				}
			}
			if have, err := os.ReadFile(path); c.there && (err != nil || !bytes.Equal(have, want)) {
				t.Errorf("the new file was changed: %d bytes of %d, %v", len(have), len(want), err)
			}
			if c.moved {
				other := opened(t, path+".moved")
				counts, err := other.Counts(t.Context(), f.ws)
				if f.must(other.Close()); err != nil || counts.Events != 2 {
					t.Errorf("the moved file has %d events, %v; want 2", counts.Events, err)
				}
			}
		})
	}
}

// If the file is replaced in the middle of a transaction, the commit returns an error.
func TestReplacedInATransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "carillon.db")
	s := opened(t, path)
	f := setup(t, s)
	f.mustBe(ingest(t.Context(), s, f.ws, ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
		gone(t, path)
		return store.OccasionWrites{Events: []store.EventRow{f.event("lost")}}, nil
	}), store.ErrReplaced)
	f.must(s.Close())
}
