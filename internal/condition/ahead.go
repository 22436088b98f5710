package condition

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Ahead is what a trigger that plans ahead remembers of a record.
type Ahead struct {
	Fingerprint string // of what it has planned; empty: nothing
	// The rest is of a trigger that fires when a threshold is crossed.
	By      string         // the rules by which the last look counted crossings; empty: none did, and Afresh
	Level   *float64       // the metric at that look; nil: nothing could be reached, or time alone moves it
	Crossed map[string]int // by threshold: how often it was reached, ever (R10)
	// Over are the thresholds that are reached, each with the number of its crossing; 0: an edit has brought it below the
	// record, or the trigger came when it was reached already. One that is defined no longer stays until the record is below it.
	Over map[string]int
}

// Afresh is By of a record that is not there: whatever it reaches when it comes back is a crossing.
const Afresh = "*"

func (a Ahead) equal(o Ahead) bool {
	return a.Fingerprint == o.Fingerprint && a.By == o.By && maps.Equal(a.Crossed, o.Crossed) && maps.Equal(a.Over, o.Over)
}

// Crossing is what a look sees of thresholds.
type Crossing struct {
	Rules   string   // tells these rules from all others
	Fresh   bool     // the record was never looked at
	Defined []string // the thresholds; one empty name for a condition
	Met     []string // those that are reached, be it not for long enough
	Ripe    []string // those that are, for long enough
	Failed  []string // those of which that is not known
	Level   *float64 // the metric; nil: nothing is reached, whatever the thresholds, or there is no metric
	Moving  bool     // time alone changes the metric
}

// Cross returns what is remembered after a look. Since is what was met at the look before.
//
// A threshold is crossed when the record gets there, and never by an edit (R11): what is reached at the first look by new rules
// is no crossing, unless the record is new. Thresholds are not among the rules, where it is known how high the record stood at
// the last look: it has crossed those that lay above that.
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

// stands reports whether a threshold that is defined no longer is reached, as far as that can be said.
func (v Crossing) stands(name string) bool {
	number, err := strconv.ParseFloat(name, 64)
	metric := len(v.Defined) > 0 && v.Defined[0] != ""
	return !metric || err != nil || v.Level != nil && number <= *v.Level
}

// below reports whether a threshold was reached at a level.
func below(name string, level *float64) bool {
	number, err := strconv.ParseFloat(name, 64)
	return err == nil && level != nil && number <= *level
}
