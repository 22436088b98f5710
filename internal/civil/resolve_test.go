package civil_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
)

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := civil.LoadZone(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

func date(tb testing.TB, s string) civil.Date {
	tb.Helper()
	d, err := civil.ParseDate(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func clock(tb testing.TB, s string) civil.TimeOfDay {
	tb.Helper()
	c, err := civil.ParseTimeOfDay(s)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func instant(tb testing.TB, s string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		tb.Fatal(err)
	}
	return at.UTC()
}

func wantError(tb testing.TB, err error, want civil.Error) {
	tb.Helper()
	var got *civil.Error
	if !errors.As(err, &got) {
		tb.Errorf("got error %v, want %+v", err, want)
	} else if *got != want {
		tb.Errorf("got %+v, want %+v", *got, want)
	}
}

// Shows: B34.
func TestResolve(t *testing.T) {
	t.Parallel()
	second := civil.Rule{Overlap: civil.OverlapSecond}
	skip := civil.Rule{Gap: civil.GapSkip}
	for _, c := range []struct {
		name, zone, date, clock string
		rule                    civil.Rule
		want                    string // "" = no instant
	}{
		{"gap, forward by an hour", "Europe/Berlin", "2026-03-29", "02:30", civil.Rule{}, "2026-03-29T03:30:00+02:00"},
		{"gap, skipped", "Europe/Berlin", "2026-03-29", "02:30", skip, ""},
		{"first minute of a gap", "Europe/Berlin", "2026-03-29", "02:00", civil.Rule{}, "2026-03-29T03:00:00+02:00"},
		{"first minute after a gap", "Europe/Berlin", "2026-03-29", "03:00", skip, "2026-03-29T03:00:00+02:00"},
		{"overlap, first", "Europe/Berlin", "2026-10-25", "02:30", civil.Rule{}, "2026-10-25T02:30:00+02:00"},
		{"overlap, second", "Europe/Berlin", "2026-10-25", "02:30", second, "2026-10-25T02:30:00+01:00"},
		{"first minute after an overlap", "Europe/Berlin", "2026-10-25", "03:00", second, "2026-10-25T03:00:00+01:00"},
		{"midnight in a gap", "America/Sao_Paulo", "2018-11-04", "00:00", civil.Rule{}, "2018-11-04T01:00:00-02:00"},
		{"midnight in an overlap", "America/Sao_Paulo", "2018-02-17", "23:30", second, "2018-02-17T23:30:00-03:00"},
		{"half an hour's gap", "Australia/Lord_Howe", "2026-10-04", "02:15", civil.Rule{}, "2026-10-04T02:45:00+11:00"},
		{"a day that did not exist", "Pacific/Apia", "2011-12-30", "09:00", civil.Rule{}, "2011-12-31T09:00:00+14:00"},
		{"a day that did not exist, skipped", "Pacific/Apia", "2011-12-30", "09:00", skip, ""},
		{"an offset with seconds", "Africa/Monrovia", "1972-01-06", "12:00", civil.Rule{}, "1972-01-06T12:44:30Z"},
		{"behind the listed transitions, a leap year's last day", "Europe/Berlin", "2096-12-31", "12:00", civil.Rule{}, "2096-12-31T12:00:00+01:00"},
		{"behind the listed transitions, a gap", "Europe/Berlin", "2096-03-25", "02:30", civil.Rule{}, "2096-03-25T03:30:00+02:00"},
		{"UTC", "UTC", "2028-02-29", "23:59", civil.Rule{}, "2028-02-29T23:59:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := civil.Resolve(date(t, c.date), clock(t, c.clock), zone(t, c.zone), c.rule)
			if ok != (c.want != "") {
				t.Fatalf("ok = %v, want %v", ok, c.want != "")
			}
			if ok && !got.Equal(instant(t, c.want)) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	type bounds func(time.Time, *time.Location) (time.Time, time.Time)
	for _, c := range []struct {
		name, zone, at string
		of             bounds
		start, end     string
	}{
		{"day", "Europe/Berlin", "2026-05-14T10:00:00Z", civil.DayBounds, "2026-05-14T00:00:00+02:00", "2026-05-15T00:00:00+02:00"},
		{"its first instant", "Europe/Berlin", "2026-05-14T00:00:00+02:00", civil.DayBounds, "2026-05-14T00:00:00+02:00", "2026-05-15T00:00:00+02:00"},
		{"day of 23 hours", "Europe/Berlin", "2026-03-29T12:00:00Z", civil.DayBounds, "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"day without midnight", "America/Sao_Paulo", "2018-11-04T12:00:00Z", civil.DayBounds, "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"day with 23:00 twice", "America/Sao_Paulo", "2018-02-18T02:30:00Z", civil.DayBounds, "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"day before one that did not exist", "Pacific/Apia", "2011-12-29T12:00:00-10:00", civil.DayBounds, "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"midnight twice: the new day had begun", "America/Havana", "2026-11-01T00:30:00-05:00", civil.DayBounds, "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"back from 00:01 to 23:01: the new day had begun", "America/St_Johns", "2010-11-06T23:30:00-03:30", civil.DayBounds, "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"week from Sunday", "Europe/Berlin", "2026-05-17T23:59:59+02:00", civil.WeekBounds, "2026-05-11T00:00:00+02:00", "2026-05-18T00:00:00+02:00"},
		{"week from Monday", "Europe/Berlin", "2026-05-18T00:00:00+02:00", civil.WeekBounds, "2026-05-18T00:00:00+02:00", "2026-05-25T00:00:00+02:00"},
		{"week over the year", "UTC", "2027-01-01T00:00:00Z", civil.WeekBounds, "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"month", "Europe/Berlin", "2026-03-31T12:00:00Z", civil.MonthBounds, "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{"December", "UTC", "2026-12-31T23:59:59Z", civil.MonthBounds, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"February of a leap year", "UTC", "2028-02-29T00:00:00Z", civil.MonthBounds, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start, end := c.of(instant(t, c.at), zone(t, c.zone))
			if !start.Equal(instant(t, c.start)) || !end.Equal(instant(t, c.end)) {
				t.Errorf("got [%v, %v), want [%v, %v)", start, end, c.start, c.end)
			}
		})
	}
}

// Weeks and months consist of whole days, without holes and overlaps.
func TestBoundsCoverTheTimeLine(t *testing.T) {
	t.Parallel()
	names := []string{
		"Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "America/Havana", "America/St_Johns", "America/Toronto",
		"Australia/Lord_Howe", "Africa/Casablanca", "America/Scoresbysund", "Pacific/Kwajalein", "Asia/Tehran", "UTC",
	}
	zones := map[string]*time.Location{}
	for _, name := range names {
		zones[name] = zone(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		loc := zones[rapid.SampledFrom(names).Draw(t, "zone")]
		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "unix"), 0).UTC()
		for _, of := range []func(time.Time, *time.Location) (time.Time, time.Time){civil.WeekBounds, civil.MonthBounds} {
			start, end := of(at, loc)
			if at.Before(start) || !at.Before(end) {
				t.Fatalf("[%v, %v) does not hold %v", start, end, at)
			}
			next, _ := of(end, loc)
			if !next.Equal(end) {
				t.Fatalf("the span after %v begins at %v", end, next)
			}
			for edge := start; edge.Before(end); {
				from, to := civil.DayBounds(edge, loc)
				if !from.Equal(edge) || to.After(end) {
					t.Fatalf("[%v, %v) is not made of days: [%v, %v)", start, end, from, to)
				}
				edge = to
			}
		}
	})
}

func TestDateOf(t *testing.T) {
	t.Parallel()
	d, c := civil.DateOf(instant(t, "2026-05-14T22:15:30Z"), zone(t, "Asia/Baghdad"))
	if got, want := d.String()+" "+c.String(), "2026-05-15 01:15:30"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLoadZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "Europe/Berln", "../etc/passwd", "/etc/localtime", "right/Europe/Berlin", "posixrules", "localtime", "Factory"} {
		if loc, err := civil.LoadZone(name); err == nil {
			t.Errorf("LoadZone(%q) = %v, want it refused", name, loc)
		}
	}
	_, err := civil.LoadZone("Europe/Berln")
	wantError(t, err, civil.Error{
		Message: `"Europe/Berln" is not a zone`,
		Hint:    "use a name of the tz database, such as Europe/Berlin, or UTC",
	})
}
