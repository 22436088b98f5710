package delivery

import (
	"cmp"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/reason"
)

// Counted is how many deliveries of an occasion have the same status and reason.
type Counted struct {
	Status Status
	Reason reason.Reason // empty: none
	Left   bool          // a message has left, whatever the status is now
	N      int
}

// Tally says what has become of the deliveries of an occasion so far. Each of them is counted once, as one that was sent, waits, is of unknown outcome, has failed
// or was left out.
type Tally struct {
	Deliveries int
	Sent       int       // a message has left
	Waiting    int       // nothing has left yet, and it will
	Unknown    int       // a message may have left
	Failed     int       // given up
	LeftOut    int       // skipped, superseded or cancelled, before a message has left
	Reasons    []Counted // of those that have a reason and were not sent, the most frequent first
	More       bool      // there are more deliveries than were counted
	TakingUp   bool      // the occasion has people whom it has not taken up yet
}

// TallyOf sums the deliveries of an occasion.
func TallyOf(counted []Counted, more bool) Tally {
	t := Tally{More: more}
	for _, c := range counted {
		t.Deliveries += c.N
		switch {
		case c.Left:
			t.Sent += c.N
			continue
		case c.Status == Unknown:
			t.Unknown += c.N
		case c.Status == Failed:
			t.Failed += c.N
		case c.Status.Final():
			t.LeftOut += c.N
		default:
			t.Waiting += c.N
		}
		if c.Reason != "" {
			t.Reasons = append(t.Reasons, c)
		}
	}
	slices.SortFunc(t.Reasons, func(a, b Counted) int {
		return cmp.Or(b.N-a.N, strings.Compare(string(a.Status), string(b.Status)), strings.Compare(string(a.Reason), string(b.Reason)))
	})
	return t
}
