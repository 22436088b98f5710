package chaos

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
)

// A message that holds no place is decided before the quiet hours, and may arrive in them while its lease runs.
func TestQuietHoursBeginOnTheWay(t *testing.T) {
	t.Parallel()
	quiet := time.Date(2026, 5, 14, 20, 57, 0, 0, time.UTC)
	o := oracle{somebody: somebody{zone: time.UTC}, policy: cadence.Policy{Quiet: civil.Span{From: civil.TimeOfDay(20*60*60 + 57*60), To: civil.TimeOfDay(22 * 60 * 60)}}}
	for _, c := range []struct {
		intent, accepted time.Duration
		want             string
	}{
		{-time.Second, -time.Millisecond, ""},
		{-time.Second, time.Second, ""},
		{-time.Second, lease + time.Second, "quiet hours"},
		{0, time.Second, "quiet hours"},
	} {
		m := &limitRow{workflow: uncounted, intent: quiet.Add(c.intent), accepted: []time.Time{quiet.Add(c.accepted)}}
		(&limits{run: &run{}}).place(&Report{counts: map[string]float64{}}, m)
		if got, _ := o.over(nil, m); got != c.want {
			t.Errorf("decided %s and accepted %s after the quiet hours have begun: %q, want %q", c.intent, c.accepted, got, c.want)
		}
	}
}
