package outbox

import (
	"testing"

	"github.com/carillonhq/carillon/internal/key"
)

// Shows: C35.
func TestWhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		sinks []Status
		want  Status
	}{
		{"no sinks", nil, Dispatched},
		{"both accepted", []Status{Dispatched, Dispatched}, Dispatched},
		{"one waits", []Status{Dispatched, Pending}, Pending},
		{"one is dead", []Status{Dispatched, Dead}, Dead},
		{"one is dead, one waits", []Status{Dead, Pending}, Pending},
		{"one waits, one is dead", []Status{Pending, Dead}, Pending},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Whole(tt.sinks); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The draw is the same in every replay, and differs between tries, events and sinks.
func TestDraw(t *testing.T) {
	t.Parallel()
	const limit = 1 << 40
	secret := key.NewKeyed(make([]byte, 32), key.PurposeJitter)
	row := Row{EventID: 1, Sink: "a", AttemptNo: 1}
	want := row.Draw(secret)(limit)
	if got := row.Draw(secret)(limit); got != want {
		t.Errorf("a second draw gave %d, the first %d", got, want)
	}
	for name, other := range map[string]Row{
		"event": {EventID: 2, Sink: "a", AttemptNo: 1}, "sink": {EventID: 1, Sink: "b", AttemptNo: 1}, "try": {EventID: 1, Sink: "a", AttemptNo: 2},
	} {
		if other.Draw(secret)(limit) == want {
			t.Errorf("another %s drew the same", name)
		}
	}
}
