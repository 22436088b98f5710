package loader

import "fmt"

// Keys of a later release are refused, but still read where that is cheap, so that an author learns of mistakes now and not after the
// upgrade.

func (r *reader) laterInTrigger(f fields, id string) {
	if fire, cooldown := f.get("fire"), f.get("cooldown"); fire != nil && cooldown != nil {
		r.invalid(fire.Pos, fmt.Sprintf("trigger %s: fire and cooldown exclude each other", id), "")
	}
}
