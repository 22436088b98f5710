package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// output is how a command prints what it found.
type output struct {
	JSON     bool `name:"json" help:"Print the API's answer as JSON."`
	Timezone zone `name:"timezone" default:"UTC" placeholder:"ZONE" help:"The zone of printed times, such as Europe/Berlin; JSON is always in UTC."`
}

// jsonOnly is output for commands that print no times.
type jsonOnly struct {
	JSON bool `name:"json" help:"Print the API's answer as JSON."`
}

// at prints an instant; none is a dash.
func (o output) at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(o.Timezone.Location).Format(time.RFC3339)
}

// zone is a time zone by its name in the tz database.
type zone struct{ *time.Location }

// UnmarshalText finds the zone.
func (z *zone) UnmarshalText(text []byte) (err error) {
	if z.Location, err = time.LoadLocation(string(text)); err != nil || string(text) == "Local" {
		return fmt.Errorf("there is no zone %q", text)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table prints rows under a head: in columns on a terminal, parted by tabs in a pipe.
func (s *session) table(head []string, rows [][]string) {
	s.rows(append([][]string{head}, rows...))
}

// rows prints cells; empty ones are a dash, so that columns can be counted. What would break a row is replaced.
func (s *session) rows(rows [][]string) {
	widths := map[int]int{}
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, text := range row {
			b.WriteString(text)
			switch {
			case i == len(row)-1:
			case s.Terminal:
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
			default:
				b.WriteByte('\t')
			}
		}
		fmt.Fprintln(s.Out, b.String())
	}
}

// cell returns a text that stays in its line, in the order in which it is read: control characters, and marks that turn the direction of what follows, are spaces.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}

// fields prints names and values, leaving out what is empty.
func (s *session) fields(pairs ...string) {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" && pairs[i+1] != "-" {
			rows = append(rows, []string{pairs[i], pairs[i+1]})
		}
	}
	s.rows(rows)
}

// note says something beside the result.
func (s *session) note(format string, args ...any) {
	fmt.Fprintln(s.Err, s.program.named(fmt.Sprintf(format, args...)))
}

// title begins a part of a longer output.
func (s *session) title(text string) { fmt.Fprintf(s.Out, "\n%s\n", text) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
