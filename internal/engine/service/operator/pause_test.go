package operator

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

// A pause in force stays as it is, with who asked first and why. One that was resumed begins again.
func TestPausing(t *testing.T) {
	t.Parallel()
	before := now.Add(-time.Hour)
	asked := store.Pause{Workflow: "w", PausedAt: now, Actor: "ann", Why: "again"}
	inForce := store.Pause{Workflow: "w", PausedAt: before, Actor: "bob", Why: "first", Deliveries: 3}
	resumed := inForce
	resumed.ResumedAt = before.Add(time.Minute)
	for name, tt := range map[string]struct {
		was  *store.Pause
		want Paused
	}{
		"never paused":                   {nil, Paused{Pause: asked, Changed: true}},
		"paused":                         {&inForce, Paused{Pause: inForce}},
		"resumed, with parked rows left": {&resumed, Paused{Pause: asked, Changed: true}},
	} {
		if got := pausing(tt.was, asked); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
