package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
)

const (
	comingShown     = 20 // how many occurrences a page lists
	comingWorkflows = 20 // of how many workflows it asks
)

// comingLine is an occurrence that is to come.
type comingLine struct {
	id       string
	there    scale // of its own zone
	at       time.Time
	zone     string
	workflow string
	href     string
	what     string // which message of which round, or how far it is from its date
	state    badge
	why      string
}

// comingEnd says why nothing follows the occurrences of a trigger, or why there are none.
type comingEnd struct {
	workflow, trigger string
	text              string
}

// comingList is what is to come of a record or a contact.
type comingList struct {
	scale
	rows     []comingLine
	ends     []comingEnd
	commands []string // each prints more of one workflow
	unasked  int      // how many workflows were not asked
}

// coming asks workflows what is to come, for a record or a contact.
func (c *console) coming(ctx context.Context, v visit, workflows []*definition.Workflow, q outlook.Query, whom string) (list comingList, err error) {
	list = comingList{scale: v.scale}
	if n := len(workflows) - comingWorkflows; n > 0 {
		workflows, list.unasked = workflows[:comingWorkflows], n
	}
	q.Limit = comingShown
	for _, w := range workflows {
		q.Workflow = w.Name
		answer, err := c.Definitions.Upcoming(ctx, v.workspace.ID, q)
		var refused *outlook.Error
		switch {
		case errors.As(err, &refused): // it was edited meanwhile
			continue
		case err != nil:
			return list, err
		case answer.Outside:
			continue
		}
		more := len(answer.Occurrences) == comingShown
		for _, o := range answer.Occurrences {
			list.rows = append(list.rows, v.comingLine(o, answer))
		}
		for _, t := range answer.Triggers {
			if text := endText(t, answer); text != "" {
				list.ends = append(list.ends, comingEnd{w.Name, t.Trigger.ID, text})
			}
			more = more || t.More > 0 || t.Endless
		}
		if more {
			list.commands = append(list.commands, fmt.Sprintf("carillon preview %s %s -n 200", w.Name, whom))
		}
	}
	slices.SortStableFunc(list.rows, func(a, b comingLine) int { return a.at.Compare(b.at) })
	list.rows = list.rows[:min(len(list.rows), comingShown)]
	return list, nil
}

func (v visit) comingLine(o plan.Occurrence, a outlook.Answer) comingLine {
	l := comingLine{
		id: cmp.Or(string(o.Key), o.At.String()), at: o.At, zone: cmp.Or(o.Zone, a.Zone), there: v.scale,
		workflow: a.Workflow.Name, href: workflowHref(a.Workflow.Name), what: occurrenceText(o), state: occurrenceState(o.Status),
	}
	if loc, err := civil.LoadZone(l.zone); err == nil {
		l.there.zone = loc
	}
	if o.Row.ID != 0 {
		l.href = "/instances/" + v.public(key.KindInstance, int64(o.Row.ID))
	}
	switch {
	case a.Pause != nil:
		l.state, l.why = badge{hold, "paused"}, reason.WorkflowPaused.Sentence()
	case o.Reason != "":
		l.why = o.Reason.Sentence()
	}
	return l
}

// occurrenceText says which message of its workflow an occurrence is.
func occurrenceText(o plan.Occurrence) string {
	var parts []string
	switch {
	case o.Of > 1:
		parts = append(parts, fmt.Sprintf("round %d, message %d of %d", o.Iteration, o.Position.Message+1, o.Of))
	case o.Iteration > 0 && o.Of == 1:
		parts = append(parts, fmt.Sprintf("round %d", o.Iteration))
	case o.Iteration > 0:
		parts = append(parts, fmt.Sprintf("number %d", o.Iteration))
	case !o.Desired.Offset.IsZero():
		parts = append(parts, o.Desired.Offset.String())
	}
	if person := o.Key.Person(); person != "" {
		parts = append(parts, "the own course of "+person)
	}
	return strings.Join(parts, ", ")
}

func occurrenceState(s plan.OccurrenceStatus) badge {
	switch s {
	case plan.OccurrenceHeld, plan.OccurrencePaused, plan.OccurrenceDelayed, plan.OccurrenceOverdue:
		return badge{hold, string(s)}
	case plan.OccurrencePlanned, plan.OccurrenceWaiting, plan.OccurrenceAssumed:
	}
	return badge{wait, string(s)}
}

// endText says why nothing follows the last occurrence of a trigger, or why there is none; empty: more follow, or it is not known.
func endText(t plan.TriggerOutlook, a outlook.Answer) string {
	text := ""
	switch {
	case t.More > 0 || t.Endless:
		return ""
	case t.Reason != "":
		text = t.Reason.Sentence()
		if t.Field != "" {
			text += " " + t.Field
		}
		return text
	case t.End == "":
		return ""
	}
	switch t.End {
	case schedule.EndNone:
	case schedule.EndTimes:
		text = fmt.Sprintf("It ends after %d times.", t.Times)
	case schedule.EndUntil:
		text = "It ends when until is reached."
	case schedule.EndSequence:
		text = "Each of its messages is due once."
	case plan.EndStopWhen:
		text = "stop_when is true by then."
	case plan.EndDates:
		text = "The record has no further date."
	case plan.EndCondition:
		text = "Its condition is false by then."
	}
	if last := t.Last; !last.IsZero() {
		text += " The last one is due on " + last.In(zoneOf(t, a)).Format("2 Jan 2006") + "."
	}
	return text
}

// zoneOf is the zone of the occurrences of a trigger.
func zoneOf(t plan.TriggerOutlook, a outlook.Answer) *time.Location {
	name := a.Zone
	for _, o := range a.Occurrences {
		if o.Trigger == t.Trigger.ID && o.Zone != "" {
			name = o.Zone
		}
	}
	loc, err := civil.LoadZone(name)
	if err != nil {
		return time.UTC
	}
	return loc
}

// shellWord is a text as a shell takes it.
func shellWord(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"\\$*?&|;<>()`#~[]{}!", r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// followers are the workflows that follow records of a type.
func followers(set *definition.Set, typ string) (list []*definition.Workflow) {
	for _, m := range set.ByRecord(typ) {
		if !slices.Contains(list, m.Workflow) {
			list = append(list, m.Workflow)
		}
	}
	return list
}

// dated are the workflows that may have something to come for a contact without a record: those with schedules, and those on events. Digests have a part of
// their own: each of their runs is for many people, and says nothing of one.
func dated(set *definition.Set) (list []*definition.Workflow) {
	for _, w := range set.Workflows() {
		if slices.ContainsFunc(w.Trigger, func(t *definition.Trigger) bool { return t.OnSchedule() != nil || t.OnEvent() != nil }) &&
			!slices.ContainsFunc(w.Trigger, func(t *definition.Trigger) bool { return t.Digest != nil }) {
			list = append(list, w)
		}
	}
	return list
}
