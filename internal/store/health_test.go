package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
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
			for _, c := range recent.Counts {
				fmt.Fprintf(&b, "%s %s %s %s %d; ", c.Workflow, c.Channel, c.Status, c.Reason, c.N)
			}
			for _, l := range lines.Counts {
				fmt.Fprintf(&b, "%s %s %q %d %s %t; ", l.Workflow, l.Channel, l.Reason, l.N, now.Sub(l.Oldest), l.Example > 0)
			}
			return b.String()
		}
		if got, want := said(), `visit sms:twilio scheduled  3; visit sms:twilio skipped stale 1; visit sms:twilio "" 2 1h0m0s true; `; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		recent, err := s.Recent(t.Context(), f.ws, now.Add(time.Hour))
		f.must(err)
		if len(recent.Counts) != 0 || recent.More {
			t.Errorf("later than all: %+v", recent)
		}
		// What is read of other workspaces counts for the limit of what waits, and is not shown.
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		for _, test := range []struct {
			limit         int64
			ws            subject.WorkspaceID
			made, waiting bool
			lines         int
		}{
			{5, f.ws, false, false, 1}, {4, f.ws, true, false, 1}, {3, f.ws, true, false, 1}, {2, f.ws, true, true, 1}, {2, other.ID, false, true, 0}, {3, other.ID, false, false, 0},
		} {
			s.CountUpTo(test.limit)
			recent, err := s.Recent(t.Context(), test.ws, now.Add(-time.Hour))
			f.must(err)
			lines, err := s.WaitingCounts(t.Context(), test.ws, now)
			f.must(err)
			if recent.More != test.made || lines.More != test.waiting || len(lines.Counts) != test.lines {
				t.Errorf("up to %d: %+v, %+v", test.limit, recent, lines)
			}
		}
		f.exec("UPDATE delivery SET eligible_at = send_at, send_at = send_at + 86400000000 WHERE send_at > 0") // now a channel delays them
		for limit, want := range map[int64]bool{2: true, 3: false} {
			s.CountUpTo(limit)
			lines, err := s.WaitingCounts(t.Context(), f.ws, now)
			if f.must(err); lines.More != want || len(lines.Counts) != 1 || lines.Counts[0].N != 2 {
				t.Errorf("delayed, up to %d: %+v", limit, lines)
			}
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
		// A failed run counts until a newer one does the same.
		fails := func(subject string, at time.Time) {
			t.Helper()
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				added, err := tx.AddJobs(at, []job.Row{job.New(f.ws, job.Seed{Kind: job.Backfill, Subject: subject}, 1, at)})
				if err != nil {
					return err
				}
				return tx.SaveJobs(at, added[0].Fail(errors.New("why"), at))
			}))
		}
		fails("pump", now.Add(-5*time.Hour))
		fails("kiosk", now.Add(-4*time.Hour))
		if got, want := list(), "runs 2 5h0m0s true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		fails("pump", now.Add(-time.Hour))
		if got, want := list(), "runs 2 4h0m0s true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for ws, want := range map[subject.WorkspaceID]store.Attention{f.ws: {N: 2, Oldest: now.Add(-4 * time.Hour)}, f.ws + 1: {}} {
			got, err := s.FailedRuns(t.Context(), ws)
			if f.must(err); got.What != store.AttentionRuns || got.N != want.N || got.More || !got.Oldest.Equal(want.Oldest) || (got.Example > 0) != (want.N > 0) {
				t.Errorf("workspace %d: %+v, want %+v", ws, got, want)
			}
		}
		f.exec("UPDATE job SET status = 'cancelled'")
		held, paused, due, later := f.instance("k:1", instance.Pending), f.instance("k:2", instance.Pending), f.instance("k:3", instance.Pending), f.instance("k:4", instance.Pending)
		held.Hold, held.HeldAt, paused.Hold, paused.HeldAt = instance.HoldConflict, now.Add(-2*time.Hour), instance.HoldPaused, now.Add(-3*time.Hour)
		paused.Reason = reason.WorkflowPaused
		due.DueAt, later.DueAt = now.Add(-time.Hour), now.Add(time.Hour)
		f.add(store.OccasionWrites{Instances: []instance.Row{held, paused, due, later}})
		if got, want := list(), "held 1 2h0m0s true; due 1 1h0m0s true; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		for limit, more := range map[int64]bool{1: true, 2: false} { // what is later does not count
			s.CountUpTo(limit)
			found, err := s.Attentions(t.Context(), f.ws, now)
			f.must(err)
			for _, x := range found {
				if x.N != 1 || x.More != more {
					t.Errorf("up to %d: %+v", limit, x)
				}
			}
		}
	})
}
