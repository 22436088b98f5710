package importer

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/rowreader"
)

// rejects is the report of refused rows: the rows as they were, each with its error. The corrected report can be imported like the file
// itself.
type rejects struct {
	path   string
	format rowreader.Options
	head   []string
	file   *os.File // nil until there is something to report
	size   int64
}

// rejectedName is NAME.rejected.csv for NAME.csv.
func rejectedName(name string, format rowreader.Format) string {
	ending := filepath.Ext(name)
	if _, ok := rowreader.FormatOf(name); !ok {
		ending = ""
	}
	base := strings.TrimSuffix(name, ending)
	if ending == "" {
		ending = "." + string(format)
	}
	return base + ".rejected" + ending
}

// newRejects continues a report of size bytes. If size is 0, an older report belongs to another run and is removed.
func newRejects(name string, o rowreader.Options, head []string, size int64) (*rejects, error) {
	r := &rejects{path: rejectedName(name, o.Format), format: o, head: head, size: size}
	if size == 0 {
		if err := os.Remove(r.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return r, nil
	}
	var err error
	if r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	info, err := r.file.Stat()
	if err != nil {
		return nil, err
	}
	// A killed run may have written more rows than its last state says: these are written again. A report that was removed or shortened is
	// continued at its end, with a new head if it is empty.
	if r.size = min(size, info.Size()); r.size < info.Size() {
		if err := r.file.Truncate(r.size); err != nil {
			return nil, err
		}
	}
	_, err = r.file.Seek(r.size, io.SeekStart)
	return r, err
}

// add reports the refused rows of one batch.
func (r *rejects) add(entries []entry) error {
	var text bytes.Buffer
	for _, e := range entries {
		if !e.verdict.Failed {
			continue
		}
		if r.size == 0 && text.Len() == 0 && r.format.Format == rowreader.CSV {
			if err := r.record(&text, append(append([]string{}, r.head...), rowreader.Delimiters()...)); err != nil {
				return err
			}
		}
		if err := r.row(&text, e); err != nil {
			return err
		}
	}
	if text.Len() == 0 {
		return nil
	}
	if r.file == nil {
		var err error
		if r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return err
		}
	}
	n, err := r.file.Write(text.Bytes())
	r.size += int64(n)
	return err
}

func (r *rejects) row(text *bytes.Buffer, e entry) error {
	v := e.verdict
	marks := []string{strconv.Itoa(e.row.Line), v.Reason, v.Field, v.Message, v.Hint}
	if r.format.Format == rowreader.CSV {
		cells := make([]string, len(r.head))
		for i, cell := range e.row.Cells {
			cells[i] = cell.Text
		}
		return r.record(text, append(cells, marks...))
	}
	object := map[string]any{}
	for _, cell := range e.row.Cells {
		group, name, nested := strings.Cut(cell.Column, ".")
		at := object
		if inner, ok := object[group].(map[string]any); nested && ok {
			at = inner
		} else if nested {
			at = map[string]any{}
			object[group] = at
		} else {
			name = cell.Column
		}
		at[name] = json.RawMessage(cell.Text)
	}
	for i, name := range rowreader.Delimiters() {
		object[name] = marks[i]
	}
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(object)
}

func (r *rejects) record(text *bytes.Buffer, cells []string) error {
	w := csv.NewWriter(text)
	if r.format.Delimiter != 0 {
		w.Comma = r.format.Delimiter
	}
	if err := w.Write(cells); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

func (r *rejects) close() error {
	if r == nil || r.file == nil {
		return nil
	}
	return r.file.Close()
}
