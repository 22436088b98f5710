package store_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A copy that is made while rows are written holds whole transactions: all rows of each batch, or none.
func TestBackupWhileRowsAreWritten(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "sqlite")
	f := setup(t, storetest.Open(t, url))
	ctx, halt := context.WithCancel(t.Context())
	written := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			var w store.OccasionWrites
			for i := range 10 {
				w.Instances = append(w.Instances, f.instance(fmt.Sprintf("%d:%d", n, i), instance.Completed))
			}
			f.add(w)
		}
		written <- n
	}()
	last := 0
	for n := range 5 {
		to := filepath.Join(t.TempDir(), "copy.db")
		f.must(store.Backup(t.Context(), url, to))
		if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if beside, err := filepath.Glob(to + "?*"); len(beside) > 0 || err != nil {
			t.Errorf("left behind: %v, %v", beside, err)
		}
		counts, err := storetest.Open(t, to).Counts(t.Context(), f.ws)
		f.must(err)
		have := int(counts.InstancesByStatus[instance.Completed])
		if have%10 != 0 || have < last {
			t.Errorf("copy %d holds %d rows after %d", n, have, last)
		}
		last = have
	}
	halt()
	if n := <-written; last == 0 || last > 10*n {
		t.Errorf("the last copy holds %d rows of %d", last, 10*n)
	}
}

func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	url := storetest.URL(t, "sqlite")
	f := fixture{TB: t}
	f.must(store.Backup(t.Context(), url, path("good")))
	whole, err := os.ReadFile(path("good"))
	f.must(err)
	f.must(os.WriteFile(path("cut"), whole[:len(whole)/2], 0o600))
	f.must(os.WriteFile(path("empty"), nil, 0o600))
	f.must(os.WriteFile(path("newer"), whole, 0o600))
	if _, err := raw(t, path("newer")).ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`); err != nil {
		t.Fatal(err)
	}
	f.must(os.WriteFile(path("live"), whole, 0o600))
	f.must(os.WriteFile(path("live-wal"), []byte("x"), 0o600))
	for name, want := range map[string]string{
		"cut": "not a whole database", "empty": "not a whole database", "newer": "newer version", "live": "has a log beside it", "none": "no such file",
		".": "not a SQLite file",
	} {
		to := path("to-" + name)
		if _, err := store.Restore(t.Context(), path(name), to, true, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
		if left, err := filepath.Glob(to + "*"); len(left) > 0 || err != nil {
			t.Errorf("%s: left behind %v, %v", name, left, err)
		}
	}
	_, err = store.Restore(t.Context(), path("good"), url, false, now)
	f.mustBe(err, store.ErrExists)
	open := storetest.Open(t, url)
	_, err = store.Restore(t.Context(), path("good"), url, true, now)
	f.mustBe(err, store.ErrInUse)
	f.must(open.Ping(t.Context()))
	f.mustBe(store.Backup(t.Context(), "postgres://x", path("x")), store.ErrNotAFile)
}

// A copy is restored over a damaged database, which is kept under another name.
func TestRestoreOverADamagedDatabase(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "sqlite")
	copied := filepath.Join(t.TempDir(), "copy.db")
	f := fixture{TB: t}
	f.must(store.Backup(t.Context(), url, copied))
	f.must(os.WriteFile(url, []byte(strings.Repeat("damaged", 1000)), 0o600))
	done, err := store.Restore(t.Context(), copied, url, true, now)
	f.must(err)
	if text, err := os.ReadFile(done.Previous); err != nil || !strings.HasPrefix(string(text), "damaged") {
		t.Errorf("moved away as %q: %v", done.Previous, err)
	}
	f.must(storetest.Open(t, url).Ping(t.Context()))
}

// A file that root restores belongs to the user of the service.
func TestRestoreKeepsTheOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	url := storetest.URL(t, "sqlite")
	copied := filepath.Join(t.TempDir(), "copy.db")
	f := fixture{TB: t}
	f.must(store.Backup(t.Context(), url, copied))
	f.must(os.Chown(url, 4711, 4712))
	_, err := store.Restore(t.Context(), copied, url, true, now)
	f.must(err)
	info, err := os.Stat(url)
	f.must(err)
	if own, ok := info.Sys().(*syscall.Stat_t); !ok || own.Uid != 4711 || own.Gid != 4712 || info.Mode().Perm() != 0o600 {
		t.Errorf("belongs to %+v, mode %v", own, info.Mode())
	}
}

// A log without its database is renamed too, because SQLite would write it into the copy.
func TestRestoreBesideALeftLog(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "sqlite")
	live, err := store.Open(t.Context(), url, store.Options{})
	f := setup(t, live)
	f.must(err)
	copied := filepath.Join(t.TempDir(), "copy.db")
	f.must(store.Backup(t.Context(), url, copied))
	f.add(store.OccasionWrites{Instances: []instance.Row{f.instance("later", instance.Completed)}})
	left, err := os.ReadFile(url + "-wal") // as a killed process leaves it
	f.must(err)
	f.must(live.Close())
	f.must(os.Remove(url))
	f.must(os.WriteFile(url+"-wal", left, 0o600))
	done, err := store.Restore(t.Context(), copied, url, false, now)
	f.must(err)
	if kept, err := os.ReadFile(done.Previous); err != nil || !bytes.Equal(kept, left) {
		t.Errorf("moved away as %q, %d bytes: %v", done.Previous, len(kept), err)
	}
	counts, err := storetest.Open(t, url).Counts(t.Context(), f.ws)
	f.must(err)
	if n := counts.InstancesByStatus[instance.Completed]; n != 0 {
		t.Errorf("%d rows of the former database came back", n)
	}
}

// A process that has a file open notices that the file was replaced.
func TestPingNoticesAnotherFile(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "sqlite")
	s := storetest.Open(t, url)
	f := fixture{TB: t, s: s}
	f.must(s.Ping(t.Context()))
	f.must(os.Rename(url, url+".old"))
	f.mustBe(s.Ping(t.Context()), store.ErrReplaced)
	f.must(os.WriteFile(url, []byte("another"), 0o600))
	err := s.Ping(t.Context())
	f.mustBe(err, store.ErrReplaced)
	if !store.Unavailable(err) {
		t.Error("it counts as an error of the program")
	}
	f.must(os.Remove(url))
	f.must(os.Rename(url+".old", url))
	f.mustBe(s.Ping(t.Context()), store.ErrReplaced) // the file was gone before, and the error stays
}
