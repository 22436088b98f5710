package store

import "time"

// Work is a kind of rows that become due. A stage takes one kind or several.
type Work uint8

// The kinds of work, in the order of NextDue's columns.
const (
	WorkInstances  Work = iota // to be expanded
	WorkDeliveries             // to be sent
	WorkExpiries               // deliveries whose answers are late
	WorkRecords                // to be evaluated
	WorkJobs                   // to be advanced
	WorkLimits                 // contacts whose limits have changed
	WorkMarks                  // alerts that ended unsent
	WorkRepairs                // full evaluations that repeat
	WorkResumed                // workflows that were paused
	WorkItems                  // to be matched with topics
	WorkRequests               // subscriptions to be confirmed
	WorkSessions               // to be ended
	WorkDispatches             // outbox events to be told to sinks
	kindsOfWork
)

// Works is a set of kinds of work.
type Works uint16

// WorksOf makes a set.
func WorksOf(kinds ...Work) (set Works) {
	for _, w := range kinds {
		set |= 1 << w
	}
	return set
}

// Any reports whether the two sets have a kind in common.
func (s Works) Any(of Works) bool { return s&of != 0 }

// Due says from when on there is work of each kind. The zero time means that none is known.
type Due [kindsOfWork]time.Time

// Earliest returns the earliest instant; zero if there is none.
func (d Due) Earliest() (at time.Time) {
	for _, of := range d {
		if at.IsZero() || !of.IsZero() && of.Before(at) {
			at = of
		}
	}
	return at
}

// At returns the kinds of work that are due at an instant.
func (d Due) At(now time.Time) (set Works) {
	for w, at := range d {
		if !at.IsZero() && !at.After(now) {
			set |= 1 << w
		}
	}
	return set
}

// After returns the earliest instant after now; zero if there is none.
func (d Due) After(now time.Time) time.Time {
	for w, at := range d {
		if !at.After(now) {
			d[w] = time.Time{}
		}
	}
	return d.Earliest()
}

// dueFrom is Due in µs, 0 = none.
type dueFrom [kindsOfWork]int64

func (d *dueFrom) add(w Work, at int64) { d[w] = sooner(d[w], at) }

func (d dueFrom) times() (due Due) {
	for w, at := range d {
		due[w] = fromMicros(at)
	}
	return due
}

// sooner returns the earlier of two instants (µs, 0 = none).
func sooner(a, b int64) int64 {
	if b > 0 && (a == 0 || b < a) {
		return b
	}
	return a
}

// due records that work of a kind became due at an instant (µs, 0 = none).
func (t *Tx) due(w Work, at int64) { t.earliest.add(w, at) }

// WakeAt notes that work of a kind is due at an instant, so that its stages look for it after the commit.
func (t *Tx) WakeAt(w Work, at time.Time) { t.due(w, dueMicros(at)) }
