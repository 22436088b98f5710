package civil

import (
	"fmt"
	"strconv"
)

// TimeOfDay is the time that a wall clock shows, in seconds after 00:00.
type TimeOfDay int32

// ParseTimeOfDay reads a time of day written as 09:00, from 00:00 to 23:59. The error is an *Error.
func ParseTimeOfDay(s string) (TimeOfDay, error) {
	if len(s) == len("09:00") && s[2] == ':' {
		hour, okHour := digits(s[0:2])
		minute, okMinute := digits(s[3:5])
		if okHour && okMinute && hour < 24 && minute < 60 {
			return TimeOfDay(hour*3600 + minute*60), nil
		}
	}
	return 0, &Error{
		Message: strconv.Quote(s) + " is not a time of day",
		Hint:    `a time of day is written "09:00", from "00:00" to "23:59"`,
	}
}

// String returns the time as 09:00, with seconds only if they are not zero.
func (t TimeOfDay) String() string {
	if t%60 != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", t/3600, t/60%60, t%60)
	}
	return fmt.Sprintf("%02d:%02d", t/3600, t/60%60)
}
