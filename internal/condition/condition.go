// Package condition keeps what a trigger remembers of a record from one look to the next: since when its conditions are
// met, which episode of that this is, and what was fired in it.
//
//	            for                                      nothing is met any more
//	met ├──────────────┤ open ───────────────────────────┤ cleared
//	    since          │ episode n: fires, each time gate 1 lets it
//
// A look is one evaluation of the conditions at an instant. Whoever looks says what is met; Look answers what follows,
// and when to look again at the latest: until then, unless the record is written, every look would say the same.
//
// The package does not evaluate conditions, knows no cooldowns, and keeps nothing itself: states are values.
//
// Invariants:
//   - Nothing fires before its condition was met for as long as the trigger demands, without a break (R8).
//   - Looking more often changes nothing of what fires when.
//   - Episodes are counted and never set back (R10).
//   - What cannot be evaluated begins nothing, and ends nothing that has begun.
package condition

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Rule is how a trigger wants its conditions looked at.
type Rule struct {
	For    time.Duration // how long they must have been met
	Change bool          // when the record is written, and when time alone changes the answer
	Every  time.Duration // at the ticks of this interval; 0 = none
	Reset  bool          // a context whose issues are gone has its cooldown forgotten (decision 6)
}

// State is what a trigger remembers of a record. The zero value is that of a record that it has never met.
type State struct {
	Episodes int                  // how often it was met for long enough, ever
	Open     bool                 // the last of these goes on
	Since    map[string]time.Time // by issue: since when it is met
	Fired    map[string]Firing    // by context: what a later look must know of this episode's firings
	Latest   Latest               // of this episode
	Blocked  map[string]Blocked   // by context: what kept it from firing again
	Ahead    Ahead                // of a trigger that plans ahead
	Failed   bool                 // one of its conditions could not be evaluated
}

// Equal reports whether two states are the same.
func (s State) Equal(o State) bool {
	return s.Episodes == o.Episodes && s.Open == o.Open && s.Failed == o.Failed && s.Ahead.equal(o.Ahead) && s.Latest.Context == o.Latest.Context && s.Latest.At.Equal(o.Latest.At) &&
		maps.EqualFunc(s.Since, o.Since, time.Time.Equal) && maps.EqualFunc(s.Blocked, o.Blocked, func(a, b Blocked) bool { return a.At.Equal(b.At) && a.Times == b.Times }) &&
		maps.EqualFunc(s.Fired, o.Fired, func(a, b Firing) bool { return a.At.Equal(b.At) && slices.Equal(a.Issues, b.Issues) })
}

// Earliest is since when something is met; none: nothing is.
func (s State) Earliest() (at time.Time) {
	for _, since := range s.Since {
		if at.IsZero() || since.Before(at) {
			at = since
		}
	}
	return at
}

// Firing is one time that a context fired.
type Firing struct {
	At     time.Time
	Issues []string
}

// Latest is a firing that is over: the last one of an episode.
type Latest struct {
	Context string
	At      time.Time
}

// Observation is what a look sees.
type Observation struct {
	Now    time.Time
	Tick   time.Time // the tick of the interval that is due; none: it is not time for one
	Met    []string  // the issues that are true, sorted; one empty name for a trigger with a single condition
	Flip   time.Time // when time alone may change Met; none: never
	Failed []string  // of the others those that could not be evaluated
	Bound  bool      // nobody can say when time alone changes Met
	Gone   bool      // the record is closed or deleted, or the trigger switched off
}

// Outcome is what follows from a look.
type Outcome struct {
	State   State
	Judged  bool      // it was time for this trigger to look
	At      time.Time // the nominal instant of the look
	Issues  []string  // what is met for long enough, sorted; empty: nothing fires
	Faded   []string  // issues that were met and are no more, while others are
	Lapsed  []Latest  // contexts of earlier firings of which an issue is gone, as Lapse found them
	Unknown []string  // issues of this episode that were met, and cannot be evaluated: nobody knows whether they are over
	// Cleared says that the episode is over; Latest is then its last firing.
	Cleared    bool
	Latest     Latest
	EvaluateAt time.Time // when to look again at the latest; none: not before it is written

	met []string
}

// Evaluate holds what is seen against the state.
func (s State) Evaluate(r Rule, v Observation) Outcome {
	o := Outcome{State: s, Judged: true, At: v.Now, met: v.Met}
	if v.Gone {
		o.met, o.State.Failed = nil, false
		o.clear(s.Open)
		return o
	}
	if v.Tick.IsZero() && !r.Change {
		o.Judged = false
		o.EvaluateAt = o.State.unjudged(r, v)
		return o
	}
	if !v.Tick.IsZero() {
		o.At = v.Tick
	}
	o.State.Failed = len(v.Failed) > 0
	o.State.Since = nil
	o.Unknown = s.doubt(r, v.Failed, o.At)
	o.met = slices.Concat(v.Met, o.Unknown)
	if len(o.met) > 0 {
		o.State.Since = make(map[string]time.Time, len(o.met))
	}
	for _, issue := range o.Unknown {
		o.State.Since[issue] = s.Since[issue]
	}
	for _, issue := range v.Met {
		since, known := s.Since[issue]
		if !known || since.After(o.At) {
			since = o.At
		}
		o.State.Since[issue] = since
		if due := since.Add(r.For); !due.After(o.At) {
			o.Issues = append(o.Issues, issue)
		} else if r.Change {
			o.sooner(due)
		}
	}
	if len(o.met) > 0 {
		for issue := range s.Since {
			if _, still := o.State.Since[issue]; !still {
				o.Faded = append(o.Faded, issue)
			}
		}
		slices.Sort(o.Faded)
	}
	switch {
	case len(o.met) == 0:
		o.clear(s.Open)
	case len(o.Issues) > 0 && !s.Open:
		o.State.Open, o.State.Episodes, o.State.Latest = true, s.Episodes+1, Latest{}
	}
	o.sooner(r.Rest(v.Now, v.Flip, v.Bound))
	if r.Every > 0 && len(o.met) > 0 {
		o.sooner(TickAfter(v.Now, r.Every))
	}
	return o
}

// doubt are those of the issues that fail now and belong to the episode that goes on. What has not been met for long enough
// does not: that was to be without a break (R8).
func (s State) doubt(r Rule, failed []string, at time.Time) (list []string) {
	for _, issue := range failed {
		if since, met := s.Since[issue]; s.Open && met && !since.Add(r.For).After(at) {
			list = append(list, issue)
		}
	}
	return list
}

// Rest is when to look again at the latest at what is not met: the instant at which time alone may change that, or the tick
// that would find it so.
func (r Rule) Rest(now, flip time.Time, bound bool) (at time.Time) {
	if r.Change {
		at = flip
	}
	var tick time.Time
	switch {
	case r.Every == 0:
	case bound:
		tick = TickAfter(now, r.Every)
	case !r.Change && !flip.IsZero():
		tick = tickFrom(flip, r.Every)
	}
	if at.IsZero() || !tick.IsZero() && tick.Before(at) {
		return tick
	}
	return at
}

// Idle reports whether a look that finds nothing met would leave the state as it is.
func (s State) Idle(r Rule) bool {
	return !s.Open && !s.Failed && len(s.Since) == 0 && s.Latest == (Latest{}) && (len(s.Fired) == 0 || !r.Reset) && len(s.reheard()) == len(s.Blocked) && s.Ahead.Fingerprint == "" && len(s.Ahead.Over) == 0
}

// unjudged is when a trigger that looks at ticks alone has to look, seen between two of them: at the next one, if it would
// find anything there that is met, or that was.
func (s State) unjudged(r Rule, v Observation) time.Time {
	if r.Every > 0 && (len(v.Met) > 0 || len(s.Since) > 0 || (len(v.Failed) > 0) != s.Failed) {
		return TickAfter(v.Now, r.Every)
	}
	return r.Rest(v.Now, v.Flip, v.Bound)
}

// clear ends what is met, and the episode when there was one.
func (o *Outcome) clear(open bool) {
	o.Cleared, o.Latest = open, o.State.Latest
	o.State.Open, o.State.Since, o.State.Latest, o.State.Blocked = false, nil, Latest{}, o.State.reheard()
}

// reheard is Blocked without what is told once an episode: that there was nobody to tell, or no context.
func (s State) reheard() map[string]Blocked {
	blocked := maps.Clone(s.Blocked)
	maps.DeleteFunc(blocked, func(_ string, b Blocked) bool { return b.At.IsZero() })
	return blocked
}

// Lapse finds the contexts of earlier firings whose issues are no longer all met, where the rule is to reset these
// (decision 6). Context is what fires now, if anything: as long as that is the same, nothing is over. What fired at this
// very instant stays, so that it does not fire again at it.
func (o *Outcome) Lapse(r Rule, context string) {
	if !r.Reset || !o.Judged || len(o.State.Fired) == 0 {
		return
	}
	o.State.Fired = maps.Clone(o.State.Fired)
	maps.DeleteFunc(o.State.Fired, func(of string, f Firing) bool {
		isMet := func(issue string) bool { return slices.Contains(o.met, issue) }
		if of == context || f.At.Equal(o.At) || all(f.Issues, isMet) {
			return false
		}
		o.Lapsed = append(o.Lapsed, Latest{Context: of, At: f.At})
		return true
	})
	slices.SortFunc(o.Lapsed, func(a, b Latest) int { return strings.Compare(a.Context, b.Context) })
}

func all(list []string, is func(string) bool) bool {
	for _, s := range list {
		if !is(s) {
			return false
		}
	}
	return true
}

// sooner moves the next look forward to at.
func (o *Outcome) sooner(at time.Time) {
	if !at.IsZero() && (o.EvaluateAt.IsZero() || at.Before(o.EvaluateAt)) {
		o.EvaluateAt = at
	}
}

// HasFired reports whether a context fired at an instant: it then does not again.
func (s State) HasFired(context string, at time.Time) bool {
	f, ok := s.Fired[context]
	return ok && f.At.Equal(at)
}

// most bounds the contexts that a state names. More are fired in one episode only by a trigger whose contexts hold what
// changes with every write; of these the latest count.
const most = 32

// Fire returns the state after a context fired.
func (s State) Fire(r Rule, context string, issues []string, at time.Time) State {
	s.Latest = Latest{Context: context, At: at}
	s.Fired = maps.Clone(s.Fired)
	if s.Fired == nil {
		s.Fired = map[string]Firing{}
	}
	if !r.Reset { // then only what fired at this very instant is asked for
		maps.DeleteFunc(s.Fired, func(_ string, f Firing) bool { return !f.At.Equal(at) })
		issues = nil
	}
	s.Fired[context] = Firing{At: at, Issues: issues}
	if len(s.Blocked) > 0 {
		s.Blocked = maps.Clone(s.Blocked)
		delete(s.Blocked, context)
		delete(s.Blocked, noContext)
	}
	for len(s.Fired) > most {
		delete(s.Fired, oldest(s.Fired, func(f Firing) time.Time { return f.At }))
	}
	return s
}

// noContext stands for a context that could not be computed.
const noContext = ""

// Blocked says what kept a context from firing.
type Blocked struct {
	At    time.Time // the firing whose cooldown is not over; none: another reason
	Times int       // how often, since then
}

// Block returns the state after a context was kept from firing, and whether that is told of for the first time since the
// firing that it goes back to. Counts: it would have fired for a write or a tick, and not only because it was looked at.
func (s State) Block(context string, firedAt time.Time, counts bool) (State, bool) {
	b, again := s.Blocked[context]
	if again = again && b.At.Equal(firedAt); !again {
		b = Blocked{At: firedAt}
	}
	if counts || !again {
		b.Times++
	}
	s.Blocked = maps.Clone(s.Blocked)
	if s.Blocked == nil {
		s.Blocked = map[string]Blocked{}
	}
	s.Blocked[context] = b
	for len(s.Blocked) > most {
		delete(s.Blocked, oldest(s.Blocked, func(b Blocked) time.Time { return b.At }))
	}
	return s, !again
}

// Held is how often a context was kept from firing since it fired at an instant.
func (s State) Held(context string, firedAt time.Time) int {
	if b, ok := s.Blocked[context]; ok && b.At.Equal(firedAt) {
		return b.Times
	}
	return 0
}

// Undelivered reports whether what a context had to say found nobody to send it to, and it has not fired since.
func (s State) Undelivered(context string) bool {
	b, ok := s.Blocked[context]
	return ok && b.At.IsZero()
}

func oldest[V any](of map[string]V, at func(V) time.Time) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return at(of[a]).Compare(at(of[b])) })
}
