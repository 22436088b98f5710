package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/client"
)

type previewCmd struct {
	Workflow string `arg:"" help:"The workflow's name."`
	Record   string `name:"record" xor:"whom,what" placeholder:"TYPE/ID" help:"For a workflow that follows records: one of them."`
	Contact  string `name:"contact" xor:"whom" placeholder:"ID" help:"The contact in whose zone, and after whose events, it is asked for."`
	Event    string `name:"event" xor:"what" placeholder:"KIND" help:"What an event of that kind would cause if it arrived now, and nothing else."`
	Limit    int    `name:"limit" short:"n" default:"20" placeholder:"N" help:"How many occurrences are listed, at most: 1 to 200."`
	remote
	jsonOnly
}

// Help is the long help.
func (previewCmd) Help() string {
	return `Starts from what is stored: what waits, is on hold or is tried again keeps its instant, and what has ended is left out.
What follows is computed as if nothing changes. Nothing is made or changed.

  carillon preview weekly-health-tip
  carillon preview weekly-health-tip --contact berta -n 4
  carillon preview visit-reminder --record visit/17
  carillon preview welcome --event member-registered --contact berta

After events that have arrived it lists what waits; with --contact what waits after the events that name the contact, and
what follows in each series. With --event it computes what such an event would begin, without a payload.

A workflow that follows records is asked for one record at a time. Whether a message is sent, and to whom, is decided
again when it is due.`
}

// Validate refuses what the server would refuse.
func (c *previewCmd) Validate() error {
	switch typ, id, ok := strings.Cut(c.Record, "/"); {
	case c.Record != "" && (!ok || typ == "" || id == ""):
		return fmt.Errorf("--record %s: write its type, a slash and its id, such as kiosk/123", c.Record)
	case c.Limit < 1 || c.Limit > 200:
		return fmt.Errorf("--limit %d: give a number from 1 to 200", c.Limit)
	}
	return nil
}

// Run prints the next occurrences of a workflow.
func (c *previewCmd) Run(s *session) error {
	p, err := call(c.remote, func(api *client.Client) (client.Preview, error) {
		return api.Preview(s.ctx, c.Workflow, client.PreviewQuery{Record: c.Record, Contact: c.Contact, Event: c.Event, Limit: c.Limit})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, p)
	}
	for _, line := range previewLines(p) {
		fmt.Fprintln(s.Out, s.program.named(line))
	}
	return nil
}

const (
	previewWidth  = 80
	previewIndent = "      "
)

// previewLines writes a preview for people, in 80 columns.
func previewLines(p client.Preview) []string {
	lines := wrapped("", previewTitle(p))
	note := func(format string, args ...any) {
		lines = append(lines, wrapped("! ", fmt.Sprintf(format, args...))...)
	}
	if !p.Enabled {
		note("it is switched off: its definition says enabled: false")
	}
	if !p.PausedAt.IsZero() {
		note("paused since %s: nothing leaves until carillon workflows resume %s", p.PausedAt.UTC().Format("2006-01-02 15:04 UTC"), p.Workflow)
	}
	if p.Suppressed {
		note("suppressed: yes; %s gets no messages", p.Contact)
	}
	if p.Outside {
		note("%s is not in its audience now", p.Contact)
	}
	if lines = append(lines, ""); len(p.Upcoming) > 0 {
		lines = append(lines, previewRows(p)...)
	}
	several := len(p.Triggers) > 1
	for _, t := range p.Triggers {
		name := ""
		if several {
			name = t.Trigger + ": "
		}
		for i, text := range previewRest(t, p) {
			switch {
			case i > 0:
				lines = append(lines, wrapped(previewIndent+"  ", cell(text))...)
				continue
			case !several && len(p.Upcoming) > 0:
				text += ". Each is decided again when due."
			}
			lines = append(lines, wrapped(previewIndent, cell(name+text))...)
		}
	}
	if several && len(p.Upcoming) > 0 {
		lines = append(lines, previewIndent+"Each is decided again when due.")
	}
	if len(p.Waiting) > 0 {
		lines = append(lines, "", "made already, and waiting to leave")
		for _, d := range p.Waiting {
			text := previewIndent + "no instant"
			if !d.SendAt.IsZero() {
				text = previewIndent + d.SendAt.UTC().Format("Mon 2006-01-02 15:04 UTC")
			}
			for _, part := range []string{shortChannel(d.Channel), d.DeferredBy, d.ID} {
				if part != "" {
					text += "   " + cell(part)
				}
			}
			lines = append(lines, text)
		}
	}
	return lines
}

func previewTitle(p client.Preview) string {
	title := cell(p.Workflow)
	switch {
	case p.Contact != "":
		title += " to " + cell(p.Contact)
	case p.Record != "":
		title += " of " + cell(p.Record)
	}
	if p.Event != "" {
		title += ", if a " + cell(p.Event) + " event came now"
	}
	each := slices.ContainsFunc(p.Triggers, func(t client.PreviewTrigger) bool { return t.ByContact })
	switch {
	case each && p.Contact == "" && p.Timezone != "":
		title += ", in the zone of each contact (shown: " + p.Timezone + ")"
	case p.Timezone != "":
		title += ", " + p.Timezone
	}
	var channels []string
	for _, c := range p.Channels {
		channels = append(channels, shortChannel(c))
	}
	if len(channels) > 0 {
		title += ", by " + strings.Join(channels, ", ")
	}
	return title
}

func shortChannel(key string) string { return strings.TrimSuffix(key, ":default") }

// previewRows are the occurrences in columns.
func previewRows(p client.Preview) (lines []string) {
	several := len(p.Triggers) > 1
	var rows [][]string
	var notes []string
	foreign := slices.ContainsFunc(p.Upcoming, func(o client.Occurrence) bool { return o.Abbreviation != "UTC" })
	widths := map[int]int{0: 4}
	scheduled := map[string]bool{}
	for _, t := range p.Triggers {
		scheduled[t.Trigger] = t.Kind == "schedule"
	}
	for _, o := range p.Upcoming {
		number := o.Offset
		switch {
		case o.Iteration > 0:
			number = fmt.Sprint(o.Iteration)
		case scheduled[o.Trigger]: // without a first day its occasions have no number, and they count from no date
			number = ""
		}
		row := []string{number}
		if several {
			row = append(row, cell(o.Trigger))
		}
		local, err := time.Parse(time.RFC3339, o.Local)
		if err != nil { // of a server with other words
			local = o.At.UTC()
		}
		row = append(row, local.Format("Mon 2006-01-02 "+clockOf(local))+" "+o.Abbreviation)
		if p.Timezone == "" {
			row = append(row, o.Timezone)
		}
		if foreign {
			utc, day := o.At.UTC(), ""
			if utc.Format(time.DateOnly) != local.Format(time.DateOnly) {
				day = "Mon "
			}
			row = append(row, utc.Format(day+clockOf(utc)+" UTC"))
		}
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
		rows, notes = append(rows, row), append(notes, strings.Join(previewNotes(o, p), "; "))
	}
	for n, row := range rows {
		var b strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			switch {
			case i == 0:
				b.WriteString(pad + text)
			case i == len(row)-1 && foreign:
				b.WriteString("    " + pad + text)
			default:
				b.WriteString("  " + text + pad)
			}
		}
		line := b.String()
		switch {
		case notes[n] == "":
			lines = append(lines, strings.TrimRight(line, " "))
		case utf8.RuneCountInString(line)+3+utf8.RuneCountInString(notes[n]) <= previewWidth:
			lines = append(lines, line+"   "+notes[n])
		default:
			lines = append(append(lines, strings.TrimRight(line, " ")), wrapped(previewIndent, notes[n])...)
		}
	}
	return lines
}

// clockOf is the form of a time of day, with seconds where there are some.
func clockOf(t time.Time) string {
	if t.Second() != 0 {
		return time.TimeOnly
	}
	return "15:04"
}

// previewNotes is what one occurrence is beside its instant.
func previewNotes(o client.Occurrence, p client.Preview) (notes []string) {
	switch {
	case o.RoundMessages > 1:
		notes = append(notes, fmt.Sprintf("round %d, message %d of %d", o.Iteration, o.RoundMessage, o.RoundMessages))
	case o.RoundMessages == 1:
		notes = append(notes, fmt.Sprintf("round %d", o.Iteration))
	}
	if o.Person != "" {
		notes = append(notes, "the own course of "+cell(o.Person))
	}
	if o.Contact != "" && o.Contact != p.Contact {
		notes = append(notes, "after an event of "+cell(o.Contact))
	}
	because := func(text string) string {
		if o.Reason == "" {
			return text
		}
		return text + ": " + cell(o.Reason)
	}
	switch o.Status {
	case "held":
		notes = append(notes, because("held"))
	case "paused":
		notes = append(notes, "paused")
	case "delayed":
		notes = append(notes, because("tried again"))
	case "overdue":
		notes = append(notes, because("overdue, taken up next"))
	}
	if !o.DueAt.IsZero() {
		notes = append(notes, "due "+o.DueAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if c := o.ClockChange; c != nil {
		date, err := time.Parse(time.DateOnly, c.Date)
		if err != nil {
			date = c.At
		}
		notes = append(notes, fmt.Sprintf("clocks went %s on %s", c.Direction, date.Format("2 Jan")))
	}
	return notes
}

// previewRest says what follows the listed occurrences of a trigger, or why there are none.
func previewRest(t client.PreviewTrigger, p client.Preview) (lines []string) {
	listed := slices.ContainsFunc(p.Upcoming, func(o client.Occurrence) bool { return o.Trigger == t.Trigger })
	switch {
	case t.More > 0 && !t.LastAt.IsZero():
		lines = append(lines, fmt.Sprintf("%d more, the last %s", t.More, t.LastAt.In(zoneOfTrigger(t, p)).Format("Mon 2006-01-02")))
	case t.Endless:
		lines = append(lines, "more follow, without a known end")
	case t.Reason != "":
		lines = append(lines, nothingToCome(t)...)
	case t.Ends != "":
		text := "ends: " + endOf(t)
		if slices.ContainsFunc(p.Upcoming, func(o client.Occurrence) bool { return o.Trigger == t.Trigger && o.Person != "" }) {
			text += "; of each person's own course only the next message is listed"
		}
		lines = append(lines, text)
	case t.Kind == "event" && p.Event != "" && listed:
	case t.Kind == "event" && p.Event == "":
		lines = append(lines, "listens to events of kind "+t.Event+": see with --event "+t.Event+" what one would begin")
	case t.Waits != "":
		lines = append(lines, "waits for "+t.Waits+": when that is met is not known ahead")
	case t.Kind == "record" && p.Record == "":
		lines = append(lines, "follows records of type "+t.RecordType+": ask for one with --record "+t.RecordType+"/ID")
	case t.Kind == "record":
		lines = append(lines, "follows records of type "+t.RecordType)
	case t.Kind == "schedule" && p.Record != "":
		lines = append(lines, "has a schedule: ask for it without --record")
	case !listed:
		lines = append(lines, "nothing to come")
	}
	if t.LeftOut > 0 && t.Ends != "condition" {
		lines = append(lines, fmt.Sprintf("left out: %d, %s", t.LeftOut, t.LeftOutReason))
	}
	if t.Error != "" {
		lines = append(lines, t.Error)
	}
	return lines
}

// nothingToCome says why nothing is to come.
func nothingToCome(t client.PreviewTrigger) (lines []string) {
	lines = append(lines, "nothing to come: "+t.Reason)
	if t.Field != "" {
		lines = append(lines, t.Field)
	}
	if t.Message != "" {
		lines = append(lines, t.Message)
	}
	if !t.Until.IsZero() {
		lines = append(lines, "evaluated again "+t.Until.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return lines
}

// endOf says why nothing follows the last occurrence.
func endOf(t client.PreviewTrigger) string {
	switch t.Ends {
	case "times":
		return fmt.Sprintf("times: %d reached", t.Times)
	case "until":
		return "until is reached"
	case "sequence":
		return "each message is due once"
	case "stop_when":
		return "stop_when is true by then"
	case "dates":
		return "the record has no further date"
	case "condition":
		return t.LeftOutReason + " by then"
	}
	return t.Ends
}

// zoneOfTrigger is the zone of the last occurrence of a trigger, as far as the answer shows it.
func zoneOfTrigger(t client.PreviewTrigger, p client.Preview) *time.Location {
	name := p.Timezone
	for _, o := range p.Upcoming {
		if o.Trigger == t.Trigger {
			name = o.Timezone
		}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return loc
}

// wrapped breaks a text into lines of 80 columns, each with an indent.
func wrapped(indent, text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(indent+line+" "+word) > previewWidth:
			lines, line = append(lines, indent+line), word
			indent = strings.Repeat(" ", len(indent))
		default:
			line += " " + word
		}
	}
	return append(lines, indent+line)
}
