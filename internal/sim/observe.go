package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/survey"
)

// listsOf returns the lists of `expect` that an entry belongs to.
func listsOf(e journal.Entry) []string {
	var lists []string
	if list := listOf(e); list != "" {
		lists = append(lists, list)
	}
	if e.Message != "" {
		lists = append(lists, "logged")
	}
	return lists
}

func listOf(e journal.Entry) string {
	if e.Reason == reason.Superseded { // a skip of its own kind
		return "superseded"
	}
	switch e.What {
	case journal.Created:
		return "created"
	case journal.Sent:
		return "sent"
	case journal.Deferred:
		return "deferred"
	case journal.Retried:
		return "retried"
	case journal.Skipped:
		return "skipped"
	case journal.Failed:
		return "failed"
	case journal.Unknown:
		return "unknown"
	case journal.Held:
		return "held"
	case journal.Cancelled:
		return "cancelled"
	case journal.Opened:
		return "opened"
	case journal.Responded:
		return "responded"
	case journal.Expired:
		return "expired"
	case journal.Throttled:
		return "throttled"
	case journal.Returned:
		return "returned"
	case journal.Folded:
		return "folded"
	case journal.Withdrawn:
		return "withdrawn"
	case journal.Moved:
		return "moved"
	case journal.Dispatched:
		return "dispatched"
	case journal.Dead:
		return "dead"
	case journal.DispatchFailed,
		journal.NoMatch, journal.Rejected, journal.Planned, journal.Expanded, journal.Reclaimed, journal.PassedOver, journal.StaleRefused,
		journal.Released, journal.Forgotten, journal.Replied:
	}
	return ""
}

// entryRow is an entry of the journal as a row.
func entryRow(e journal.Entry) row {
	r := row{
		instance: int64(e.Instance), delivery: int64(e.Delivery), alias: []string{e.Contact},
		cells: map[string]cell{
			"at": instantCell(e.At), "workflow": textCell(e.Workflow), "trigger": textCell(e.Trigger), "key": textCell(e.Key),
			"to": textCell(e.Address), "channel": textCell(e.Channel), "locale": textCell(e.Locale),
			"step": numberCell(e.Step), "attempt": numberCell(e.Attempt), "reason": textCell(string(e.Reason)),
			"due": instantCell(e.Due), "until": instantCell(e.Until), "remaining": numberCell(e.Remaining),
			"subject": textCell(e.Subject), "text": textCell(e.Text), "record": textCell(e.Record), "context": textCell(e.Context),
			"sink": textCell(e.Sink), "event": textCell(e.Kind),
			"sections": sectionsCell(e.Sections, func(s journal.Section) []string { return s.Items }, true),
			"see":      sectionsCell(e.Sections, func(s journal.Section) []string { return s.See }, false), "header": headersCell(e.Headers), "answers": answersCell(e.Answers),
			"wait": lengthCell(e.Until.Sub(e.At)), "says": textCell(e.Message), "into": textCell(e.IntoWorkflow),
		},
	}
	if e.Until.IsZero() {
		r.cells["wait"] = cell{}
	}
	if e.Address == "" {
		r.cells["to"] = textCell(e.Contact)
	}
	return r
}

// sectionsCell writes the items of a digest by their topics, in its order: one topic a line. whole: also those without items.
func sectionsCell(sections []journal.Section, items func(journal.Section) []string, whole bool) cell {
	var lines []string
	for _, s := range sections {
		if list := items(s); len(list) > 0 {
			lines = append(lines, s.Topic+": "+strings.Join(list, " "))
		} else if whole {
			lines = append(lines, s.Topic+":")
		}
	}
	return textCell(strings.Join(lines, "\n"))
}

// headersCell writes headers, one a line.
func headersCell(headers map[string]string) cell {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		lines = append(lines, name+": "+headers[name])
	}
	return textCell(strings.Join(lines, "\n"))
}

// answersCell writes answers by question as people read them, one a line.
func answersCell(answers map[string]any) cell {
	var lines []string
	for _, question := range slices.Sorted(maps.Keys(answers)) {
		lines = append(lines, question+": "+survey.AnswerText(answers[question]))
	}
	return textCell(strings.Join(lines, "\n"))
}

// deliveredRow is a message that reached its person as a row.
func deliveredRow(d delivered, contact string) row {
	return row{
		alias: []string{contact},
		cells: map[string]cell{
			"at": instantCell(d.at), "workflow": textCell(d.Workflow), "to": textCell(d.Address), "channel": textCell(d.Channel),
			"locale": textCell(d.Locale), "step": numberCell(d.Step), "attempt": numberCell(d.Attempt),
			"subject": textCell(d.Subject), "text": textCell(d.Text),
		},
	}
}

// instanceRow is a stored instance as a row.
func instanceRow(i instance.Row, record string) row {
	person := key.Instance(i.Key).Person() // of a course of their own
	return row{
		instance: int64(i.ID), alias: []string{person},
		cells: map[string]cell{
			"workflow": textCell(i.Workflow), "trigger": textCell(i.Trigger), "key": textCell(i.Key), "context": textCell(i.Context),
			"due": instantCell(i.DueAt), "status": textCell(string(i.Status)), "reason": textCell(string(i.Reason)), "record": textCell(record),
			"to": textCell(person), "recipients": numberCell(i.Recipients),
		},
	}
}

// deliveryRow is a stored delivery as a row.
func deliveryRow(d delivery.Row, contact string) row {
	why := d.Reason
	if why == "" {
		why = d.DeferredBy
	}
	return row{
		instance: int64(d.Instance), delivery: int64(d.ID), alias: []string{contact},
		cells: map[string]cell{
			"workflow": textCell(d.Workflow), "trigger": textCell(d.Trigger), "key": textCell(d.Key), "to": textCell(d.Address),
			"channel": textCell(d.Channel), "status": textCell(string(d.Status)), "send_at": instantCell(d.LeavesAt()),
			"due": instantCell(d.NotBefore), "attempt": numberCell(d.AttemptNo), "remaining": numberCell(d.RemindersRemaining),
			"locale": textCell(d.Locale), "reason": textCell(string(why)),
		},
	}
}

// contactOf returns the ext_id of the contact in a delivery's key: instance key | contact | channel (docs/concepts/keys-and-dedup.md).
func contactOf(key string) string {
	parts := strings.Split(key, "|")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// capRows are the limits of one person as rows: window is day, week, month, a type of message, or the name of the limit.
func capRows(l admission.Limits) (rows []row) {
	for _, kind := range l.Kinds {
		for _, u := range kind.Limits {
			limit := ""
			if u.Most > 0 {
				limit = strconv.Itoa(u.Most)
			}
			r := row{alias: []string{l.Contact.ExtID}, cells: map[string]cell{
				"to": textCell(l.Contact.ExtID), "kind": textCell(kind.Kind), "window": textCell(windowOf(u.Use)), "used": numberCell(u.Used),
				"limit": textCell(limit), "until": {timed: true}, "says": textCell(u.Sentence(l.At, l.Zone)),
			}}
			if !u.Free.Equal(l.At) {
				r.cells["until"] = instantCell(u.Free)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func windowOf(u cadence.Use) string {
	switch u.Limit {
	case cadence.LimitType:
		return u.Type
	case cadence.LimitMaxPerDay:
		return "day"
	case cadence.LimitMaxPerWeek:
		return "week"
	case cadence.LimitMaxPerMonth:
		return "month"
	case cadence.LimitTotalDay:
		return "total day"
	case cadence.LimitTotalWeek:
		return "total week"
	case cadence.LimitTotalMonth:
		return "total month"
	case cadence.LimitCooldown, cadence.LimitMaxPerSlot, cadence.LimitQuietHours, cadence.LimitSendWindow:
	}
	return string(u.Limit)
}
