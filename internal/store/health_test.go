package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What was made lately is counted by workflow, channel, status and reason; what waits in line says since when.
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
			lines, err := s.Lines(t.Context(), f.ws, now)
			f.must(err)
			var b strings.Builder
			for _, c := range recent {
				fmt.Fprintf(&b, "%s %s %s %s %d; ", c.Workflow, c.Channel, c.Status, c.Reason, c.N)
			}
			for _, l := range lines {
				fmt.Fprintf(&b, "%s %s %q %d %s; ", l.Workflow, l.Channel, l.Reason, l.N, now.Sub(l.Oldest))
			}
			return b.String()
		}
		if got, want := said(), `visit sms:twilio scheduled  3; visit sms:twilio skipped stale 1; visit sms:twilio "" 2 1h0m0s; `; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		recent, err := s.Recent(t.Context(), f.ws, now.Add(time.Hour))
		f.must(err)
		if len(recent) != 0 {
			t.Errorf("later than all: %+v", recent)
		}
	})
}
