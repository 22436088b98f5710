package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// noon is two o'clock in Berlin.
var noon = time.Date(2026, 5, 14, 12, 0, 0, 0, time.UTC)

const definitions = `
workflow: news
type: broadcast
triggers: [{id: t, event: news}]
audience: [{to: event.who}]
channel: inbox
message: {inbox: {text: x}}
retry: {backoff: [5m]}
---
workflow: members
type: broadcast
triggers: [{id: t, event: news}]
audience: [{persona: Mother}]
channel: inbox
message: {inbox: {text: x}}
---
workflow: few
type: broadcast
triggers: [{id: t, event: news}]
audience: [{persona: Mother}]
channel: inbox
message: {inbox: {text: x}}
limits: {max_recipients_per_run: 2}
---
workflow: leased
type: broadcast
triggers: [{id: t, event: news}]
audience: [{to: event.who}]
channel: inbox
message: {inbox: {text: x}}
retry: {backoff: [5m], lease: 2m}
---
workflow: tips
type: broadcast
triggers: [{id: daily, schedule: {timezone: Europe/Berlin, every: 1d, at: "14:00", from: 2026-05-01}}]
audience: [{persona: Mother}]
channel: inbox
message: {inbox: {text: x}}
timing: {catch_up: 1h}
---
persona: Mother
---
channel: inbox
provider: inbox
---
workspace: default
cadence: {max_per_day: 0}
`

// runOf is an attempt to expand instances at noon, with their definitions.
func runOf(t *testing.T, known *catalog.Catalog, list ...due) (run, []due) {
	t.Helper()
	addresses, err := (&Fanout{catalog: known}).define(list)
	if err != nil {
		t.Fatal(err)
	}
	id := int64(0)
	return run{facts: facts{now: noon, zones: &known.Zones, addresses: addresses, newID: func() int64 { id++; return id }}}, list
}

func contact(id subject.ContactID) delivery.Person {
	c := subject.Contact{ID: id, ExtID: fmt.Sprint("c-", id), Address: fmt.Sprintf("%d@example.org", id), Persona: "Mother", Timezone: "Europe/Berlin"}
	return delivery.Person{Contact: c, Found: true, Locked: true, SlotsRead: true}
}

// What becomes of a due instance, and what is made with it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	known := catalogtest.Of(t, definitions)
	event := func(workflow, who string) due {
		in := due{DueInstance: store.DueInstance{InForce: 1, Row: instance.Row{
			Workspace: catalogtest.Workspace, ID: 7, Key: "broadcast:" + workflow + ":event:1", Workflow: workflow, Type: "broadcast", Trigger: "t", Definitions: 1,
			Source: instance.FromEvent, Event: 3, Status: instance.Pending, DueAt: noon, Version: 4,
		}}}
		in.EventRow = store.EventRow{Event: subject.Event{ID: 3, Kind: "news", Payload: map[string]any{"who": who}}}
		return in
	}
	occasion := func(dueAt time.Time) due {
		set, err := known.Loaded(catalogtest.Workspace, 1)
		if err != nil {
			t.Fatal(err)
		}
		w := set.Workflow("tips")
		series, err := plan.SeriesOf(set, definition.Match{Workflow: w, Trigger: w.TriggerByID("daily")}, &known.Zones)
		if err != nil {
			t.Fatal(err)
		}
		for row := range series.Next(plan.Place{Due: dueAt.AddDate(0, 0, -1), Date: dueAt.AddDate(0, 0, -1).Format(time.DateOnly)}, dueAt.AddDate(0, 0, -1)) {
			row.Workspace, row.ID, row.Definitions = catalogtest.Workspace, 7, 1
			return due{DueInstance: store.DueInstance{Row: row, InForce: 1}}
		}
		t.Fatal("the series is over")
		return due{}
	}
	with := func(in due, change func(*due)) due { change(&in); return in }
	ann, bob, cyd := contact(100), contact(200), contact(300)
	held := instance.Patch{Status: instance.Pending, Hold: instance.HoldMany, Reason: reason.TooManyRecipients}
	before := func(cursor subject.ContactID) instance.Patch { p := held; p.Cursor = cursor; return p }
	for name, tt := range map[string]struct {
		in     due
		taken  bool // under a lease
		people store.People
		want   instance.Patch
		made   int    // deliveries
		after  string // local dates of the successors that are possible next
	}{
		"a contact":             {in: event("news", "c-100"), people: store.People{Persons: []delivery.Person{ann}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 1},
		"nobody":                {in: event("news", "c-9"), people: store.People{Persons: []delivery.Person{{}}}, want: instance.Patch{Status: instance.Completed, Reason: reason.NoRecipient}},
		"the last page":         {in: event("members", ""), people: store.People{Members: []delivery.Person{ann, bob}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 2},
		"a full page":           {in: event("members", ""), people: store.People{Members: []delivery.Person{ann, bob}, After: 200}, want: instance.Patch{Status: instance.Pending, Cursor: 200}, made: 2},
		"a page without any":    {in: with(event("members", ""), func(in *due) { in.ExpandCursor = 200 }), want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}},
		"one is notified":       {in: event("members", ""), people: store.People{Members: []delivery.Person{ann, bob}, Notified: map[subject.ContactID]bool{100: true}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 1},
		"no such workflow":      {in: event("gone", "c-100"), want: instance.Patch{Status: instance.Deactivated, Reason: reason.WorkflowInactive, RetryCount: 1}},
		"it is paused":          {in: with(event("news", "c-100"), func(in *due) { in.PausedAt, in.RetryCount = noon, 2 }), want: instance.Patch{Status: instance.Pending, Hold: instance.HoldPaused, Reason: reason.WorkflowPaused, RetryCount: 2}},
		"paused and gone":       {in: with(event("gone", "c-100"), func(in *due) { in.PausedAt = noon }), want: instance.Patch{Status: instance.Deactivated, Reason: reason.WorkflowInactive, RetryCount: 1}},
		"it takes a lease":      {in: event("leased", "c-100"), want: instance.Patch{Status: instance.Pending, LeaseUntil: noon.Add(2 * time.Minute)}},
		"under its lease":       {in: event("leased", "c-100"), taken: true, people: store.People{Persons: []delivery.Person{ann}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 1},
		"its worker died":       {in: with(event("leased", "c-100"), func(in *due) { in.LeaseUntil = noon }), want: instance.Patch{Status: instance.Pending, Delay: instance.DelayedByFailure, Reason: reason.WorkerCrashed, Crashes: 1, LeaseUntil: noon.Add(2 * time.Minute)}},
		"it died twice":         {in: with(event("leased", "c-100"), func(in *due) { in.LeaseUntil, in.Crashes = noon, 1 }), want: instance.Patch{Status: instance.Pending, Delay: instance.DelayedByFailure, Reason: reason.WorkerCrashed, Crashes: 2, RetryCount: 1, NextRetryAt: noon.Add(5 * time.Minute)}},
		"it died three times":   {in: with(event("leased", "c-100"), func(in *due) { in.LeaseUntil, in.Crashes = noon, 2 }), want: instance.Patch{Status: instance.Pending, Hold: instance.HoldCrashes, Delay: instance.DelayedByFailure, Reason: reason.WorkerCrashed, Crashes: 3, RetryCount: 1}},
		"an occasion begins":    {in: occasion(noon), people: store.People{Members: []delivery.Person{ann}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded, Event: 1}, made: 1, after: "2026-05-15"},
		"a page of it":          {in: occasion(noon), people: store.People{Members: []delivery.Person{ann}, After: 100}, want: instance.Patch{Status: instance.Pending, Cursor: 100, Event: 1, Definitions: 1}, made: 1},
		"it is too late":        {in: occasion(noon.AddDate(0, 0, -1)), want: instance.Patch{Status: instance.Skipped, Reason: reason.Collapsed}, after: "2026-05-14"},
		"a later one exists":    {in: with(occasion(noon), func(in *due) { in.Later = true }), people: store.People{Members: []delivery.Person{ann}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded, Event: 1}, made: 1},
		"as many as its brake":  {in: event("few", ""), people: store.People{Members: []delivery.Person{ann, bob}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 2},
		"one more":              {in: event("few", ""), people: store.People{Members: []delivery.Person{ann, bob, cyd}}, want: before(200), made: 2},
		"as many, and a page":   {in: event("few", ""), people: store.People{Members: []delivery.Person{ann, bob}, After: 200}, want: instance.Patch{Status: instance.Pending, Cursor: 200}, made: 2},
		"one more on its page":  {in: with(event("few", ""), func(in *due) { in.Recipients, in.ExpandCursor = 2, 200 }), people: store.People{Members: []delivery.Person{cyd}}, want: before(200)},
		"nobody on its page":    {in: with(event("few", ""), func(in *due) { in.Recipients, in.ExpandCursor = 2, 200 }), want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}},
		"only who has it":       {in: with(event("few", ""), func(in *due) { in.Recipients, in.ExpandCursor = 2, 200 }), people: store.People{Members: []delivery.Person{cyd}, Notified: map[subject.ContactID]bool{300: true}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}},
		"who has it is no more": {in: with(event("few", ""), func(in *due) { in.Recipients, in.ExpandCursor = 1, 90 }), people: store.People{Members: []delivery.Person{ann, bob, cyd}, Notified: map[subject.ContactID]bool{100: true}}, want: before(200), made: 1},
		"released":              {in: with(event("few", ""), func(in *due) { in.Recipients, in.ExpandCursor, in.UnbrakedAt = 2, 200, noon }), people: store.People{Members: []delivery.Person{cyd}}, want: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, made: 1},
		"an occasion is parked": {in: with(occasion(noon), func(in *due) { in.PausedAt = noon }), want: instance.Patch{Status: instance.Pending, Hold: instance.HoldPaused, Reason: reason.WorkflowPaused}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, list := runOf(t, known, tt.in)
			r.taken = tt.taken
			audiences := r.resolve(list)
			if len(audiences) != 1 || len(audiences[0]) != 1 {
				t.Fatalf("%v", audiences)
			}
			writes, successors := r.decide(list, [][]store.People{{tt.people}})
			if len(writes.Patches) != 1 {
				t.Fatalf("%+v", writes)
			}
			got := writes.Patches[0].Patch
			got.Trace, tt.want.Recipients = "", tt.made
			var after []string
			for _, s := range successors {
				for row := range s.rows {
					after = append(after, row.LocalDate)
					break
				}
			}
			if got != tt.want || strings.Join(after, " ") != tt.after {
				t.Errorf("got  %+v, then %q\nwant %+v, then %q", got, after, tt.want, tt.after)
			}
			if len(writes.Deliveries) != tt.made || (len(writes.Events[catalogtest.Workspace]) == 1) != (got.Event != 0) || len(r.took) > 0 != !got.LeaseUntil.IsZero() {
				t.Errorf("%+v, %d taken", writes, len(r.took))
			}
			for _, d := range writes.Deliveries {
				if d.Status != delivery.Scheduled || d.Instance != 7 || d.Channel != "inbox:default" && d.Channel != "inbox" {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}
