package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Recent deliveries are counted by workflow, channel, status and reason; waiting ones by reason, with the oldest.
func TestHealth(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(4, func(i int, d *delivery.Row) {
			d.SendAt = now.Add(time.Duration(i-1) * time.Hour) // two are due, two are not
			if i == 3 {
				d.Status, d.SendAt, d.Slot, d.Reason, d.CompletedAt = delivery.Skipped, time.Time{}, time.Time{}, reason.Stale, now
			}
		})
		said := func() string {
			recent, err := s.Recent(t.Context(), f.ws, now.Add(-time.Hour))
			f.must(err)
			lines, err := s.WaitingCounts(t.Context(), f.ws, now)
			f.must(err)
			var b strings.Builder
			for _, c := range recent {
				fmt.Fprintf(&b, "%s %s %s %s %d; ", c.Workflow, c.Channel, c.Status, c.Reason, c.N)
			}
			for _, l := range lines {
				fmt.Fprintf(&b, "%s %s %q %d %s %t; ", l.Workflow, l.Channel, l.Reason, l.N, now.Sub(l.Oldest), l.Example > 0)
			}
			return b.String()
		}
		if got, want := said(), `visit sms:twilio scheduled  3; visit sms:twilio skipped stale 1; visit sms:twilio "" 2 1h0m0s true; `; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		recent, err := s.Recent(t.Context(), f.ws, now.Add(time.Hour))
		f.must(err)
		if len(recent) != 0 {
			t.Errorf("later than all: %+v", recent)
		}
	})
}

// Rows that wait for a person or are late are counted, with the oldest and an example. Paused rows do not count as held.
func TestAttentions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		list := func() string {
			t.Helper()
			found, err := s.Attentions(t.Context(), f.ws, now)
			f.must(err)
			var b strings.Builder
			for _, x := range found {
				fmt.Fprintf(&b, "%s %d %s %t; ", x.What, x.N, now.Sub(x.Oldest), x.Example > 0)
			}
			return b.String()
		}
		if got := list(); got != "" {
			t.Errorf("of nothing: %s", got)
		}
		held, paused, due, later := f.instance("k:1", instance.Pending), f.instance("k:2", instance.Pending), f.instance("k:3", instance.Pending), f.instance("k:4", instance.Pending)
		held.Hold, held.HeldAt, paused.Hold, paused.HeldAt = instance.HoldConflict, now.Add(-2*time.Hour), instance.HoldPaused, now.Add(-3*time.Hour)
		paused.Reason = reason.WorkflowPaused
		due.DueAt, later.DueAt = now.Add(-time.Hour), now.Add(time.Hour)
		f.add(store.OccasionWrites{Instances: []instance.Row{held, paused, due, later}})
		if got, want := list(), "held 1 2h0m0s true; due 1 1h0m0s true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
