package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// again repeats an instance, twice: the second request changes nothing.
func again(b *enginetest.Bundle, row instance.Row) operator.Result {
	b.Helper()
	r, err := b.Operator().RetryInstance(b.Context(), b.Workspace.ID, row.ID, "ann", b.Now())
	if err != nil || !r.Changed || !strings.HasSuffix(r.NewKey, ":retry:1") {
		b.Fatalf("%+v, %v", r, err)
	}
	if twice, err := b.Operator().RetryInstance(b.Context(), b.Workspace.ID, row.ID, "ann", b.Now()); err != nil || twice.Changed || twice.NewInstance != r.NewInstance {
		b.Errorf("the same wish again: %+v, %v", twice, err)
	}
	return r
}

// rowsOf are the instances of a test as "key status reason", by their keys.
func rowsOf(b *enginetest.Bundle, from string) (list []string) {
	b.Helper()
	rows, err := b.Store.Instances(b.Context(), b.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rows {
		_, key, _ := strings.Cut(r.Key, from)
		list = append(list, strings.TrimSpace(key+" "+string(r.Status)+" "+string(r.Reason)))
	}
	slices.Sort(list)
	return list
}

func oldest(b *enginetest.Bundle) instance.Row {
	b.Helper()
	rows, err := b.Store.Instances(b.Context(), b.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil || len(rows) == 0 {
		b.Fatal(rows, err)
	}
	return rows[len(rows)-1]
}

// An ended occasion that was planned by a date is repeated under its own key, which evaluations and edits leave alone. If the record no longer asks
// for it, it ends when it is due.
// Shows: B22.
func TestDatesAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: UTC}`)
		w := newWorld(t, s, definitions, "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.live("12:00")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Fatalf("sent %d", n)
		}
		w.live("13:00")
		again(w.Bundle, oldest(w.Bundle))
		w.put("visit/v", `{"note": "an evaluation in between"}`)
		w.Apply(strings.Replace(definitions, "{text: x}", "{text: other}", 1))
		w.live("13:01")
		if sent := w.Provider.Sent(); len(sent) != 1 || sent[0].Text != "other" {
			t.Errorf("again: %+v", sent)
		}
		if got, want := rowsOf(w.Bundle, "2026-05-14:0"), []string{":retry:1 completed expanded", "completed expanded"}; !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		w.put("visit/v", `{"on_date": "2026-05-13"}`)
		w.live("13:02")
		w.Provider.Sent()
		row := w.key("2026-05-14:0:retry:1")
		if r, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now()); err != nil || !strings.HasSuffix(r.NewKey, ":retry:2") {
			t.Fatalf("%+v, %v", r, err)
		}
		w.live("13:03")
		if row := w.key("2026-05-14:0:retry:2"); row.Status != instance.Deactivated || len(w.Provider.Sent()) != 0 {
			t.Errorf("its date is another one by now: %+v", row)
		}
	})
}

// The repetition has the reminders, and the original has none any more.
func TestRemindersOfARepeatedOccasion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: UTC, reminders: [1d]}`), "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.live("13:00")
		again(w.Bundle, oldest(w.Bundle))
		w.live("13:01")
		if n := len(w.Provider.Sent()); n != 2 {
			t.Fatalf("sent %d", n)
		}
		for _, at := range []time.Time{at("12:00"), at("13:01")} {
			w.At(at.Add(24 * time.Hour))
		}
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("reminded %d times", n)
		}
	})
}

// key returns the instance whose key has this end.
func (w world) key(end string) instance.Row {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r instance.Row) bool { return strings.HasSuffix(r.Key, end) })
	if i < 0 {
		w.Fatalf("nothing ends in %s", end)
	}
	return rows[i]
}

// An occasion that a person cancelled before it was due keeps its time, and no evaluation makes another one beside it.
func TestCancelledDatesAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: UTC}`), "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.live("10:10")
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, oldest(w.Bundle).ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		again(w.Bundle, oldest(w.Bundle))
		w.put("visit/v", `{"who": "ann", "timezone": "Europe/Berlin"}`)
		w.live("11:59")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d were sent before it was due", n)
		}
		w.live("12:30")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d were sent: %q", n, rowsOf(w.Bundle, "2026-05-14:0"))
		}
	})
}

// An alert about a threshold is sent again when it is retried, while the threshold is reached.
func TestThresholdsAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits("    metric: {name: full, value: record.booked, thresholds: [80]}\n    fire: once_per_threshold"), "ann")
		w.put("visit/v", `{"booked": 90, "who": "ann"}`)
		w.live("10:10")
		again(w.Bundle, oldest(w.Bundle))
		w.live("10:20")
		if n := len(w.Provider.Sent()); n != 2 {
			t.Errorf("%d were sent: %q", n, rowsOf(w.Bundle, "threshold:"))
		}
	})
}

// An alert about a condition is sent again as it was found, whatever its cooldown.
func TestConditionsAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(visits("    when: record.booked > 80\n    cooldown: {length: 1h}"), "type: reminder", "type: alert", 1), "ann")
		w.put("visit/v", `{"booked": 90, "who": "ann"}`)
		w.live("10:10")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Fatalf("sent %d", n)
		}
		w.put("visit/v", `{"booked": 10}`)
		w.live("10:11")
		again(w.Bundle, oldest(w.Bundle))
		w.live("10:20")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d were sent: %q", n, rowsOf(w.Bundle, "context:"))
		}
	})
}

// A day of the calendar is repeated beside its series, with the texts of its own day.
func TestSchedulesAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newSeries(t, s, strings.Replace(daily(nine+", period: 1d", ""), `text: "Good morning"`, `text: "Since {{ period.start | date: \"%d\" }}"`, 1), nil)
		w.to(time.Date(2026, 5, 14, 7, 0, 0, 0, time.UTC))
		w.to(time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC))
		first := w.Provider.Sent()
		again(w.Bundle, oldest(w.Bundle))
		next := w.rows()
		w.to(time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC))
		if sent := w.Provider.Sent(); len(first) != 1 || len(sent) != 1 || sent[0].Text != first[0].Text {
			t.Errorf("first %+v, again %+v, of %q", first, sent, next)
		}
		// An occasion that was cancelled before it was due.
		w.to(time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC))
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, rows[0].ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		again(w.Bundle, rows[0])
		w.to(time.Date(2026, 5, 15, 8, 0, 0, 0, time.UTC))
		if sent := w.Provider.Sent(); len(sent) != 1 || sent[0].Text == first[0].Text {
			t.Errorf("cancelled, and done again: %+v", sent)
		}
	})
}

// A message to the event's own recipient is made again for the same contact. While a message of it waits, there is nothing to repeat.
func TestEventsAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcome("first", ""), nil)
		b.Post(`{"kind": "signed-up", "id": "1", "recipient": {"address": "a@example.org"}}`)
		var waits *operator.StateError
		if _, err := b.Operator().RetryInstance(t.Context(), b.Workspace.ID, oldest(b).ID, "ann", b.Now()); !errors.As(err, &waits) || waits.Hint == "" {
			t.Errorf("while it waits: %v", err)
		}
		b.At(b.Now())
		b.At(b.Now().Add(time.Hour))
		r := again(b, oldest(b))
		if len(r.NewDeliveries) != 1 {
			t.Errorf("%+v", r)
		}
		b.At(b.Now())
		if sent := b.Provider.Sent(); len(sent) != 2 || sent[0].IdempotencyKey == sent[1].IdempotencyKey || sent[0].Address != sent[1].Address {
			t.Errorf("sent %+v", sent)
		}
	})
}
