package definition

import (
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
)

// Course makes a series of messages from one occasion of a record: a round of messages, which may repeat. Package schedule computes when
// they are due, once the expressions have values.
type Course struct {
	Messages   []CourseMessage // of a round, in the order of sending; at least one
	StartOn    []time.Weekday  // one weekday; none: any day
	Whole      bool            // a course that begins when its condition is met waits for a whole round (first: whole)
	Every      civil.Duration  // the length of a round: days or months; zero: there is one round
	Weekdays   []time.Weekday  // of the first week of a round, on which its only message goes out
	Rounds     int             // 0: no bound
	AllRounds  bool            // months without the day count as rounds (count: all)
	UntilDate  civil.Date      // nothing is due from its first midnight on, in the workspace's zone; zero: no bound
	Until      *expr.Program   // the same, read from the record: a date or an instant; nil: no bound
	MissingDay civil.MissingDay
	ResetOn    *expr.Program // any change of its value begins the course again; nil: nothing does
	Backlog    string        // which of several overdue messages are sent: latest, first or all
}

// CourseMessage is when one message of a round is due: on a day of it, or after the message before it.
type CourseMessage struct {
	Day     int
	Follows bool           // After counts from the message before it
	After   civil.Duration // of the first message: from Day and At
	At      At             // with Day; not given: the timing's
}
