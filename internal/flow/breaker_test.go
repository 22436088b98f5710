package flow_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/flow"
)

// asked returns a breaker that let n requests through, and its verdicts about them.
func asked(n int) (b flow.Breaker, requests []flow.Verdict) {
	for range n {
		next, v := b.Ask(start)
		b, requests = next, append(requests, v)
	}
	return b, requests
}

// Many requests are in flight at once, and their outcomes arrive in any order. Failures one after the other open the breaker only if no later
// request was answered, whether the answer comes before them or after them.
func TestFailuresInARowAreInTheOrderOfTheirRequests(t *testing.T) {
	t.Parallel()
	const many = 10
	away := func(b flow.Breaker, requests ...flow.Verdict) flow.Breaker {
		for _, v := range requests {
			b = b.After(start, flow.Away, v, 0)
		}
		return b
	}
	cases := map[string]struct {
		outcomes func(b flow.Breaker, v []flow.Verdict) flow.Breaker
		want     flow.State
	}{
		"a later request was answered before": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b.After(start, flow.Answered, v[9], 0), v[:5]...)
		}, flow.Closed},
		"an earlier answer comes after it": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b.After(start, flow.Answered, v[9], 0).After(start, flow.Answered, v[0], 0), v[1:6]...)
		}, flow.Closed},
		"one of them was later than the last answer": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b.After(start, flow.Answered, v[8], 0), v[3], v[4], v[5], v[6], v[7], v[9])
		}, flow.Closed},
		"a later request is answered after": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b, v[:5]...).After(start, flow.Answered, v[9], 0)
		}, flow.Closed},
		"a request between them is answered after": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b, v[8], v[3], v[7], v[5], v[6]).After(start, flow.Answered, v[4], 0)
		}, flow.Closed},
		"only earlier requests are answered after": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b, v[8], v[3], v[7], v[5], v[6]).After(start, flow.Answered, v[2], 0)
		}, flow.Open},
		"an earlier request is answered in the middle": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(away(b, v[5:8]...).After(start, flow.Answered, v[4], 0), v[8:]...)
		}, flow.Open},
		"only earlier requests were answered before": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b.After(start, flow.Answered, v[4], 0), v[5:]...)
		}, flow.Open},
		"the provider wishes it": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b, v[:5]...).After(start, flow.Answered, v[6], time.Minute).After(start, flow.Answered, v[9], 0)
		}, flow.Open},
		"a failure wishes it": {func(b flow.Breaker, v []flow.Verdict) flow.Breaker {
			return away(b, v[:5]...).After(start, flow.Away, v[6], time.Minute).After(start, flow.Answered, v[9], 0)
		}, flow.Open},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, requests := asked(many)
			if got := test.outcomes(b, requests).State(start); got != test.want {
				t.Errorf("it is %s", got)
			}
		})
	}
}

// probing returns a breaker that failures opened, with its probe in flight, and a request from after the failures that is still in flight.
func probing() (b flow.Breaker, probe, late flow.Verdict) {
	b, requests := asked(flow.Threshold + 1)
	for _, v := range requests[:flow.Threshold] {
		b = b.After(start, flow.Away, v, 0)
	}
	b, probe = b.Ask(b.Until())
	return b, probe, requests[flow.Threshold]
}

// After a probe has failed, a late answer to a request from before does not close the breaker.
func TestAFailedProbeOutweighsAnOldAnswer(t *testing.T) {
	t.Parallel()
	b, probe, late := probing()
	now := b.Until()
	b = b.After(now, flow.Away, probe, 0).After(now, flow.Answered, late, 0)
	if got := b.State(now); !probe.Probe || got != flow.Open {
		t.Errorf("probe %t, then %s", probe.Probe, got)
	}
}

// An answer can close the breaker while the probe is in flight. Then the probe is a request like any other.
func TestAProbeIsOvertakenByAnAnswer(t *testing.T) {
	t.Parallel()
	b, probe, late := probing()
	now := b.Until()
	b = b.After(now, flow.Answered, late, 0).After(now, flow.Away, probe, 0)
	if b.State(now) != flow.Closed || b.Failures() != 1 {
		t.Errorf("%s after %d failures", b.State(now), b.Failures())
	}
}

// For any outcomes of requests in flight at once, in any order: once all are known, the breaker is open only if Threshold of the last requests failed
// and none after the first of these was answered.
func TestABreakerOpensOnlyAfterTheLastRequestsFailed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		away := rapid.SliceOfN(rapid.Bool(), 1, 30).Draw(t, "away")
		row, order := 0, make([]int, len(away))
		for i, failed := range away {
			if row++; !failed {
				row = 0
			}
			order[i] = i
		}
		b, requests := asked(len(away))
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			signal := flow.Answered
			if away[i] {
				signal = flow.Away
			}
			b = b.After(start, signal, requests[i], 0)
		}
		if b.State(start) == flow.Open && row < flow.Threshold {
			t.Fatalf("open, although only the last %d failed", row)
		}
	})
}
