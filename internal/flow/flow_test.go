package flow_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/flow"
)

var start = time.Date(2026, 5, 14, 8, 0, 0, 0, time.UTC)

func TestAllow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, address string
		want             bool
	}{
		{"ann@example.org", "Ann@Example.org", true},
		{"ann@example.org", "joann@example.org", false},
		{"*@example.org", "ann@example.org", true},
		{"*@example.org", "ann@example.org.evil.net", false},
		{"*@example.org", "@example.org", true},
		{"+49*", "+49 30 000001", true},
		{"+49*", "+4", false},
		{"+49*", "0049", false},
		{"a*b*c", "a1b2c", true},
		{"a*b*c", "a1c", false},
		{"a*a", "a", false},
		{"*x*", "axb", true},
	}
	for _, test := range tests {
		if got := (flow.Allow{"nobody@x.org", test.pattern}).Allows(test.address); got != test.want {
			t.Errorf("%s allows %s: %t", test.pattern, test.address, got)
		}
	}
	if !(flow.Allow{}).Allows("anybody") {
		t.Error("an empty list refuses")
	}
	for pattern, ok := range map[string]bool{"*@x.org": true, "+49*": true, "*": false, "**": false, "": false, " a@x.org": false} {
		if err := flow.CheckPattern(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]flow.Rate{
		"50/s": {Count: 50, Per: time.Second}, "600/m": {Count: 600, Per: time.Minute}, "1/h": {Count: 1, Per: time.Hour},
		"": {}, "0/s": {}, "-1/s": {}, "+1/s": {}, "5": {}, "5/d": {}, "1.5/s": {}, "/s": {}, "1000001/s": {}, "5/": {}, "5 /s": {},
	} {
		got, err := flow.ParseRate(text)
		if got != want || (err == nil) != (want.Count > 0) {
			t.Errorf("%q: %v %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	var b flow.Breaker
	now := start
	ask := func() flow.Verdict {
		var v flow.Verdict
		b, v = b.Ask(now)
		return v
	}
	fail := func(n int) {
		for range n {
			v := ask()
			if !v.OK {
				t.Fatalf("not let through at %s", now)
			}
			b = b.After(now, flow.Away, v, 0)
		}
	}
	fail(flow.Threshold - 1)
	before := ask()
	b = b.After(now, flow.Answered, before, 0)
	fail(flow.Threshold - 1)
	b = b.After(now, flow.Nothing, ask(), 0)
	if v := ask(); !v.OK || v.Probe {
		t.Fatalf("opened too soon: %+v", v)
	}
	fail(1)
	opening := 10 * time.Second
	for range 8 {
		v := ask()
		if v.OK || !v.Until.Equal(now.Add(opening)) || v.Spread != opening || b.State(now) != flow.Open {
			t.Fatalf("%+v, want open for %s", v, opening)
		}
		b = b.After(now, flow.Answered, before, 0) // it was in flight before
		if b.State(now) != flow.Open {
			t.Fatal("an old answer closed it")
		}
		now = v.Until
		probe := ask()
		if !probe.OK || !probe.Probe {
			t.Fatalf("no probe: %+v", probe)
		}
		if v := ask(); v.OK || !v.Until.After(now) {
			t.Fatalf("two probes at once: %+v", v)
		}
		b = b.After(now, flow.Away, probe, 0)
		opening = min(2*opening, 2*time.Minute)
	}
	now = now.Add(opening)
	b = b.After(now, flow.Nothing, ask(), 0) // the probe was not made
	probe := ask()
	if !probe.Probe {
		t.Fatalf("no second probe: %+v", probe)
	}
	if b = b.After(now, flow.Answered, probe, 0); b.State(now) != flow.Closed || b.Failures() != 0 {
		t.Fatalf("an answer did not close it: %+v", b)
	}
	b = b.After(now, flow.Answered, ask(), 90*time.Second)
	if v := ask(); v.OK || !v.Until.Equal(now.Add(90*time.Second)) {
		t.Fatalf("the provider's wish: %+v", v)
	}
	if b = b.After(now, flow.Away, before, 100*time.Hour); !b.Until().Equal(now.Add(time.Hour)) {
		t.Errorf("an absurd wish holds until %s", b.Until())
	}
}

// For any order of answers: the breaker opens only after Threshold failures in a row or a wish, at most one probe is in flight, and
// messages are allowed again within the longest opening after the provider is back.
func TestBreakerProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b flow.Breaker
		now, row, probes := start, 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "later")))
			was := b.State(now)
			var v flow.Verdict
			b, v = b.Ask(now)
			if v.OK != (was != flow.Open) || v.Probe != (was == flow.HalfOpen) {
				t.Fatalf("%s: %+v", was, v)
			}
			if !v.OK {
				if v.Until.Sub(now) > 2*time.Minute {
					t.Fatalf("closed for %s", v.Until.Sub(now))
				}
				continue
			}
			if v.Probe {
				probes++
			}
			away := rapid.Bool().Draw(t, "away")
			signal := flow.Answered
			row++
			if away {
				signal = flow.Away
			} else {
				row = 0
			}
			b = b.After(now, signal, v, 0)
			if opened := b.State(now) == flow.Open; opened != (away && (v.Probe || row >= flow.Threshold)) {
				t.Fatalf("%s after %d failures, probe %t", b.State(now), row, v.Probe)
			}
		}
	})
}

// For any callers, instants, batch sizes and number of other messages in flight: no period has more messages than the rate, even if each
// message leaves as late as it may. A message of a backlog that is taken up at its place gets no second place.
func TestPaceProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := flow.Rate{Count: rapid.IntRange(1, 60).Draw(t, "count"), Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "per")}
		within := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "within")
		var p flow.Pace
		var left []time.Time
		line := []time.Time{} // places of waiting messages
		now, moved := start, 0
		fresh := rapid.IntRange(1, 300).Draw(t, "backlog")
		total := fresh
		take := func() {
			var at time.Time
			var ok bool
			if p, at, ok = p.Take(rate, flow.Transactional, now, within); !ok {
				if !at.After(now) {
					t.Fatalf("moved to %s at %s", at, now)
				}
				line = append(line, at)
				moved++
				return
			}
			if at.Before(now) || at.Sub(now) > within {
				t.Fatalf("at %s, now %s", at, now)
			}
			left = append(left, at.Add(time.Duration(rapid.Int64Range(0, int64(rate.Slack())).Draw(t, "slack"))))
		}
		for range fresh {
			take()
		}
		for len(line) > 0 {
			slices.SortFunc(line, time.Time.Compare)
			now = line[0]
			for len(line) > 0 && !line[0].After(now) {
				line = line[1:]
				take()
			}
		}
		if len(left) != total {
			t.Fatalf("%d of %d left", len(left), total)
		}
		if moved > total {
			t.Fatalf("%d moves of %d messages", moved, total)
		}
		slices.SortFunc(left, time.Time.Compare)
		for i := range left {
			if k := i + rate.Count; k < len(left) && left[k].Sub(left[i]) < rate.Per {
				t.Fatalf("%s: %d messages within %s", rate, rate.Count+1, left[k].Sub(left[i]))
			}
		}
		if span, least := left[len(left)-1].Sub(start), time.Duration(total-1)*rate.Every(); span > least+rate.Slack() {
			t.Fatalf("%d messages took %s, at the rate it is %s", total, span, least)
		}
	})
}

// No message waits for ever, even if new messages arrive all the time and senders pause now and then.
func TestPaceUnderLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := flow.Rate{Count: 10, Per: time.Second}
		var p flow.Pace
		var left, line []time.Time
		now := start
		for step := 0; step < 400 || len(line) > 0; step++ {
			if step > 4000 {
				t.Fatalf("%d still wait after %s", len(line), now.Sub(start))
			}
			pause := 300 * time.Millisecond
			if step < 400 && rapid.IntRange(0, 50).Draw(t, "stops") == 0 {
				pause = time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause"))
			}
			now = now.Add(pause)
			come := 0
			if step < 400 {
				come = rapid.IntRange(0, 3).Draw(t, "new")
			}
			slices.SortFunc(line, time.Time.Compare)
			for len(line) > 0 && !line[0].After(now) {
				line = line[1:]
				come++
			}
			for range come {
				var at time.Time
				var ok bool
				if p, at, ok = p.Take(rate, flow.Transactional, now, time.Second); ok {
					left = append(left, at)
				} else {
					line = append(line, at)
				}
			}
		}
		slices.SortFunc(left, time.Time.Compare)
		for i := range left {
			if k := i + rate.Count; k < len(left) && left[k].Sub(left[i]) < rate.Per {
				t.Fatalf("%d messages within %s", rate.Count+1, left[k].Sub(left[i]))
			}
		}
	})
}

// After the clock was set back or the rate was changed, no message waits for longer than the present rate requires.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	var b flow.Breaker
	for range flow.Threshold {
		asked, v := b.Ask(start)
		b = asked.After(start, flow.Away, v, 0)
	}
	if _, v := b.Ask(start.Add(-30 * time.Second)); v.OK {
		t.Error("a breaker that opened a moment ago lets everything through")
	}
	if _, v := b.Ask(start.AddDate(0, 0, -1)); !v.Probe {
		t.Errorf("after a day set back it is open until %s", v.Until)
	}
	slow, quick := flow.Rate{Count: 1, Per: time.Hour}, flow.Rate{Count: 50, Per: time.Second}
	var p flow.Pace
	for range 100 {
		p, _, _ = p.Take(slow, flow.Transactional, start, time.Second)
	}
	for name, test := range map[string]struct {
		rate flow.Rate
		now  time.Time
		most time.Duration
	}{
		"another rate":   {quick, start.Add(time.Second), 10 * time.Second},
		"clock set back": {slow, start.AddDate(0, 0, -30), 2 * time.Hour},
	} {
		_, at, _ := p.Take(test.rate, flow.Transactional, test.now, time.Second)
		if wait := at.Sub(test.now); wait < 0 || wait > test.most {
			t.Errorf("%s: the next one waits %s", name, wait)
		}
	}
}

// A rate per minute allows enough slack for a commit to a distant database. A message that misses its instant loses its place.
func TestSlackOfSlowRates(t *testing.T) {
	t.Parallel()
	for text, least := range map[string]time.Duration{"50/s": 50 * time.Millisecond, "10/m": 500 * time.Millisecond, "1/h": 500 * time.Millisecond} {
		rate, err := flow.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		if rate.Slack() < least || rate.Slack() > rate.Per/20 {
			t.Errorf("%s may be late by %s", text, rate.Slack())
		}
	}
}
