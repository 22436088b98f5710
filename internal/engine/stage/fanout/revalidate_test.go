package fanout

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// reminder is a reminder on the day of a paper, at two o'clock in Berlin: at noon UTC.
const reminder = `
workflow: w
type: reminder
enabled: %[2]t
triggers: [{id: due, record: paper, when: record.wanted == true}]
timing: {anchor: record.date, at: "14:00", timezone: %[1]s, catch_up: 1h}
audience: {persona: Mother}
channel: inbox
message: {inbox: {text: x}}
---
record_type: paper
fields: {date: date, wanted: bool}
---
persona: Mother
---
channel: inbox
provider: inbox
---
workspace: default
timezone: Europe/Berlin
cadence: {max_per_day: 0}
`

const berlin, ofContacts = "Europe/Berlin", "[contact.timezone, Europe/Berlin]"

// planOf evaluates the trigger of a definition set on a paper.
func planOf(t *testing.T, known *catalog.Catalog, number int64, props map[string]any, states condition.States) plan.Evaluation {
	t.Helper()
	set, err := known.Loaded(catalogtest.Workspace, number)
	if err != nil {
		t.Fatal(err)
	}
	w := set.Workflow("w")
	return plan.Due(set, definition.Match{Workflow: w, Trigger: w.TriggerByID("due")}, paper(props), nil, states, plan.Observation{Now: noon.AddDate(0, 0, -2)}, &known.Zones)
}

func paper(props map[string]any) subject.Record {
	return subject.Record{ID: 5, Type: "paper", ExtID: "1", Props: props, UpdatedAt: noon.AddDate(0, 0, -3)}
}

// plannedBy is a due instance that the first definition set planned by a paper, whose last evaluation saw it as it was then.
func plannedBy(t *testing.T, known *catalog.Catalog, props map[string]any) due {
	t.Helper()
	eval := planOf(t, known, 1, props, nil)
	if eval.Ahead == nil || len(eval.Ahead.Desired) != 1 {
		t.Fatalf("%+v", eval)
	}
	row := eval.Diff(nil, plan.BySource, noon.AddDate(0, 0, -2))[0].Row
	row.Workspace, row.ID, row.Workflow, row.WorkflowVersion, row.Type, row.Trigger, row.Record, row.Version = catalogtest.Workspace, 7<<20, "w", 1, "reminder", "due", 5, 1
	row.Definitions = 1
	state := condition.States{condition.Name("w", "due"): {Ahead: condition.Ahead{Fingerprint: eval.Ahead.State.Fingerprint}}}
	return due{DueInstance: store.DueInstance{Row: row, InForce: 1}, Source: &store.RecordRow{Record: paper(props), State: state.String(), EvaluatedAt: noon.AddDate(0, 0, -2)}}
}

// What becomes of a due occasion whose record or definition asks for something else by now.
//
// Shows: R14, R2, B30, B41.
func TestRevalidation(t *testing.T) {
	t.Parallel()
	known := catalogtest.Of(t,
		fmt.Sprintf(reminder, berlin, true), fmt.Sprintf(reminder, berlin, false), strings.Replace(fmt.Sprintf(reminder, berlin, true), "14:00", "15:00", 1),
	)
	wanted := map[string]any{"wanted": true, "date": "2026-05-14"}
	with := func(change func(props map[string]any)) map[string]any {
		props := maps.Clone(wanted)
		change(props)
		return props
	}
	now := func(change func(props map[string]any)) func(*due) {
		return func(in *due) { in.Source.Props = with(change) }
	}
	seen := func(number int64) func(*due) { // the last evaluation saw the record as it is, by a set
		return func(in *due) {
			eval := planOf(t, known, number, in.Source.Props, nil)
			state := condition.States{condition.Name("w", "due"): {Ahead: condition.Ahead{Fingerprint: eval.Ahead.State.Fingerprint}}}
			in.Source.State = state.String()
		}
	}
	pending := func(why reason.Reason, until time.Time) instance.Patch {
		return instance.Patch{Status: instance.Pending, Reason: why, NextRetryAt: until}
	}
	ended := func(status instance.Status, why reason.Reason) instance.Patch {
		return instance.Patch{Status: status, Reason: why}
	}
	soon := noon.Add(evaluationWait)
	for name, tt := range map[string]struct {
		changes  []func(*due)
		want     instance.Patch
		expands  bool
		evaluate bool // its record is evaluated
	}{
		"it is as planned": {expands: true},
		"not wanted any more": {
			changes: []func(*due){now(func(p map[string]any) { p["wanted"] = false }), seen(1)}, want: ended(instance.Deactivated, reason.SourceGone), evaluate: true,
		},
		"not wanted, not evaluated yet": {
			changes: []func(*due){now(func(p map[string]any) { p["wanted"] = false })}, want: pending("", soon), evaluate: true,
		},
		"another day, not evaluated yet": {
			changes: []func(*due){now(func(p map[string]any) { p["date"] = "2026-05-20" })}, want: pending("", soon), evaluate: true,
		},
		"its workflow is switched off": {
			changes: []func(*due){func(in *due) { in.InForce = 2 }, seen(2)}, want: ended(instance.Deactivated, reason.WorkflowInactive), evaluate: true,
		},
		"a later hour by an edit, not evaluated yet": {
			changes: []func(*due){func(in *due) { in.InForce = 3 }}, want: pending("", soon), evaluate: true,
		},
		"other inputs by the same version": {
			changes: []func(*due){func(in *due) { in.InputHash = "other" }}, want: instance.Patch{Status: instance.Pending, Hold: instance.HoldConflict, Reason: reason.InputConflict},
		},
		"other inputs, released by a person": {
			changes: []func(*due){func(in *due) { in.InputHash, in.WorkflowVersion = "other", 0 }}, expands: true,
		},
		"too late": {
			changes: []func(*due){func(in *due) { in.Source.Props = with(func(p map[string]any) { p["date"] = "2026-05-13" }) }, func(in *due) { *in = plannedBy(t, known, in.Source.Props) }},
			want:    ended(instance.Skipped, reason.Stale),
		},
		"too late, but it was held up": {
			changes: []func(*due){func(in *due) {
				*in = plannedBy(t, known, with(func(p map[string]any) { p["date"] = "2026-05-13" }))
				in.Delay, in.Reason = instance.DelayedByFailure, reason.AudienceFailed
			}}, expands: true,
		},
		"its record cannot be read": {
			changes: []func(*due){func(in *due) { in.Source.Unreadable = errors.New("damaged") }},
			want:    instance.Patch{Status: instance.Pending, Delay: instance.DelayedByFailure, Reason: reason.AudienceFailed, RetryCount: 1, NextRetryAt: noon.Add(5 * time.Minute)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := plannedBy(t, known, wanted)
			for _, change := range tt.changes {
				change(&in)
			}
			r, list := runOf(t, known, in)
			r.resolve(list)
			writes, _ := r.decide(list, [][]store.People{{{Members: []delivery.Person{contact(100)}}}})
			got := writes.Patches[0].Patch
			if tt.expands {
				tt.want = instance.Patch{Status: instance.Completed, Reason: reason.Expanded, Recipients: 1}
				tt.want.Event = got.Event
			}
			if got.Trace = ""; got != tt.want || (len(writes.Deliveries) == 1) != tt.expands || (len(writes.Evaluate) > 0) != tt.evaluate {
				t.Errorf("got %+v, %d deliveries, evaluate %v\nwant %+v", got, len(writes.Deliveries), writes.Evaluate, tt.want)
			}
		})
	}
}

// Which row of an occasion makes the message of a contact, if the occasion is due in the zone of each of them.
//
// Shows: R15, R16.
func TestWhichZoneIsDue(t *testing.T) {
	t.Parallel()
	known := catalogtest.Of(t, fmt.Sprintf(reminder, ofContacts, true))
	whole := plannedBy(t, known, map[string]any{"wanted": true, "date": "2026-05-14"})
	eval := planOf(t, known, 1, whole.Source.Props, nil)
	z := func(row string, opens bool) *zonal {
		r, _ := runOf(t, known, whole)
		p := planned{trigger: eval.Trigger}
		of := r.zonesOfRecord(&p, whole, "Europe/Berlin", false)
		of.row, of.opens = row, opens
		return of
	}
	at := func(hour int) time.Time { return time.Date(2026, 5, 14, hour, 0, 0, 0, time.UTC) }
	in := func(zone string) delivery.Person {
		p := contact(100)
		p.Timezone = zone
		return p
	}
	joined := func(p delivery.Person) delivery.Person { // between the begin of the occasion and its end
		p.ID = subject.ContactID((noon.UnixMicro() + 1) << 10)
		return p
	}
	pending := map[string]instance.Status{"Africa/Nairobi": instance.Pending}
	for name, tt := range map[string]struct {
		of     *zonal
		person delivery.Person
		zones  map[string]instance.Status
		want   time.Time
		ok     bool
	}{
		"the occasion begins":                    {of: z("", true), person: in("Africa/Nairobi")},
		"the row of their zone":                  {of: z("Africa/Nairobi", false), person: in("Africa/Nairobi"), want: whole.DueAt, ok: true},
		"the row of another zone":                {of: z("Africa/Nairobi", false), person: in("Europe/Berlin")},
		"they have no zone":                      {of: z("Europe/Berlin", false), person: in(""), want: whole.DueAt, ok: true},
		"over everywhere, no row of their zone":  {of: z("", false), person: in("Africa/Nairobi"), want: at(11), ok: true},
		"over everywhere, a row of their zone":   {of: z("", false), person: in("Africa/Nairobi"), zones: pending},
		"over everywhere, they joined meanwhile": {of: z("", false), person: joined(in("Africa/Nairobi"))},
	} {
		r, _ := runOf(t, known, whole)
		r.now = noon.AddDate(0, 0, 1)
		due, ok := tt.of.due(&r, whole, tt.person, store.People{Zones: tt.zones})
		if ok != tt.ok || ok && !due.Equal(tt.want) {
			t.Errorf("%s: %s, %t, want %s, %t", name, due, ok, tt.want, tt.ok)
		}
	}
}

// Which rows of zones an occasion makes when it begins. Those that a restored copy has notified are skipped.
//
// Shows: R15.
func TestZonesThatAnOccasionOpens(t *testing.T) {
	t.Parallel()
	known := catalogtest.Of(t, fmt.Sprintf(reminder, ofContacts, true))
	people := []delivery.Person{contact(100), contact(200), contact(300)}
	people[1].Timezone, people[2].Timezone = "Africa/Nairobi", "America/New_York"
	for _, tt := range []struct{ givenUp, want string }{
		{"", "Africa/Nairobi 14 11:00 pending | America/New_York 14 18:00 pending | Europe/Berlin 14 12:00 pending"},
		{"2026-05-14T11:30:00Z", "Africa/Nairobi 14 11:00 skipped restored | America/New_York 14 18:00 pending | Europe/Berlin 14 12:00 pending"},
	} {
		in := plannedBy(t, known, map[string]any{"wanted": true, "date": "2026-05-14"})
		r, list := runOf(t, known, in)
		r.now = in.DueAt
		r.givenUpUntil, _ = time.Parse(time.RFC3339, tt.givenUp)
		r.resolve(list)
		writes, successors := r.decide(list, [][]store.People{{{Members: people}}})
		var rows []string
		for _, s := range successors {
			for row := range s.rows {
				rows = append(rows, strings.TrimSpace(fmt.Sprint(row.Timezone, " ", row.DueAt.Format("02 15:04"), " ", row.Status, " ", row.Reason)))
			}
		}
		if got := strings.Join(rows, " | "); got != tt.want || len(writes.Deliveries) > 0 || writes.Patches[0].Patch.Status != instance.Pending {
			t.Errorf("given up until %q: %s\nwant %s\n%+v", tt.givenUp, got, tt.want, writes.Patches[0].Patch)
		}
	}
}
