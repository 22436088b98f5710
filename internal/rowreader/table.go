package rowreader

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// readAhead is how much the reader of the standard library takes at once.
const readAhead = 4096

var errTooLong = errors.New("the row is too long")

// table reads CSV.
type table struct {
	csv   *csv.Reader
	limit *limited
	start Position // where csv began
	line  int      // the next one
	head  []string
}

func newTable(in io.Reader, o Options, start Position) *table {
	limit := &limited{in: in}
	r := csv.NewReader(limit)
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	if o.Delimiter != 0 {
		r.Comma = o.Delimiter
	}
	return &table{csv: r, limit: limit, start: start, line: start.Line}
}

// limited ends when one row wants more than it may: a quote that is never closed would take in the whole file.
type limited struct {
	in            io.Reader
	read, allowed int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.read >= l.allowed {
		return 0, errTooLong
	}
	n, err := l.in.Read(p[:min(int64(len(p)), l.allowed-l.read)])
	l.read += int64(n)
	return n, err
}

// record reads one record with its first line and the position behind it. A *Fault in wrong concerns only this record.
func (t *table) record() (cells []string, line int, behind Position, wrong *Fault, err error) {
	t.limit.allowed = t.csv.InputOffset() + MaxRow + readAhead
	cells, err = t.csv.Read()
	var syntax *csv.ParseError
	switch {
	case err == nil:
		line, _ = t.csv.FieldPos(0)
		last, _ := t.csv.FieldPos(len(cells) - 1)
		behind.Line = last + strings.Count(cells[len(cells)-1], "\n") + 1
	case errors.Is(err, io.EOF):
		return nil, 0, behind, nil, io.EOF
	case errors.Is(err, errTooLong):
		return nil, 0, behind, nil, fault(t.line, "", fmt.Sprintf("a row is longer than %d KiB", MaxRow>>10), "is a closing quote missing?")
	case errors.As(err, &syntax):
		line, behind.Line = syntax.StartLine, syntax.Line+1
		message, hint := "a quote stands where none may be", `a cell with a quote is written "like ""this"""`
		if errors.Is(syntax.Err, csv.ErrQuote) {
			message = "a quoted cell is not closed, or goes on behind its closing quote"
		}
		wrong = fault(t.lineOf(line), "", message, hint)
	default:
		return nil, 0, behind, nil, err
	}
	behind = Position{Offset: t.start.Offset + t.csv.InputOffset(), Line: t.lineOf(behind.Line)}
	t.line = behind.Line
	return cells, t.lineOf(line), behind, wrong, nil
}

func (t *table) lineOf(n int) int { return t.start.Line + n - 1 }

func (t *table) readHead() ([]string, Position, error) {
	head, line, behind, wrong, err := t.record()
	switch {
	case errors.Is(err, io.EOF):
		return nil, behind, fault(1, "", "the file is empty", "its first line names the columns")
	case err != nil:
		return nil, behind, err
	case wrong != nil:
		return nil, behind, wrong
	}
	seen := map[string]bool{}
	for _, name := range head {
		name = strings.TrimSpace(name)
		switch {
		case !utf8.ValidString(name):
			return nil, behind, notUTF8(line)
		case name == "":
			return nil, behind, fault(line, "", "a column has no name", "the first line names every column")
		case seen[name]:
			return nil, behind, fault(line, name, "two columns have this name", "rename one of them")
		}
		seen[name] = true
		t.head = append(t.head, strings.Clone(name))
	}
	for _, other := range []rune{';', '\t', '|', ','} {
		if len(t.head) == 1 && other != t.csv.Comma && strings.ContainsRune(t.head[0], other) {
			return nil, behind, fault(line, "", "there is only one column", fmt.Sprintf("the delimiter seems to be %q: --delimiter %s", other, nameOf(other)))
		}
	}
	return t.head, behind, nil
}

func nameOf(delimiter rune) string {
	if delimiter == '\t' {
		return "tab"
	}
	return "'" + string(delimiter) + "'"
}

func (t *table) next() (Row, Position, error) {
	for {
		cells, line, behind, wrong, err := t.record()
		if err != nil {
			return Row{}, behind, err
		}
		row := Row{Line: line, Fault: wrong}
		if wrong != nil {
			return row, behind, nil
		}
		size, empty := 0, true
		for i, text := range cells {
			size += len(text)
			empty = empty && strings.TrimSpace(text) == ""
			if i < len(t.head) {
				row.Cells = append(row.Cells, Cell{Column: t.head[i], Text: strings.ToValidUTF8(text, "\uFFFD")})
			}
			if !utf8.ValidString(text) && row.Fault == nil {
				row.Fault = notUTF8(line)
			}
		}
		switch {
		case empty:
			continue // spreadsheets leave such rows behind
		case size > MaxRow:
			row.Cells, row.Fault = nil, tooLong(line)
		case len(cells) != len(t.head) && row.Fault == nil:
			row.Fault = fault(line, "", fmt.Sprintf("the row has %d cells and the head %d", len(cells), len(t.head)), "put a cell that holds the delimiter into quotes")
		}
		return row, behind, nil
	}
}

func notUTF8(line int) *Fault { return fault(line, "", "is not valid UTF-8", "save the file as UTF-8") }

func tooLong(line int) *Fault {
	return fault(line, "", fmt.Sprintf("the row is longer than %d KiB", MaxRow>>10), "keep large documents elsewhere and send their address")
}
