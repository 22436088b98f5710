package condition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
)

// Each beginning of a course has a number of its own, which a stored state keeps (R10).
func TestCourseAgain(t *testing.T) {
	t.Parallel()
	first := condition.Course{}.Again("a", 0)
	if first.Resets != 0 || first.Begun() {
		t.Fatalf("the first course is %+v", first)
	}
	first.Date, first.Moment = civil.Date{Year: 2026, Month: time.May, Day: 14}, time.Date(2026, 5, 14, 10, 0, 0, 5000, time.UTC)
	second := first.Again("b", 2)
	if want := (condition.Course{Resets: 1, Value: "b", Crossing: 2}); second != want {
		t.Errorf("the second course is %+v, want %+v", second, want)
	}
	second.Date = first.Date
	for _, c := range []condition.Course{first, second} {
		states := condition.States{"w/t": {Ahead: condition.Ahead{Course: c}}}
		again, err := condition.Parse(states.String())
		if err != nil || again["w/t"].Ahead.Course != c || !again["w/t"].Equal(states["w/t"]) {
			t.Errorf("stored and read again, %+v is %+v (%v)", c, again["w/t"].Ahead.Course, err)
		}
		if again["w/t"].Equal(condition.State{}) {
			t.Errorf("%+v counts as no course", c)
		}
	}
}
