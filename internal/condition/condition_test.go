package condition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var ten = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

func clock(s string) time.Time {
	t, err := time.Parse("15:04:05", s)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 5, 14, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

func show(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("15:04:05")
}

// Shows: A4, A7.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		every                               time.Duration
		now, at, after, evaluated, evaluate string
		due                                 string
	}{
		{5 * time.Minute, "10:00:00", "10:00:00", "10:05:00", "09:55:00", "10:00:00", "10:00:00"},
		{5 * time.Minute, "10:00:01", "10:00:00", "10:05:00", "09:55:01", "10:00:00", "10:00:00"}, // evaluated late, at its nominal instant
		{5 * time.Minute, "10:00:01", "10:00:00", "10:05:00", "10:00:00", "10:00:01", "-"},        // the record was evaluated at that tick
		{5 * time.Minute, "10:03:00", "10:00:00", "10:05:00", "09:00:00", "10:03:00", "-"},        // written after it
		{5 * time.Minute, "10:16:00", "10:15:00", "10:20:00", "09:00:00", "10:03:00", "10:15:00"}, // several were missed
		{7 * time.Minute, "23:59:00", "23:55:00", "00:00:00", "23:00:00", "23:00:00", "23:55:00"}, // a day is no multiple
		{0, "10:00:00", "", "", "09:00:00", "10:00:00", "-"},
	} {
		now := clock(tt.now)
		if tt.every > 0 {
			if at, after := TickAt(now, tt.every), TickAfter(now, tt.every); show(at) != tt.at || show(after) != tt.after || !after.After(now) {
				t.Errorf("%s, every %s: tick at %s, after %s", tt.now, tt.every, at, after)
			}
		}
		if due := DueTick(tt.every, now, clock(tt.evaluated), clock(tt.evaluate)); show(due) != tt.due {
			t.Errorf("%+v: due %s", tt, show(due))
		}
	}
}

// step is one evaluation: its instant, the issues that are met, and the expected outcome.
type step struct {
	at    string
	tick  bool
	met   []string
	want  string // what fires, and "cleared"
	next  string
	gone  bool
	flip  string
	bound bool

	failed []string
	faded  string // of those, where something failed
}

// Shows: A8, A22, A29.
func TestLook(t *testing.T) {
	t.Parallel()
	yes := []string{""}
	change := Rule{Change: true}
	for _, tt := range []struct {
		name  string
		rule  Rule
		steps []step
	}{
		{"at once", change, []step{
			{at: "10:00:00", want: "[] 0", next: "-"},
			{at: "10:01:00", met: yes, want: `[""] 1`, next: "-"},
			{at: "10:02:00", met: yes, want: `[""] 1`, next: "-"},
			{at: "10:03:00", want: "[] 1 cleared", next: "-"},
			{at: "10:04:00", want: "[] 1", next: "-"},
			{at: "10:05:00", met: yes, want: `[""] 2`, next: "-"},
		}},
		{"time alone", change, []step{{at: "10:00:00", flip: "10:02:30", want: "[] 0", next: "10:02:30"}}},
		{"each issue for itself", Rule{Change: true, For: 10 * time.Minute}, []step{
			{at: "10:00:00", met: []string{"A"}, want: "[] 0", next: "10:10:00"},
			{at: "10:04:00", met: []string{"A", "B"}, want: "[] 0", next: "10:10:00"},
			{at: "10:10:00", met: []string{"A", "B"}, want: `["A"] 1`, next: "10:14:00"},
			{at: "10:14:00", met: []string{"A", "B"}, want: `["A" "B"] 1`, next: "-"},
			{at: "10:15:00", met: []string{"B"}, want: `["B"] 1`, next: "-"},
			{at: "10:16:00", met: []string{"C"}, want: `[] 1`, next: "10:26:00"}, // another issue is no resolution
			{at: "10:17:00", want: "[] 1 cleared", next: "-"},
		}},
		{"a break starts again", Rule{Change: true, For: 10 * time.Minute}, []step{
			{at: "10:00:00", met: yes, want: "[] 0", next: "10:10:00"},
			{at: "10:05:00", want: "[] 0", next: "-"},
			{at: "10:06:00", met: yes, want: "[] 0", next: "10:16:00"},
		}},
		{"a failure ends nothing, and begins nothing", Rule{Change: true, For: 10 * time.Minute}, []step{
			{at: "10:00:00", met: yes, want: "[] 0", next: "10:10:00"},
			{at: "10:05:00", failed: yes, want: "[] 0", next: "-"}, // it is unknown whether it was met without a break
			{at: "10:06:00", met: yes, want: "[] 0", next: "10:16:00"},
			{at: "10:16:00", met: yes, want: `[""] 1`, next: "-"},
			{at: "10:17:00", failed: yes, want: "[] 1", next: "-"},
			{at: "10:18:00", met: yes, want: `[""] 1`, next: "-"},
			{at: "10:19:00", failed: yes, want: "[] 1", next: "-"},
			{at: "10:20:00", want: "[] 1 cleared", next: "-"},
			{at: "10:21:00", failed: yes, want: "[] 1", next: "-"},
		}},
		{"a failure beside others", Rule{Change: true}, []step{
			{at: "10:00:00", met: []string{"A", "B"}, want: `["A" "B"] 1`, next: "-"},
			{at: "10:01:00", met: []string{"B"}, failed: []string{"A", "C"}, want: `["B"] 1`, next: "-"},
			{at: "10:02:00", failed: []string{"A", "C"}, want: "[] 1", next: "-", faded: "B"},
			{at: "10:03:00", failed: []string{"C"}, want: "[] 1 cleared", next: "-"},
		}},
		{"ticks alone", Rule{Every: 5 * time.Minute}, []step{
			{at: "10:02:00", met: yes, want: "- 0", next: "10:05:00"},
			{at: "10:02:30", want: "- 0", next: "-"}, // it was over before the first tick
			{at: "10:03:00", met: yes, want: "- 0", next: "10:05:00"},
			{at: "10:05:01", tick: true, met: yes, want: `[""] 1`, next: "10:10:00"},
			{at: "10:06:00", want: `- 1`, next: "10:10:00"}, // it clears at a tick too
			{at: "10:10:00", tick: true, want: "[] 1 cleared", next: "-"},
			{at: "10:11:00", flip: "10:12:30", want: "- 1", next: "10:15:00"},
			{at: "10:11:00", flip: "10:15:00", want: "- 1", next: "10:15:00"},
			{at: "10:11:00", want: "- 1", next: "-"},
			{at: "10:11:00", bound: true, want: "- 1", next: "10:15:00"},
			{at: "10:15:00", tick: true, bound: true, want: "[] 1", next: "10:20:00"},
		}},
		{"changes and ticks", Rule{Change: true, Every: 5 * time.Minute}, []step{
			{at: "10:03:00", met: yes, want: `[""] 1`, next: "10:05:00"},
			{at: "10:05:00", tick: true, met: yes, want: `[""] 1`, next: "10:10:00"},
			{at: "10:06:00", want: "[] 1 cleared", next: "-"},
		}},
		{"closed", change, []step{
			{at: "10:00:00", met: yes, want: `[""] 1`, next: "-"},
			{at: "10:01:00", gone: true, met: yes, want: "[] 1 cleared", next: "-"},
			{at: "10:02:00", gone: true, want: "[] 1", next: "-"},
			{at: "10:03:00", met: yes, want: `[""] 2`, next: "-"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s State
			for _, step := range tt.steps {
				v := Observation{Now: clock(step.at), Met: step.met, Failed: step.failed, Gone: step.gone, Bound: step.bound}
				if step.tick {
					v.Tick = TickAt(v.Now, tt.rule.Every)
				}
				if step.flip != "" {
					v.Flip = clock(step.flip)
				}
				o := s.Evaluate(tt.rule, v)
				s = o.State
				got := fmt.Sprintf("%q %d", o.Issues, s.Episodes)
				if !o.Judged {
					got = fmt.Sprintf("- %d", s.Episodes)
				}
				if o.Cleared {
					got += " cleared"
				}
				if faded := strings.Join(o.Faded, ","); step.failed != nil && faded != step.faded {
					t.Errorf("%s: %q faded, want %q", step.at, faded, step.faded)
				}
				if got != step.want || show(o.EvaluateAt) != step.next {
					t.Errorf("%s: got %s, next %s; want %s, next %s", step.at, got, show(o.EvaluateAt), step.want, step.next)
				}
				if want := v.Now; o.Judged && !step.tick && !o.At.Equal(want) || step.tick && !o.At.Equal(v.Tick) {
					t.Errorf("%s: nominally at %s", step.at, o.At)
				}
			}
		})
	}
}

// Product decision 6. Shows: A22.
func TestLapsed(t *testing.T) {
	t.Parallel()
	rule := Rule{Change: true, Reset: true}
	s := State{}.Evaluate(rule, Observation{Now: ten, Met: []string{"A", "B"}}).State.Fire(rule, "t:A,B", []string{"A", "B"}, ten)
	if !s.HasFired("t:A,B", ten) || s.HasFired("t:A,B", ten.Add(1)) || s.HasFired("t:A", ten) {
		t.Error("it is not known what fired when")
	}
	evaluate := func(s State, minutes int, context string, met ...string) Outcome {
		o := s.Evaluate(rule, Observation{Now: ten.Add(time.Duration(minutes) * time.Minute), Met: met})
		o.Lapse(rule, context)
		return o
	}
	if o := evaluate(s, 0, ""); len(o.Lapsed) != 0 || !o.State.HasFired("t:A,B", ten) {
		t.Errorf("at the instant of the firing %q is forgotten", o.Lapsed)
	}
	o := evaluate(s, 1, "t:A,B,C", "A", "B", "C")
	if len(o.Lapsed) != 0 {
		t.Errorf("A and B are still met, and %q is forgotten", o.Lapsed)
	}
	if o := evaluate(o.State, 2, "t:A,B", "B"); len(o.Lapsed) != 0 {
		t.Errorf("the context is the same, and %q is forgotten", o.Lapsed)
	}
	o = evaluate(o.State, 2, "t:B", "B")
	if diff := cmp.Diff([]Latest{{"t:A,B", ten}}, o.Lapsed); diff != "" {
		t.Error(diff)
	}
	if o = evaluate(o.State, 3, ""); len(o.Lapsed) != 0 || !o.Cleared || o.Latest != (Latest{"t:A,B", ten}) {
		t.Errorf("cleared %t after %v, forgotten %q", o.Cleared, o.Latest, o.Lapsed)
	}
	rule = Rule{Change: true}
	kept := evaluate(State{}, 0, "", "A").State.Fire(rule, "t:A", []string{"A"}, ten).Fire(rule, "t:B", []string{"B"}, ten.Add(time.Minute))
	if o := evaluate(kept, 2, ""); len(o.Lapsed) != 0 || len(kept.Fired) != 1 {
		t.Errorf("without a reset: %q, %v", o.Lapsed, kept.Fired)
	}
}

func TestBlockIsReportedOnceAFiring(t *testing.T) {
	t.Parallel()
	s, first := State{}.Block("t:A", ten, true)
	twice, again := s.Block("t:A", ten, true)
	_, other := s.Block("t:B", ten, true)
	next, later := twice.Block("t:A", ten.Add(time.Hour), true)
	if n, m, o := twice.Held("t:A", ten), next.Held("t:A", ten.Add(time.Hour)), next.Held("t:A", ten); n != 2 || m != 1 || o != 0 {
		t.Errorf("held back %d times, then %d and %d", n, m, o)
	}
	if !first || again || !other || !later {
		t.Errorf("first %t, again %t, another context %t, after another firing %t", first, again, other, later)
	}
	if counted, again := twice.Block("t:A", ten, false); counted.Held("t:A", ten) != 2 || again {
		t.Errorf("an evaluation without a write or a tick counts: %d, %t", counted.Held("t:A", ten), again)
	}
	for i := range 100 {
		s, _ = s.Block(fmt.Sprint(i), ten.Add(time.Duration(i)), true)
		s = s.Fire(Rule{Reset: true}, fmt.Sprint("f", i), nil, ten.Add(time.Duration(i)))
	}
	if _, kept := s.Blocked["99"]; len(s.Blocked) != most || len(s.Fired) != most || !kept || !s.HasFired("f99", ten.Add(99)) {
		t.Errorf("%d and %d contexts are kept, or not the latest", len(s.Blocked), len(s.Fired))
	}
	undelivered, _ := State{}.Block("t:A", time.Time{}, true)
	delivered := undelivered.Fire(Rule{}, "t:A", nil, ten)
	if !undelivered.Undelivered("t:A") || undelivered.Undelivered("t:B") || delivered.Undelivered("t:A") || !undelivered.Undelivered("t:A") {
		t.Error("an undelivered context is not recognised")
	}
}

func TestStatesAsStored(t *testing.T) {
	t.Parallel()
	states := States{
		Name("w", "t"): State{
			Episodes: 2, Open: true, Since: map[string]time.Time{"": ten}, Latest: Latest{"c", ten.Add(time.Microsecond)},
			Fired: map[string]Firing{"c": {At: ten, Issues: []string{"A"}}}, Blocked: map[string]Blocked{"c": {At: ten, Times: 3}},
		},
		"gone/t": {Episodes: 1}, "new/t": {},
	}
	const want = `{"gone/t":{"n":1},"w/t":{"n":2,"o":true,"s":{"":1778752800000000},"f":{"c":{"a":1778752800000000,"i":["A"]}},"c":"c","l":1778752800000001,"b":{"c":{"a":1778752800000000,"n":3}}}}`
	if got := states.String(); got != want {
		t.Errorf("got %s", got)
	}
	back, err := Parse(want)
	if err != nil {
		t.Fatal(err)
	}
	delete(states, "new/t")
	if diff := cmp.Diff(states, back, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if got := (States{"w/t": {}}).String(); got != "" {
		t.Errorf("nothing is written %q", got)
	}
	if _, err := Parse("{"); err == nil {
		t.Error("half a state is read")
	}
}

// world holds which issues are met when. Issues begin and end at whole minutes.
type world struct {
	changes []time.Time
	met     [][]string // from each change on
}

func (w world) at(t time.Time) []string {
	var met []string
	for i, c := range w.changes {
		if !c.After(t) {
			met = w.met[i]
		}
	}
	return met
}

func drawWorld(t *rapid.T) world {
	var w world
	at := ten
	for range rapid.IntRange(1, 12).Draw(t, "changes") {
		at = at.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes")) * time.Minute)
		met := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"A", "B", "C"}), rapid.ID).Draw(t, "met")
		slices.Sort(met)
		w.changes, w.met = append(w.changes, at), append(w.met, met)
	}
	return w
}

// Evaluating a record when it was written, at EvaluateAt and at arbitrary other instants gives the same results as evaluating it
// every minute: the same issues are met for long enough, in the same episode, and none earlier.
//
// Shows: A9.
func TestFewEvaluationsAreEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		rule := Rule{
			For: time.Duration(rapid.SampledFrom([]int{0, 3, 10}).Draw(t, "for")) * time.Minute, Change: rapid.Bool().Draw(t, "change"),
			Every: time.Duration(rapid.SampledFrom([]int{0, 5, 7}).Draw(t, "every")) * time.Minute,
		}
		if !rule.Change && rule.Every == 0 {
			rule.Every = 5 * time.Minute
		}
		end := w.changes[len(w.changes)-1].Add(30 * time.Minute)
		type fact struct {
			At      time.Time
			Issues  string
			Episode int
			Cleared bool
		}
		// The naive loop evaluates every minute, or at every tick.
		var naive []fact
		var slow State
		for at := ten; !at.After(end); at = at.Add(time.Minute) {
			v := Observation{Now: at, Met: w.at(at)}
			if rule.Every > 0 && TickAt(at, rule.Every).Equal(at) {
				v.Tick = at
			}
			o := slow.Evaluate(rule, v)
			if o.Judged {
				naive = append(naive, fact{at, fmt.Sprint(o.Issues), o.State.Episodes, o.Cleared})
			}
			slow = o.State
		}
		extra := rapid.SliceOf(rapid.IntRange(0, int(end.Sub(ten)/time.Minute))).Draw(t, "other evaluations")
		var s State
		var evaluatedAt, evaluateAt time.Time
		seen := map[time.Time]fact{}
		for at := ten; !at.After(end); at = at.Add(time.Minute) {
			written := slices.ContainsFunc(w.changes, at.Equal)
			if written && (evaluateAt.IsZero() || evaluateAt.After(at)) {
				evaluateAt = at
			}
			other := slices.Contains(extra, int(at.Sub(ten)/time.Minute))
			if (evaluateAt.IsZero() || evaluateAt.After(at)) && !other {
				continue
			}
			if evaluateAt.IsZero() {
				evaluateAt = at
			}
			o := s.Evaluate(rule, Observation{Now: at, Tick: DueTick(rule.Every, at, evaluatedAt, evaluateAt), Met: w.at(at)})
			if o.Judged {
				seen[at] = fact{at, fmt.Sprint(o.Issues), o.State.Episodes, o.Cleared}
			}
			if !o.EvaluateAt.IsZero() && !o.EvaluateAt.After(at) {
				t.Fatalf("at %s the next evaluation is %s", at, o.EvaluateAt)
			}
			s, evaluatedAt, evaluateAt = o.State, at, o.EvaluateAt
		}
		last := fact{Issues: "[]"}
		for _, n := range naive {
			got, evaluated := seen[n.At]
			switch {
			case evaluated && got != n:
				t.Fatalf("at %s: got %+v, want %+v", n.At, got, n)
			case !evaluated && (n.Issues != last.Issues || n.Episode != last.Episode || n.Cleared):
				t.Fatalf("at %s there was no evaluation, and %+v became %+v", n.At, last, n)
			case !evaluated && rule.Every > 0 && n.Issues != "[]" && TickAt(n.At, rule.Every).Equal(n.At):
				t.Fatalf("at the tick %s there was no evaluation, and %s is met", n.At, n.Issues)
			}
			last = n
		}
		for _, n := range naive { // in the naive loop, an issue that fires was met all the time
			for _, issue := range []string{"A", "B", "C"} {
				for back := time.Duration(0); back <= rule.For && strings.Contains(n.Issues, issue); back += time.Minute {
					if at := n.At.Add(-back); (rule.Change || TickAt(at, rule.Every).Equal(at)) && !slices.Contains(w.at(at), issue) {
						t.Fatalf("%s is not met at %s, and fires at %s although it has to be met for %s", issue, at, n.At, rule.For)
					}
				}
			}
		}
	})
}
