package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
)

// The path of the database that a process without the rights of an administrator opens.
const unwritableEnv = "CARILLON_TEST_UNWRITABLE"

// A start is refused if the database, a file beside it or its folder may not be written. The refusal names the file and the remedy, and no
// file is changed.
func TestUnwritableFiles(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(unwritableEnv); path != "" {
		startUnwritable(t, path)
		return
	}
	for name, c := range map[string]struct {
		closed bool     // the database was closed, so that it has no log
		files  []string // that may not be written; none: the folder
	}{
		"the file": {true, []string{""}}, "the file, after a kill": {false, []string{""}}, "the log": {false, []string{"-wal", "-shm"}},
		"the folder": {true, nil}, "the folder, after a kill": {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, kept := t.TempDir(), filepath.Join(t.TempDir(), "carillon.db")
			path := filepath.Join(dir, "carillon.db")
			s := opened(t, path)
			_, err := s.Recognise(t.Context(), now)
			for _, end := range []string{"", "-wal", "-shm"} {
				sh(t, path+end, kept+end)
			}
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			for _, end := range []string{"", "-wal", "-shm"} {
				if !c.closed {
					sh(t, kept+end, path+end)
				}
			}
			if c.files == nil {
				chmod(t, dir, 0o500)
				t.Cleanup(func() { chmod(t, dir, 0o700) })
			}
			for _, end := range c.files {
				chmod(t, path+end, 0o400)
			}
			before := folder(t, dir)
			said := unprivileged(t, unwritableEnv+"="+path)
			if after := folder(t, dir); after != before && c.files != nil && c.files[0] == "" {
				t.Errorf("it changed what it found:\n%s\n%s", before, after)
			}
			for _, want := range []string{"refused: ", path, "The user of this process has to be able to write"} {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q: %s", want, said)
				}
			}
			if strings.Contains(said, "conflict") {
				t.Errorf("no other process is there: %s", said)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// startUnwritable starts with a database, as a process does, and prints what is said.
func startUnwritable(t *testing.T, path string) {
	t.Helper()
	s, err := store.Open(t.Context(), path, store.Options{})
	if err == nil {
		_, err = s.Recognise(t.Context(), now)
		err = errors.Join(err, s.Close())
	}
	fmt.Printf("refused: %v\n", err)
}

// unprivileged runs this test in a process that may write only what its user may write, even if that is root, and returns what it prints.
func unprivileged(t *testing.T, env string) string {
	t.Helper()
	type result struct {
		said []byte
		err  error
		may  bool
	}
	done := make(chan result)
	go func() {
		// What a thread gives up, the processes that it starts have not. It is not unlocked, and ends with the goroutine.
		runtime.LockOSThread()
		var r result
		defer func() { done <- r }()
		const dropFromBoundingSet, writeEverything = 24, 1 // PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
		if os.Geteuid() == 0 {
			if _, _, no := syscall.RawSyscall(syscall.SYS_PRCTL, dropFromBoundingSet, writeEverything, 0); no != 0 {
				r.err, r.may = no, true
				return
			}
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestUnwritableFiles$", "-test.v")
		cmd.Env = append(os.Environ(), env)
		r.said, r.err = cmd.CombinedOutput()
	}()
	r := <-done
	if r.may {
		t.Skipf("root writes everything, and this process cannot give that up: %v", r.err)
	}
	if r.err != nil {
		t.Fatalf("%v: %s", r.err, r.said)
	}
	return string(r.said)
}
