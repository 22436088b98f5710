package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// instantHint returns how an instant is written.
const instantHint = `an instant is written "10:05", +5m, 2026-05-14 10:05 or 2026-05-14T10:05:00+02:00`

// parseInstant reads an instant of a scenario (docs/how-to/scenarios.md): a time of day on the day of base, an offset from base,
// a date and time in loc, or an instant that names its own offset. The offset is exact: +5d is 120 hours. A local time
// that does not exist or occurs twice is refused, with the two instants that may be meant. The error is a *civil.Error.
func parseInstant(s string, base time.Time, loc *time.Location) (time.Time, error) {
	refused := &civil.Error{Message: fmt.Sprintf("%q is not an instant", s), Hint: instantHint}
	switch {
	case s == "":
		return time.Time{}, refused
	case s[0] == '+' || s[0] == '-':
		d, err := civil.ParseOffset(s)
		if err != nil {
			return time.Time{}, err
		}
		return base.Add(d.Exact()), nil
	case strings.Contains(s, "T"):
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return time.Time{}, refused
		}
		return t.UTC().Truncate(time.Microsecond), nil
	}
	date, clock, dated := strings.Cut(s, " ")
	day, _ := civil.DateOf(base, loc)
	if !dated {
		if d, err := civil.ParseDate(s); err == nil {
			hint := fmt.Sprintf("add the time of day: %s 00:00", d)
			return time.Time{}, &civil.Error{Message: s + " has no time of day", Hint: hint}
		}
		clock = date
	} else {
		d, err := civil.ParseDate(date)
		if err != nil {
			return time.Time{}, err
		}
		day = d
	}
	tod, ok := parseClock(clock)
	if !ok {
		return time.Time{}, refused
	}
	return resolveOne(day, tod, loc)
}

// parseClock reads 10:05 or, since providers answer in seconds, 10:05:30.
func parseClock(s string) (civil.TimeOfDay, bool) {
	seconds := civil.TimeOfDay(0)
	if len(s) == len("10:05:30") && s[5] == ':' {
		if s[6] < '0' || s[6] > '5' || s[7] < '0' || s[7] > '9' {
			return 0, false
		}
		seconds = civil.TimeOfDay(s[6]-'0')*10 + civil.TimeOfDay(s[7]-'0')
		s = s[:5]
	}
	t, err := civil.ParseTimeOfDay(s)
	return t + seconds, err == nil
}

// resolveOne returns the one instant at which the clocks of loc show t on d.
func resolveOne(d civil.Date, t civil.TimeOfDay, loc *time.Location) (time.Time, error) {
	first, exists := civil.Resolve(d, t, loc, civil.Rule{Gap: civil.GapSkip})
	second, _ := civil.Resolve(d, t, loc, civil.Rule{Overlap: civil.OverlapSecond})
	if exists && first.Equal(second) {
		return first, nil
	}
	what := "happens twice"
	if !exists {
		// second is the instant behind the gap; the same local time counted with the offset of behind lies before it.
		what = "does not exist"
		_, behind := second.In(loc).Zone()
		_, before := second.Add(-24 * time.Hour).In(loc).Zone()
		first = second.Add(time.Duration(before-behind) * time.Second)
	}
	return time.Time{}, &civil.Error{
		Message: fmt.Sprintf("%s %s %s in %s", d, t, what, loc),
		Hint:    fmt.Sprintf("write %s or %s", first.In(loc).Format(time.RFC3339), second.In(loc).Format(time.RFC3339)),
	}
}

// formatInstant writes t in loc, as short as it can be read back beside base: the time of day alone on the day of
// base, the offset only where the local time happens twice.
func formatInstant(t, base time.Time, loc *time.Location) string {
	if t.IsZero() {
		return "none"
	}
	date, clock := civil.DateOf(t, loc)
	day, _ := civil.DateOf(base, loc)
	switch {
	case !t.Equal(t.Truncate(time.Second)):
		return t.In(loc).Format(time.RFC3339Nano)
	case !unambiguous(t, date, clock, loc):
		return t.In(loc).Format(time.RFC3339)
	case date == day:
		return clock.String()
	default:
		return date.String() + " " + clock.String()
	}
}

func unambiguous(t time.Time, date civil.Date, clock civil.TimeOfDay, loc *time.Location) bool {
	one, err := resolveOne(date, clock, loc)
	return err == nil && one.Equal(t)
}

// formatSpan writes how much virtual time went by, in its two largest units.
func formatSpan(d time.Duration) string {
	days := int64(d / (24 * time.Hour))
	hours, minutes, seconds := int64(d/time.Hour)%24, int64(d/time.Minute)%60, int64(d/time.Second)%60
	switch {
	case days == 1:
		return "1 day"
	case days > 1:
		return fmt.Sprintf("%d days", days)
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%dh %dm", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%dh", hours)
	case minutes > 0 && seconds > 0:
		return fmt.Sprintf("%dm %ds", minutes, seconds)
	case minutes > 0:
		return fmt.Sprintf("%dm", minutes)
	default:
		return fmt.Sprintf("%ds", seconds)
	}
}
