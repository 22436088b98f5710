package civil_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// Shows: C7.
func TestParseDuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in        string
		want      civil.Duration
		canonical string
	}{
		{"0d", civil.Duration{}, "0d"},
		{"0m", civil.Duration{}, "0d"},
		{"30s", civil.Duration{Clock: 30 * time.Second}, "30s"},
		{"15m", civil.Duration{Clock: 15 * time.Minute}, "15m"},
		{"4h", civil.Duration{Clock: 4 * time.Hour}, "4h"},
		{"48h", civil.Duration{Clock: 48 * time.Hour}, "48h"},
		{"2d", civil.Duration{Days: 2}, "2d"},
		{"60d", civil.Duration{Days: 60}, "60d"},
		{"1w", civil.Duration{Days: 7}, "7d"},
		{"1mo", civil.Duration{Months: 1}, "1mo"},
		{"1y", civil.Duration{Months: 12}, "1y"},
		{"14mo", civil.Duration{Months: 14}, "1y2mo"},
		{"1h30m", civil.Duration{Clock: 90 * time.Minute}, "1h30m"},
		{"90m", civil.Duration{Clock: 90 * time.Minute}, "1h30m"},
		{"1y2mo1w3d4h5m6s", civil.Duration{Months: 14, Days: 10, Clock: 4*time.Hour + 5*time.Minute + 6*time.Second}, "1y2mo10d4h5m6s"},
		{"100y", civil.Duration{Months: 1200}, "100y"},
	} {
		got, err := civil.ParseDuration(c.in)
		if err != nil {
			t.Errorf("ParseDuration(%q): %v", c.in, err)
		}
		if got != c.want {
			t.Errorf("ParseDuration(%q) = %+v, want %+v", c.in, got, c.want)
		}
		if got.String() != c.canonical {
			t.Errorf("%q: String() = %q, want %q", c.in, got, c.canonical)
		}
	}
}

func TestParseOffset(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]civil.Duration{
		"-2d":    {Days: -2},
		"+3d":    {Days: 3},
		"60d":    {Days: 60},
		"0d":     {},
		"-0d":    {},
		"-1mo":   {Months: -1},
		"-1h30m": {Clock: -90 * time.Minute},
	} {
		got, err := civil.ParseOffset(in)
		if err != nil {
			t.Errorf("ParseOffset(%q): %v", in, err)
		}
		if got != want {
			t.Errorf("ParseOffset(%q) = %+v, want %+v", in, got, want)
		}
		if again, err := civil.ParseOffset(got.String()); err != nil || again != got {
			t.Errorf("%q is written %q and read back as %v, %v", in, got, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	parse := map[string]func(string) error{
		"duration": func(s string) error { _, err := civil.ParseDuration(s); return err },
		"offset":   func(s string) error { _, err := civil.ParseOffset(s); return err },
		"date":     func(s string) error { _, err := civil.ParseDate(s); return err },
		"time":     func(s string) error { _, err := civil.ParseTimeOfDay(s); return err },
	}
	const (
		duration = "a duration is written 30s, 15m, 4h, 2d, 1w, 1mo or 1y, or joined from long to short: 1h30m"
		offset   = "-2d is two days before the anchor, +3d three days after"
		calendar = "a date is written 2026-06-01"
		clock    = `a time of day is written "09:00", from "00:00" to "23:59"`
		longest  = "100y is the longest"
	)
	for _, c := range []struct{ what, in, message, hint string }{
		{"duration", "", `"" is not a duration`, duration},
		{"duration", "2 days", `"2 days" is not a duration`, duration},
		{"duration", "2", `"2" is not a duration`, duration},
		{"duration", "d", `"d" is not a duration`, duration},
		{"duration", "-2d", `"-2d" is not a duration`, duration},
		{"duration", "+2d", `"+2d" is not a duration`, duration},
		{"duration", "1.5h", `"1.5h" is not a duration`, duration},
		{"duration", "02d", `"02d" is not a duration`, duration},
		{"duration", "2D", `"2D" is not a duration`, duration},
		{"duration", "2d ", `"2d " is not a duration`, duration},
		{"duration", "30m1h", `"30m1h" is not a duration`, duration},
		{"duration", "1h1h", `"1h1h" is not a duration`, duration},
		{"duration", "2weeks", `"2weeks" is not a duration`, duration},
		{"duration", "101y", `"101y" is too long`, longest},
		{"duration", "100y1s", `"100y1s" is too long`, longest},
		{"duration", "99999999999999999999s", `"99999999999999999999s" is too long`, longest},
		{"offset", "2 days", `"2 days" is not an offset`, offset},
		{"offset", "+-2d", `"+-2d" is not an offset`, offset},
		{"offset", "-", `"-" is not an offset`, offset},
		{"date", "2026-6-1", `"2026-6-1" is not a date`, calendar},
		{"date", "0000-01-01", `"0000-01-01" is not a date`, calendar},
		{"date", "2026-06-01T00:00:00Z", `"2026-06-01T00:00:00Z" is not a date`, calendar},
		{"date", "2026-13-01", "2026-13-01 does not exist", "months are 01 to 12"},
		{"date", "2026-02-29", "2026-02-29 does not exist", "February 2026 has 28 days"},
		{"date", "2026-04-00", "2026-04-00 does not exist", "April 2026 has 30 days"},
		{"time", "9am", `"9am" is not a time of day`, clock},
		{"time", "9:00", `"9:00" is not a time of day`, clock},
		{"time", "24:00", `"24:00" is not a time of day`, clock},
		{"time", "12:60", `"12:60" is not a time of day`, clock},
	} {
		wantError(t, parse[c.what](c.in), civil.Error{Message: c.message, Hint: c.hint})
	}
}

func TestDate(t *testing.T) {
	t.Parallel()
	months := func(d string, n int, m civil.MissingDay) string {
		to, ok := date(t, d).AddMonths(n, m)
		if !ok {
			return "none"
		}
		return to.String()
	}
	for _, c := range []struct{ name, got, want string }{
		{"a month after the 31st", months("2026-01-31", 1, ""), "2026-02-28"},
		{"in a leap year", months("2028-01-31", 1, civil.MissingDayLast), "2028-02-29"},
		{"skipped", months("2026-01-31", 1, civil.MissingDaySkip), "none"},
		{"two months after the 31st", months("2026-01-31", 2, civil.MissingDaySkip), "2026-03-31"},
		{"back over the year", months("2026-01-31", -2, ""), "2025-11-30"},
		{"a year after 29 February", months("2028-02-29", 12, ""), "2029-02-28"},
		{"four years after 29 February", months("2028-02-29", 48, civil.MissingDaySkip), "2032-02-29"},
		{"next day over 28 February", date(t, "2026-02-28").AddDays(1).String(), "2026-03-01"},
		{"day before 1 March of a leap year", date(t, "2028-03-01").AddDays(-1).String(), "2028-02-29"},
		{"before 1970", date(t, "1970-01-01").AddDays(-1).String(), "1969-12-31"},
		{"months, then days", date(t, "2026-01-31").Add(civil.Duration{Months: 1, Days: 1}).String(), "2026-03-01"},
		{"weekday", date(t, "2026-05-14").Weekday().String(), "Thursday"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
	a, b := date(t, "2026-02-28"), date(t, "2028-03-01")
	got := [5]int{a.DaysUntil(b), b.DaysUntil(a), a.Compare(b), b.Compare(a), a.Compare(a)}
	if want := [5]int{732, -732, -1, 1, 0}; got != want {
		t.Errorf("days until and order: got %v, want %v", got, want)
	}
}

// Days and longer are calendar units on a date and exact on an instant.
func TestDurationAdd(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	eve := instant(t, "2026-03-28T02:30:00+01:00") // the next night has no 02:30
	for _, c := range []struct {
		name, by  string
		calendar  string
		onInstant string
	}{
		{"a day", "1d", "2026-03-29T03:30:00+02:00", "2026-03-29T03:30:00+02:00"},
		{"two days", "2d", "2026-03-30T02:30:00+02:00", "2026-03-30T03:30:00+02:00"},
		{"48 hours", "48h", "2026-03-30T03:30:00+02:00", "2026-03-30T03:30:00+02:00"},
		{"a month", "1mo", "2026-04-28T02:30:00+02:00", "2026-04-27T03:30:00+02:00"},
		{"a month back", "-1mo", "2026-02-28T02:30:00+01:00", "2026-02-26T02:30:00+01:00"},
		{"a year", "1y", "2027-03-28T03:30:00+02:00", "2027-03-28T03:30:00+02:00"},
		{"a day and an hour", "1d1h", "2026-03-29T04:30:00+02:00", "2026-03-29T04:30:00+02:00"},
	} {
		by, err := civil.ParseOffset(c.by)
		if err != nil {
			t.Fatal(err)
		}
		if got := by.AddTo(eve, berlin); !got.Equal(instant(t, c.calendar)) {
			t.Errorf("%s on the calendar: got %v, want %v", c.name, got, c.calendar)
		}
		if got := eve.Add(by.Exact()); !got.Equal(instant(t, c.onInstant)) {
			t.Errorf("%s on an instant: got %v, want %v", c.name, got, c.onInstant)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"0d", "30s", "1h30m", "1y2mo1w3d4h5m6s", "100y", "2 days", "02d", "1mo1m", "9999999999s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := civil.ParseDuration(s)
		if err != nil {
			return
		}
		if d.Negative() || d.Exact() < 0 || d.Exact() > 100*365*24*time.Hour {
			t.Errorf("%q is %+v", s, d)
		}
		if again, err := civil.ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%q is written %q and read back as %+v, %v", s, d, again, err)
		}
	})
}

func FuzzParseOffset(f *testing.F) {
	for _, s := range []string{"0d", "-0d", "-2d", "+3d", "-1h30m", "+-1d", "-100y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := civil.ParseOffset(s)
		if err != nil {
			return
		}
		text, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again civil.Duration
		if err := again.UnmarshalText(text); err != nil || again != d {
			t.Errorf("%q is written %q and read back as %+v, %v", s, text, again, err)
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-06-01", "2028-02-29", "2026-02-29", "9999-12-31", "0001-01-01", "2026-6-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := civil.ParseDate(s)
		if err != nil {
			return
		}
		if d.String() != s {
			t.Errorf("%q is written %q", s, d)
		}
		if there := d.AddDays(1000).AddDays(-1000); there != d {
			t.Errorf("%v and back is %v", d, there)
		}
	})
}

func FuzzParseTimeOfDay(f *testing.F) {
	for _, s := range []string{"00:00", "09:00", "23:59", "24:00", "9:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := civil.ParseTimeOfDay(s)
		if err == nil && c.String() != s {
			t.Errorf("%q is written %q", s, c)
		}
	})
}
