package loader

import (
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/schedule"
)

// When a message is due, and what follows it.

func (r *reader) timing(n *portable.Node, scope expr.Scope, t *definition.Trigger) {
	f, ok := r.fields(n, "timing")
	if !ok {
		return
	}
	t.Anchor = r.anchor(f.get("anchor"), scope)
	if offsets := r.items(f.get("offset")); len(offsets) > 0 && t.OnPlan() == nil && !isOfAnything(scope) {
		for i, n := range offsets {
			text, ok := r.text(n)
			if !ok {
				continue
			}
			offset, err := civil.ParseOffset(text)
			switch {
			case err != nil:
				r.refuse(n, err)
			case i > 0 && scope.Event:
				r.invalid(n.Pos, "an event has one offset", "write a sequence, with day or after for each message")
			case i > 0:
				r.report(definition.CodeNotSupportedYet, n.Pos, "several offsets are not supported yet", "write a trigger for each, with a timing of its own")
			default:
				t.Timing.Offset = offset
			}
		}
	}
	switch {
	case isOfAnything(scope):
		r.condition(f.get("stop_when"), scope)
	case scope.Record:
		r.timingOnRecord(f, scope, t)
	case scope.Event:
		r.timingOnEvent(f, scope, t)
	default:
		r.timingOnSchedule(f, scope, t)
	}
	if scope.Event != scope.Record {
		r.unscheduled(f, t)
	}
	t.Timing.Reminders = r.durations(f.get("reminders"))
	from := r.word(f.get("reminders_from"), "reminders_from", string(schedule.FromPrevious), []string{string(schedule.FromPrevious), string(schedule.FromAnchor)})
	t.Timing.RemindersFrom = schedule.From(from)
	if t.Timing.RemindersFrom == schedule.FromAnchor {
		for i := 1; i < len(t.Timing.Reminders); i++ {
			if t.Timing.Reminders[i].Exact() <= t.Timing.Reminders[i-1].Exact() {
				r.invalid(f.get("reminders").Pos, "reminders that count from the anchor must ascend", "[5d, 15d, 30d]")
				break
			}
		}
	}
	t.Timing.ExpireAfter, _ = r.duration(f.get("expire_after"))
	t.Timing.AcceptLate = r.bool(f.get("accept_late"), false)
	if n := f.get("catch_up"); n != nil {
		if text, ok := r.text(n); ok {
			late, err := schedule.ParseCatchUp(text)
			if err != nil {
				r.refuse(n, err)
			}
			t.Timing.CatchUp = late
		}
	}
}

// occurredAt is the default anchor of an event.
const occurredAt = "event.occurred_at"

// anchor reads a date, now, or an expression; what begins like a date must be one (docs/reference/definitions.md, Values).
func (r *reader) anchor(n *portable.Node, scope expr.Scope) *expr.Program {
	text, ok := r.text(n)
	if !ok || text == occurredAt || text == definition.AnchorNow && !scope.Event {
		return nil
	}
	if !scope.Event { // every evaluation must give the same date
		scope.Now = false
	}
	if text[0] >= '0' && text[0] <= '9' {
		if _, err := civil.ParseDate(text); err != nil {
			r.refuse(n, err)
			return nil
		}
		scope.Now = true // date takes the zone of now to make a date of an instant, and this is a date already
		p, err := r.compiler.Compile(`date("`+text+`")`, scope, expr.Time)
		if err != nil {
			r.refuse(n, err)
		}
		return p
	}
	if r.dateField(n, text, scope.RecordType) {
		return nil
	}
	return r.expression(n, scope, expr.Time)
}
