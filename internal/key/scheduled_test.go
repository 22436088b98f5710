package key

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Shows: B14, B15.
func TestKeysOfTheCalendar(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	day := civil.Date{Year: 2026, Month: 5, Day: 14}
	morning, evening := civil.TimeOfDay(8*3600), civil.TimeOfDay(20*3600+1800)
	for want, got := range map[string]Instance{
		"report-subscription:occupancy:scheduled:20260510T120000Z":        Scheduled("report", "occupancy", "", start),
		"report-subscription:occupancy:weekly:scheduled:20260510T120000Z": Scheduled("report", "occupancy", "weekly", start),
		"broadcast:tips:weekly:2026-05-14":                                Day("broadcast", "tips", "weekly", day, false, morning),
		"broadcast:tips:2026-05-14":                                       Day("broadcast", "tips", "", day, false, morning),
		"broadcast:tips:twice:2026-05-14T2030":                            Day("broadcast", "tips", "twice", day, true, evening),
		"report-subscription:occupancy:manual:2026-19":                    Manual("report", "occupancy", "2026-19"),
		"custom:w:manual:a%3Ab%7Cc%25":                                    Manual("custom", "w", "a:b|c%"),
	} {
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
