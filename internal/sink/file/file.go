// Package file is the sink that appends outbox events to a file, one JSON object a line (NDJSON).
//
// A line is one write and is on the disk (fsync) before the event counts as accepted. A lock of the file is held meanwhile, so that the lines
// of several processes do not mix. A process that dies while it writes may leave half a line: the next write ends that line first, and
// the event comes again as a whole. Readers skip a line that is no JSON, and drop a second line with the same id.
//
// A file that was renamed or removed, as rotation does, is made again by the next event. Folders are not made.
//
// Definitions cannot choose any file: the path stays below the folder that the process gives to sinks, also by way of symbolic links, and ends
// in .ndjson or .jsonl, so that neither the database nor a key is ever written to.
package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/sink"
)

const (
	settingPath = "path"

	// lockPoll is how often a lock that another process holds is tried: it holds it for one write, which takes milliseconds.
	lockPoll = 10 * time.Millisecond
	// ownerOnly is the mode of a new file: answers of people stand in it. The mode of one that exists stays.
	ownerOnly = 0o600
)

// endings are the ends that a path may have.
func endings() []string { return []string{".ndjson", ".jsonl"} }

// Options say where files may be.
type Options struct {
	Folder string // paths are below it; empty: no sink can be opened
	Clock  clock.Clock
}

// Provider returns the provider.
func Provider(o Options) sink.Provider {
	return sink.Provider{
		Name: "file",
		Doc:  "Appends every event to a file, one JSON object a line.",
		Settings: []sink.Setting{
			{Name: settingPath, Required: true, Doc: "The file, below the folder of --sink-dir: a path that ends in .ndjson or .jsonl. Its folder must exist."},
		},
		Check: check,
		Open: func(settings map[string]string) (sink.Sink, error) {
			if settings[settingPath] == "" {
				return nil, &sink.SettingError{Setting: settingPath, Err: errors.New("is missing")}
			}
			if err := check(settings); err != nil {
				return nil, err
			}
			if o.Folder == "" {
				return nil, errors.New("this process has no folder for sinks: start it with --sink-dir")
			}
			return newSink(o, settings[settingPath]), nil
		},
	}
}

func check(settings map[string]string) error {
	path := settings[settingPath]
	wrong := func(text string) error { return &sink.SettingError{Setting: settingPath, Err: errors.New(text)} }
	switch {
	case path == "":
		return nil
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return wrong("must not hold control characters")
	case !filepath.IsLocal(path):
		return wrong("must be a path below the folder of --sink-dir, such as responses.ndjson")
	case !slices.Contains(endings(), filepath.Ext(path)):
		return wrong("must end in .ndjson or .jsonl")
	}
	return nil
}

// Sink appends to one file.
type Sink struct {
	clock        clock.Clock
	folder, path string
	turn         chan struct{} // holds one value while a Send or Close is at work
	file         *os.File      // nil: it is opened by the next Send
	closed       bool

	// Replaced by tests, to let them fail.
	write func(f *os.File, line []byte) (int, error)
	sync  func(f *os.File) error
}

func newSink(o Options, path string) *Sink {
	return &Sink{
		clock: o.Clock, folder: o.Folder, path: path, turn: make(chan struct{}, 1),
		write: (*os.File).Write, sync: (*os.File).Sync,
	}
}

// full is where the file is.
func (s *Sink) full() string { return filepath.Join(s.folder, s.path) }

// Send appends one line. A file that cannot be written to is a temporary failure: its owner repairs it, and the event comes again.
func (s *Sink) Send(ctx context.Context, m sink.Message) error {
	var line bytes.Buffer
	if err := json.Compact(&line, m.Body); err != nil {
		return sink.Refused(errors.New("the event is no JSON"))
	}
	line.WriteByte('\n')
	if _, bounded := ctx.Deadline(); !bounded {
		within, cancel := context.WithTimeoutCause(ctx, outbound.DefaultTimeout, fmt.Errorf("the file was locked for %s", outbound.DefaultTimeout))
		defer cancel()
		ctx = within
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return sink.Failed(fmt.Errorf("wait for %s: %w", s.path, context.Cause(ctx)))
	}
	if s.closed {
		return sink.Failed(errors.New("the sink is closed"))
	}
	if err := s.lock(ctx); err != nil {
		return sink.Failed(err)
	}
	err := s.append(line.Bytes())
	if unlocked := unlock(s.file); err != nil || unlocked != nil {
		// The line may be there: then it comes twice. The next Send opens the file again and ends a torn line.
		return sink.Failed(errors.Join(err, unlocked, s.release()))
	}
	return nil
}

// lock opens the file and locks it. Afterwards s.file is the file that now has the path.
func (s *Sink) lock(ctx context.Context) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("lock %s: %w", s.path, err)
		}
		if s.file == nil {
			if err := s.open(); err != nil {
				return err
			}
		}
		locked, err := tryLock(s.file)
		switch {
		case err != nil:
			return errors.Join(fmt.Errorf("lock %s: %w", s.path, err), s.release())
		case !locked:
			// The context's end is found above.
			_ = s.clock.Sleep(ctx, s.clock.Now().Add(lockPoll))
			continue
		}
		current, err := s.current()
		if err != nil {
			return errors.Join(err, s.release())
		}
		if current {
			return nil
		}
		if err := s.release(); err != nil { // which also unlocks
			return err
		}
	}
}

// open opens the file, and makes it if it is not there. A file that is new is on the disk with its folder.
func (s *Sink) open() error {
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return s.missing(err)
	}
	defer root.Close()
	file, err := root.OpenFile(s.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|noWait, ownerOnly)
	if err != nil {
		return s.missing(err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", s.path)
	}
	if err == nil && info.Size() == 0 {
		err = syncFolder(root, filepath.Dir(s.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file = file
	return nil
}

// missing says what to do when a folder is not there.
func (s *Sink) missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make the folder %s", err, filepath.Dir(s.full()))
	}
	return err
}

func syncFolder(root *os.Root, path string) error {
	folder, err := root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// current reports whether the open file still has its path: rotation renames it, and a person may remove it.
func (s *Sink) current() (bool, error) {
	held, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(s.full())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return os.SameFile(held, now), nil
}

// append writes the line at the end of the locked file, after the end of a line that a crash left without one. What a failed write has left is
// taken away again.
func (s *Sink) append(line []byte) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > 0 {
		var last [1]byte
		if _, err := s.file.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("read the end of %s: %w", s.path, err)
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := s.write(s.file, line); err != nil {
		return errors.Join(fmt.Errorf("write to %s: %w", s.path, err), s.file.Truncate(size))
	}
	if err := s.sync(s.file); err != nil {
		return fmt.Errorf("sync %s: %w", s.path, err)
	}
	return nil
}

// release closes the file, which also unlocks it.
func (s *Sink) release() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// Close waits for a Send at work and closes the file.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	return s.release()
}
