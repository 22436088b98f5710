// Package rowreader reads rows out of CSV and NDJSON files and makes objects of them: which column goes into which field,
// and as what.
//
// A file of any length costs the memory of one row, and a row is bounded. One that cannot be read is handed on with its
// fault and its line, and the next one is read: a file is never refused for a row, only for what makes every further
// row uncertain, such as a quote that is never closed. After every row the position is known from which another reader
// can go on.
//
// The package opens no files and sends nothing.
package rowreader

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/carillonhq/carillon/internal/reason"
)

// MaxRow bounds one row, in bytes: as much as one event may be.
const MaxRow = 256 << 10

// Format is how the rows of a file are written.
type Format string

// The formats.
const (
	CSV    Format = "csv"    // RFC 4180, with a head
	NDJSON Format = "ndjson" // one JSON object a line
)

// FormatOf returns the format by a file's name; ok is false when the name does not show it.
func FormatOf(name string) (f Format, ok bool) {
	name = strings.ToLower(name)
	for _, known := range []struct {
		ending string
		format Format
	}{{".csv", CSV}, {".tsv", CSV}, {".ndjson", NDJSON}, {".jsonl", NDJSON}} {
		if strings.HasSuffix(name, known.ending) {
			return known.format, true
		}
	}
	return "", false
}

// Fault says what is wrong with a row, or with the whole file, and what to do.
type Fault struct {
	Line    int    // where the row begins, from 1
	Field   string // the field or the column; may be empty
	Reason  reason.Reason
	Message string
	Hint    string
}

// Error is the fault on one line, without its hint.
func (f *Fault) Error() string {
	text := f.Message
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Line > 0 {
		text = fmt.Sprintf("line %d: %s", f.Line, text)
	}
	return text
}

func fault(line int, field, message, hint string) *Fault {
	return &Fault{Line: line, Field: field, Reason: reason.InvalidRow, Message: message, Hint: hint}
}

// Cell is one value of a row under the name of its column.
type Cell struct {
	Column string
	Text   string // as written; of NDJSON the JSON of the value
	JSON   bool
}

// Row is one row of a file. With a Fault it has no cells, or those that could be read.
type Row struct {
	Line  int
	Cells []Cell
	Fault *Fault
}

// Identity identifies rows by their content and position: the same file read again gives the same identities, also
// when rows were added at its end.
func (r Row) Identity() [sha256.Size]byte {
	hash := sha256.New()
	var length [8]byte
	write := func(text string) {
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		hash.Write(length[:])
		hash.Write([]byte(text))
	}
	write(fmt.Sprint(r.Line))
	for _, cell := range r.Cells {
		write(cell.Column)
		write(cell.Text)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// Position is a place between two rows.
type Position struct {
	Offset int64 `json:"offset"` // bytes of the file before it
	Line   int   `json:"line"`   // the line that begins there, from 1
}

// Options say how a file is written.
type Options struct {
	Format    Format
	Delimiter rune // of CSV; 0 is a comma
	// Objects are members of NDJSON whose own members are columns: {"recipient": {"address": …}} is recipient.address.
	Objects []string
}

// Reader reads the rows of one file.
type Reader struct {
	head []string
	rows interface {
		next() (Row, Position, error)
	}
	at Position
}

// New begins to read a file. Of CSV it reads the head; a *Fault says what is wrong with that.
func New(in io.Reader, o Options) (*Reader, error) {
	in, skipped, err := withoutMark(in)
	if err != nil {
		return nil, err
	}
	start := Position{Offset: skipped, Line: 1}
	if o.Format == NDJSON {
		return &Reader{rows: newLines(in, o, start), at: start}, nil
	}
	rows := newTable(in, o, start)
	head, at, err := rows.readHead()
	if err != nil {
		return nil, err
	}
	return &Reader{head: head, rows: rows, at: at}, nil
}

// Resume goes on at a position of a file whose head is known; in stands at that position.
func Resume(in io.Reader, o Options, head []string, at Position) *Reader {
	if o.Format == NDJSON {
		return &Reader{rows: newLines(in, o, at), at: at}
	}
	rows := newTable(in, o, at)
	rows.head = head
	return &Reader{head: head, rows: rows, at: at}
}

// Head names the columns of a CSV file; it is nil for NDJSON.
func (r *Reader) Head() []string { return r.head }

// Position is where the next row begins.
func (r *Reader) Position() Position { return r.at }

// Next reads one row. io.EOF: there is none. A row that is wrong has a Fault; a *Fault as the error means that nothing
// behind it can be read.
func (r *Reader) Next() (Row, error) {
	row, at, err := r.rows.next()
	if err == nil {
		r.at = at
	}
	return row, err
}

// withoutMark skips the mark with which some programs begin UTF-8 files, and refuses other encodings.
func withoutMark(in io.Reader) (io.Reader, int64, error) {
	start := make([]byte, 3)
	n, err := io.ReadFull(in, start)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, 0, err
	}
	switch start = start[:n]; {
	case string(start) == "\xef\xbb\xbf":
		return in, 3, nil
	case strings.HasPrefix(string(start), "\xff\xfe"), strings.HasPrefix(string(start), "\xfe\xff"):
		return nil, 0, fault(1, "", "the file is UTF-16", "save it as UTF-8")
	}
	return io.MultiReader(strings.NewReader(string(start)), in), 0, nil
}
