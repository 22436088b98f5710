package definition

import (
	"fmt"

	"github.com/carillonhq/carillon/internal/expr"
)

// What a later release builds is refused, and read nevertheless where that is cheap: its author learns of a slip of
// the pen now, not after the upgrade.

func (r *reader) laterInTrigger(f fields, id string) {
	if fire, cooldown := f.get("fire"), f.get("cooldown"); fire != nil && cooldown != nil {
		r.invalid(fire.Pos, fmt.Sprintf("trigger %s: fire and cooldown exclude each other", id), "")
	}
}

func (r *reader) laterInTiming(f fields, scope expr.Scope) {
	if n := f.get("at"); n != nil {
		r.at(n, scope)
	}
	r.condition(f.get("stop_when"), scope)
}
