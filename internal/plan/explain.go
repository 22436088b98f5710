package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Explanation is the reason why a trigger would fire for a record at an instant, or why not.
type Explanation struct {
	Evaluation
	Before  condition.State // the state before the evaluation
	FiredAt time.Time       // when the context that is met now last fired; none: never, or it was reset
	Reason  reason.Reason   // matched: it would fire
	Until   time.Time       // the end of a wait; none: there is no wait, or it does not end by time
}

// Explain explains an evaluation. Last is the last firing of the evaluation's context.
func Explain(l Evaluation, before condition.State, rec subject.Record, g Observation, last Firing) Explanation {
	s := Explanation{Evaluation: l, Before: before, FiredAt: last.FiredAt, Reason: reason.Matched}
	if l.Trigger.OnPlan() != nil {
		switch {
		case l.Ahead.Reason != "":
			s.Reason = l.Ahead.Reason
		case l.Ahead.Course != nil && len(l.Ahead.Desired) == 0: // its last message was due since the trigger was evaluated
			s.Reason = reason.CourseOver
		}
		if wrong := l.Ahead.wrong(); wrong != "" {
			s.Err = errors.New(wrong)
		}
		return s
	}
	var met []string
	var clause reason.Reason // why the unmet conditions are not met; the most serious reason wins
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
	free := last.FreeAt(l.Cooldown)
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
	case last.InFlight:
		return wait(reason.InFlight, time.Time{})
	case before.Undelivered(l.Context):
		return wait(reason.NoRecipient, g.EvaluateAt)
	}
	return s
}

// weight ranks the reasons why conditions are not met. A failing expression silences its trigger for ever, a missing field may, and a
// false condition is normal.
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

// longEnough returns when the first of the met issues will have been met for as long as the trigger requires.
func (l *Evaluation) longEnough(met []string) (at time.Time) {
	for _, issue := range met {
		if due := l.State.Since[issue].Add(l.Rule.For); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}
