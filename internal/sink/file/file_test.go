//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
)

const name = "responses.ndjson"

// open makes a sink in a folder.
func open(t *testing.T, folder, path string) *Sink {
	t.Helper()
	return openWith(t, Options{Folder: folder, Clock: &clock.System{}}, path)
}

func openWith(t *testing.T, o Options, path string) *Sink {
	t.Helper()
	opened, err := Provider(o).Open(map[string]string{"path": path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	s, ok := opened.(*Sink)
	if !ok {
		t.Fatalf("got a %T", opened)
	}
	return s
}

func message(id string) sink.Message {
	return sink.Message{ID: id, Type: "response.completed", Body: fmt.Appendf(nil, "{\n  \"id\": %q,\n  \"data\": \"<a\\nb>\"\n}", id)}
}

// line is how a message stands in the file.
func line(id string) string { return fmt.Sprintf(`{"id":%q,"data":"<a\nb>"}`, id) + "\n" }

func send(t *testing.T, s *Sink, id string) {
	t.Helper()
	if err := s.Send(t.Context(), message(id)); err != nil {
		t.Fatal(err)
	}
}

// fails checks that a Send fails for now, with a text that has part.
func fails(t *testing.T, err error, part string) {
	t.Helper()
	var failed *sink.Error
	if !errors.As(err, &failed) || failed.Retry != sink.Temporary || failed.Reason != reason.TemporaryError || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v, want a temporary error with %q", err, part)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// Shows: C50.
func TestSendAppendsLines(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, name)
	s := open(t, folder, name)
	send(t, s, "1")
	send(t, s, "2")
	holds(t, path, line("1")+line("2"))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	// A later process goes on at the end.
	send(t, open(t, folder, name), "3")
	holds(t, path, line("1")+line("2")+line("3"))
}

// What a crash has left of a line gets an end, so that no later line is lost with it.
func TestTornLine(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(line("1")+line("2")[:9]), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, folder, name)
	send(t, s, "2")
	send(t, s, "3")
	holds(t, path, line("1")+line("2")[:9]+"\n"+line("2")+line("3"))
}

// A disk that is full in the middle of a line leaves nothing of it behind.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder, name)
	send(t, s, "1")
	s.write = func(f *os.File, line []byte) (int, error) {
		n, err := f.Write(line[:5])
		return n, errors.Join(err, syscall.ENOSPC)
	}
	fails(t, s.Send(t.Context(), message("2")), "no space left")
	holds(t, filepath.Join(folder, name), line("1"))
	s.write = (*os.File).Write
	send(t, s, "2")
	holds(t, filepath.Join(folder, name), line("1")+line("2"))
}

// A line counts as accepted only when it is on the disk; until then it may come twice, but is never lost.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder, name)
	s.sync = func(*os.File) error { return syscall.EIO }
	fails(t, s.Send(t.Context(), message("1")), "sync "+name)
	s.sync = (*os.File).Sync
	send(t, s, "1")
	holds(t, filepath.Join(folder, name), line("1")+line("1"))
}

func TestRotation(t *testing.T) {
	t.Parallel()
	for how, rotate := range map[string]func(path string) error{
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, nil, 0o600))
		},
		"truncated": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, name)
			s := open(t, folder, name)
			send(t, s, "1")
			if err := rotate(path); err != nil {
				t.Fatal(err)
			}
			send(t, s, "2")
			holds(t, path, line("2"))
			if how == "renamed" {
				holds(t, path+".1", line("1"))
			}
		})
	}
}

func TestFoldersAreNotMade(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder, "bi/"+name)
	fails(t, s.Send(t.Context(), message("1")), "make the folder "+filepath.Join(folder, "bi"))
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
	if err := os.Mkdir(filepath.Join(folder, "bi"), 0o700); err != nil {
		t.Fatal(err)
	}
	send(t, s, "1")
	holds(t, filepath.Join(folder, "bi", name), line("1"))

	gone := open(t, filepath.Join(folder, "gone"), name)
	fails(t, gone.Send(t.Context(), message("1")), "make the folder "+filepath.Join(folder, "gone"))
}

// Neither a path nor a symbolic link leads out of the folder, and only a regular file is written to.
func TestFilesElsewhere(t *testing.T) {
	t.Parallel()
	outside, folder := t.TempDir(), t.TempDir()
	target := filepath.Join(outside, name)
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{name: target, "folder": outside} {
		if err := os.Symlink(to, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, open(t, folder, name).Send(t.Context(), message("1")), "escapes")
	fails(t, open(t, folder, "folder/"+name).Send(t.Context(), message("1")), "escapes")
	holds(t, target, "")
	if err := os.Mkdir(filepath.Join(folder, "d.ndjson"), 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, open(t, folder, "d.ndjson").Send(t.Context(), message("1")), "is a directory")
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe.ndjson"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, open(t, folder, "pipe.ndjson").Send(t.Context(), message("1")), "is no regular file")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"":                     "is missing",
		"/var/lib/bi.ndjson":   "below the folder of --sink-dir",
		"../bi.ndjson":         "below the folder of --sink-dir",
		"a/../../bi.ndjson":    "below the folder of --sink-dir",
		"bi\n.ndjson":          "control characters",
		"bi\x00.ndjson":        "control characters",
		"carillon.db":          ".ndjson or .jsonl",
		".ssh/authorized_keys": ".ndjson or .jsonl",
		"responses":            ".ndjson or .jsonl",
	} {
		_, err := Provider(Options{Folder: t.TempDir()}).Open(map[string]string{"path": path})
		var wrong *sink.SettingError
		if !errors.As(err, &wrong) || wrong.Setting != "path" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
	for _, path := range []string{name, "bi.jsonl", "a/b/c.ndjson"} {
		if err := Provider(Options{}).Check(map[string]string{"path": path}); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := Provider(Options{}).Open(map[string]string{"path": name}); err == nil {
		t.Error("a sink without a data folder opens")
	}
}

func TestWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var failed *sink.Error
	for _, body := range []string{"", "{", "{}{}", "a\nb"} {
		if err := open(t, folder, name).Send(t.Context(), sink.Message{ID: "1", Body: []byte(body)}); !errors.As(err, &failed) || failed.Retry != sink.Permanent {
			t.Errorf("%q: got %v", body, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}

// onSleep is a clock that calls a function instead of sleeping.
type onSleep struct {
	clock.System
	do func()
}

func (c *onSleep) Sleep(ctx context.Context, _ time.Time) error {
	c.do()
	return context.Cause(ctx)
}

// A file that another process has locked is waited for, as long as there is time.
func TestLock(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	other, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if ok, err := tryLock(other); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errOver := errors.New("the time is over")
	s := openWith(t, Options{Folder: folder, Clock: &onSleep{do: func() { cancel(errOver) }}}, name)
	err = s.Send(ctx, message("1"))
	fails(t, err, "lock "+name)
	if !errors.Is(err, errOver) {
		t.Errorf("got %v", err)
	}
	holds(t, filepath.Join(folder, name), "")

	waited := 0
	s = openWith(t, Options{Folder: folder, Clock: &onSleep{do: func() {
		if waited++; waited == 3 {
			if err := unlock(other); err != nil {
				t.Error(err)
			}
		}
	}}}, name)
	send(t, s, "1")
	holds(t, filepath.Join(folder, name), line("1"))
	// The lock is held for one write only.
	if ok, err := tryLock(other); !ok || err != nil {
		t.Errorf("still locked: %v", err)
	}
}

// While one Send is at work another one waits for it no longer than its context.
func TestTurn(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), name)
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fails(t, s.Send(ctx, message("1")), "wait for "+name)
	<-s.turn
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), name)
	send(t, s, "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fails(t, s.Send(t.Context(), message("2")), "closed")
}

const (
	perWriter   = 40
	writerSpace = "CARILLON_TEST_FILE_SINK"
)

// TestMain makes this program a writer of lines when TestProcesses starts it again.
func TestMain(m *testing.M) {
	folder := os.Getenv(writerSpace)
	if folder == "" {
		os.Exit(m.Run())
	}
	if err := writeLines(folder, fmt.Sprint(os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeLines(folder, writer string) error {
	s, err := Provider(Options{Folder: folder, Clock: &clock.System{}}).Open(map[string]string{"path": name})
	if err != nil {
		return err
	}
	for i := range perWriter {
		if err := s.Send(context.Background(), sink.Message{Body: fmt.Appendf(nil, `{"id":"%s-%d","pad":%q}`, writer, i, strings.Repeat("x", 9000))}); err != nil {
			return err
		}
	}
	return s.Close()
}

// Processes, and sinks of one process, write to one file at once while it is rotated: every line is whole and there once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const processes, sinks = 3, 2
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), writerSpace+"="+folder)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for n := range sinks {
		all.Go(func() {
			if err := writeLines(folder, fmt.Sprint("sink", n)); err != nil {
				t.Error(err)
			}
			err := os.Rename(filepath.Join(folder, name), filepath.Join(folder, fmt.Sprint(name, ".", n)))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(folder, name+"*"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var event struct{ ID string }
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				t.Fatalf("%s: %v: %.80s", path, err, lines.Bytes())
			}
			ids[event.ID]++
		}
	}
	if len(ids) != (processes+sinks)*perWriter {
		t.Errorf("%d lines, want %d", len(ids), (processes+sinks)*perWriter)
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
}
