package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	row := func(id int64, sink, group string, due time.Duration) Row {
		return Row{EventID: id, Sink: sink, Group: group, Status: Pending, NextAt: now.Add(due)}
	}
	is := func(r Row, s Status) Row { r.Status = s; return r }
	tests := []struct {
		name   string
		rows   []Row
		health map[string]Health
		limit  int
		want   []string
	}{
		{"nothing", nil, nil, 9, nil},
		{"due now and not yet", []Row{row(1, "a", "x", 0), row(2, "a", "y", time.Nanosecond)}, nil, 9, []string{"1a"}},
		{"the first of a group", []Row{row(2, "a", "x", -time.Hour), row(1, "a", "x", 0)}, nil, 9, []string{"1a"}},
		{"it waits for one that waits", []Row{row(1, "a", "x", time.Hour), row(2, "a", "x", 0)}, nil, 9, nil},
		{"a dead one blocks nothing", []Row{is(row(1, "a", "x", 0), Dead), row(2, "a", "x", 0)}, nil, 9, []string{"2a"}},
		{"nor does a dispatched one", []Row{is(row(1, "a", "x", 0), Dispatched), row(2, "a", "x", 0)}, nil, 9, []string{"2a"}},
		{"groups are apart", []Row{row(1, "a", "x", time.Hour), row(2, "a", "y", 0)}, nil, 9, []string{"2a"}},
		{"sinks are apart", []Row{row(1, "a", "x", time.Hour), row(1, "b", "x", 0), row(2, "b", "x", 0)}, nil, 9, []string{"1b"}},
		{"without a group none waits", []Row{row(1, "a", "", time.Hour), row(2, "a", "", 0), row(3, "a", "", 0)}, nil, 9, []string{"2a", "3a"}},
		{"the longest due first", []Row{row(1, "a", "x", 0), row(2, "a", "y", -time.Minute)}, nil, 9, []string{"2a", "1a"}},
		{"each sink has its share", []Row{row(1, "a", "x", -2), row(2, "a", "y", -1), row(3, "b", "z", 0)}, nil, 1, []string{"1a", "3b"}},
		{
			"only active sinks",
			[]Row{row(1, "a", "x", 0), row(1, "b", "x", 0), row(1, "c", "x", 0), row(1, "d", "x", 0)},
			map[string]Health{"a": {State: Paused}, "b": {State: Disabled}, "c": {State: Active}},
			9,
			[]string{"1c", "1d"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range Choose(tt.rows, tt.health, now, tt.limit) {
				got = append(got, fmt.Sprintf("%d%s", r.EventID, r.Sink))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever fails and in whatever order tries end, a sink accepts the events of a group in their order, apart from dead ones; and every event
// is dispatched or dead at the end.
func TestOrderOfGroups(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := Policy{Attempts: rapid.IntRange(1, 4).Draw(t, "attempts")}
		rows := make([]Row, rapid.IntRange(1, 12).Draw(t, "events"))
		for i := range rows {
			rows[i] = Row{
				EventID: int64(i + 1), Status: Pending,
				Sink: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "sink"), Group: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "group"),
			}
		}
		at, last := now, map[string]int64{}
		var flying []Row
		for range 2000 {
			for _, r := range Choose(rows, nil, at, rapid.IntRange(1, 3).Draw(t, "limit")) {
				p, send := Begin(r, policy, at, time.Hour)
				rows[r.EventID-1] = r.With(p)
				if send {
					flying = append(flying, rows[r.EventID-1])
				}
			}
			if len(flying) == 0 {
				at = at.Add(time.Minute)
				continue
			}
			n := rapid.IntRange(0, len(flying)-1).Draw(t, "which ends")
			r := flying[n]
			flying = append(flying[:n], flying[n+1:]...)
			result := rapid.SampledFrom([]Result{accepted, temporary, permanent}).Draw(t, "result")
			rows[r.EventID-1] = r.With(Decide(r, result, policy, at, none))
			if line := r.Sink + r.Group; result.Outcome == Accepted {
				if last[line] > r.EventID {
					t.Fatalf("%d arrived after %d", r.EventID, last[line])
				}
				last[line] = r.EventID
			}
		}
		for _, r := range rows {
			if r.Status == Pending {
				t.Fatalf("event %d waits for ever", r.EventID)
			}
		}
	})
}
