package flow_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/flow"
)

// TestPriorities reads each word back.
func TestPriorities(t *testing.T) {
	t.Parallel()
	for _, p := range flow.Priorities() {
		if got, err := flow.PriorityOf(p.String()); err != nil || got != p {
			t.Errorf("%s: %v %v", p, got, err)
		}
	}
	if _, err := flow.PriorityOf("high"); err == nil {
		t.Error("high is not refused")
	}
	if !slices.IsSorted(flow.Priorities()) {
		t.Error("the priorities do not ascend")
	}
}

// waiting is a message that has a place in line.
type waiting struct {
	flow.Priority
	at time.Time
}

// A channel has a long backlog, and messages of all priorities come. No period has more messages than the rate, each message leaves, and none leaves while
// one of a higher priority stands in line. Where instants are reserved ahead, one that others have overtaken may find that those that follow are.
func TestPrioritiesAtARate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := flow.Rate{Count: rapid.IntRange(1, 20).Draw(t, "count"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "per")}
		within := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "within")
		var p flow.Pace
		var left []time.Time
		var line []waiting
		now := start
		take := func(m waiting) {
			var at time.Time
			var ok bool
			if p, at, ok = p.Take(rate, m.Priority, now, within); !ok {
				if m.at = at; !at.After(now) {
					t.Fatalf("moved to %s at %s", at, now)
				}
				line = append(line, m)
				return
			}
			left = append(left, at)
			if i := slices.IndexFunc(line, func(other waiting) bool { return other.Priority < m.Priority }); i >= 0 && within == 0 {
				t.Fatalf("at %s a message of %s leaves, and one of %s waits till %s", at, m.Priority, line[i].Priority, line[i].at)
			}
		}
		total := rapid.IntRange(0, 200).Draw(t, "backlog")
		for range total {
			take(waiting{Priority: flow.Digest})
		}
		news := rapid.IntRange(0, 40).Draw(t, "news")
		for steps := 0; news > 0 || len(line) > 0; steps++ {
			if steps > 5000 {
				t.Fatalf("%d still wait", len(line))
			}
			next := now.Add(time.Hour)
			if len(line) > 0 {
				next = slices.MinFunc(line, func(a, b waiting) int { return a.at.Compare(b.at) }).at
			}
			if news > 0 {
				if soon := now.Add(time.Duration(rapid.Int64Range(0, int64(2*rate.Every())).Draw(t, "soon"))); soon.Before(next) {
					next = soon
				}
			}
			now = next
			var due []waiting
			line = slices.DeleteFunc(line, func(m waiting) bool {
				if m.at.After(now) {
					return false
				}
				due = append(due, m)
				return true
			})
			for ; news > 0 && rapid.Bool().Draw(t, "comes"); news-- {
				due = append(due, waiting{Priority: rapid.SampledFrom(flow.Priorities()).Draw(t, "priority")})
				total++
			}
			slices.SortStableFunc(due, func(a, b waiting) int { return int(a.Priority - b.Priority) })
			for _, m := range due {
				take(m)
			}
		}
		if len(left) != total {
			t.Fatalf("%d of %d left", len(left), total)
		}
		slices.SortFunc(left, time.Time.Compare)
		for i := range left {
			if k := i + rate.Count; k < len(left) && left[k].Sub(left[i]) < rate.Per {
				t.Fatalf("%s: %d messages within %s", rate, rate.Count+1, left[k].Sub(left[i]))
			}
		}
	})
}

// A message of a higher priority that has a place in line and does not come for it stops the others for a moment alone.
func TestPlacesThatAreLeft(t *testing.T) {
	t.Parallel()
	rate := flow.Rate{Count: 1, Per: time.Minute}
	var p flow.Pace
	for range 10 {
		p, _, _ = p.Take(rate, flow.Urgent, start, 0) // nine are withdrawn
	}
	p, at, ok := p.Take(rate, flow.Digest, start.Add(rate.Every()), 0)
	if ok {
		t.Fatalf("it leaves at %s before the urgent ones", at)
	}
	if _, at, ok = p.Take(rate, flow.Digest, start.Add(2*rate.Every()+6*time.Second), 0); !ok {
		t.Errorf("it still waits, till %s", at)
	}
}
