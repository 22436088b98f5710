package expr

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNextChange(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	auckland, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	record := map[string]any{
		"seen": "2026-05-14T09:57:30Z", "due": "2026-05-16", "wall": "2026-05-14T23:30", "limit": num("3"), "on": true, "name": "x",
		"visits": []any{map[string]any{"at": "2026-05-15T10:00:00Z"}, map[string]any{"at": "2026-05-14T12:00:00Z"}},
	}
	for _, tt := range []struct {
		src  string
		zone *time.Location
		want string // "" = never
	}{
		{`record.on`, nil, ""},
		{`age(record.seen) >= minutes(5)`, nil, "2026-05-14T10:02:30Z"},
		{`age(record.seen) > minutes(5)`, nil, "2026-05-14T10:02:30.000001Z"},
		{`minutes(5) <= age(record.seen)`, nil, "2026-05-14T10:02:30Z"},
		{`age(record.seen) >= minutes(2)`, nil, ""},
		{`age(record.absent) >= minutes(5)`, nil, ""},
		{`age(record.name) >= minutes(5)`, nil, ""},
		{`record.on && age(record.seen) >= minutes(5)`, nil, "2026-05-14T10:02:30Z"},
		{`record.on || age(record.seen) >= minutes(5)`, nil, ""}, // it holds at any time
		{`!record.on && age(record.seen) >= minutes(5)`, nil, ""},
		{`age(record.seen) >= minutes(record.limit * 2)`, nil, "2026-05-14T10:03:30Z"},
		{`now > record.due`, nil, "2026-05-16T00:00:00.000001Z"},
		{`now >= record.due`, auckland, "2026-05-15T12:00:00Z"},
		{`now - hours(1) >= record.due`, nil, "2026-05-16T01:00:00Z"},
		{`record.due - now <= hours(1)`, nil, "2026-05-15T23:00:00Z"},
		{`hours(1) + (now - record.seen) > hours(2)`, nil, "2026-05-14T10:57:30.000001Z"},
		{`hours(3) - (now - record.seen) < hours(1)`, nil, "2026-05-14T11:57:30.000001Z"},
		{`-(now - record.seen) < hours(-1)`, nil, "2026-05-14T10:57:30.000001Z"},
		{`days_until(record.due) <= 1`, nil, "2026-05-15T00:00:00Z"},
		{`days_until(record.due) <= 1`, auckland, "2026-05-14T12:00:00Z"},
		{`days_until(record.due) == 2`, nil, "2026-05-15T00:00:00Z"},
		{`days_until(record.due) in [30, 7, 1]`, nil, "2026-05-15T00:00:00Z"},
		{`days_since(record.due) > -0.5`, nil, "2026-05-16T00:00:00Z"},
		{`-days_until(record.due) >= 1`, nil, "2026-05-17T00:00:00Z"},
		{`today() == record.due`, nil, "2026-05-16T00:00:00Z"},
		{`today() + days(7) > record.due`, nil, ""}, // it holds until the calendar ends
		{`record.due - today() < days(2)`, nil, "2026-05-15T00:00:00Z"},
		{`now < record.wall`, nil, "2026-05-14T23:30:00Z"},
		{`record.visits.exists(v, now >= v.at)`, nil, "2026-05-14T12:00:00Z"},
		{`record.visits.all(v, now < v.at)`, nil, "2026-05-14T12:00:00Z"},
		{`(record.on ? now - hours(1) : now) > record.seen`, nil, "2026-05-14T10:57:30.000001Z"},
		{`date(record.seen) == date("2026-05-14")`, nil, ""},
	} {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			cond, err := c.Line(tt.src, everywhere())
			if err != nil {
				t.Fatal(err)
			}
			at, exact := cond.NextChange(Input{Now: now, Zone: tt.zone, Record: record})
			got := ""
			if !at.IsZero() {
				got = at.Format(time.RFC3339Nano)
			}
			if got != tt.want || !exact {
				t.Errorf("got %q, exact %t; want %q", got, exact, tt.want)
			}
		})
	}
	t.Run("a group", func(t *testing.T) {
		t.Parallel()
		late, err := c.Simple("record.seen", "older_than", "5m", everywhere())
		if err != nil {
			t.Fatal(err)
		}
		on, err := c.Line("record.on", everywhere())
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Now: now, Record: record}
		for want, cond := range map[string]*Condition{"2026-05-14 10:02:30 +0000 UTC": AllOf(on, late), "0001-01-01 00:00:00 +0000 UTC": AnyOf(on, late)} {
			if at, exact := cond.NextChange(in); at.String() != want || !exact {
				t.Errorf("got %s, want %s", at, want)
			}
		}
		var always *Condition
		if at, exact := always.NextChange(in); !at.IsZero() || !exact {
			t.Errorf("no condition: %s", at)
		}
	})
}

func TestTimeBound(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	for src, bound := range map[string]bool{
		`record.n < 20`: false, `age(record.at) > days(1)`: false, `now - record.at > days(1)`: false, `now - record.a - record.b > days(1)`: false,
		`days_until(record.at) in [1, 2]`: false, `date(record.at) == date("2026-05-14")`: false, `record.list.exists(v, v.at < now)`: false,
		`(record.on ? now : today()) > record.at`: false, `quiet(record, days(30))`: false, `quiet(record, days(record.n))`: false,
		`record.list.exists(v, quiet(v, hours(1)))`: false, `!quiet(record, days(30)) || record.n < 20`: false,

		`quiet(record, age(record.at))`: true,

		`days_until(record.at) % 7 == 0`: true, `days_until(record.at) * 2 > record.n`: true, `now - record.at > age(record.other)`: true,
		`now in [record.at]`: false, `record.at in [now]`: true, `[now] == record.list`: true, `age(now) > days(1)`: true,
		`record.list.map(v, now - v.at)[0] > days(1)`: true, `record.list[days_until(record.at)] == 1`: true, `date(now) == record.at`: true,
		`(record.on ? now - record.at : days_until(record.at)) == 3`: true, `shifted(now, "1d") > record.at`: true, `{"a": now}.a > record.at`: true,
		`record.list.exists(now, now > record.at)`: true, `days_until(record.at) + 1 == 3`: true, `record.days + days_until(record.at) == 3`: true,
	} {
		cond, err := c.Line(src, everywhere())
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if line, got := cond.TimeBound(); got != bound || got && line != src {
			t.Errorf("%s: bound %t (%q), want %t", src, got, line, bound)
		}
		if line, got := AnyOf(nil, AllOf(cond)).TimeBound(); got != bound || got && line != src {
			t.Errorf("%s in a group: bound %t (%q), want %t", src, got, line, bound)
		}
	}
}

// timed draws a condition that reads the time, from atoms that NextChange can analyse.
func timed(t *rapid.T, depth int) string {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	op := func() string { return pick("op", "<", "<=", ">", ">=", "==", "!=") }
	field := func() string {
		return pick("field", "record.at", "record.day", "record.wall", "record.absent", "record.name")
	}
	length := func() string {
		return pick("length", "minutes(5)", "hours(1)", "days(1)", "hours(-3)", "days(2)", "minutes(record.n)", "minutes(1.0 / 7)")
	}
	if depth > 0 && rapid.Bool().Draw(t, "branch") {
		a, b := timed(t, depth-1), timed(t, depth-1)
		switch pick("join", "and", "or", "not", "if", "any", "all") {
		case "and":
			return "(" + a + " && " + b + ")"
		case "or":
			return "(" + a + " || " + b + ")"
		case "not":
			return "!(" + a + ")"
		case "if":
			return "(" + a + " ? " + b + " : " + timed(t, depth-1) + ")"
		case "any":
			return "record.list.exists(v, now " + op() + " v.at || " + a + ")"
		default:
			return "record.list.all(v, age(v.at) " + op() + " " + length() + " && " + a + ")"
		}
	}
	flip := func(a, b string) string {
		if rapid.Bool().Draw(t, "flip") {
			a, b = b, a
		}
		return a + " " + op() + " " + b
	}
	switch rapid.IntRange(0, 11).Draw(t, "atom") {
	case 0:
		return "record.on"
	case 1:
		return flip("age("+field()+")", length())
	case 2:
		return flip("now", field())
	case 3:
		return flip(pick("sign", "", "-")+"(now - "+field()+")", length())
	case 4:
		return flip("("+field()+" - now) + "+length(), length())
	case 5:
		return flip("now + "+length(), field())
	case 6:
		return flip(pick("days", "", "-")+pick("fn", "days_until", "days_since")+"("+field()+")", pick("n", "0", "1", "-1", "2", "0.5", "record.n"))
	case 7:
		return flip("today() - "+length(), field())
	case 8:
		return flip("(today() - "+field()+")", length())
	case 9:
		return "quiet(record, " + length() + ")"
	case 10:
		return "record.list." + pick("macro", "exists", "all") + "(v, quiet(v, " + length() + "))"
	default:
		return pick("set", "days_until(record.day) in [2, 0, 1]", `now >= shifted(record.day, "1d")`, `now < shifted(record.wall, "-1d")`, "today() in [record.day]")
	}
}

// The result of NextChange is compared with an evaluation at every second of some days, and at the microseconds around every time in the
// record. Before the instant that NextChange returns, the result of the condition does not change. At this instant it changes, if the
// condition is a single comparison. The days have clock changes, at midnight and at other times.
func TestNextChangeIsTheFirstFlip(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	type change struct {
		zone string
		at   time.Time
	}
	changes := []change{
		{"Europe/Berlin", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)},
		{"America/St_Johns", time.Date(2010, 11, 7, 2, 31, 0, 0, time.UTC)}, // 00:01 → 23:01 of the day before
		{"America/Sao_Paulo", time.Date(2018, 11, 4, 3, 0, 0, 0, time.UTC)}, // no midnight
		{"America/Sao_Paulo", time.Date(2018, 2, 18, 2, 0, 0, 0, time.UTC)}, // 00:00 → 23:00
		{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},    // no 30 December
		{"UTC", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
	}
	flips, never := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ch := rapid.SampledFrom(changes).Draw(t, "change")
		loc, err := time.LoadLocation(ch.zone)
		if err != nil {
			t.Fatal(err)
		}
		moment := func(label string) time.Time {
			m := ch.at.Add(time.Duration(rapid.IntRange(-40*60, 40*60).Draw(t, label)) * time.Minute)
			return m.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, -1, 500_000}).Draw(t, label+" µs")) * time.Microsecond)
		}
		at, day, wall, seen, written := moment("at"), moment("day"), moment("wall"), moment("item"), moment("written")
		record := map[string]any{
			"at": at.Format(time.RFC3339Nano), "day": day.In(loc).Format(time.DateOnly), "wall": wall.In(loc).Format("2006-01-02T15:04"),
			"n": num(fmt.Sprint(rapid.IntRange(-3, 3).Draw(t, "n"))), "on": rapid.Bool().Draw(t, "on"), "name": "Gate",
			"updated_at": written,
			"list":       []any{map[string]any{"at": seen.Format(time.RFC3339Nano), "updated_at": seen}, map[string]any{}},
		}
		src := timed(t, 2)
		cond, err := c.Line(src, everywhere())
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		now := moment("now")
		judge := func(at time.Time) Verdict { return cond.Judge(Input{Now: at, Zone: loc, Record: record}) }
		is := judge(now)
		next, exact := cond.NextChange(Input{Now: now, Zone: loc, Record: record})
		if line, bound := cond.TimeBound(); bound || !exact {
			t.Fatalf("%s: not exact (%q)", src, line)
		}
		if !next.IsZero() && (!next.After(now) || next.Nanosecond()%1000 != 0) {
			t.Fatalf("%s: next look %s is not an instant after now %s", src, next, now)
		}
		end := now.Add(96 * time.Hour)
		if !next.IsZero() && next.Before(end) {
			end = next.Add(-time.Microsecond)
			flips++
		} else {
			never++
		}
		same := func(at time.Time) {
			if at.After(now) && !at.After(end) {
				if v := judge(at); v.Met != is.Met {
					t.Fatalf("%s\nin %v\nis %t at %s and %t at %s (%s), before the next look at %s", src, record, is.Met, now, v.Met, at, at.In(loc), next)
				}
			}
		}
		for s := now.Truncate(time.Minute); s.Before(end); s = s.Add(time.Minute) { // all other values are near one of these
			same(s)
		}
		for _, near := range []time.Time{at, day, wall, seen, written, ch.at, next, end} {
			for _, by := range []time.Duration{0, 5 * time.Minute, time.Hour, 3 * time.Hour, 24 * time.Hour, 48 * time.Hour, -time.Hour, -3 * time.Hour} {
				for µ := time.Duration(-2); µ <= 2; µ++ {
					same(near.Add(by + µ*time.Microsecond))
				}
			}
		}
	})
	if flips < 10 || never < 10 {
		t.Errorf("%d conditions flip and %d do not: that tests little", flips, never)
	}
}
