package engine_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// A record says that its course is over once the last message has been sent, and not before.
func TestARecordSaysThatItsCourseIsOver(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(edited("anchor: record.on_date, repeat: {every: 1d, times: 2}"), "    timing", "    check: [24h]\n    timing", 1), "ann")
		w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-18"}`)
		for _, step := range []struct {
			at   string
			want reason.Reason
		}{{"18 12:00", reason.Matched}, {"19 09:59", reason.Matched}, {"19 10:05", reason.CourseOver}, {"21 12:00", reason.CourseOver}} {
			to(w.Bundle, onDay(step.at))
			row, err := s.Record(t.Context(), w.Workspace.ID, subject.RecordRef{Type: "stay", ExtID: "1"})
			if err != nil {
				t.Fatal(err)
			}
			explained, err := w.ExplainRecord(t.Context(), w.Workspace.ID, row)
			if err != nil || len(explained) != 1 {
				t.Fatal(explained, err)
			}
			if got := explained[0].Reason; got != step.want {
				t.Errorf("%s: %s, expected %s", step.at, got, step.want)
			}
		}
	})
}
