package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// pause pauses a workflow, or resumes it.
func pause(b *enginetest.Bundle, workflow string) operator.Paused {
	b.Helper()
	p, err := b.Operator().Pause(b.Context(), b.Workspace.ID, workflow, "wrong text", "ann", b.Now())
	if err != nil {
		b.Fatal(err)
	}
	return p
}

func resume(b *enginetest.Bundle, workflow string) operator.Paused {
	b.Helper()
	p, err := b.Operator().Resume(b.Context(), b.Workspace.ID, workflow, "ann", b.Now())
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// Deliveries of an event wait while their workflow is paused, and those of others leave. After an apply, and in another process, the workflow is
// still paused. A message that waited for longer than catch_up allows is not late.
func TestPausedDeliveriesWait(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, strings.TrimSuffix(welcome("first", "catch_up: 1h"), mail)+"---\n"+welcome("second", ""), nil)
		if p := pause(b, "first"); !p.Changed || p.Pause.Actor != "ann" || p.Pause.Why != "wrong text" {
			t.Errorf("got %+v", p)
		}
		if p := pause(b, "first"); p.Changed || p.Pause.Actor != "ann" {
			t.Errorf("again: %+v", p)
		}
		b.Post(`{"kind": "signed-up", "id": "1", "recipient": {"address": "a@example.org"}}`)
		b.At(b.Now())
		if sent := b.Provider.Sent(); len(sent) != 1 || sent[0].Subject != "second" {
			t.Fatalf("sent %+v", sent)
		}
		rows, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{Workflow: "first"}, store.Page{})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		d := rows[0]
		if !d.Parked() || d.Status != delivery.Scheduled || d.Reason != reason.WorkflowPaused || !d.LeavesAt().IsZero() || d.AttemptNo != 0 {
			t.Errorf("parked: %+v", d)
		}
		if next, err := b.NextDue(t.Context()); err != nil || !next.IsZero() {
			t.Errorf("a parked row is never due: %v, %v", next, err)
		}
		b.Apply(strings.Replace(welcome("first", "catch_up: 1h"), "text: x", "text: z", 1))
		other, err := engine.New(engine.Config{Store: s, Clock: b.Clock, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		b.Clock.Set(enginetest.Start.Add(3 * time.Hour))
		if r, err := other.Tick(t.Context()); err != nil || r.Any() {
			t.Errorf("another process: %+v, %v", r, err)
		}
		list, err := b.Workflows(t.Context(), b.Workspace.ID)
		if err != nil || len(list) != 2 || list[0].Pause == nil || list[0].Pause.Deliveries != 1 || list[1].Pause != nil {
			t.Errorf("workflows %+v, %v", list, err)
		}
		if p := resume(b, "first"); !p.Changed {
			t.Errorf("resume: %+v", p)
		}
		b.At(b.Now())
		if sent := b.Provider.Sent(); len(sent) != 1 || sent[0].Subject != "first" {
			t.Errorf("after the pause: %+v, %+v", sent, b.Delivery(d.ID))
		}
		if p := resume(b, "first"); p.Changed {
			t.Errorf("again: %+v", p)
		}
		if pauses, err := s.Pauses(t.Context(), b.Workspace.ID); err != nil || len(pauses) != 0 {
			t.Errorf("nothing is left: %+v, %v", pauses, err)
		}
		if _, err := b.Operator().Pause(t.Context(), b.Workspace.ID, "none", "", "ann", b.Now()); !errors.Is(err, operator.ErrNotFound) {
			t.Errorf("no such workflow: %v", err)
		}
		log, err := s.AuditLog(t.Context(), b.Workspace.ID, store.Page{})
		var reported []string
		for _, a := range log {
			reported = append(reported, a.Action+" "+a.Target)
		}
		if slices.Reverse(reported); err != nil || !slices.Equal(slices.DeleteFunc(reported, func(s string) bool { return strings.HasPrefix(s, "apply") }), []string{"pause first", "resume first"}) {
			t.Errorf("audit %v, %v", reported, err)
		}
	})
}

// welcome is a workflow of an event; timing is a line of its timing.
func welcome(name, timing string) string {
	if timing != "" {
		timing = "timing: {" + timing + "}\n"
	}
	return "workflow: " + name + "\ntype: custom\ntriggers: {id: t, event: signed-up}\n" + timing +
		"audience: {to: event.recipient}\nchannel: email\nmessage: {email: {subject: " + name + ", text: x}}\n" + mail
}

const mail = "---\nchannel: email\nprovider: memory\n"

// An occasion that was too late before the pause began ends as stale, paused or not; one that becomes due during the pause is parked until it ends.
// During a pause nobody can release or retry it alone; it can be cancelled.
// Shows: B23.
func TestPausedInstancesAreHeld(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: UTC, catch_up: 1h}`), "ann")
		w.put("visit/late", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.tick() // planned; no process runs for three hours
		w.Clock.Set(at("15:00"))
		pause(w.Bundle, "w")
		w.put("visit/held", `{"on_date": "2026-05-15", "who": "ann"}`)
		w.put("visit/gone", `{"on_date": "2026-05-15", "who": "ann"}`)
		w.live("15:01")
		state := func() (list []string) {
			rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				held := ""
				if r.Held() {
					held = " held"
				}
				list = append(list, strings.Split(r.Key, ":")[3]+" "+string(r.Status)+held+" "+string(r.Reason))
			}
			slices.Sort(list)
			return list
		}
		tomorrow := at("12:00").Add(24 * time.Hour)
		live := func(until time.Time) {
			for w.tick() {
			}
			w.Clock.Set(until)
			for w.tick() {
			}
		}
		live(tomorrow)
		if got := state(); !slices.Equal(got, []string{"gone pending held workflow_paused", "held pending held workflow_paused", "late skipped stale"}) {
			t.Errorf("paused: %q", got)
		}
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{})
		if err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		for _, r := range rows {
			if !r.HeldAt.Equal(tomorrow) {
				t.Errorf("%s is held since %v", r.Key, r.HeldAt)
			}
		}
		var refused *operator.StateError
		if _, err := w.Operator().Release(t.Context(), w.Workspace.ID, rows[0].ID, "ann", w.Now()); !errors.As(err, &refused) || refused.Hint != "resume the workflow" {
			t.Errorf("release: %v", err)
		}
		if _, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, rows[0].ID, "ann", w.Now()); !errors.As(err, &refused) {
			t.Errorf("retry: %v", err)
		}
		for _, r := range rows {
			if strings.Contains(r.Key, ":gone:") {
				if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, r.ID, "ann", w.Now()); err != nil {
					t.Error(err)
				}
			}
		}
		live(tomorrow.Add(5 * time.Hour))
		resume(w.Bundle, "w")
		live(tomorrow.Add(6 * time.Hour))
		if got := state(); !slices.Equal(got, []string{"gone cancelled cancelled_by_operator", "held completed expanded", "late skipped stale"}) {
			t.Errorf("resumed: %q", got)
		}
		for _, r := range rows {
			if now, err := s.InstanceByID(t.Context(), w.Workspace.ID, r.ID); err != nil || now.Held() || !now.HeldAt.IsZero() {
				t.Errorf("%s is held since %v, %v", r.Key, now.HeldAt, err)
			}
		}
		if sent := w.Provider.Sent(); len(sent) != 1 {
			t.Errorf("sent %d", len(sent))
		}
	})
}

// The first due occasion of a series waits. When the workflow is resumed, backlog decides about all occasions that became due meanwhile, and none of
// them is late.
func TestPausedSeries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backlog string
		sent    int
		want    []string
	}{
		{"latest", 1, []string{
			"daily:2026-05-14 14T07:00 skipped collapsed", "daily:2026-05-17 17T07:00 completed expanded", "daily:2026-05-18 18T07:00 pending",
		}},
		{"first", 1, []string{
			"daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 skipped collapsed", "daily:2026-05-18 18T07:00 pending",
		}},
		{"all", 4, []string{
			"daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 completed expanded",
			"daily:2026-05-16 16T07:00 completed expanded", "daily:2026-05-17 17T07:00 completed expanded", "daily:2026-05-18 18T07:00 pending",
		}},
	} {
		t.Run(c.backlog, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.Store) {
				s := newSeries(t, db, daily(nine, "timing: {catch_up: 1h, backlog: "+c.backlog+"}\n"), nil)
				pause(s.Bundle, "tips")
				s.to(time.Date(2026, 5, 17, 20, 0, 0, 0, time.UTC))
				s.is("paused", "daily:2026-05-14 14T07:00 pending held workflow_paused")
				s.Apply(daily(nine, "timing: {catch_up: 1h, backlog: "+c.backlog+"}\ndescription: other words\n"))
				s.is("paused, after an edit", "daily:2026-05-14 14T07:00 pending held workflow_paused")
				resume(s.Bundle, "tips")
				s.to(time.Date(2026, 5, 17, 21, 0, 0, 0, time.UTC))
				s.is(c.backlog, c.want...)
				if sent := s.Provider.Sent(); len(sent) != c.sent {
					t.Errorf("%s: sent %d, want %d", c.backlog, len(sent), c.sent)
				}
			})
		})
	}
}

// Parked rows are resumed in pages, even if the workflow is paused again meanwhile.
func TestPausedAgainWhileResuming(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcome("first", ""), nil)
		pause(b, "first")
		for i := range 7 {
			b.Post(`{"kind": "signed-up", "id": "` + string(rune('a'+i)) + `", "recipient": {"address": "` + string(rune('a'+i)) + `@example.org"}}`)
		}
		b.At(b.Now())
		resume(b, "first")
		if more, err := b.Operator().TakeParked(t.Context(), b.Now(), 3); err != nil || !more {
			t.Fatal(more, err)
		}
		if p := pause(b, "first"); !p.Changed {
			t.Errorf("got %+v", p)
		}
		if more, err := b.Operator().TakeParked(t.Context(), b.Now(), 3); err != nil || more {
			t.Fatal(more, err)
		}
		b.At(b.Now())
		if sent := b.Provider.Sent(); len(sent) != 0 {
			t.Errorf("sent %d in the pause", len(sent))
		}
		if pauses, err := s.Pauses(t.Context(), b.Workspace.ID); err != nil || len(pauses) != 1 || pauses[0].Deliveries != 7 {
			t.Errorf("%+v, %v", pauses, err)
		}
		resume(b, "first")
		for pages := 0; ; pages++ {
			more, err := b.Operator().TakeParked(t.Context(), b.Now(), 3)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				if pages != 3 {
					t.Errorf("%d pages", pages)
				}
				break
			}
		}
		b.At(b.Now())
		if sent := b.Provider.Sent(); len(sent) != 7 {
			t.Errorf("sent %d", len(sent))
		}
		rows, err := s.Instances(t.Context(), b.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{})
		if err != nil || len(rows) != 0 {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}
