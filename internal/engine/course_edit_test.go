package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// edited is a course that counts from a date of a record; keys are those of its timing.
func edited(keys string) string {
	if !strings.Contains(keys, ", at: \"18:00\", repeat") { // else it is the time of day of the whole course
		keys = `at: "10:00", ` + keys
	}
	return fmt.Sprintf(`
workflow: w
type: reminder
triggers:
  - id: t
    record: stay
    when: record.is_on == true
    timing: {timezone: UTC, %s}
audience: {to: record.who}
channel: inbox
message: {inbox: {text: x}}
---
persona: Manager
---
channel: inbox
provider: inbox
`, keys)
}

// listed is a sequence of messages, each with its name as its text.
func listed(messages ...string) string {
	var list []string
	for _, m := range messages {
		name, at, _ := strings.Cut(m, " ")
		list = append(list, fmt.Sprintf("{%s, message: {inbox: {text: %s}}}", at, name))
	}
	return "sequence: [" + strings.Join(list, ", ") + "]"
}

// The list of messages of a course is edited in the middle of a round: a message of a date that was sent is not sent again, and none is lost that lies
// ahead. The course of the record begins on Monday the 18th.
//
// Shows: D16, D22, R13, P2.
func TestACourseWhoseMessagesAreEdited(t *testing.T) {
	t.Parallel()
	const anchored = "anchor: record.on_date, "
	days := func(list string) string { return anchored + "repeat: {every: 1w, times: 2, days: [" + list + "]}" }
	for name, tt := range map[string]struct {
		before string
		when   string // of the edit
		after  string
		want   []string // what is sent in all
	}{
		"a day is taken out after it was sent": {
			days("mon, tue, thu, sun"), "19 12:00", days("mon, thu, sun"),
			[]string{"18 10:00 x", "19 10:00 x", "21 10:00 x", "24 10:00 x", "25 10:00 x", "28 10:00 x", "31 10:00 x"},
		},
		"a day is put in before one that was sent": {
			days("mon, tue, thu, sun"), "21 10:05", days("mon, tue, wed, thu, sun"),
			[]string{"18 10:00 x", "19 10:00 x", "21 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x", "27 10:00 x", "28 10:00 x", "31 10:00 x"},
		},
		"a day is put in that lies ahead": {
			days("mon, tue, sun"), "19 12:00", days("mon, tue, thu, sun"),
			[]string{"18 10:00 x", "19 10:00 x", "21 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x", "28 10:00 x", "31 10:00 x"},
		},
		"the day that waits is taken out": {
			days("mon, tue, thu, sun"), "19 12:00", days("mon, tue, sun"),
			[]string{"18 10:00 x", "19 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x", "31 10:00 x"},
		},
		"the day that waits becomes one that is past": {
			days("mon, thu, sun"), "20 12:00", days("mon, tue, sun"),
			[]string{"18 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x", "31 10:00 x"},
		},
		"a message is put in before one that was sent": {
			anchored + listed("A day: 0", "B day: 2", "C day: 4"), "20 12:00", anchored + listed("A day: 0", "X day: 1", "B day: 2", "C day: 4"),
			[]string{"18 10:00 A", "20 10:00 B", "22 10:00 C"},
		},
		"a message is put in that lies ahead": {
			anchored + listed("A day: 0", "B day: 2", "C day: 4"), "20 12:00", anchored + listed("A day: 0", "B day: 2", "X day: 3", "C day: 4"),
			[]string{"18 10:00 A", "20 10:00 B", "21 10:00 X", "22 10:00 C"},
		},
		"a message is taken out after it was sent": {
			anchored + listed("A day: 0", "B day: 2", "C day: 4"), "18 12:00", anchored + listed("B day: 2", "C day: 4"),
			[]string{"18 10:00 A", "20 10:00 B", "22 10:00 C"},
		},
		"the message that waits moves to a day that is past": {
			anchored + listed("A day: 0", "B day: 5", "C day: 7"), "21 12:00", anchored + listed("A day: 0", "B day: 2", "C day: 7"),
			[]string{"18 10:00 A", "25 10:00 C"},
		},
		"messages change places": {
			anchored + listed("A day: 0", "B day: 2", "C day: 4"), "18 12:00", anchored + listed("A day: 0", "C day: 2", "B day: 4"),
			[]string{"18 10:00 A", "20 10:00 C", "22 10:00 B"},
		},
		"a message is put in before the one of the day that waits": {
			anchored + listed("A day: 0", "B day: 0, at: \"18:00\"", "C day: 2"), "18 12:00",
			anchored + listed("X day: 0, at: \"08:00\"", "A day: 0", "B day: 0, at: \"18:00\"", "C day: 2"),
			[]string{"18 10:00 A", "18 18:00 B", "20 10:00 C"},
		},
		"a chain gets a message that is past": {
			anchored + listed("A day: 0", "B after: 2h", "C after: 2h"), "18 11:00", anchored + listed("A day: 0", "X after: 30m", "B after: 90m", "C after: 2h"),
			[]string{"18 10:00 A", "18 12:00 B", "18 14:00 C"},
		},
		"start_on is put in": {
			"anchor: record.on_date, offset: 2d, repeat: {every: 1d, times: 4}", "21 12:00", "anchor: record.on_date, offset: 2d, start_on: sat, repeat: {every: 1d, times: 4}",
			[]string{"20 10:00 x", "21 10:00 x", "23 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x"},
		},
		"a longer round": {
			anchored + "repeat: {every: 2d, times: 4}", "20 12:00", anchored + "repeat: {every: 3d, times: 4}",
			[]string{"18 10:00 x", "20 10:00 x", "21 10:00 x", "24 10:00 x", "27 10:00 x"},
		},
		"a shorter round, on the day of a message": {
			anchored + "repeat: {every: 2d, times: 4}", "20 12:00", anchored + "repeat: {every: 1d, times: 6}",
			[]string{"18 10:00 x", "20 10:00 x", "21 10:00 x", "22 10:00 x", "23 10:00 x"},
		},
		"another length, and a later time of day": {
			anchored + "repeat: {every: 2d, times: 4}", "20 12:00", anchored + "at: \"18:00\", repeat: {every: 1d, times: 4}",
			[]string{"18 10:00 x", "20 10:00 x", "21 18:00 x"},
		},
		"rounds of another length, and a later time of day: the date was the second of its round": {
			anchored + "repeat: {every: 4d, times: 2}, " + listed("A day: 0", "B day: 2"), "20 12:00",
			anchored + "at: \"18:00\", repeat: {every: 2d, times: 4}",
			[]string{"18 10:00 A", "20 10:00 B", "22 18:00 x", "24 18:00 x"},
		},
		"rounds of another length, and a later time of day: the date becomes the second of its round": {
			anchored + "repeat: {every: 2d, times: 3}", "20 12:00",
			anchored + "repeat: {every: 4d, times: 2}, " + listed("A day: 0", `B day: 2, at: "18:00"`, `C day: 3`),
			[]string{"18 10:00 x", "20 10:00 x", "21 10:00 C", "22 10:00 A", "24 18:00 B", "25 10:00 C"},
		},
		"rounds of another length, twice, and a chain of the date": {
			anchored + "repeat: {every: 4d, times: 2}, " + listed("A day: 2", "B after: 1h"), "20 10:30",
			anchored + "repeat: {every: 2d, times: 4}, " + listed(`A day: 0, at: "18:00"`, "B after: 1h") + "\n---\n" +
				anchored + "repeat: {every: 1d, times: 4}, " + listed(`A day: 0, at: "20:00"`, "B after: 1h"),
			[]string{"20 10:00 A", "20 21:00 B", "21 20:00 A", "21 21:00 B"},
		},
		"another offset, and a chain that goes on after days": {
			anchored + listed("A day: 1", "B after: 60h"), "21 23:00", anchored + "offset: 1d, " + listed("A day: 0", "B after: 62h", "C after: 1h"),
			[]string{"19 10:00 A", "21 22:00 B", "22 01:00 C"},
		},
		"an edit is taken back": {
			days("mon, tue, thu, sun"), "19 12:00", days("mon, thu, sun") + "\n---\n" + days("mon, tue, thu, sun"),
			[]string{"18 10:00 x", "19 10:00 x", "21 10:00 x", "24 10:00 x", "25 10:00 x", "26 10:00 x", "28 10:00 x", "31 10:00 x"},
		},
		"months": {
			anchored + "repeat: {every: 1mo, times: 1, days: [19, 21, -1]}", "19 12:00", anchored + "repeat: {every: 1mo, times: 1, days: [21, 31]}",
			[]string{"19 10:00 x", "21 10:00 x", "31 10:00 x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, edited(tt.before), "ann")
				w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-18"}`)
				sent := to(w.Bundle, onDay(tt.when))
				var ahead []string
				for edit := range strings.SplitSeq(tt.after, "\n---\n") {
					w.Apply(edited(edit))
					ahead = coming(w, "w", subject.RecordRef{Type: "stay", ExtID: "1"}, may(31, "23:00"))
					sent = append(sent, to(w.Bundle, w.Clock.Now())...)
				}
				last := to(w.Bundle, may(31, "23:00"))
				same(w.Bundle, "foretold", ahead, instants(last))
				sent = append(sent, last...)
				same(w.Bundle, "sent", without(sent, "ann "), tt.want)
			})
		})
	}
}

// coming returns when the messages of a record are going to be sent, in the form of instants.
func coming(w world, workflow string, record subject.RecordRef, until time.Time) (at []string) {
	w.TB.Helper()
	u, err := w.Upcoming(w.Context(), w.Workspace.ID, outlook.Query{Workflow: workflow, Record: record, Limit: 50})
	if err != nil {
		w.TB.Fatal(err)
	}
	for _, o := range u.Occurrences {
		if !o.At.After(until) {
			at = append(at, o.At.UTC().Format("02 15:04"))
		}
	}
	return at
}

// instants returns when messages were sent.
func instants(sent []string) (at []string) {
	for _, line := range sent {
		at = append(at, line[:len("02 15:04")])
	}
	return at
}

// onDay returns an instant of that month, written "19 12:00".
func onDay(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", "2026-05-"+text)
	if err != nil {
		panic(err)
	}
	return at
}

func without(lines []string, part string) (list []string) {
	for _, line := range lines {
		list = append(list, strings.Replace(line, part, "", 1))
	}
	return list
}

// A course after an event that follows the rule of the moment (pin: false).
//
// Shows: D16, C11, P2.
func TestASeriesAfterAnEventWhoseMessagesAreEdited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before string
		when   string
		after  string
		want   []string
	}{
		"a message is put in before one that was sent": {
			listed("A after: 0m", `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`), "16 13:00",
			listed("A after: 0m", `X day: 1, at: "12:00"`, `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`),
			[]string{"14 05:12 A", "16 12:00 B", "18 12:00 C"},
		},
		"a message is taken out after it was sent": {
			listed("A after: 0m", `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`, `D day: 6, at: "12:00"`), "16 13:00",
			listed("A after: 0m", `C day: 4, at: "12:00"`, `D day: 6, at: "12:00"`),
			[]string{"14 05:12 A", "16 12:00 B", "18 12:00 C", "20 12:00 D"},
		},
		"the message that waits is taken out": {
			listed("A after: 0m", `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`), "15 13:00", listed("A after: 0m", `C day: 4, at: "12:00"`),
			[]string{"14 05:12 A", "18 12:00 C"},
		},
		"messages change places": {
			listed("A after: 0m", `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`), "15 13:00",
			listed("A after: 0m", `C day: 2, at: "12:00"`, `B day: 4, at: "12:00"`),
			[]string{"14 05:12 A", "16 12:00 C", "18 12:00 B"},
		},
		"the first one is taken out": {
			listed("A after: 0m", `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`), "14 13:00",
			listed(`B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`),
			[]string{"14 05:12 A", "16 12:00 B", "18 12:00 C"},
		},
		"the date of the first one has another one later, and the one that waits is taken out": {
			listed(`A day: 1, at: "01:00"`, `B day: 1, at: "12:00"`, `C day: 4, at: "12:00"`), "15 02:00",
			listed(`X day: 1, at: "22:00"`, `C day: 4, at: "12:00"`),
			[]string{"15 01:00 A", "18 12:00 C"},
		},
		"another first one": {
			listed(`A day: 0, at: "12:00"`, `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`), "14 13:00",
			listed(`X day: 0, at: "04:00"`, `B day: 2, at: "12:00"`, `C day: 4, at: "12:00"`) + "\n  first: whole",
			[]string{"14 12:00 A", "16 12:00 B", "18 12:00 C"},
		},
		"days of a week": {
			"at: \"12:00\"\n  repeat: {every: 1w, times: 1, days: [thu, fri, sun, tue]}", "15 13:00", "at: \"12:00\"\n  repeat: {every: 1w, times: 1, days: [thu, sun, tue]}",
			[]string{"14 12:00 x", "15 12:00 x", "17 12:00 x", "19 12:00 x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				rule := func(keys string) string {
					return strings.Replace(welcomes(keys, "pin: false"), "message of round {{ iteration }}", "x", 1)
				}
				b := enginetest.Setup(t, s, rule(tt.before), nil)
				b.Post(registered("ann", ""))
				sent := to(b, onDay(tt.when))
				b.Apply(rule(tt.after))
				sent = append(sent, to(b, may(28, "00:00"))...)
				same(b, "sent", without(sent, "ann@example.org "), tt.want)
			})
		})
	}
}

// Rows from before dates were stored are known by their place, and their local date: nothing of them is sent twice or lost, with or without an edit.
func TestACourseFromBeforeDatesWereStored(t *testing.T) {
	t.Parallel()
	const anchored = "anchor: record.on_date, "
	before := anchored + listed("A day: 0", "B day: 2", "C day: 4", "D day: 6")
	for name, tt := range map[string]struct {
		after string
		want  []string
	}{
		"no edit":                      {before, []string{"18 10:00 A", "20 10:00 B", "22 10:00 C", "24 10:00 D"}},
		"a later time of day":          {anchored + listed("A day: 0", `B day: 2, at: "18:00"`, `C day: 4, at: "18:00"`, "D day: 6"), []string{"18 10:00 A", "20 10:00 B", "22 18:00 C", "24 10:00 D"}},
		"a message is put in":          {anchored + listed("A day: 0", "X day: 1", "B day: 2", "C day: 4", "D day: 6"), []string{"18 10:00 A", "20 10:00 B", "22 10:00 C", "24 10:00 D"}},
		"a message is taken out":       {anchored + listed("B day: 2", "C day: 4", "D day: 6"), []string{"18 10:00 A", "20 10:00 B", "22 10:00 C", "24 10:00 D"}},
		"what waits is taken out":      {anchored + listed("A day: 0", "B day: 2", "D day: 6"), []string{"18 10:00 A", "20 10:00 B", "24 10:00 D"}},
		"its place is that of another": {anchored + listed("A day: 0", "B day: 2", "D day: 6", "C day: 7"), []string{"18 10:00 A", "20 10:00 B", "24 10:00 D", "25 10:00 C"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, database := range storetest.Databases(t) {
				t.Run(database, func(t *testing.T) {
					url := storetest.URL(t, database)
					w := newWorld(t, storetest.Open(t, url), edited(before), "ann")
					w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-18"}`)
					sent := to(w.Bundle, onDay("20 12:00"))
					db := behind(t, database, url)
					for _, statement := range []string{
						`UPDATE instance SET key = replace(key, ':d2026-05-20', ':e2') WHERE message = 1`, `UPDATE delivery SET key = replace(key, ':d2026-05-20', ':e2')`,
						`UPDATE instance SET key = replace(key, ':d2026-05-22', ':e3') WHERE message = 2`, `UPDATE instance SET message_date = '', message_number = 0`,
					} {
						if _, err := db.ExecContext(t.Context(), statement); err != nil {
							t.Fatal(err)
						}
					}
					w.Apply(edited(tt.after))
					sent = append(sent, to(w.Bundle, may(31, "23:00"))...)
					same(w.Bundle, "sent", without(sent, "ann "), tt.want)
				})
			}
		})
	}
}

// Messages that wait to leave when the list is edited are still the messages of their dates; one whose date the list does not have is not sent.
//
// Shows: D16, C11, P2.
func TestWaitingDeliveriesOfACourseWhoseMessagesAreEdited(t *testing.T) {
	t.Parallel()
	const night = "\n---\nworkspace: default\ntimezone: UTC\ncadence: {quiet_hours: \"20:00-08:00\", max_per_day: 0}\n"
	const anchored = "anchor: record.on_date, "
	list := func(messages ...string) string { return listed(messages...) }
	for name, tt := range map[string]struct {
		keys          string
		before, after string
		want          []string
	}{
		"a message is put in before it": {
			anchored, list("A day: 0", `B day: 2, at: "22:00"`, "C day: 4"), list("A day: 0", "X day: 1", `B day: 2, at: "22:00"`, "C day: 4"),
			[]string{"18 10:00 A", "21 08:00 B", "22 10:00 C"},
		},
		"a message is taken out before it": {
			anchored, list("A day: 0", `B day: 2, at: "22:00"`, "C day: 4"), list(`B day: 2, at: "22:00"`, "C day: 4"),
			[]string{"18 10:00 A", "21 08:00 B", "22 10:00 C"},
		},
		"it is taken out": {
			anchored, list("A day: 0", `B day: 2, at: "22:00"`, "C day: 4"), list("A day: 0", "C day: 4"),
			[]string{"18 10:00 A", "22 10:00 C"},
		},
		"it was the last one, and is taken out": {
			anchored, list("A day: 0", `B day: 2, at: "22:00"`), list("A day: 0"),
			[]string{"18 10:00 A"},
		},
		"another text": {
			anchored, list("A day: 0", `B day: 2, at: "22:00"`), list("A day: 0", `D day: 2, at: "22:00"`),
			[]string{"18 10:00 A", "21 08:00 D"},
		},
		"in a later round": {
			anchored + "repeat: {every: 2d, times: 2}, ", list("A day: 0", `B day: 0, at: "22:00"`), list(`X day: 0, at: "06:00"`, "A day: 0", `B day: 0, at: "22:00"`),
			[]string{"18 10:00 A", "19 08:00 B", "20 10:00 A", "21 08:00 A"}, // of one date, nothing says which is which: the second one is A by now
		},
		"in a later round that begins on a weekday": {
			anchored + "start_on: wed, repeat: {every: 8d, times: 2}, ", list("A day: 0", `B day: 0, at: "22:00"`), list("A day: 0", `B day: 0, at: "22:00"`, "C day: 1"),
			[]string{"20 10:00 A", "21 08:00 B", "21 10:00 C", "28 10:00 A", "29 08:00 B", "29 10:00 C"},
		},
		"it began at a moment": {
			"", list("A after: 0m", `B day: 6, at: "22:00"`, `C day: 8, at: "12:00"`), list("A after: 0m", `X day: 5, at: "12:00"`, `B day: 6, at: "22:00"`, `C day: 8, at: "12:00"`),
			[]string{"14 10:00 A", "21 08:00 B", "22 12:00 C"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, edited(tt.keys+tt.before)+night, "ann")
				w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-18"}`)
				sent := to(w.Bundle, onDay("20 23:00"))
				w.Apply(edited(tt.keys+tt.after) + night)
				sent = append(sent, to(w.Bundle, may(31, "23:00"))...)
				same(w.Bundle, "sent", without(sent, "ann "), tt.want)
			})
		})
	}
}

// The same of a course after an event that follows the rule of the moment; its first message waits too.
//
// Shows: D16, C11, P2.
func TestWaitingDeliveriesAfterAnEventWhoseMessagesAreEdited(t *testing.T) {
	t.Parallel()
	const night = "\n---\nworkspace: default\ntimezone: UTC\ncadence: {quiet_hours: \"20:00-08:00\", max_per_day: 0}\n"
	for name, tt := range map[string]struct {
		before, when, after string
		want                []string
	}{
		"the first one": {
			listed("A after: 0m", `B day: 2, at: "22:00"`), "14 06:00", listed("A after: 0m", `B day: 2, at: "22:00"`, `C day: 3, at: "12:00"`),
			[]string{"14 08:00 A", "17 08:00 B", "17 12:00 C"},
		},
		"another day is put in before the first one": {
			listed(`A day: 1, at: "22:00"`, `B day: 2, at: "12:00"`), "15 23:00", listed(`X day: 0, at: "12:00"`, `A day: 1, at: "22:00"`, `B day: 2, at: "12:00"`),
			[]string{"16 08:00 A", "16 12:00 B"},
		},
		"the first one is due later": {
			listed(`A day: 1, at: "12:00"`, `B day: 2, at: "12:00"`), "14 23:00", listed(`X day: 0, at: "12:00"`, `A day: 1, at: "12:00"`, `B day: 2, at: "12:00"`),
			[]string{"15 12:00 A", "16 12:00 B"},
		},
		"a later one": {
			listed("A after: 0m", `B day: 2, at: "22:00"`, `C day: 4, at: "12:00"`), "16 23:00",
			listed("A after: 0m", `X day: 1, at: "22:00"`, `B day: 2, at: "22:00"`, `C day: 4, at: "12:00"`),
			[]string{"14 08:00 A", "17 08:00 B", "18 12:00 C"},
		},
		"it is taken out": {
			listed("A after: 0m", `B day: 2, at: "22:00"`, `C day: 4, at: "12:00"`), "16 23:00", listed("A after: 0m", `C day: 4, at: "12:00"`),
			[]string{"14 08:00 A", "18 12:00 C"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := enginetest.Setup(t, s, welcomes(tt.before, "pin: false")+night, nil)
				b.Post(registered("ann", ""))
				sent := to(b, onDay(tt.when))
				b.Apply(welcomes(tt.after, "pin: false") + night)
				sent = append(sent, to(b, may(28, "00:00"))...)
				same(b, "sent", without(sent, "ann@example.org "), tt.want)
			})
		})
	}
}
