package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

// A course that began on 1 June 2026 at 08:00 in Berlin, in which the message of 09:00 comes first. Another time of day, another zone or another first
// weekday changes neither its rounds nor their number. An entry is "round.message iteration instant".
//
// Shows: D15, D20, D21.
func TestCourseResumes(t *testing.T) {
	t.Parallel()
	began := instant("2026-06-01T06:00:00Z")
	weekly, daily, monthly := civil.Duration{Days: 7}, civil.Duration{Days: 1}, civil.Duration{Months: 1}
	at := func(clocks ...string) (list []schedule.CourseMessage) {
		for _, c := range clocks {
			list = append(list, dayAt(0, c))
		}
		return list
	}
	for _, c := range []struct {
		name      string
		was       schedule.Course
		is        schedule.Course
		zone      string
		round     int // its first message, by position
		atRound   string
		fromFirst string
	}{
		{
			"an earlier hour",
			schedule.Course{Messages: at("09:00"), Every: weekly, Rounds: 3},
			schedule.Course{Messages: at("07:30"), Every: weekly, Rounds: 3},
			"Europe/Berlin", 0, "0.0 1 06-01 05:30", "1.0 2 06-08 05:30; 2.0 3 06-15 05:30",
		},
		{
			"a later hour",
			schedule.Course{Messages: at("09:00"), Every: weekly, Rounds: 2},
			schedule.Course{Messages: at("10:30"), Every: weekly, Rounds: 2},
			"Europe/Berlin", 0, "0.0 1 06-01 08:30", "0.0 1 06-01 08:30; 1.0 2 06-08 08:30",
		},
		{
			"a zone in the east",
			schedule.Course{Messages: at("09:00"), Every: daily, Rounds: 3},
			schedule.Course{Messages: at("09:00"), Every: daily, Rounds: 3},
			"Pacific/Auckland", 0, "0.0 1 05-31 21:00", "1.0 2 06-01 21:00; 2.0 3 06-02 21:00",
		},
		{
			"with a first weekday",
			schedule.Course{Messages: at("09:00"), Every: weekly, Rounds: 2, StartOn: []time.Weekday{time.Monday}},
			schedule.Course{Messages: at("07:30"), Every: weekly, Rounds: 2, StartOn: []time.Weekday{time.Monday}},
			"Europe/Berlin", 0, "0.0 1 06-01 05:30", "1.0 2 06-08 05:30",
		},
		{
			"the first message of a day was past when it began",
			schedule.Course{Messages: at("07:00", "09:00"), Every: daily, Rounds: 2},
			schedule.Course{Messages: at("06:00", "07:30"), Every: daily, Rounds: 2},
			"Europe/Berlin", 0, "0.0 1 06-01 04:00", "1.0 2 06-02 04:00; 1.1 2 06-02 05:30",
		},
		{
			"months without a time of day, in a zone in the west",
			schedule.Course{Messages: []schedule.CourseMessage{{}}, Every: monthly, Rounds: 2},
			schedule.Course{Messages: []schedule.CourseMessage{{}}, Every: monthly, Rounds: 2},
			"Pacific/Honolulu", 0, "0.0 1 06-02 06:00", "0.0 1 06-02 06:00; 1.0 2 07-02 06:00",
		},
		{
			"months without a time of day, whose day comes first in the second month",
			schedule.Course{Messages: []schedule.CourseMessage{{Day: 31}}, Every: monthly, Rounds: 2, Missing: civil.MissingDaySkip},
			schedule.Course{Messages: []schedule.CourseMessage{{Day: 31}}, Every: monthly, Rounds: 2, Missing: civil.MissingDaySkip},
			"Europe/Berlin", 1, "1.0 1 07-31 06:00", "1.0 1 07-31 06:00; 2.0 2 08-31 06:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := c.was.Begin(began, zone(t, "Europe/Berlin"), false)
			if start.Date != dayOn("2026-06-01") {
				t.Fatalf("begins on %v", start.Date)
			}
			s := c.is.Resume(start, zone(t, c.zone))
			text := func(o schedule.CourseOccurrence) string {
				return fmt.Sprintf("%d.%d %d %s", o.Round, o.Message, o.Iteration, o.Due.UTC().Format("01-02 15:04"))
			}
			var got []string
			for _, o := range walk(s, time.Time{}, 4) {
				got = append(got, text(o))
			}
			if all := strings.Join(got, "; "); all != c.fromFirst {
				t.Errorf("got  %s\nwant %s", all, c.fromFirst)
			}
			if o, ok := s.At(schedule.Position{Round: c.round}); !ok || !s.Has(o) || text(o) != c.atRound {
				t.Errorf("the first message is %s (%v), want %s", text(o), ok, c.atRound)
			}
			if n := s.Opening(); n != 1 {
				t.Errorf("the first message has the number %d", n)
			}
		})
	}
}
