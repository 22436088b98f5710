package sim

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/subject"
)

// cell is one observed value: a text, or an instant when timed is set.
type cell struct {
	text  string
	at    time.Time
	timed bool
}

// name is the text of a cell, none where there is none.
func (c cell) name() string {
	if c.text == "" {
		return "none"
	}
	return c.text
}

func textCell(s string) cell { return cell{text: s} }
func numberCell(n int) cell  { return cell{text: strconv.Itoa(n)} }
func lengthCell(d time.Duration) cell {
	return cell{text: civil.Duration{Clock: d}.String()}
}

func instantCell(t time.Time) cell { return cell{at: t, timed: true} }

// row is one observed entry or stored row, with the fields that expectations may name.
type row struct {
	cells map[string]cell
	// alias are further texts by which the person of the row may be named in `to`.
	alias    []string
	instance int64
	delivery int64
}

// known reports whether the row belongs to an instance or delivery of the journal.
func (r row) known() bool { return r.instance != 0 || r.delivery != 0 }

// fieldKind says how an expected value is read and compared.
type fieldKind int

const (
	fieldText     fieldKind = iota // equal
	fieldName                      // equal, or none
	fieldPerson                    // an address in any notation, or the ext_id of a contact
	fieldChannel                   // kind or kind:name
	fieldNumber                    // a whole number
	fieldInstant                   // an instant, or none
	fieldLength                    // a duration, or none
	fieldHas                       // every part is contained
	fieldMatches                   // a regular expression matches
	fieldSections                  // the items of a digest, by their topics
	fieldHeaders                   // headers, among others
	fieldAnswers                   // answers by question, among others; yes is Yes
)

// fieldSpec is one field that a row of a list may name.
type fieldSpec struct {
	name string
	kind fieldKind
	of   string // the observed cell
}

// field is one expected value.
type field struct {
	fieldSpec
	pos   portable.Pos
	text  string   // as written
	parts []string // of fieldHas
	at    time.Time
	wait  string // of fieldLength, in its canonical form
	re    *regexp.Regexp
	value *portable.Node // where it stands, for --update
}

// holds reports whether the observed row has the expected value.
func (f field) holds(r row) bool {
	got := r.cells[f.of]
	switch f.kind {
	case fieldPerson:
		want := subject.NormalizeAddress(f.text)
		return want == subject.NormalizeAddress(got.text) || slices.Contains(r.alias, f.text)
	case fieldChannel:
		return channelKey(f.text) == channelKey(got.text)
	case fieldInstant:
		return f.at.Equal(got.at)
	case fieldLength:
		return f.wait == got.text
	case fieldHas:
		return !slices.ContainsFunc(f.parts, func(part string) bool { return !strings.Contains(got.text, part) })
	case fieldMatches:
		return f.re.MatchString(got.text)
	case fieldName:
		return f.text == got.name()
	case fieldHeaders:
		lines := strings.Split(got.text, "\n")
		return !slices.ContainsFunc(f.parts, func(part string) bool { return !slices.Contains(lines, part) })
	case fieldAnswers:
		lines := strings.Split(got.text, "\n")
		return !slices.ContainsFunc(f.parts, func(part string) bool {
			return !slices.ContainsFunc(lines, func(line string) bool { return strings.EqualFold(line, part) })
		})
	case fieldText, fieldNumber, fieldSections:
	}
	return f.text == got.text
}

// channelKey returns the full key of a channel: email means email:default.
func channelKey(s string) string {
	if s == "" || strings.Contains(s, ":") {
		return s
	}
	return s + ":default"
}

// shortChannel returns the short form of a channel's key.
func shortChannel(s string) string { return strings.TrimSuffix(s, ":default") }

// listSpec is one list that `expect` or `state` may name.
type listSpec struct {
	name    string
	state   bool
	lookup  bool // its rows must exist; other rows may exist too
	ordered bool // its rows are the first ones, in their order
	silent  bool // not mentioned means none
	answer  bool // not a list: the answer to an action
	fields  []fieldSpec
	show    []string // the fields by which an unexpected row is shown, and a new row is written
}

// lists returns every list of this release. Rows are found in the journal for `expect`, in the store for `state`.
func lists() []listSpec {
	at := fieldSpec{"at", fieldInstant, "at"}
	workflow := fieldSpec{"workflow", fieldName, "workflow"}
	trigger := fieldSpec{"trigger", fieldName, "trigger"}
	key := fieldSpec{"key", fieldName, "key"}
	to := fieldSpec{"to", fieldPerson, "to"}
	channel := fieldSpec{"channel", fieldChannel, "channel"}
	step := fieldSpec{"step", fieldNumber, "step"}
	attempt := fieldSpec{"attempt", fieldNumber, "attempt"}
	until := fieldSpec{"until", fieldInstant, "until"}
	due := fieldSpec{"due", fieldInstant, "due"}
	sendAt := fieldSpec{"send_at", fieldInstant, "send_at"}
	reason := fieldSpec{"reason", fieldName, "reason"}
	status := fieldSpec{"status", fieldName, "status"}
	locale := fieldSpec{"locale", fieldName, "locale"}
	remaining := fieldSpec{"remaining", fieldNumber, "remaining"}
	record := fieldSpec{"record", fieldName, "record"}
	context := fieldSpec{"context", fieldName, "context"}
	wait := fieldSpec{"wait", fieldLength, "wait"}
	says := fieldSpec{"says", fieldHas, "says"}
	content := []fieldSpec{
		{"subject", fieldText, "subject"},
		{"subject_has", fieldHas, "subject"},
		{"text", fieldText, "text"},
		{"text_has", fieldHas, "text"},
		{"text_matches", fieldMatches, "text"},
	}
	message := []fieldSpec{workflow, trigger, key, to, channel, step, attempt, at, locale}
	answers := fieldSpec{"answers", fieldAnswers, "answers"}
	occasion := []fieldSpec{workflow, trigger, record, context, key, at, due, reason}
	outcome := []fieldSpec{workflow, {"event", fieldName, "event"}, {"sink", fieldName, "sink"}, attempt, at, reason}
	return []listSpec{
		{name: "created", fields: occasion, show: []string{"workflow", "key"}},
		{name: "withdrawn", fields: occasion, show: []string{"workflow", "key", "reason"}},
		{name: "moved", fields: occasion, show: []string{"workflow", "key", "due"}},
		{name: "sent", silent: true, fields: slices.Concat(message, []fieldSpec{due, remaining, {"sections", fieldSections, "sections"}, {"see", fieldSections, "see"}, {"header", fieldHeaders, "header"}}, content), show: []string{"to", "channel", "step"}},
		{name: "received", fields: slices.Concat([]fieldSpec{workflow, to, channel, step, attempt, at, locale}, content), show: []string{"to", "channel", "step"}},
		{name: "throttled", fields: []fieldSpec{workflow, trigger, record, context, at, until, wait, reason}, show: []string{"context", "wait"}},
		{name: "returned", fields: []fieldSpec{workflow, trigger, record, context, at, until, wait, reason}, show: []string{"context"}},
		{name: "deferred", fields: slices.Concat(message, []fieldSpec{until, due, reason}), show: []string{"to", "until", "reason"}},
		{name: "retried", fields: slices.Concat(message, []fieldSpec{until, due, reason}), show: []string{"to", "attempt", "until", "reason"}},
		{name: "skipped", fields: slices.Concat(message, []fieldSpec{record, context, due, until, reason}), show: []string{"workflow", "to", "reason"}},
		{name: "superseded", fields: slices.Concat(message, []fieldSpec{due, reason}), show: []string{"workflow", "to", "channel"}},
		{name: "folded", fields: slices.Concat(message, []fieldSpec{{"into", fieldName, "into"}, due, reason}), show: []string{"workflow", "into", "to"}},
		{name: "failed", silent: true, fields: slices.Concat(message, []fieldSpec{due, until, reason}), show: []string{"to", "channel", "reason"}},
		{name: "unknown", silent: true, fields: slices.Concat(message, []fieldSpec{due, reason}), show: []string{"to", "channel", "reason"}},
		{name: "held", silent: true, fields: slices.Concat(message, []fieldSpec{record, due, reason}), show: []string{"workflow", "to", "reason"}},
		{name: "cancelled", fields: slices.Concat(message, []fieldSpec{due, reason}), show: []string{"workflow", "to", "reason"}},
		{name: "opened", fields: message, show: []string{"workflow", "to"}},
		{name: "responded", fields: slices.Concat(message, []fieldSpec{reason, answers}), show: []string{"workflow", "to"}},
		{name: "expired", fields: slices.Concat(message, []fieldSpec{due, reason}), show: []string{"to", "reason"}},
		{name: "dispatched", fields: outcome, show: []string{"workflow", "event", "sink"}},
		{name: "dead", silent: true, fields: outcome, show: []string{"workflow", "event", "sink", "reason"}},

		{
			name: "logged",
			fields: []fieldSpec{
				workflow, trigger, record, context, at,
				{"text", fieldText, "says"},
				{"text_has", fieldHas, "says"},
				{"text_matches", fieldMatches, "says"},
			},
			show: []string{"text"},
		},

		{name: "pending", state: true, fields: []fieldSpec{workflow, trigger, record, to, context, key, due, status, reason}, show: []string{"workflow", "key", "due"}},
		{
			name: "queued", state: true,
			fields: []fieldSpec{workflow, trigger, key, to, channel, status, sendAt, due, attempt, remaining, locale, reason},
			show:   []string{"to", "channel", "send_at"},
		},
		{
			name: "deliveries", state: true, lookup: true,
			fields: []fieldSpec{workflow, trigger, key, to, channel, status, sendAt, due, attempt, remaining, locale, reason, {"receipts", fieldName, "receipts"}},
			show:   []string{"to", "channel", "status", "send_at"},
		},
		{
			name: "held", state: true,
			fields: []fieldSpec{workflow, trigger, record, key, to, channel, status, due, reason, {"recipients", fieldNumber, "recipients"}},
			show:   []string{"workflow", "to", "reason"},
		},
		{
			name: "caps", state: true, lookup: true,
			fields: []fieldSpec{
				to,
				{"channel", fieldText, "kind"},
				{"window", fieldText, "window"},
				{"used", fieldNumber, "used"},
				{"limit", fieldNumber, "limit"},
				until, says,
			},
			show: []string{"to", "channel", "window", "used", "limit"},
		},
		{
			name: "throttles", state: true, lookup: true, fields: []fieldSpec{workflow, trigger, record, context, at, until},
			show: []string{"context", "at"},
		},
		{
			name: "explain", state: true, lookup: true, fields: []fieldSpec{workflow, trigger, to, channel, status, sendAt, reason, says},
			show: []string{"to", "workflow", "says"},
		},
		{
			name: "upcoming", state: true, lookup: true, ordered: true,
			fields: []fieldSpec{
				workflow, trigger, record, key, to, at, due,
				{"iteration", fieldNumber, "iteration"},
				{"message", fieldNumber, "message"},
				status, reason,
			},
			show: []string{"workflow", "record", "to", "at"},
		},
		{
			name: "runs", state: true, lookup: true, fields: []fieldSpec{record, reason, workflow, trigger, key, at, until, status}, show: []string{"workflow", "reason", "record", "status"},
		},
		{
			name: "subscriptions", state: true, lookup: true,
			fields: []fieldSpec{to, {"topic", fieldName, "topic"}, {"frequency", fieldName, "frequency"}, status, reason, at, until},
			show:   []string{"to", "topic", "frequency", "status"},
		},
		{
			name: "sessions", state: true, lookup: true,
			fields: []fieldSpec{to, workflow, channel, status, reason, {"question", fieldName, "question"}, answers, at, until},
			show:   []string{"to", "workflow", "status", "question"},
		},
		{
			name: "outbox", state: true, lookup: true, fields: slices.Concat(outcome, []fieldSpec{status, until}),
			show: []string{"workflow", "event", "sink", "status"},
		},
	}
}
