package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Explanation is how a trigger stands to a record at an instant: why it would fire now, or why not.
type Explanation struct {
	Evaluation
	Before  condition.State // what it remembers
	FiredAt time.Time       // when the context that is met now fired last; none: never, or it was reset
	Reason  reason.Reason   // matched: it would fire
	Until   time.Time       // of a wait; none: it ends by something else than time, or there is none
}

// Explain explains a look. The stamp is that of the look's context.
func Explain(l Evaluation, before condition.State, rec subject.Record, g Observation, stamp Firing) Explanation {
	s := Explanation{Evaluation: l, Before: before, FiredAt: stamp.FiredAt, Reason: reason.Matched}
	if l.Trigger.Ahead() {
		if l.Ahead.Reason != "" {
			s.Reason = l.Ahead.Reason
		}
		if wrong := l.Ahead.wrong(); wrong != "" {
			s.Err = errors.New(wrong)
		}
		return s
	}
	var met []string
	var clause reason.Reason // why the conditions are not met that are not: what is wrong with them goes first
	for _, j := range l.Judged {
		if j.Met {
			met = append(met, j.Issue)
			continue
		}
		for _, c := range j.Clauses {
			if !c.Met && weight(c.Reason) > weight(clause) {
				clause = c.Reason
			}
		}
	}
	wait := func(why reason.Reason, until time.Time) Explanation {
		s.Reason, s.Until = why, until
		return s
	}
	free := stamp.FreeAt(l.Cooldown)
	switch {
	case !l.Workflow.Enabled:
		return wait(reason.WorkflowInactive, time.Time{})
	case !l.Trigger.Enabled:
		return wait(reason.TriggerDisabled, time.Time{})
	case rec.Closed || rec.Deleted:
		return wait(reason.RecordClosed, time.Time{})
	case len(met) == 0 && clause == "":
		return wait(reason.ConditionFalse, time.Time{})
	case len(met) == 0:
		if c := l.Failed; c != nil {
			s.Err = fmt.Errorf("%s: %s", c.Source, c.Detail)
		}
		return wait(clause, time.Time{})
	case !l.Outcome.Judged:
		return wait(reason.AwaitsTick, condition.TickAfter(g.Now, l.Rule.Every))
	case len(l.Outcome.Issues) == 0:
		return wait(reason.ForNotReached, l.longEnough(met))
	case l.Err != nil:
		return wait(reason.ExpressionFailed, time.Time{})
	case g.Now.Before(free):
		return wait(reason.Throttled, free)
	case stamp.InFlight:
		return wait(reason.InFlight, time.Time{})
	case before.Undelivered(l.Context):
		return wait(reason.NoRecipient, g.EvaluateAt)
	}
	return s
}

// weight orders why conditions are not met: one that breaks keeps its trigger silent for ever, a field that is missing
// perhaps, and one that is false is as it should be.
func weight(why reason.Reason) int {
	switch why {
	case "":
		return 0
	case reason.ExpressionFailed, reason.CostExceeded:
		return 3
	case reason.ValueMissing:
		return 2
	default:
		return 1
	}
}

// longEnough is when the first of what is met will have been so for as long as the trigger wants.
func (l *Evaluation) longEnough(met []string) (at time.Time) {
	for _, issue := range met {
		if due := l.State.Since[issue].Add(l.Rule.For); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}
