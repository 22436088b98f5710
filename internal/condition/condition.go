// Package condition keeps what a trigger remembers about a record from one evaluation to the next: since when its conditions
// have been met, the number of the episode, and what fired in it.
//
//	            for                                      no condition is met any more
//	met ├──────────────┤ open ───────────────────────────┤ cleared
//	    since          │ episode n: fires, each time gate 1 lets it
//
// The caller evaluates the conditions at an instant and passes the result as an Observation. State.Evaluate returns what follows
// and the latest instant for the next evaluation. Until then, unless the record is written, an evaluation would give the same result.
//
// The package does not evaluate conditions and knows no cooldowns. It keeps no state of its own: states are values.
//
// Invariants:
//   - An issue fires only after its condition was met without a break for as long as the trigger requires (R8).
//   - Additional evaluations do not change what fires, or when.
//   - The count of episodes never decreases (R10).
//   - A condition that cannot be evaluated neither begins nor ends an episode.
package condition

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Rule is how the conditions of a trigger are evaluated.
type Rule struct {
	For    time.Duration // how long a condition must have been met
	Change bool          // evaluate when the record is written, and when time alone changes the result
	Every  time.Duration // evaluate at the ticks of this interval; 0 = no ticks
	Reset  bool          // reset the cooldown of a context whose issues are no longer met (product decision 6)
}

// State is what a trigger remembers about a record. The zero value is the state for a record that it has never evaluated.
type State struct {
	Episodes int                  // how many episodes there have been
	Open     bool                 // the last episode continues
	Since    map[string]time.Time // by issue: since when it has been met
	Fired    map[string]Firing    // by context: the firings of this episode that later evaluations need
	Latest   Latest               // the last firing of this episode
	Blocked  map[string]Blocked   // by context: what kept it from firing again
	Ahead    Ahead                // for a trigger that plans ahead
	Failed   bool                 // a condition could not be evaluated
}

// Equal reports whether two states are the same.
func (s State) Equal(o State) bool {
	return s.Episodes == o.Episodes && s.Open == o.Open && s.Failed == o.Failed && s.Ahead.equal(o.Ahead) && s.Latest.Context == o.Latest.Context && s.Latest.At.Equal(o.Latest.At) &&
		maps.EqualFunc(s.Since, o.Since, time.Time.Equal) && maps.EqualFunc(s.Blocked, o.Blocked, func(a, b Blocked) bool { return a.At.Equal(b.At) && a.Times == b.Times }) &&
		maps.EqualFunc(s.Fired, o.Fired, func(a, b Firing) bool { return a.At.Equal(b.At) && slices.Equal(a.Issues, b.Issues) })
}

// Earliest returns since when any issue has been met, or the zero time when none is.
func (s State) Earliest() (at time.Time) {
	for _, since := range s.Since {
		if at.IsZero() || since.Before(at) {
			at = since
		}
	}
	return at
}

// Firing records that a context fired.
type Firing struct {
	At     time.Time
	Issues []string
}

// Latest is the last firing of an episode.
type Latest struct {
	Context string
	At      time.Time
}

// Observation is what an evaluation observes.
type Observation struct {
	Now    time.Time
	Tick   time.Time // the tick that is due; none: no tick is
	Met    []string  // the issues that are true, sorted; one empty name for a trigger with a single condition
	Flip   time.Time // when time alone may change Met; none: never
	Failed []string  // the issues that could not be evaluated and are not in Met
	Bound  bool      // it cannot be computed when time alone changes Met
	Gone   bool      // the record is closed or deleted, or the trigger switched off
}

// Outcome is what follows from an evaluation.
type Outcome struct {
	State   State
	Judged  bool      // it was time for this trigger to evaluate the record
	At      time.Time // the nominal instant of the evaluation
	Issues  []string  // the issues that have been met for long enough, sorted; empty: nothing fires
	Faded   []string  // the issues that are no longer met while others still are
	Lapsed  []Latest  // the contexts of earlier firings that have an issue that is no longer met; set by Lapse
	Unknown []string  // the issues of this episode that were met and now cannot be evaluated
	// Cleared means that the episode is over; Latest is then its last firing.
	Cleared    bool
	Latest     Latest
	EvaluateAt time.Time // the latest instant for the next evaluation; none: not before the record is written

	met []string
}

// Evaluate returns what follows from an observation in this state.
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
	o.Unknown = s.unknown(r, v.Failed, o.At)
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

// unknown returns the failed issues that belong to the open episode. An issue that was not yet met for long enough does not belong
// to it, since it must be met without a break (R8).
func (s State) unknown(r Rule, failed []string, at time.Time) (list []string) {
	for _, issue := range failed {
		if since, met := s.Since[issue]; s.Open && met && !since.Add(r.For).After(at) {
			list = append(list, issue)
		}
	}
	return list
}

// Rest returns the latest instant for the next evaluation of conditions that are not met: the instant at which time alone may
// change that, or the first tick that would see the change.
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

// Idle reports whether an evaluation that finds nothing met would leave the state unchanged.
func (s State) Idle(r Rule) bool {
	return !s.Open && !s.Failed && len(s.Since) == 0 && s.Latest == (Latest{}) && (len(s.Fired) == 0 || !r.Reset) && len(s.withoutOnce()) == len(s.Blocked) && s.Ahead.Fingerprint == "" && len(s.Ahead.Over) == 0
}

// unjudged returns the next evaluation of a trigger that evaluates at ticks only, computed between two ticks. It is the next tick
// if an issue is met now, was met before, or if a failure began or ended.
func (s State) unjudged(r Rule, v Observation) time.Time {
	if r.Every > 0 && (len(v.Met) > 0 || len(s.Since) > 0 || (len(v.Failed) > 0) != s.Failed) {
		return TickAfter(v.Now, r.Every)
	}
	return r.Rest(v.Now, v.Flip, v.Bound)
}

// clear drops all issues that are met, and ends the episode if one is open.
func (o *Outcome) clear(open bool) {
	o.Cleared, o.Latest = open, o.State.Latest
	o.State.Open, o.State.Since, o.State.Latest, o.State.Blocked = false, nil, Latest{}, o.State.withoutOnce()
}

// withoutOnce returns Blocked without the entries that are reported once an episode: no recipient, or no context.
func (s State) withoutOnce() map[string]Blocked {
	blocked := maps.Clone(s.Blocked)
	maps.DeleteFunc(blocked, func(_ string, b Blocked) bool { return b.At.IsZero() })
	return blocked
}

// Lapse finds the contexts of earlier firings that have an issue that is no longer met, if the rule resets them (product decision 6).
// Context is the context that fires now, or empty; it never lapses. A context that fired at this very instant stays, so that it does
// not fire again at that instant.
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

// sooner moves the next evaluation forward to at.
func (o *Outcome) sooner(at time.Time) {
	if !at.IsZero() && (o.EvaluateAt.IsZero() || at.Before(o.EvaluateAt)) {
		o.EvaluateAt = at
	}
}

// HasFired reports whether a context has fired at an instant; a context fires at most once at one instant.
func (s State) HasFired(context string, at time.Time) bool {
	f, ok := s.Fired[context]
	return ok && f.At.Equal(at)
}

// most bounds the contexts that a state keeps. Only a trigger whose contexts change with every write fires more of them in one
// episode; the latest are kept.
const most = 32

// Fire returns the state after a context fired.
func (s State) Fire(r Rule, context string, issues []string, at time.Time) State {
	s.Latest = Latest{Context: context, At: at}
	s.Fired = maps.Clone(s.Fired)
	if s.Fired == nil {
		s.Fired = map[string]Firing{}
	}
	if !r.Reset { // then only the firings at this very instant are needed
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

// Blocked is the reason why a context did not fire.
type Blocked struct {
	At    time.Time // the firing whose cooldown has not passed; none: another reason
	Times int       // how many times since that firing
}

// Block returns the state after a context was kept from firing, and whether this is the first time since the firing at firedAt.
// Counts says that a write or a tick caused the evaluation; other evaluations do not add to the count.
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

// Held returns how many times a context was kept from firing since the firing at firedAt.
func (s State) Held(context string, firedAt time.Time) int {
	if b, ok := s.Blocked[context]; ok && b.At.Equal(firedAt) {
		return b.Times
	}
	return 0
}

// Undelivered reports whether the last alert of a context found no recipient.
func (s State) Undelivered(context string) bool {
	b, ok := s.Blocked[context]
	return ok && b.At.IsZero()
}

func oldest[V any](of map[string]V, at func(V) time.Time) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return at(of[a]).Compare(at(of[b])) })
}
