package admission

import (
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Converses reports whether the message asks its survey by messages, one question each.
func (r Rules) Converses() bool { return r.Trigger != nil && r.Trigger.Message.Converses }

// Asking returns the rules of a delivery whose survey is asked by messages, with the questions of a set. Each question has the reminders of the conversation, and the
// session ends the delivery. What a session says after its first message answers its person: it passes limits and uses none up, and goes nowhere else. The
// reminders of a question do not.
func (r Rules) Asking(row delivery.Row, set *definition.Set) Rules {
	r.Survey = set.Survey(r.Trigger.Message.Survey)
	t := *r.Trigger
	r.Trigger = &t
	t.Timing.Reminders, t.Timing.RemindersFrom = nil, schedule.FromPrevious
	if r.Survey != nil {
		t.Timing.Reminders = r.Survey.Conversation.Reminders
	}
	if row.Turn > 0 {
		t.Fallback = nil
		if row.Step == 0 {
			t.Limits, t.Timing.CatchUp, t.StopWhen = definition.Limits{Critical: true, Uncounted: true}, schedule.CatchUp{}, nil
			r.MaxSends = 0
		}
		if !row.Says.Repeats() {
			t.Timing.Reminders = nil
		}
	}
	r.Policy.Timing, r.Policy.Awaits, r.Policy.Session = t.Timing, row.Turn == 0, true
	return r
}

// SessionEnds returns when a session ends that begins at an instant.
func (r Rules) SessionEnds(begins time.Time) time.Time {
	if r.Survey != nil && !r.Survey.Conversation.ExpireAfter.IsZero() {
		return begins.Add(r.Survey.Conversation.ExpireAfter.Exact())
	}
	return r.Trigger.Timing.ExpiresAt(begins, begins)
}

// reminders returns how many reminders a delivery of a trigger has.
func reminders(set *definition.Set, t *definition.Trigger) int {
	if !t.Message.Converses {
		return len(t.Timing.Reminders)
	}
	if survey := set.Survey(t.Message.Survey); survey != nil {
		return len(survey.Conversation.Reminders)
	}
	return 0
}
