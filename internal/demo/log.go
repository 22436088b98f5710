package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/journal"
)

// printer writes the demo's output, a whole line at a time. Colour only repeats what a sign already says.
type printer struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	err    error    // the first write error; nothing is written after it
	early  []string // lines that wait for the introduction
	late   bool     // the introduction was written
}

// line writes one line.
func (p *printer) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// failed returns why the output could not be written, such as a pipe without a reader.
func (p *printer) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// entry writes a journal entry, unless it only repeats another one. Before begin it keeps the line back.
func (p *printer) entry(e journal.Entry) {
	if !console.Notable(e) {
		return
	}
	text := p.format(e)
	p.mu.Lock()
	if !p.late {
		p.early = append(p.early, text)
	}
	late := p.late
	p.mu.Unlock()
	if late {
		p.line("%s", text)
	}
}

// begin writes the lines that waited for the introduction.
func (p *printer) begin() {
	p.mu.Lock()
	early := p.early
	p.early, p.late = nil, true
	p.mu.Unlock()
	for _, text := range early {
		p.line("%s", text)
	}
}

// note writes a comment between the entries.
func (p *printer) note(at time.Time, text string) {
	p.line("%s  %s", p.paint(dim, clockTime(at)), p.paint(bold, text))
}

// The columns of the log: time, sign, what happened, workflow, whom it concerns, and more.
const columns = "%s %s %s %s %s %s"

func (p *printer) format(e journal.Entry) string {
	sign, colour := signOf(e.What)
	return strings.TrimRight(fmt.Sprintf(columns, p.paint(dim, clockTime(e.At)), p.paint(colour, sign),
		p.paint(colour, padded(string(e.What), 10)), padded(cmp.Or(e.Workflow, e.Kind), 15), padded(cmp.Or(e.Address, e.Contact, e.Record, e.Sink), 17), more(e)), " ")
}

// more returns the last column: the text, when it is sent, or why not.
func more(e journal.Entry) string {
	var parts []string
	switch e.What {
	case journal.Sent:
		text := e.Subject
		if text == "" {
			text, _, _ = strings.Cut(e.Text, "\n")
		}
		parts = append(parts, text)
		if !e.Until.IsZero() {
			parts = append(parts, "(reminder "+distance(e.Until.Sub(e.At))+")")
		}
	case journal.Dispatched:
		parts = append(parts, e.Kind)
	case journal.Planned, journal.Created:
		due := e.Until
		if due.IsZero() {
			due = e.Due
		}
		parts = append(parts, "goes out "+distance(due.Sub(e.At)))
	default:
		parts = append(parts, string(e.Reason))
		if !e.Until.IsZero() && e.Until.After(e.At) {
			parts = append(parts, "again "+distance(e.Until.Sub(e.At)))
		}
		if e.Error != "" {
			parts = append(parts, e.Error)
		}
	}
	return clean(strings.Join(parts, " "))
}

// distance returns how far ahead an instant is, in its two largest units.
func distance(d time.Duration) string {
	if d = d.Round(time.Second); d >= time.Hour {
		d = d.Round(time.Minute)
	}
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case d <= 0:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("in %ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("in %dm", minutes)
	case days == 0 && minutes == 0:
		return fmt.Sprintf("in %dh", hours)
	case days == 0:
		return fmt.Sprintf("in %dh%dm", hours, minutes)
	case hours == 0:
		return fmt.Sprintf("in %dd", days)
	}
	return fmt.Sprintf("in %dd%dh", days, hours)
}

// signOf returns the sign and the colour of an entry.
func signOf(w journal.What) (string, string) {
	switch w {
	case journal.Sent:
		return ">", green
	case journal.Created, journal.Expanded, journal.Opened, journal.Responded, journal.Replied, journal.Dispatched:
		return "+", green
	case journal.Planned, journal.Deferred, journal.Throttled, journal.Returned, journal.Moved:
		return "~", blue
	case journal.Skipped, journal.Folded:
		return "=", dim
	case journal.NoMatch:
		return ".", dim
	case journal.Cancelled, journal.Withdrawn, journal.Expired, journal.Released, journal.Forgotten:
		return "-", dim
	case journal.Retried, journal.Failed, journal.Unknown, journal.Held, journal.Reclaimed, journal.PassedOver, journal.StaleRefused, journal.Rejected, journal.DispatchFailed, journal.Dead:
		return "!", red
	}
	return " ", ""
}

// Colours of a terminal.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	blue  = "34"
)

func (p *printer) paint(colour, text string) string {
	if !p.colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func clockTime(at time.Time) string { return at.UTC().Format("15:04:05") }

// padded fills text up to a column's width; a longer one is not cut. Nothing is a dash, so that columns can be
// counted.
func padded(text string, width int) string {
	if text = clean(text); text == "" {
		text = "-"
	}
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// clean replaces what would break a line or steer a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}
