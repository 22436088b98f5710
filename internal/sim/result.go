package sim

import (
	"time"

	"github.com/carillonhq/carillon/internal/journal"
)

// Result is the result of one scenario.
type Result struct {
	Scenario *Scenario
	Journal  []journal.Entry // everything the engine did, in order
	Took     time.Duration   // of the machine's time

	steps []stepResult // one per step, held or not
}

// stepResult is one step compared with what happened.
type stepResult struct {
	*Step
	outcomes []outcome
	from, to int // the entries of the journal since the step above

	waits map[int64]string // for a step that differs: what delays deliveries, by their number
}

// Held reports whether everything was as expected.
func (r Result) Held() bool {
	for _, s := range r.steps {
		if !s.held() {
			return false
		}
	}
	return true
}

// Span returns how much virtual time passed.
func (r Result) Span() time.Duration {
	steps := r.Scenario.Steps
	if len(steps) == 0 {
		return 0
	}
	return steps[len(steps)-1].At.Sub(r.Scenario.Start)
}

func (s stepResult) held() bool {
	for _, o := range s.outcomes {
		if !o.held {
			return false
		}
	}
	return true
}

func (s stepResult) differences() int {
	n := 0
	for _, o := range s.outcomes {
		n += o.differences()
	}
	return n
}
