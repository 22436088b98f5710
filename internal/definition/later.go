package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
)

// What a later release builds is refused, and read nevertheless where that is cheap: its author learns of a slip of
// the pen now, not after the upgrade.

func (r *reader) laterInTrigger(f fields, id string) {
	if fire, cooldown := f.get("fire"), f.get("cooldown"); fire != nil && cooldown != nil {
		r.invalid(fire.Pos, fmt.Sprintf("trigger %s: fire and cooldown exclude each other", id), "")
	}
	if calendar := f.get("schedule"); calendar != nil {
		r.weekdays(calendar)
	}
}

// weekdays checks the days of a schedule: names of weekdays with weeks, numbers with months.
func (r *reader) weekdays(schedule *portable.Node) {
	every, days := schedule.Get("every"), schedule.Get("days")
	if every == nil || days == nil || !strings.HasSuffix(every.Text, "w") {
		return
	}
	names := []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	for _, day := range r.items(days) {
		text, ok := r.text(day)
		if !ok || slices.Contains(names, text) {
			continue
		}
		hint := "weekdays are " + strings.Join(names, " ")
		for _, name := range names {
			if strings.HasPrefix(strings.ToLower(text), name) {
				hint = "did you mean " + name + "?"
			}
		}
		r.invalid(day.Pos, fmt.Sprintf("%q is not a weekday", text), hint)
	}
}

func (r *reader) laterInTiming(f fields, scope expr.Scope) {
	if n := f.get("at"); n != nil {
		r.at(n, scope)
	}
	r.condition(f.get("stop_when"), scope)
}
