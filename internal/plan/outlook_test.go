package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// outlook is the outlook of the workflow w of some definitions, when stored is what is stored: rows by their keys.
func outlook(t *testing.T, definitions, at string, limit int, record *subject.Record, contact *subject.Contact, stored ...instance.Row) plan.Upcoming {
	t.Helper()
	return outlookSince(t, definitions, at, limit, record, condition.States{}, contact, stored...)
}

// outlookSince is the outlook when the record's last evaluation left states.
func outlookSince(t *testing.T, definitions, at string, limit int, record *subject.Record, states condition.States, contact *subject.Contact, stored ...instance.Row) plan.Upcoming {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	set := load(t, definitions)
	facts := plan.OutlookFacts{Set: set, Workflow: set.Workflow("w"), Now: now, Zones: &civil.Zones{}, Limit: limit, Contact: contact}
	rows := map[string]plan.StoredRows{}
	kept := map[key.Instance]instance.Stored{}
	for i, row := range stored {
		row.ID, row.Trigger, row.Source, row.WorkflowVersion = instance.ID(i+1), "t", instance.FromSchedule, 1
		if record != nil {
			row.Source, row.InputHash = instance.FromPlan, set.Workflow("w").Trigger[0].Inputs()
		}
		kept[key.Instance(row.Key)] = instance.Stored{Row: row}
		s := rows["t"]
		if row.Status == instance.Pending {
			s.Rows = append(s.Rows, row)
		} else if row.DueAt.After(s.Last.Due) {
			s.Last = plan.Place{Due: row.DueAt, Date: row.LocalDate}
		}
		rows["t"] = s
	}
	if record != nil {
		facts.Record = &plan.RecordFacts{Record: *record, Observation: plan.Observation{Now: now, EvaluateAt: now}, States: states, Waiting: rows["t"].Rows}
	}
	o, err := plan.NewOutlook(facts)
	if err != nil {
		t.Fatal(err)
	}
	o.Needs()
	o.Stored(rows)
	for keys := o.Keys(); len(keys) > 0; keys = o.Keys() {
		o.Found(kept)
	}
	return o.Upcoming()
}

// lines writes an outlook as one line for each occurrence, and one for what follows.
func lines(u plan.Upcoming) (list []string) {
	var zones civil.Zones
	for _, o := range u.Occurrences {
		text := o.At.UTC().Format("01-02 15:04")
		if loc, err := zones.Load(o.Zone); err == nil {
			text = o.At.In(loc).Format("01-02 15:04 MST")
		}
		if o.Iteration > 0 {
			text = fmt.Sprintf("%d: %s", o.Iteration, text)
		}
		if o.Of > 0 {
			text += fmt.Sprintf(" %d of %d", o.Position.Message+1, o.Of)
		}
		if o.Status != plan.OccurrencePlanned {
			text += " " + string(o.Status)
		}
		if c := o.Clock; c != nil {
			text += fmt.Sprintf(" (%s %v %s)", c.Date, c.Forward, c.Length)
		}
		list = append(list, text)
	}
	for _, t := range u.Triggers {
		text := fmt.Sprintf("%d more", t.More)
		if !t.Last.IsZero() {
			text += t.Last.UTC().Format(", the last 2006-01-02")
		}
		if t.Endless {
			text += ", and others"
		}
		for _, part := range []string{string(t.Reason), t.Field, string(t.End), t.Listens, t.Waits} {
			if part != "" {
				text += ", " + part
			}
		}
		if t.LeftOut > 0 {
			text += fmt.Sprintf(", %d left out: %s", t.LeftOut, t.LostWhy)
		}
		list = append(list, text)
	}
	return list
}

// calendar returns a set with one trigger on a schedule.
func calendar(schedule, rest string) string {
	return "workspace: default\ntimezone: Europe/Berlin\n---\nworkflow: w\ntype: broadcast\ntriggers:\n  - id: t\n    schedule: {" + schedule + "}\n" + rest +
		"audience: {everyone: true}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: memory\n"
}

// ofDay returns the row of the occasion of a day, which is due at an instant.
func ofDay(day, due string, change func(*instance.Row)) instance.Row {
	at, err := time.Parse(time.RFC3339, due)
	if err != nil {
		panic(err)
	}
	row := instance.Row{Key: "broadcast:w:t:" + day, Workflow: "w", Status: instance.Pending, DueAt: at, LocalDate: day[:10], Timezone: "Europe/Berlin", CreatedAt: at.AddDate(0, -1, 0), EffectiveAt: at.AddDate(0, -1, 0)}
	if change != nil {
		change(&row)
	}
	return row
}

// The next occurrences of a schedule: across changes of clocks, to its end, and from what is stored.
//
// Shows: D21, R3, R15.
func TestOutlookOfSchedules(t *testing.T) {
	t.Parallel()
	nairobi := &subject.Contact{ID: 1, ExtID: "amina", Timezone: "Africa/Nairobi"}
	weekly := `from: 2026-10-19, every: 1w, days: [mon, thu], at: "10:00", times: 12`
	held := func(r *instance.Row) { r.PutOnHold(instance.HoldRetries, r.DueAt) }
	ended := func(s instance.Status) func(*instance.Row) { return func(r *instance.Row) { r.Status = s } }
	for name, c := range map[string]struct {
		schedule, rest, at string
		limit              int
		contact            *subject.Contact
		stored             []instance.Row
		want               []string
	}{
		"the clocks go back in Berlin": {weekly, "", "2026-10-24T00:00:00Z", 2, nil, nil, []string{
			"3: 10-26 10:00 CET (2026-10-25 false 1h0m0s)", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times",
		}},
		"forward, over the hour that is skipped": {`every: 1d, at: "02:30", until: 2026-03-31`, "", "2026-03-28T00:00:00Z", 5, nil, nil, []string{
			"03-28 02:30 CET", "03-29 03:30 CEST (2026-03-29 true 1h0m0s)", "03-30 02:30 CEST", "0 more, the last 2026-03-30, until",
		}},
		"skipped": {`every: 1d, at: "02:30", until: 2026-03-31, dst: {gap: skip}`, "", "2026-03-28T00:00:00Z", 5, nil, nil, []string{
			"03-28 02:30 CET", "03-30 02:30 CEST (2026-03-29 true 1h0m0s)", "0 more, the last 2026-03-30, until",
		}},
		"half an hour on Lord Howe": {`every: 1w, days: sun, at: "09:00", timezone: Australia/Lord_Howe, until: 2026-10-12`, "", "2026-09-26T00:00:00Z", 5, nil, nil, []string{
			"09-27 09:00 +1030", "10-04 09:00 +11 (2026-10-04 true 30m0s)", "10-11 09:00 +11", "0 more, the last 2026-10-10, until",
		}},
		"April in Santiago": {`every: 1w, days: sun, at: "09:00", timezone: America/Santiago, until: 2026-04-13`, "", "2026-03-30T00:00:00Z", 5, nil, nil, []string{
			"04-05 09:00 -04 (2026-04-04 false 1h0m0s)", "04-12 09:00 -04", "0 more, the last 2026-04-12, until",
		}},
		"summer and back between two": {`every: 1y, from: 2026-01-15, at: "09:00", times: 2`, "", "2026-01-01T00:00:00Z", 5, nil, nil, []string{
			"1: 01-15 09:00 CET", "2: 01-15 09:00 CET", "0 more, the last 2027-01-15, times",
		}},
		"days from the end of a month": {`every: 1mo, days: [-1, -28], at: "09:00", from: 2026-01-31, until: 2026-04-01`, "", "2026-01-30T00:00:00Z", 9, nil, nil, []string{
			"1: 01-31 09:00 CET", "2: 02-01 09:00 CET", "3: 02-28 09:00 CET", "4: 03-04 09:00 CET", "5: 03-31 09:00 CEST (2026-03-29 true 1h0m0s)",
			"0 more, the last 2026-03-31, until",
		}},
		"over":           {weekly, "", "2026-12-01T00:00:00Z", 5, nil, nil, []string{"0 more, times"}},
		"without an end": {`every: 1d, at: "10:00"`, "", "2026-06-01T00:00:00Z", 1, nil, nil, []string{"06-01 10:00 CEST", "400 more, and others"}},
		"what waits": {weekly, "", "2026-10-24T00:00:00Z", 2, nil, []instance.Row{ofDay("2026-10-26", "2026-10-26T09:00:00Z", nil)}, []string{
			"3: 10-26 10:00 CET waiting (2026-10-25 false 1h0m0s)", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times",
		}},
		"what is held, what was cancelled": {
			weekly, "", "2026-10-24T00:00:00Z", 3, nil,
			[]instance.Row{
				ofDay("2026-10-22", "2026-10-22T08:00:00Z", held), ofDay("2026-10-26", "2026-10-26T09:00:00Z", nil), ofDay("2026-10-29", "2026-10-29T09:00:00Z", ended(instance.Cancelled)),
			},
			[]string{"2: 10-22 10:00 CEST held", "3: 10-26 10:00 CET waiting (2026-10-25 false 1h0m0s)", "5: 11-02 10:00 CET", "7 more, the last 2026-11-26, times"},
		},
		"withdrawn before": {weekly, "", "2026-10-24T00:00:00Z", 2, nil, []instance.Row{
			ofDay("2026-10-26", "2026-10-26T09:00:00Z", nil), ofDay("2026-10-29", "2026-10-29T09:00:00Z", ended(instance.Deactivated)),
		}, []string{"3: 10-26 10:00 CET waiting (2026-10-25 false 1h0m0s)", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times"}},
		"tried again": {weekly, "", "2026-10-26T10:00:00Z", 2, nil, []instance.Row{ofDay("2026-10-26", "2026-10-26T09:00:00Z", func(r *instance.Row) {
			r.NextRetryAt, r.Attempts, r.Delay, r.Reason = r.DueAt.Add(2*time.Hour), 1, instance.DelayedByFailure, reason.AudienceFailed
		})}, []string{"3: 10-26 12:00 CET delayed", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times"}},
		"of several that are overdue the latest": {weekly, "", "2026-10-26T10:00:00Z", 2, nil, []instance.Row{ofDay("2026-10-19", "2026-10-19T08:00:00Z", nil)}, []string{
			"3: 10-26 10:00 CET overdue", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times, 2 left out: collapsed",
		}},
		"all of them that are not too late": {weekly, "    timing: {backlog: all, catch_up: 5d}\n", "2026-10-26T10:00:00Z", 3, nil, []instance.Row{ofDay("2026-10-19", "2026-10-19T08:00:00Z", nil)}, []string{
			"2: 10-22 10:00 CEST overdue", "3: 10-26 10:00 CET overdue", "4: 10-29 10:00 CET", "8 more, the last 2026-11-26, times, 1 left out: collapsed",
		}},
		"a day on which when is false": {weekly, "    when: iteration != 4\n", "2026-10-24T00:00:00Z", 2, nil, nil, []string{
			"3: 10-26 10:00 CET (2026-10-25 false 1h0m0s)", "5: 11-02 10:00 CET", "7 more, the last 2026-11-26, times, 1 left out: condition_false",
		}},
		"until stop_when": {weekly, "    timing: {stop_when: iteration > 4}\n", "2026-10-24T00:00:00Z", 9, nil, nil, []string{
			"3: 10-26 10:00 CET (2026-10-25 false 1h0m0s)", "4: 10-29 10:00 CET", "0 more, the last 2026-10-29, stop_when",
		}},
		"switched off": {weekly, "    enabled: false\n", "2026-10-24T00:00:00Z", 9, nil, nil, []string{"0 more, trigger_disabled"}},
		"in the zone of a contact": {weekly + ", timezone: contact.timezone", "", "2026-10-24T00:00:00Z", 2, nairobi, nil, []string{
			"3: 10-26 10:00 EAT", "4: 10-29 10:00 EAT", "8 more, the last 2026-11-26, times",
		}},
		"and of no contact": {weekly + ", timezone: [contact.timezone, Asia/Tokyo]", "", "2026-10-24T00:00:00Z", 1, nil, nil, []string{
			"3: 10-26 10:00 JST", "9 more, the last 2026-11-26, times",
		}},
		"the row of a zone that was cancelled": {
			weekly + ", timezone: contact.timezone", "", "2026-10-26T00:00:00Z", 1, nairobi,
			[]instance.Row{
				ofDay("2026-10-26", "2026-10-25T20:00:00Z", func(r *instance.Row) { r.Event = 5 }),
				ofDay("2026-10-26:z:Africa/Nairobi", "2026-10-26T07:00:00Z", ended(instance.Cancelled)),
			},
			[]string{"4: 10-29 10:00 EAT", "8 more, the last 2026-11-26, times"},
		},
		"of several that are overdue in a zone the latest": {
			weekly + ", timezone: contact.timezone", "", "2026-10-22T08:00:00Z", 2, nairobi,
			[]instance.Row{ofDay("2026-10-19", "2026-10-18T20:00:00Z", nil)},
			[]string{"2: 10-22 10:00 EAT overdue", "3: 10-26 10:00 EAT", "9 more, the last 2026-11-26, times"},
		},
		"all that are not too late there": {
			weekly + ", timezone: contact.timezone", "    timing: {backlog: all, catch_up: 4d}\n", "2026-10-22T08:00:00Z", 3, nairobi,
			[]instance.Row{ofDay("2026-10-19", "2026-10-18T20:00:00Z", nil)},
			[]string{"1: 10-19 10:00 EAT overdue", "2: 10-22 10:00 EAT overdue", "3: 10-26 10:00 EAT", "9 more, the last 2026-11-26, times"},
		},
		"the oldest there": {
			weekly + ", timezone: contact.timezone", "    timing: {backlog: first, catch_up: 4d}\n", "2026-10-22T08:00:00Z", 2, nairobi,
			[]instance.Row{ofDay("2026-10-19", "2026-10-18T20:00:00Z", nil)},
			[]string{"1: 10-19 10:00 EAT overdue", "3: 10-26 10:00 EAT", "9 more, the last 2026-11-26, times"},
		},
		"the oldest there, which is too late": {
			weekly + ", timezone: contact.timezone", "    timing: {backlog: first}\n", "2026-10-22T08:00:00Z", 1, nairobi,
			[]instance.Row{ofDay("2026-10-19", "2026-10-18T20:00:00Z", nil)},
			[]string{"3: 10-26 10:00 EAT", "9 more, the last 2026-11-26, times"},
		},
		"in force since its hour was past there": {
			weekly + ", timezone: contact.timezone", "", "2026-10-19T12:00:00Z", 1, nairobi,
			[]instance.Row{ofDay("2026-10-19", "2026-10-18T20:00:00Z", func(r *instance.Row) { r.EffectiveAt = r.DueAt.Add(12 * time.Hour) })},
			[]string{"2: 10-22 10:00 EAT", "10 more, the last 2026-11-26, times"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := lines(outlook(t, calendar(c.schedule, c.rest), c.at, c.limit, nil, c.contact, c.stored...))
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// The next occurrences of a record, or why it has none.
//
// Shows: B34, B35, D16, R14.
func TestOutlookOfRecords(t *testing.T) {
	t.Parallel()
	day := map[string]any{"day": "2026-10-26", "level": 1}
	for name, c := range map[string]struct {
		trigger, at string
		change      func(*subject.Record)
		want        []string
	}{
		"dates": {"    timing: {anchor: record.day, offset: [-7d, -1d, +3d]}", "2026-10-01T00:00:00Z", nil, []string{
			"10-19 09:00 CEST waiting", "10-25 09:00 CET waiting (2026-10-25 false 1h0m0s)", "10-29 09:00 CET waiting", "0 more, the last 2026-10-29, dates",
		}},
		"one of them too late": {"    timing: {anchor: record.day, offset: [-7d, -1d]}", "2026-10-24T00:00:00Z", nil, []string{
			"10-25 09:00 CET waiting (2026-10-25 false 1h0m0s)", "0 more, the last 2026-10-25, dates, 1 left out: stale",
		}},
		"a course": {"    timing:\n      anchor: record.day\n      sequence: [{day: 0}, {day: 2, at: \"12:00\"}]\n      repeat: {every: 1w, times: 3}\n", "2026-10-27T00:00:00Z", nil, []string{
			"1: 10-28 12:00 CET 2 of 2", "2: 11-02 09:00 CET 1 of 2", "2: 11-04 12:00 CET 2 of 2", "3: 11-09 09:00 CET 1 of 2", "1 more, the last 2026-11-11, times",
		}},
		"until a day": {"    timing: {anchor: record.day, repeat: {every: 1d, until: 2026-10-28}}", "2026-10-26T12:00:00Z", nil, []string{
			"2: 10-27 09:00 CET 1 of 1", "0 more, the last 2026-10-27, until",
		}},
		"until, before its times": {"    timing: {anchor: record.day, repeat: {every: 1d, times: 9, until: 2026-10-28}}", "2026-10-26T12:00:00Z", nil, []string{
			"2: 10-27 09:00 CET 1 of 1", "0 more, the last 2026-10-27, until",
		}},
		"one round":        {"    timing: {anchor: record.day, sequence: [{day: 0}, {day: 1}]}", "2026-10-26T12:00:00Z", nil, []string{"1: 10-27 09:00 CET 2 of 2", "0 more, the last 2026-10-27, sequence"}},
		"a course is over": {"    timing: {anchor: record.day, repeat: {every: 1d, times: 3}}", "2026-12-01T00:00:00Z", nil, []string{"0 more, times"}},
		"last days of months": {"    timing: {anchor: record.day, sequence: [{day: -1}], repeat: {every: 1mo, times: 2}}", "2026-10-01T00:00:00Z", nil, []string{
			"1: 10-31 09:00 CET 1 of 1 (2026-10-25 false 1h0m0s)", "2: 11-30 09:00 CET 1 of 1", "0 more, the last 2026-11-30, times",
		}},
		"not met":        {"    when: record.level > 3\n    timing: {anchor: record.day}", "2026-10-01T00:00:00Z", nil, []string{"0 more, condition_false, record.level > 3"}},
		"without a date": {"    timing: {anchor: record.day}", "2026-10-01T00:00:00Z", func(r *subject.Record) { r.Props = nil }, []string{"0 more, value_missing, record.day"}},
		"closed":         {"    timing: {anchor: record.day}", "2026-10-01T00:00:00Z", func(r *subject.Record) { r.Closed = true }, []string{"0 more, record_closed"}},
		"switched off":   {"    enabled: false\n    timing: {anchor: record.day}", "2026-10-01T00:00:00Z", nil, []string{"0 more, trigger_disabled"}},
		"an alert":       {"    when: record.level > 3", "2026-10-01T00:00:00Z", nil, []string{"0 more, condition_false, record.level > 3, record.level > 3"}},
		"thresholds": {"    metric: {name: level, value: record.level, thresholds: [10, 20]}\n    fire: once_per_threshold", "2026-10-01T00:00:00Z", nil, []string{
			"0 more, condition_false, (record.level) >= 10, level >= 10, 20",
		}},
		"false by then": {"    when: today() < date(\"2026-10-20\")\n    timing: {anchor: record.day, offset: [-7d, -1d]}", "2026-10-01T00:00:00Z", nil, []string{
			"10-19 09:00 CEST waiting", "0 more, the last 2026-10-19, dates, 1 left out: condition_false",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &subject.Record{ID: 1, Type: "visit", ExtID: "v", Props: day}
			if c.change != nil {
				c.change(rec)
			}
			got := lines(outlook(t, planning(c.trigger), c.at, 4, rec, nil))
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// The messages of a course that have just ended are neither left out nor to come, whether the next evaluation plans the course again or not. The
// courses of single people end by the rule of the course.
//
// Shows: D16, R3, R16.
func TestOutlookOfACourseAtItsEnd(t *testing.T) {
	t.Parallel()
	const chain = "    timing: {anchor: record.starts_at, sequence: [{after: 0m}, {after: 4s}, {after: 4s}]}\n"
	begins := time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		timing, rows string // a letter for each message: sent, cancelled, held, begun, waiting, -: none; own: that of one person, which waits
		again        bool   // the next evaluation plans the course again
		want         []string
	}{
		"sent":                          {chain, "sss", false, []string{"0 more, sequence"}},
		"sent, and planned again":       {chain, "sss", true, []string{"0 more, sequence"}},
		"the last one was cancelled":    {chain, "ssc", false, []string{"0 more, sequence"}},
		"the last one is under way":     {chain, "ssb", true, []string{"0 more, sequence"}},
		"on hold":                       {chain, "shs", true, []string{"1: 10-26 13:00 CET 2 of 3 held", "0 more, the last 2026-10-26, sequence"}},
		"the last one is lost":          {chain, "ss-", false, []string{"1: 10-26 13:00 CET 3 of 3 overdue", "0 more, the last 2026-10-26, sequence"}},
		"the first two are lost":        {chain, "---", true, []string{"1: 10-26 13:00 CET 3 of 3 overdue", "0 more, the last 2026-10-26, sequence, 2 left out: collapsed"}},
		"the next one waits":            {chain, "ssw", false, []string{"1: 10-26 13:00 CET 3 of 3 overdue", "0 more, the last 2026-10-26, sequence"}},
		"of single people, and all":     {"    timing: {anchor: record.starts_at, late_joiner: fresh, repeat: {every: 1d, times: 2}}\n", "swo", false, []string{"1: 10-26 13:00 CET 1 of 1 overdue", "2: 10-27 13:00 CET 1 of 1 waiting", "0 more, times"}},
		"of single people":              {"    timing: {anchor: record.starts_at, late_joiner: fresh, sequence: [{after: 0m}]}\n", "so", false, []string{"1: 10-26 13:00 CET 1 of 1 overdue", "0 more, sequence"}},
		"of single people, without end": {"    timing: {anchor: record.starts_at, late_joiner: fresh, repeat: {every: 1d}}\n", "so", false, []string{"1: 10-26 13:00 CET 1 of 1 overdue", "2: 10-27 13:00 CET 1 of 1", "3: 10-28 13:00 CET 1 of 1", "4: 10-29 13:00 CET 1 of 1", "400 more, and others"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definitions := strings.Replace(planning(c.timing), "to: record.id", "everyone: true", 1)
			rec := subject.Record{ID: 1, Type: "visit", ExtID: "v", Props: map[string]any{"starts_at": begins.Format(time.RFC3339)}}
			set := load(t, definitions)
			eval := plan.Record(set, rec, nil, nil, plan.Observation{Now: begins, EvaluateAt: begins}, new(civil.Zones))[0]
			course := eval.Ahead.Course
			var rows []instance.Row
			for row := range course.All(begins) {
				if rows = append(rows, row); len(rows) == len(c.rows) {
					break
				}
			}
			var stored []instance.Row
			for i, letter := range c.rows {
				if letter == 'o' {
					for row := range course.Of(course.Join(7, "bob", begins)).All(begins) {
						stored = append(stored, row)
						break
					}
					continue
				}
				row := rows[i]
				switch letter {
				case 's':
					row.Status, row.Event = instance.Completed, 1
				case 'c':
					row.Status = instance.Cancelled
				case 'b':
					row.Event = 1
				case 'h':
					row.PutOnHold(instance.HoldRetries, begins)
					row.Delay = instance.DelayedByHold
				case '-':
					continue
				}
				stored = append(stored, row)
			}
			states := condition.States{}
			if !c.again {
				states[condition.Name("w", "t")] = eval.State
			}
			got := lines(outlookSince(t, definitions, begins.Add(20*time.Second).Format(time.RFC3339), 4, &rec, states, nil, stored...))
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A trigger that no record was asked for says which records it follows, and one on events what it listens to.
func TestOutlookWithoutTimes(t *testing.T) {
	t.Parallel()
	u := outlook(t, planning("    timing: {anchor: record.day}"), "2026-10-01T00:00:00Z", 4, nil, nil)
	if got := u.Triggers[0]; got.Record != "visit" || got.Reason != "" || got.Coming != 0 {
		t.Errorf("%+v", got)
	}
	u = outlook(t, "workflow: w\ntype: custom\ntriggers: {id: t, event: visit}\n"+rest, "2026-10-01T00:00:00Z", 4, nil, nil)
	if got := lines(u); !slices.Equal(got, []string{"0 more, visit"}) {
		t.Errorf("%q", got)
	}
}

// What an event would cause that arrives now: its series, or why there is none.
//
// Shows: D16, C8, R14.
func TestOutlookOfAnEventThatMayCome(t *testing.T) {
	t.Parallel()
	nairobi := &subject.Contact{ID: 1, ExtID: "amina", Timezone: "Africa/Nairobi"}
	for name, c := range map[string]struct {
		trigger string
		contact *subject.Contact
		want    []string
	}{
		"a series": {"    timing: {sequence: [{after: 0m}, {day: 2, at: \"09:00\"}, {after: 1h}]}\n", nil, []string{
			"1: 10-24 12:00 1 of 3 assumed", "1: 10-26 09:00 CET 2 of 3 assumed (2026-10-25 false 1h0m0s)", "1: 10-26 09:00 3 of 3 assumed", "0 more, the last 2026-10-26, sequence, joined",
		}},
		"that repeats": {"    timing: {sequence: [{day: 1, at: \"09:00\"}], repeat: {every: 1w, times: 5}}\n", nil, []string{
			"1: 10-25 09:00 CET 1 of 1 assumed (2026-10-25 false 1h0m0s)", "2: 11-01 09:00 CET 1 of 1 assumed", "3: 11-08 09:00 CET 1 of 1 assumed", "2 more, the last 2026-11-22, times, joined",
		}},
		"without an end": {"    timing: {sequence: [{day: 1, at: \"09:00\"}], repeat: {every: 1w}}\n", nil, []string{
			"1: 10-25 09:00 CET 1 of 1 assumed (2026-10-25 false 1h0m0s)", "2: 11-01 09:00 CET 1 of 1 assumed", "3: 11-08 09:00 CET 1 of 1 assumed", "400 more, and others, joined",
		}},
		"where its recipient is": {"    timing: {timezone: contact.timezone, sequence: [{day: 1, at: \"09:00\"}]}\n", nairobi, []string{
			"1: 10-25 09:00 EAT 1 of 1 assumed", "0 more, the last 2026-10-25, sequence, joined",
		}},
		"one message":              {"    timing: {offset: 2h}\n", nil, []string{"10-24 14:00 assumed", "0 more, the last 2026-10-24, joined"}},
		"a date of its payload":    {"    timing: {anchor: event.day, sequence: [{day: 0}]}\n", nil, []string{"0 more, value_missing, event.day, joined"}},
		"a condition on it":        {"    when: event.vip == true\n", nil, []string{"0 more, condition_false, event.vip, joined"}},
		"over before it begins":    {"    timing: {sequence: [{day: 1, at: \"09:00\"}], repeat: {every: 1w, until: 2026-10-20}}\n", nil, []string{"0 more, course_over, joined"}},
		"a trigger that is off":    {"    enabled: false\n", nil, []string{"0 more, trigger_disabled, joined"}},
		"a trigger of another one": {"  - id: u\n    event: left\n", nil, []string{"10-24 12:00 assumed", "0 more, the last 2026-10-24, joined"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := load(t, "workspace: default\ntimezone: Europe/Berlin\n---\nworkflow: w\ntype: broadcast\ntriggers:\n  - id: t\n    event: joined\n"+c.trigger+
				"audience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: memory\n")
			now := time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
			ev := &subject.Event{Kind: "joined", OccurredAt: now, ReceivedAt: now}
			if c.contact != nil {
				ev.Recipient = &subject.Recipient{CustomerRef: c.contact.ExtID}
			}
			o, err := plan.NewOutlook(plan.OutlookFacts{Set: set, Workflow: set.Workflow("w"), Now: now, Zones: &civil.Zones{}, Limit: 3, Contact: c.contact, IfCame: ev})
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Needs()) > 0 || len(o.Keys()) > 0 {
				t.Errorf("it reads %+v %v", o.Needs(), o.Keys())
			}
			if got := lines(o.Upcoming()); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
