package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Rules and cron expressions are parsed here and not by a library. Libraries compute instants, each with its own rule for changes of
// clocks. Here only the dates are needed.

// Bounds are the limits that a recurrence rule contains.
type Bounds struct {
	Count int        // 0: none
	Until civil.Date // the day after the last; zero: none
}

// ParseRule reads a recurrence rule of RFC 5545, such as FREQ=MONTHLY;BYDAY=1MO. The error is a *civil.Error.
func ParseRule(s string) (r Recurrence, b Bounds, err error) {
	r.WeekStart, r.Missing = time.Monday, civil.MissingDaySkip
	seen := map[string]bool{}
	for _, part := range strings.Split(strings.TrimPrefix(s, "RRULE:"), ";") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || value == "":
			return r, b, refused(strconv.Quote(part)+" is not a part of a rule", "a rule is written FREQ=MONTHLY;BYDAY=1MO")
		case seen[name]:
			return r, b, refused(name+" is listed twice in the rule", "")
		}
		seen[name] = true
		if err := r.part(name, value, &b); err != nil {
			return r, b, err
		}
	}
	counted := slices.ContainsFunc(r.Weekdays, func(w Weekday) bool { return w.N != 0 })
	switch {
	case !seen["FREQ"]:
		return r, b, refused("the rule has no FREQ", "such as FREQ=WEEKLY;BYDAY=MO")
	case counted && (r.Frequency == Daily || r.Frequency == Weekly):
		return r, b, refused("BYDAY counts weekdays only in a month or a year", "write BYDAY=MO, or FREQ=MONTHLY;BYDAY=1MO")
	case r.Frequency == Weekly && len(r.MonthDays) > 0:
		return r, b, refused("BYMONTHDAY does not go with FREQ=WEEKLY", "write FREQ=DAILY or FREQ=MONTHLY")
	case seen["COUNT"] && seen["UNTIL"]:
		return r, b, refused("COUNT and UNTIL exclude each other", "")
	case len(r.Positions) > 0 && len(r.MonthDays)+len(r.Weekdays)+len(r.Months) == 0:
		return r, b, refused("BYSETPOS picks from other parts of the rule, and there are none", "such as FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1")
	}
	return r, b, nil
}

func refused(message, hint string) error { return &civil.Error{Message: message, Hint: hint} }

func (r *Recurrence) part(name, value string, b *Bounds) (err error) {
	switch name {
	case "FREQ":
		return r.frequency(value)
	case "INTERVAL":
		r.Interval, err = number(name, value, 1, 1000)
	case "COUNT":
		b.Count, err = number(name, value, 1, 100_000)
	case "UNTIL":
		b.Until, err = until(value)
	case "BYMONTH":
		err = each(name, value, 1, 12, func(n int) { r.Months = append(r.Months, time.Month(n)) })
	case "BYMONTHDAY":
		err = each(name, value, -31, 31, func(n int) { r.MonthDays = append(r.MonthDays, n) })
	case "BYSETPOS":
		err = each(name, value, -366, 366, func(n int) { r.Positions = append(r.Positions, n) })
	case "BYDAY":
		for _, text := range strings.Split(value, ",") {
			w, ok := byDay(text)
			if !ok {
				return refused(strconv.Quote(text)+" is not a weekday of a rule", "MO TU WE TH FR SA SU, with a number where one of a month is meant: 1MO, -1FR")
			}
			r.Weekdays = append(r.Weekdays, w)
		}
	case "WKST":
		w, ok := byDay(value)
		if !ok || w.N != 0 {
			return refused(strconv.Quote(value)+" is not a weekday of a rule", "MO TU WE TH FR SA SU")
		}
		r.WeekStart = w.Day
	case "BYHOUR", "BYMINUTE", "BYSECOND":
		return refused(name+" is not for schedules: a rule says the days", "the time of day stands in at; for several a day write cron")
	case "BYYEARDAY", "BYWEEKNO":
		return refused(name+" is not supported", "write BYMONTH with BYMONTHDAY or BYDAY")
	default:
		return refused(strconv.Quote(name)+" is not a part of a rule", "FREQ INTERVAL COUNT UNTIL BYMONTH BYMONTHDAY BYDAY BYSETPOS WKST")
	}
	return err
}

func (r *Recurrence) frequency(value string) error {
	switch value {
	case "DAILY":
		r.Frequency = Daily
	case "WEEKLY":
		r.Frequency = Weekly
	case "MONTHLY":
		r.Frequency = Monthly
	case "YEARLY":
		r.Frequency = Yearly
	case "HOURLY", "MINUTELY", "SECONDLY":
		return refused("FREQ="+value+" is not for schedules: a rule says the days", `for several a day write cron: "0 */4 * * *"; more often than once an hour is refused`)
	default:
		return refused(strconv.Quote(value)+" is not a frequency", "DAILY WEEKLY MONTHLY YEARLY")
	}
	return nil
}

func number(name, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, refused(fmt.Sprintf("%s=%s is not a number from %d to %d", name, value, least, most), "")
	}
	return n, nil
}

// each reads a list of numbers, which must not be 0.
func each(name, value string, least, most int, take func(int)) error {
	for _, text := range strings.Split(value, ",") {
		n, err := number(name, text, least, most)
		if err != nil {
			return err
		}
		if n == 0 {
			return refused(name+"=0 is no day", "days count from 1, and from the end with -1")
		}
		take(n)
	}
	return nil
}

// until reads the last day of a rule. It refuses a time of day, which could split a day.
func until(value string) (civil.Date, error) {
	if len(value) == len("20260630") {
		if last, err := civil.ParseDate(value[:4] + "-" + value[4:6] + "-" + value[6:]); err == nil {
			return last.AddDays(1), nil
		}
	}
	return civil.Date{}, refused("UNTIL="+value+" is not a date", "write UNTIL=20260630 for the last day, or until: below schedule")
}

func byDay(text string) (w Weekday, ok bool) {
	if len(text) < 2 {
		return w, false
	}
	at := slices.Index([]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}, text[len(text)-2:])
	if at < 0 {
		return w, false
	}
	w.Day = time.Weekday(at)
	if count := text[:len(text)-2]; count != "" {
		n, err := strconv.Atoi(count)
		if err != nil || n == 0 || n < -53 || n > 53 {
			return w, false
		}
		w.N = n
	}
	return w, true
}
