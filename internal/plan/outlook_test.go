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
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// outlook is the outlook of the workflow w of some definitions, when stored is what is stored: rows by their keys.
func outlook(t *testing.T, definitions, at string, limit int, record *subject.Record, contact *subject.Contact, stored ...instance.Row) plan.Upcoming {
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
		facts.Record = &plan.RecordFacts{Record: *record, Observation: plan.Observation{Now: now, EvaluateAt: now}, States: condition.States{}, Waiting: rows["t"].Rows}
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

var (
	_ = reason.Matched
	_ = schedule.EndNone
	_ = slices.Contains[[]string]
	_ = strings.Contains
)

func TestOutlookPlay(t *testing.T) {
	def := func(schedule string) string {
		return "workspace: default\ntimezone: Europe/Berlin\n---\nworkflow: w\ntype: broadcast\ntriggers:\n  - id: t\n    schedule: {" + schedule + "}\naudience: {everyone: true}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: memory\n"
	}
	for _, s := range []string{
		`from: 2026-10-19, every: 1w, days: [mon, thu], at: "10:00", times: 12`,
		`every: 1d, at: "02:30"`,
		`every: 1w, days: [sun], at: "02:30", timezone: Australia/Lord_Howe`,
		`every: 1d, at: "10:00", timezone: contact.timezone`,
	} {
		for _, l := range lines(outlook(t, def(s), "2026-10-24T00:00:00Z", 4, nil, nil)) {
			t.Log(l)
		}
		t.Log()
	}
	rec := &subject.Record{ID: 1, Type: "visit", ExtID: "v", Props: map[string]any{"day": "2026-10-26"}}
	for _, s := range []string{
		"    timing: {anchor: record.day, offset: [-7d, -1d, +3d]}",
		"    timing:\n      anchor: record.day\n      sequence: [{day: 0}, {day: 2, at: \"12:00\"}]\n      repeat: {every: 1w, times: 3}\n",
		"    when: record.level > 3",
		"    when: record.level > 3\n    timing: {anchor: record.day}",
	} {
		for _, l := range lines(outlook(t, planning(s), "2026-10-24T00:00:00Z", 4, rec, nil)) {
			t.Log(l)
		}
		t.Log()
	}
}
