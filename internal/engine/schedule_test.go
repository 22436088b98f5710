package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// daily is a broadcast at nine in Berlin, which is seven in UTC; keys are further keys of the schedule, rest those of the workflow.
func daily(keys, rest string) string {
	return "workflow: tips\ntype: broadcast\ntriggers:\n  - id: daily\n    schedule: {timezone: Europe/Berlin, " + keys + "}\n" +
		"audience: {address: '\"anna@example.org\"', kind: email}\nchannel: email\nmessage:\n  email:\n    subject: Tip\n    text: \"Good morning\"\n" + rest +
		"---\nchannel: email\nprovider: memory\n"
}

const nine = `every: 1d, at: "09:00"`

// series is a bundle with helpers for schedules.
type series struct{ *enginetest.Bundle }

func newSeries(t *testing.T, s *store.Store, definitions string, change func(*engine.Config)) series {
	t.Helper()
	return series{enginetest.Setup(t, s, definitions, change)}
}

// rows returns the occasions by their due instants, each with its state.
func (s series) rows() []string {
	s.Helper()
	list, err := s.Store.Instances(s.Context(), s.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	if err != nil {
		s.Fatal(err)
	}
	slices.SortFunc(list, func(a, b instance.Row) int {
		return strings.Compare(a.DueAt.Format(time.RFC3339)+a.Key, b.DueAt.Format(time.RFC3339)+b.Key)
	})
	var all []string
	for _, i := range list {
		held := ""
		if i.Held() {
			held = " held"
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s%s %s", strings.TrimPrefix(i.Key, "broadcast:tips:"), i.DueAt.Format("02T15:04"), i.Status, held, i.Reason)))
	}
	return all
}

func (s series) is(what string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.rows()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// to runs the engine until an instant.
func (s series) to(at time.Time) {
	s.Helper()
	for range 1000 {
		next, err := s.NextDue(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if next.IsZero() || next.After(at) {
			s.Clock.Set(at)
			return
		}
		if next.Before(s.Clock.Now()) {
			next = s.Clock.Now()
		}
		s.At(next)
	}
	s.Fatal("it never comes to rest")
}

func (s series) latest(status instance.Status) instance.Row {
	s.Helper()
	list, err := s.Store.Instances(s.Context(), s.Workspace.ID, store.InstanceFilter{Status: status}, store.Page{Limit: 1000})
	if err != nil || len(list) == 0 {
		s.Fatalf("no instance is %s: %v", status, err)
	}
	return slices.MaxFunc(list, func(a, b instance.Row) int { return a.DueAt.Compare(b.DueAt) })
}

func may(day int, clock string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", fmt.Sprintf("2026-05-%02d %s", day, clock))
	if err != nil {
		panic(err)
	}
	return at
}

// One occasion waits at any time; whatever ends it makes the next one.
//
// Shows: B46, D21.
func TestASeriesGoesOn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := newSeries(t, s, daily(nine, ""), nil) // it is 14 May, 05:12 UTC
		b.is("applied", "daily:2026-05-14 14T07:00 pending")
		b.to(may(14, "07:00"))
		b.to(may(15, "06:00"))
		b.is("the day after", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 pending")

		if _, err := b.Operator().CancelInstance(t.Context(), b.Workspace.ID, b.latest(instance.Pending).ID, "test", b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.is("cancelled", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 cancelled cancelled_by_operator", "daily:2026-05-16 16T07:00 pending")
		b.Apply(daily(nine, "limits: {critical: true}\n"))
		b.is("an edit of something else", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 cancelled cancelled_by_operator", "daily:2026-05-16 16T07:00 pending")
		b.to(may(17, "08:00"))
		if got := len(b.Provider.Sent()); got != 3 {
			t.Errorf("%d messages left, want 3", got)
		}
	})
}

// Shows: B38, B39.
func TestEditsMoveWaitingOccasions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := newSeries(t, s, daily(nine, ""), nil)
		b.to(may(14, "12:00"))
		done := "daily:2026-05-14 14T07:00 completed expanded"
		b.Apply(daily(`every: 1d, at: "21:00"`, ""))
		b.is("another time: the same key, and today is done", done, "daily:2026-05-15 15T19:00 pending")
		b.Apply(strings.Replace(daily(`every: 1d, at: "21:00"`, ""), "Europe/Berlin", "UTC", 1))
		b.is("another zone", done, "daily:2026-05-15 15T21:00 pending")
		b.Apply(daily(`every: 1w, days: [sun], at: "09:00"`, ""))
		b.is("other days", done, "daily:2026-05-15 15T21:00 deactivated rule_changed", "daily:2026-05-17 17T07:00 pending")
		b.Apply(daily(`every: 1w, days: [sun], at: "09:00"`, "enabled: false\n"))
		b.is("off", done, "daily:2026-05-15 15T21:00 deactivated rule_changed", "daily:2026-05-17 17T07:00 deactivated workflow_inactive")
		b.Apply(daily(nine, ""))
		b.is("on again, every day", done, "daily:2026-05-15 15T07:00 pending", "daily:2026-05-17 17T07:00 deactivated workflow_inactive")
		b.to(may(16, "12:00"))
		b.is("and on", done, "daily:2026-05-15 15T07:00 completed expanded", "daily:2026-05-16 16T07:00 completed expanded", "daily:2026-05-17 17T07:00 pending")
		b.Apply(strings.Replace(daily(nine, ""), "id: daily", "id: nightly", 1))
		b.is("another trigger", done, "daily:2026-05-15 15T07:00 completed expanded", "daily:2026-05-16 16T07:00 completed expanded",
			"daily:2026-05-17 17T07:00 deactivated rule_changed", "nightly:2026-05-17 17T07:00 pending")
	})
}

// After a stop, overdue occasions are decided in one step, and one row represents the skipped ones.
//
// Shows: D20, P7.
func TestAfterAMonth(t *testing.T) {
	t.Parallel()
	june := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		timing string
		sent   int
		want   []string
		trace  string
	}{
		{"", 1, []string{
			"daily:2026-05-14 14T07:00 skipped collapsed", "daily:2026-06-15 15T07:00 completed expanded", "daily:2026-06-16 16T07:00 pending",
		}, `{"skipped":{"count":32,"first":"2026-05-14T07:00:00Z","last":"2026-06-14T07:00:00Z"}}`},
		{"timing: {catch_up: 1h}\n", 0, []string{
			"daily:2026-05-14 14T07:00 skipped stale", "daily:2026-06-16 16T07:00 pending",
		}, `{"skipped":{"count":33,"first":"2026-05-14T07:00:00Z","last":"2026-06-15T07:00:00Z"}}`},
		{"timing: {backlog: first}\n", 0, []string{
			"daily:2026-05-14 14T07:00 skipped stale", "daily:2026-06-16 16T07:00 pending",
		}, `{"skipped":{"count":33,"first":"2026-05-14T07:00:00Z","last":"2026-06-15T07:00:00Z"}}`},
		{"timing: {backlog: first, catch_up: forever}\n", 1, []string{
			"daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 skipped collapsed", "daily:2026-06-16 16T07:00 pending",
		}, `{"skipped":{"count":32,"first":"2026-05-15T07:00:00Z","last":"2026-06-15T07:00:00Z"}}`},
		{"timing: {backlog: all}\n", 2, []string{
			"daily:2026-05-14 14T07:00 skipped collapsed", "daily:2026-06-14 14T07:00 completed expanded", "daily:2026-06-15 15T07:00 completed expanded", "daily:2026-06-16 16T07:00 pending",
		}, `{"skipped":{"count":31,"first":"2026-05-14T07:00:00Z","last":"2026-06-13T07:00:00Z"}}`},
	} {
		t.Run(tt.timing, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := newSeries(t, s, daily(nine, tt.timing), nil)
				b.Clock.Set(june)
				b.to(june)
				b.is("a month later", tt.want...)
				if got := len(b.Provider.Sent()); got != tt.sent {
					t.Errorf("%d messages left, want %d", got, tt.sent)
				}
				if got := b.latest(instance.Skipped).Trace; got != tt.trace {
					t.Errorf("skipped: got %s, want %s", got, tt.trace)
				}
				skipped := 0
				for _, e := range b.Journal() {
					skipped += e.Count
				}
				if want := strings.Contains(tt.trace, fmt.Sprintf(`"count":%d,`, skipped)); !want {
					t.Errorf("the journal reports %d skipped occasions", skipped)
				}
			})
		})
	}
}

// A process that dies between two transactions of an occasion does not end the series: one transaction ends the occasion and makes the next one.
//
// Shows: P1, B46.
func TestACrashDoesNotEndASeries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		down := false
		b := newSeries(t, s, daily(nine, ""), func(c *engine.Config) {
			c.Failpoint = func(point string) error {
				if down && point == fanout.AfterChunk {
					return errors.New("crash")
				}
				return nil
			}
		})
		down = true
		b.Clock.Set(may(14, "07:00"))
		if _, err := b.Tick(t.Context()); err == nil {
			t.Fatal("it did not crash")
		}
		b.is("crashed", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 pending")
		down = false
		b.to(may(15, "12:00"))
		b.is("up again", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 completed expanded", "daily:2026-05-16 16T07:00 pending")
		if got := len(b.Provider.Sent()); got != 2 {
			t.Errorf("%d messages left, want 2", got)
		}
	})
}

// An occasion that cannot be computed is put on hold, and the series continues without it. After its release it is sent however late, and makes no
// further occasion.
func TestAHeldOccasionHoldsUpNoSeries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		bad := strings.Replace(daily(nine, ""), `'"anna@example.org"'`, "vars.list", 1)
		broken := strings.Replace(bad, "triggers:", "vars: {list: {z: 1}}\ntriggers:", 1)
		b := newSeries(t, s, broken, nil)
		b.to(may(14, "12:00"))
		b.is("held", "daily:2026-05-14 14T07:00 pending held retries_used_up", "daily:2026-05-15 15T07:00 pending")
		b.Apply(daily(nine, ""))
		held := b.Instance(b.held())
		if _, err := b.Operator().Release(t.Context(), b.Workspace.ID, held.ID, "test", b.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		b.to(may(15, "12:00"))
		b.is("released", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 completed expanded", "daily:2026-05-16 16T07:00 pending")
		if got := len(b.Provider.Sent()); got != 2 {
			t.Errorf("%d messages left, want 2", got)
		}
	})
}

// An occasion that crashes its worker again and again is put on hold, and the next one comes all the same.
func TestAHeldOccasionEndsNoSeries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := newSeries(t, s, daily(nine+", from: 2026-05-14", "retry: {backoff: [5m], lease: 2m}\n"), nil)
		dying, err := engine.New(engine.Config{Store: s, Clock: b.Clock, Concurrency: 1, Failpoint: func(point string) error {
			if point == fanout.AfterTaken {
				return errDied
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, clock := range []string{"07:00", "07:02", "07:09"} {
			b.to(may(14, clock).Add(-time.Second))
			b.Clock.Set(may(14, clock))
			if _, err := dying.Tick(t.Context()); !errors.Is(err, errDied) {
				t.Fatalf("at %s: %v", clock, err)
			}
		}
		b.to(may(14, "08:00"))
		b.is("its worker died three times", "daily:2026-05-14 14T07:00 pending held worker_crashed", "daily:2026-05-15 15T07:00 pending")
	})
}

func (s series) held() instance.ID {
	s.Helper()
	list, err := s.Store.Instances(s.Context(), s.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 10})
	if err != nil || len(list) != 1 {
		s.Fatalf("%d instances are held: %v", len(list), err)
	}
	return list[0].ID
}

// A series ends by its own rule.
//
// Shows: D21.
func TestASeriesEnds(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][2]string{
		"times":     {nine + ", from: 2026-05-14, times: 2", ""},
		"until":     {nine + ", until: 2026-05-16", ""},
		"stop_when": {nine + ", from: 2026-05-14", "timing: {stop_when: iteration > 2}\n"},
		"a rule":    {`rrule: "FREQ=DAILY;COUNT=2", at: "09:00", from: 2026-05-14`, ""},
		"cron":      {"cron: 0 9 14\\,15 5 *, until: 2026-06-01", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys[0] = strings.ReplaceAll(keys[0], `cron: 0 9 14\,15 5 *`, `cron: "0 9 14,15 5 *"`)
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := newSeries(t, s, daily(keys[0], keys[1]), nil)
				b.to(may(30, "12:00"))
				b.is("at the end", "daily:2026-05-14 14T07:00 completed expanded", "daily:2026-05-15 15T07:00 completed expanded")
			})
		})
	}
}

// Texts and conditions read the period and the number of the occasion.
//
// Shows: B14, B46.
func TestPeriodAndIteration(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := strings.NewReplacer("type: broadcast", "type: report", `"Good morning"`,
			`'No. {{ iteration }}: {{ period.start | date: "%F %R" }} to {{ period.end | date: "%F %R" }}'`).
			Replace(daily(nine+`, from: 2026-05-01, period: 1d, period_end: "08:00"`, ""))
		text = strings.Replace(text, "    schedule:", "    when: iteration != 15 && period.end > period.start\n    schedule:", 1)
		b := newSeries(t, s, text, nil)
		b.to(may(16, "12:00"))
		var texts []string
		for _, out := range b.Provider.Sent() {
			texts = append(texts, out.Text)
		}
		// The reader is in UTC, as the workspace.
		want := []string{"No. 14: 2026-05-13 08:00 to 2026-05-14 08:00", "No. 16: 2026-05-15 08:00 to 2026-05-16 08:00"}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("texts (-want +got):\n%s", diff)
		}
		b.is("reports are named by their period",
			"report-subscription:tips:daily:scheduled:20260513T060000Z 14T07:00 completed expanded",
			"report-subscription:tips:daily:scheduled:20260514T060000Z 15T07:00 skipped condition_false",
			"report-subscription:tips:daily:scheduled:20260515T060000Z 16T07:00 completed expanded",
			"report-subscription:tips:daily:scheduled:20260516T060000Z 17T07:00 pending")
	})
}

// Eight processes on one database: each day is sent once, and one occasion waits.
//
// Shows: P2, B46.
func TestEightProcessesAndOneSeries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const processes, days = 8, 10
		b := newSeries(t, s, daily(nine, ""), nil)
		others := []*engine.Engine{b.Engine}
		for range processes - 1 {
			others = append(others, enginetest.Setup(t, s, "", func(c *engine.Config) { c.Clock = b.Clock }).Engine)
		}
		for day := range days {
			b.Clock.Set(may(14+day, "07:00"))
			var all sync.WaitGroup
			for _, e := range others {
				all.Go(func() {
					for range 2 {
						if _, err := e.Tick(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		rows := b.rows()
		if len(rows) != days+1 {
			t.Fatalf("%d occasions, want %d: %v", len(rows), days+1, rows)
		}
		for i, row := range rows {
			want := fmt.Sprintf("daily:2026-05-%02d %02dT07:00 completed expanded", 14+i, 14+i)
			if i == days {
				want = "daily:2026-05-24 24T07:00 pending"
			}
			if row != want {
				t.Errorf("got %s, want %s", row, want)
			}
		}
		deliveries, err := s.Deliveries(t.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil || len(deliveries) != days {
			t.Errorf("%d deliveries, want %d: %v", len(deliveries), days, err)
		}
	})
}

// A manual run reports on the period that ends today, beside the series, and the same run id is one run for every caller.
//
// Shows: B15, B46.
func TestARunByHand(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := strings.Replace(daily(nine+", period: 1d", ""), `"Good morning"`, `"{{ period.start | date: '%F' }} to {{ period.end | date: '%F' }}"`, 1)
		b := newSeries(t, s, text, nil)
		b.to(may(14, "12:00"))
		b.Provider.Sent()
		var all sync.WaitGroup
		made := make(chan bool, 8)
		for range cap(made) {
			all.Go(func() {
				run, err := b.RunManually(t.Context(), b.Workspace, "tips", "19", "test", nil)
				if err != nil {
					t.Error(err)
				}
				made <- run.Created
			})
		}
		all.Wait()
		close(made)
		count := 0
		for created := range made {
			if created {
				count++
			}
		}
		b.to(may(14, "13:00"))
		sent := b.Provider.Sent()
		if count != 1 || len(sent) != 1 || sent[0].Text != "2026-05-13 to 2026-05-14" {
			t.Errorf("%d runs were made, sent %+v", count, sent)
		}
		b.is("beside the series", "daily:2026-05-14 14T07:00 completed expanded", "manual:19 14T12:00 completed expanded", "daily:2026-05-15 15T07:00 pending")
		var missing *engine.NotManualError
		b.Apply("workflow: visit\ntype: custom\ntriggers: [{id: t, event: e}]\naudience: {everyone: true}\nchannel: email\nmessage:\n  email:\n    subject: Hello\n    text: \"{{ event.name }}\"\n")
		if _, err := b.RunManually(t.Context(), b.Workspace, "visit", "19", "test", nil); !errors.As(err, &missing) || missing.Why != "trigger t: its texts read event.name" {
			t.Errorf("got %v", err)
		}
	})
}
