package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// cronField is one of the five fields.
type cronField struct {
	name        string
	least, most int
	words       []string // names for the numbers from least on
}

func cronFields() [5]cronField {
	return [5]cronField{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of the month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"weekday", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// ParseCron reads a cron expression of five fields: minute, hour, day of the month, month, weekday. If both the day of the month and the
// weekday are restricted, a date has to match only one of them; this is cron's rule. The error is a *civil.Error.
func ParseCron(s string) (r Recurrence, times []civil.TimeOfDay, err error) {
	r.Missing, r.Either = civil.MissingDaySkip, true
	texts := strings.Fields(s)
	fields := cronFields()
	if len(texts) != len(fields) {
		return r, nil, refused(fmt.Sprintf("%q has %d fields instead of five", s, len(texts)), `minute, hour, day of the month, month, weekday: "30 8 * * mon-fri"`)
	}
	var values [len(fields)][]int
	for i, f := range fields {
		if values[i], err = f.parse(texts[i]); err != nil {
			return r, nil, err
		}
	}
	if len(values[0]) != 1 {
		return r, nil, refused(fmt.Sprintf("%q is due more than once an hour", s), "write one minute, such as 0; what is due more often hangs on events or records")
	}
	for _, hour := range values[1] {
		times = append(times, civil.TimeOfDay(hour*3600+values[0][0]*60))
	}
	// For this rule cron regards a field that begins with a star as unrestricted, even */2.
	starred := func(i int) bool { return strings.HasPrefix(texts[i], "*") }
	r.Either = !starred(2) && !starred(4)
	if texts[2] != "*" {
		r.MonthDays = values[2]
	}
	if texts[3] != "*" {
		for _, m := range values[3] {
			r.Months = append(r.Months, time.Month(m))
		}
	}
	if texts[4] != "*" {
		for _, day := range values[4] {
			r.Weekdays = append(r.Weekdays, Weekday{Day: time.Weekday(day % 7)})
		}
	}
	return r, times, nil
}

// parse reads a list of numbers, names, ranges and steps, and returns the numbers in ascending order, each once.
func (f cronField) parse(text string) ([]int, error) {
	var all []int
	for _, item := range strings.Split(text, ",") {
		span, stepText, stepped := strings.Cut(item, "/")
		from, to, ok := f.span(span, stepped)
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			ok, step = ok && err == nil && n > 0, max(n, 1)
		}
		if !ok || from > to {
			return nil, refused(fmt.Sprintf("%q is not a %s of a cron expression", item, f.name), f.hint())
		}
		for n := from; n <= to; n += step {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// span reads *, a number or name, or a range of two of them with a dash. A single number with a step begins a range.
func (f cronField) span(text string, stepped bool) (from, to int, ok bool) {
	if text == "*" {
		to = f.most
		if f.words != nil { // 7 is Sunday too
			to = f.least + len(f.words) - 1
		}
		return f.least, to, true
	}
	first, last, ranged := strings.Cut(text, "-")
	from, ok = f.value(first)
	switch {
	case !ok:
		return 0, 0, false
	case ranged:
		to, ok = f.value(last)
		return from, to, ok
	case stepped:
		return from, f.most, true
	}
	return from, from, true
}

func (f cronField) value(text string) (int, bool) {
	if at := slices.Index(f.words, strings.ToLower(text)); at >= 0 {
		return f.least + at, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && text[0] != '+' && n >= f.least && n <= f.most
}

func (f cronField) hint() string {
	hint := fmt.Sprintf("numbers from %d to %d, lists 1,3, ranges 1-5 and steps */2", f.least, f.most)
	if f.words != nil {
		hint += ", or names such as " + f.words[1]
	}
	return hint
}
