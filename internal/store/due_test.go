package store

import (
	"context"
	"testing"
	"time"
)

// EarliestDue is the earliest instant of NextDueBeside.
func (s *Store) EarliestDue(ctx context.Context, now time.Time, busy ...SinkRef) (time.Time, error) {
	due, err := s.NextDueBeside(ctx, now, busy)
	return due.Earliest(), err
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	if none := (Due{}); !none.Earliest().IsZero() || none.At(now) != 0 {
		t.Errorf("nothing is due, and it says %v, %v", none.Earliest(), none.At(now))
	}
	due := Due{WorkSessions: now.Add(time.Minute), WorkRecords: now, WorkJobs: now.Add(time.Second), WorkExpiries: now.Add(time.Microsecond)}
	for _, c := range []struct {
		at    time.Time
		set   Works
		after time.Time
	}{
		{now.Add(-1), 0, now},
		{now, WorksOf(WorkRecords), now.Add(time.Microsecond)},
		{now.Add(time.Second), WorksOf(WorkRecords, WorkExpiries, WorkJobs), now.Add(time.Minute)},
		{now.Add(time.Hour), WorksOf(WorkSessions, WorkRecords, WorkJobs, WorkExpiries), time.Time{}},
	} {
		if got := due.At(c.at); got != c.set {
			t.Errorf("at %s %b is due, want %b", c.at, got, c.set)
		}
		if got := due.After(c.at); !got.Equal(c.after) {
			t.Errorf("after %s it is %s, want %s", c.at, got, c.after)
		}
	}
	if got := due.Earliest(); !got.Equal(now) {
		t.Errorf("the earliest is %s", got)
	}
	if !WorksOf(WorkJobs, WorkItems).Any(WorksOf(WorkItems)) || WorksOf(WorkJobs).Any(WorksOf(WorkItems)) {
		t.Error("sets of kinds have another one in common")
	}
}
