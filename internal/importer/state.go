package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/carillonhq/carillon/internal/rowreader"
)

// state is the progress of a run. All rows before Position are on the server, or were refused and reported.
type state struct {
	Identity string             `json:"identity"` // of the file's contents and the options
	Run      string             `json:"run"`      // identifies this run and those that resume it
	Position rowreader.Position `json:"position"`
	Progress
	RejectedSize int64 `json:"rejected_size"` // of the report, in bytes
}

// stateFile keeps the state of a run beside its file.
type stateFile struct {
	path     string
	identity string
}

// newStateFile reads the file once for its hash and puts it back to its beginning.
func newStateFile(name string, file *os.File, options any) (*stateFile, error) {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(options); err != nil {
		return nil, err
	}
	if _, err := io.Copy(hash, file); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	s := &stateFile{identity: hex.EncodeToString(hash.Sum(nil))}
	var err error
	s.path, err = placeOf(name)
	return s, err
}

// placeOf returns the path of the state file: next to the file, or in the user's state folder when that is not writable.
func placeOf(name string) (string, error) {
	beside := name + ".progress"
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	probe, err := os.CreateTemp(filepath.Dir(name), ".carillon-*")
	if err == nil {
		_ = probe.Close()
		return beside, os.Remove(probe.Name())
	}
	folder := os.Getenv("XDG_STATE_HOME")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("there is no place for how far this comes: %w", err)
		}
		folder = filepath.Join(home, ".local", "state")
	}
	folder = filepath.Join(folder, "carillon")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("there is no place for how far this comes: %w", err)
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(full))
	return filepath.Join(folder, filepath.Base(name)+"-"+hex.EncodeToString(sum[:8])+".progress"), nil
}

// read returns the state of an earlier run. An unreadable state is ignored: rows are then sent again, which creates no duplicates.
func (s *stateFile) read() (at state, found bool, err error) {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return at, false, nil
	}
	if err != nil {
		return at, false, err
	}
	if json.Unmarshal(raw, &at) != nil || at.Outcomes == nil {
		return state{}, true, nil
	}
	return at, true, nil
}

// write replaces the state in one step, also while another run of the same file does the same: the last one stays.
func (s *stateFile) write(at state) error {
	raw, err := json.Marshal(at)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // of this run alone, and of its user alone
	if err != nil {
		return err
	}
	_, err = next.Write(raw)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

func (s *stateFile) remove() error {
	if s == nil {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
