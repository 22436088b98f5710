package condition

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Ahead is what a trigger that plans ahead remembers about a record.
type Ahead struct {
	Fingerprint string // of the occasions that it has planned; empty: none
	// The other fields are for a trigger that fires when a threshold is crossed.
	By      string         // the rules by which the last evaluation counted crossings; Afresh, or empty when it counted none
	Level   *float64       // the metric at that evaluation; nil: nothing could be reached, or the metric changes with time alone
	Crossed map[string]int // by threshold: how many times it was ever reached (R10)
	// Over maps each threshold that is reached to the number of its crossing. The number is 0 when the record did not cross it: an
	// edit lowered the threshold, or the record had reached it before the trigger existed. A threshold that was removed from the
	// definition stays here until the record falls below it.
	Over map[string]int

	Course Course // of a trigger with a course
}

// Afresh is the value of By while a record is gone: every threshold that it has reached when it returns counts as a crossing.
const Afresh = "*"

func (a Ahead) equal(o Ahead) bool {
	return a.Fingerprint == o.Fingerprint && a.By == o.By && maps.Equal(a.Crossed, o.Crossed) && maps.Equal(a.Over, o.Over) && a.Course.equal(o.Course)
}

// Crossing is what an evaluation observes about thresholds.
type Crossing struct {
	Rules   string   // identifies the rules
	Fresh   bool     // the record was never evaluated before
	Defined []string // the thresholds; one empty name for a condition
	Met     []string // the thresholds that are reached, for long enough or not
	Ripe    []string // the thresholds that have been reached for long enough
	Failed  []string // the thresholds that could not be evaluated
	Level   *float64 // the metric; nil: there is no metric, or its condition is false so that no threshold can be reached
	Moving  bool     // the metric changes with time alone
}

// Cross returns the state after an evaluation. Since holds the thresholds that were met at the evaluation before.
//
// A threshold is crossed when the record reaches it, never by an edit of the definition (R11). A threshold that is reached at the
// first evaluation by new rules does not count as crossed, unless the record is new. Adding or moving a threshold does not make
// new rules while the previous level of the metric is known: the record has crossed the thresholds above that level.
func (a Ahead) Cross(v Crossing, since map[string]time.Time) Ahead {
	over := map[string]int{}
	for name, n := range a.Over {
		if slices.Contains(v.Met, name) || slices.Contains(v.Failed, name) || !slices.Contains(v.Defined, name) && v.stands(name) {
			over[name] = n
		}
	}
	crossed := maps.Clone(a.Crossed)
	for _, name := range v.Met {
		if _, is := over[name]; is {
			continue
		}
		_, waits := since[name]
		counts := v.Fresh || a.By == Afresh || a.By != "" && waits || a.By == v.Rules && !below(name, a.Level)
		switch {
		case !counts:
			over[name] = 0
		case slices.Contains(v.Ripe, name):
			if crossed == nil {
				crossed = map[string]int{}
			}
			crossed[name]++
			over[name] = crossed[name]
		}
	}
	if a.By, a.Level, a.Crossed, a.Over = v.Rules, v.Level, crossed, over; v.Moving {
		a.Level = nil
	}
	return a
}

// stands reports whether a threshold that is no longer defined is still reached, or might be.
func (v Crossing) stands(name string) bool {
	number, err := strconv.ParseFloat(name, 64)
	metric := len(v.Defined) > 0 && v.Defined[0] != ""
	return !metric || err != nil || v.Level != nil && number <= *v.Level
}

// below reports whether a threshold is reached at a level.
func below(name string, level *float64) bool {
	number, err := strconv.ParseFloat(name, 64)
	return err == nil && level != nil && number <= *level
}
