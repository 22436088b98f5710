package gate

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Where only what was sent counts, what another process has just sent counts although its clock was ahead; what waits for
// later does not.
//
// Shows: A39.
func TestWhatCountsAsSent(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		slot time.Time
		want cadence.Verdict
	}{
		"sent by a later clock": {now.Add(50 * time.Millisecond), cadence.Verdict{At: time.Date(2026, 5, 14, 22, 0, 0, 0, time.UTC), Reason: reason.CadenceDaily}},
		"waiting":               {now.Add(2 * time.Minute), cadence.Verdict{At: now}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person := store.Person{
				Contact: subject.Contact{ID: 1, Persona: "none", Cadence: `{"max_per_day": 1, "count": "sent"}`}, Found: true, Locked: true, SlotsRead: true,
				Slots: []store.Slot{{At: c.slot, Type: "alert", Channel: "email:default", N: 1}},
			}
			a := Ask{Set: set, Person: person, Channel: "email:default", Type: "alert", Now: now, Until: now.AddDate(0, 1, 0)}
			if got := NewBook(&civil.Zones{}).Try(a); !got.At.Equal(c.want.At) || got.Reason != c.want.Reason {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
