package rowreader

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// lines reads NDJSON.
type lines struct {
	in      *bufio.Reader
	objects []string
	at      Position
}

func newLines(in io.Reader, o Options, start Position) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), objects: o.Objects, at: start}
}

func (l *lines) next() (Row, Position, error) {
	for {
		text, tooLarge, err := l.line()
		if err != nil {
			return Row{}, l.at, err
		}
		row := Row{Line: l.at.Line - 1}
		switch text = bytes.TrimSpace(text); {
		case tooLarge:
			row.Fault = tooLong(row.Line)
		case len(text) == 0:
			continue
		case !utf8.Valid(text):
			row.Fault = notUTF8(row.Line)
		default:
			if row.Cells, row.Fault = l.cells(text, "", row.Line); row.Fault != nil {
				row.Cells = nil
			}
		}
		return row, l.at, nil
	}
}

// line reads one line; of one that is too large it keeps nothing.
func (l *lines) line() (text []byte, tooLarge bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		l.at.Offset += int64(len(part))
		if !tooLarge {
			text = append(text, part...)
		}
		if len(text) > MaxRow {
			text, tooLarge = nil, true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(text) > 0 || tooLarge):
			l.at.Line++
			return text, tooLarge, nil
		case err != nil:
			return nil, false, err
		}
		l.at.Line++
		return text, tooLarge, nil
	}
}

// cells takes an object apart. Keys that are listed twice are refused here, as the server would; what lies deeper it
// judges itself.
func (l *lines) cells(text []byte, prefix string, line int) ([]Cell, *Fault) {
	notJSON := fault(line, prefix, "is not valid JSON", "each line is one JSON object")
	if prefix == "" && !json.Valid(text) {
		return nil, notJSON
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, fault(line, prefix, "is not a JSON object", "each line is one JSON object")
	}
	var cells []Cell
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, notJSON
		}
		name, _ := token.(string)
		column := name
		if prefix != "" {
			column = prefix + "." + name
		}
		if seen[name] {
			return nil, fault(line, column, "is listed twice", "leave one of them out")
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, notJSON
		}
		if prefix == "" && slices.Contains(l.objects, name) && value[0] == '{' {
			below, wrong := l.cells(value, name, line)
			if wrong != nil {
				return nil, wrong
			}
			cells = append(cells, below...)
			continue
		}
		cells = append(cells, Cell{Column: column, Text: strings.Clone(string(value)), JSON: true})
	}
	return cells, nil
}
