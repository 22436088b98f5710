package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// otherwise are the rows in which Carillon differs on purpose.
func otherwise() map[string]string {
	return map[string]string{
		"dv017": "a message that is never due after the one before it is refused, and not passed over in silence",
		"dv033": "a date has one message: an edit of its time after the send makes no second one",
	}
}

// CommCare HQ's schedules, as courses of the engine: each row of the data is a subtest. Their position is the row that waits. A schedule
// that has ended or is switched off has none: the position that they keep for it is compared in TestAcceptanceCommCareSchedules alone. One
// instance of ours is for all recipients.
//
// Shows: D4, D7, D16, D17, D20, D21, D22.
func TestAcceptanceCourses(t *testing.T) {
	t.Parallel()
	rows, differ := 0, 0
	for _, name := range scheduleFiles() {
		for _, row := range readSchedules(t, name) {
			rows++
			if why := otherwise()[row.ID]; why != "" {
				differ++
				t.Logf("%s differs: %s", row.ID, why)
				continue
			}
			t.Run(row.ID, func(t *testing.T) {
				t.Parallel()
				storetest.Each(t, func(t *testing.T, s *store.Store) { row.live(t, s) })
			})
		}
	}
	if differ*20 > rows { // 5 %
		t.Errorf("%d of %d rows differ", differ, rows)
	}
}

// courseLife is one row while it is lived through.
type courseLife struct {
	*enginetest.Bundle
	t     testing.TB
	row   scheduleRow
	s     theirSchedule
	props map[string]any
	dated bool

	people, before []string // the audience, and that of the step before
}

func (row scheduleRow) live(t testing.TB, s *store.Store) {
	if row.ofPeople() {
		row.liveApart(t, s)
		return
	}
	l := &courseLife{t: t, row: row, props: map[string]any{"on": true}, dated: slices.ContainsFunc(row.Steps, func(s scheduleStep) bool { return s.StartDate != "" })}
	l.s.merge(t, row.Schedule)
	if row.Steps[0].Op == "stop_condition" {
		l.dated = true
	}
	if row.Steps[0].Error {
		if !l.refused() {
			t.Error("the course is not refused")
		}
		return
	}
	l.Bundle = enginetest.Setup(t, s, "", nil)
	l.Clock.Set(row.Steps[0].Now)
	l.Apply(l.yaml())
	for i, step := range row.Steps {
		where := fmt.Sprintf("step %d", i)
		if step.Patch != nil {
			l.s.merge(t, step.Patch)
			l.Apply(l.yaml())
		}
		if step.Now.After(l.Clock.Now()) {
			l.Clock.Set(step.Now)
		}
		l.do(step)
		l.compare(where, step)
	}
}

func (l *courseLife) refused() bool {
	_, problems := loader.Load([]definition.File{{Name: "course.yaml", Text: []byte(l.yaml())}}, loader.Options{})
	return definition.HasErrors(problems)
}

// do carries out a step.
func (l *courseLife) do(step scheduleStep) {
	for name, value := range step.Record {
		l.props[name] = value
		if _, err := civil.ParseDate(value[:min(len(value), len("2006-01-02"))]); l.s.Stop != nil && name == *l.s.Stop && err != nil {
			l.props[name] = nil // no date
		}
	}
	people := step.Recipients
	if people == nil {
		people = []string{"r1"}
	}
	l.before, l.people = l.people, people
	switch step.Op {
	case "refresh":
		l.props["who"], l.props["on"] = people, true
		if zone := l.row.Zones[people[0]]; zone != "" {
			l.props["zone"] = zone
		}
		if step.Zone != "" {
			l.props["zone"] = step.Zone
		}
		if step.StartDate != "" {
			l.props["start"] = step.StartDate
		}
		for _, who := range people {
			l.person(who)
		}
		l.write()
		l.evaluate()
	case "fire", "process":
		if step.Record != nil {
			l.write()
			l.evaluate()
		}
		if step.Op == "process" { // theirs takes what is due before now, ours what is due now too
			l.Clock.Set(step.Now.Add(-time.Microsecond))
		} else if row, ok := l.waits(); ok && row.DueAt.After(l.Clock.Now()) { // by hand, before it is due
			l.Clock.Set(row.DueAt)
		}
		for l.At(l.Clock.Now()).Any() {
		}
	case "unmatch":
		l.props["on"] = false
		l.write()
		l.evaluate()
	case "no_start_date":
		l.props["start"] = nil
		l.write()
		l.evaluate()
	case "delete_schedule":
		gone := engine.Edit{Delete: []definition.Ref{{Kind: definition.KindWorkflow, Name: "w"}}}
		if _, err := l.EditDefinitions(l.t.Context(), l.Workspace, gone, engine.Applier{Name: "test", Secrets: true}, nil); err != nil {
			l.t.Fatal(err)
		}
		for l.At(l.Clock.Now()).Any() { // what a deletion withdraws is done by a job
		}
	case "stop_condition":
		loc, err := time.LoadLocation(l.zone())
		if err != nil {
			l.t.Fatal(err)
		}
		due := step.NextDue.In(loc)
		l.s.Events[0].Time = due.Format("15:04:05")
		l.Apply(l.yaml())
		l.props["start"], l.props["who"] = due.Format("2006-01-02"), people
		l.write()
		l.evaluate()
	default:
		l.t.Fatalf("unknown step %s", step.Op)
	}
}

func (l *courseLife) zone() string {
	if l.s.UTC {
		return "UTC"
	}
	return l.row.Timezone
}

func (l *courseLife) person(who string) {
	item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}}`, who)), who)
	results, err := l.Engine.Contacts().Write(l.t.Context(), l.Workspace, upsert.Replace, []contact.Item{item}, l.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		l.t.Fatal(who, err, results)
	}
}

func (l *courseLife) write() {
	body, err := json.Marshal(map[string]any{"props": l.props})
	if err != nil {
		l.t.Fatal(err)
	}
	results, err := l.Engine.Records().Write(l.t.Context(), l.Workspace, upsert.Merge, []record.Item{record.Parse(body, "case", "1")}, "test", l.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		l.t.Fatal(err, results)
	}
}

// evaluate evaluates what was written and edited, and sends nothing.
func (l *courseLife) evaluate() {
	e := evaluator.New(l.Store, catalog.New(l.Store, loader.Options{}), nil)
	for {
		r, err := e.Step(l.t.Context(), l.Clock.Now(), 100)
		if err != nil {
			l.t.Fatal(err)
		}
		if r.Evaluated == 0 && !r.More {
			return
		}
	}
}

// waits returns the message that waits.
func (l *courseLife) waits() (instance.Row, bool) {
	rows, err := l.Store.Instances(l.t.Context(), l.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
	if err != nil || len(rows) > 1 {
		l.t.Fatalf("%d messages wait: %v", len(rows), err)
	}
	if len(rows) == 0 {
		return instance.Row{}, false
	}
	return rows[0], true
}

// compare compares every expectation of a step.
func (l *courseLife) compare(where string, step scheduleStep) {
	row, on := l.waits()
	if step.Reached != nil {
		if reached := !on || !row.DueAt.Equal(step.NextDue); reached != *step.Reached {
			l.t.Errorf("%s: the stop date is reached: %v; %v waits", where, reached, row.DueAt)
		}
		return
	}
	active := step.Active == nil && on || step.Active != nil && *step.Active
	if step.Instances != nil && *step.Instances == 0 {
		active = false
	}
	if on != active {
		l.t.Errorf("%s: active: %v, expected %v (%v)", where, on, active, row.DueAt)
	}
	if on && active {
		equal(l.t, where+": due", step.Due, row.DueAt)
		equal(l.t, where+": iteration", step.Iteration, row.Round)
		equal(l.t, where+": event", step.Event, row.Message)
		if step.Min != nil && (row.DueAt.Before(*step.Min) || row.DueAt.After(*step.Max)) {
			l.t.Errorf("%s: due %v, expected between %v and %v", where, row.DueAt, *step.Min, *step.Max)
		}
	}
	l.compareFor(where, step)
	if step.Start != nil && l.s.Kind != "alert" && active {
		equal(l.t, where+": start", step.Start, l.start())
	}
	if step.Sent != nil {
		sent := 0
		rows, err := l.Store.Deliveries(l.t.Context(), l.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil {
			l.t.Fatal(err)
		}
		for _, d := range rows {
			if !d.LastSentAt.IsZero() {
				sent++
			}
		}
		equal(l.t, where+": sent", step.Sent, sent)
	}
}

// compareFor compares where each person is. A person who was there before is at the message that waits, which may be overdue. What is overdue
// goes to everybody who is in the audience when it leaves (late_joiner: join); who comes now is at the message that waits after it.
func (l *courseLife) compareFor(where string, step scheduleStep) {
	for _, who := range slices.Sorted(maps.Keys(step.For)) {
		want := step.For[who]
		if !slices.Contains(l.people, who) {
			l.t.Errorf("%s: %s is not in the audience", where, who)
		}
		if !slices.Contains(l.before, who) {
			for l.At(l.Clock.Now()).Any() {
			}
		}
		row, on := l.waits()
		if !on {
			l.t.Errorf("%s: nothing waits for %s", where, who)
		}
		equal(l.t, where+": due for "+who, want.Due, row.DueAt)
		equal(l.t, where+": iteration for "+who, want.Iteration, row.Round)
	}
}

// start returns the date from which the course counts.
func (l *courseLife) start() string {
	record, err := l.Store.Record(l.t.Context(), l.Workspace.ID, subject.RecordRef{Type: "case", ExtID: "1"})
	if err != nil {
		l.t.Fatal(err)
	}
	states, err := condition.Parse(record.State)
	if err != nil {
		l.t.Fatal(err)
	}
	return states[condition.Name("w", "t")].Ahead.Course.Date.String()
}

func equal[T comparable](t testing.TB, what string, want *T, got T) {
	t.Helper()
	if want != nil && *want != got {
		t.Errorf("%s is %v, expected %v", what, got, *want)
	}
}

func (l *courseLife) yaml() string {
	var b strings.Builder
	zone := l.row.Timezone
	if l.s.UTC {
		zone = "UTC"
	}
	fmt.Fprintf(&b, "workspace: default\ntimezone: %s\ncadence: {max_per_day: 0}\n---\n", zone)
	enabled := l.s.Active == nil || *l.s.Active
	fmt.Fprintf(&b, "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    enabled: %v\n    record: case\n    when: record.on == true\n    timing:\n", enabled)
	b.WriteString("      backlog: first\n      late_joiner: join\n      timezone: record.zone\n")
	if l.dated {
		b.WriteString("      anchor: record.start\n      follow_zone: false\n      dst: {overlap: second}\n")
	} else if l.s.Kind != "alert" {
		b.WriteString("      first: whole\n      dst: {overlap: second}\n")
	}
	if l.s.Offset != 0 {
		fmt.Fprintf(&b, "      offset: %dd\n", l.s.Offset)
	}
	if l.s.StartDay != nil {
		fmt.Fprintf(&b, "      start_on: %s\n", []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}[*l.s.StartDay])
	}
	if l.row.Reset != "" {
		fmt.Fprintf(&b, "      reset_on: record.%s\n", l.row.Reset)
	}
	b.WriteString("      sequence:\n")
	for _, e := range l.s.Events {
		if l.s.Kind == "alert" {
			fmt.Fprintf(&b, "        - after: %dm\n", e.Wait)
			continue
		}
		clock := strings.TrimSuffix(e.Time, ":00")
		if e.Type == "random" {
			at, _ := time.Parse("15:04", clock)
			clock = "random " + clock + "-" + at.Add(time.Duration(e.Window)*time.Minute).Format("15:04")
		}
		if e.Type == "property" { // anything else than a time is noon with them
			f := "record." + e.Property
			clock = fmt.Sprintf(`%s != null && matches(%s, "^[0-9]{1,2}:[0-9]{2}") ? %s : "12:00"`, f, f, f)
		}
		fmt.Fprintf(&b, "        - {day: %d, at: %s}\n", e.Day, quoted(clock))
	}
	if l.s.Kind != "alert" {
		unit := map[string]string{"day": "d", "month": "mo"}[l.s.Unit]
		fmt.Fprintf(&b, "      repeat: {every: %d%s, count: all", l.s.Every, unit)
		if l.s.Total > 0 {
			fmt.Fprintf(&b, ", times: %d", l.s.Total)
		}
		if l.s.Stop != nil {
			fmt.Fprintf(&b, ", until: record.%s", *l.s.Stop)
		}
		b.WriteString("}\n")
		if unit == "mo" {
			b.WriteString("      missing_day: skip\n")
		}
	}
	b.WriteString("audience: {to: record.who}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: inbox\n")
	return b.String()
}

func quoted(text string) string {
	encoded, _ := json.Marshal(text) // a text always has a JSON form
	return string(encoded)
}
