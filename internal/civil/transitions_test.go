package civil_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// zoneNames lists every zone and alias of the tz database.
//
//go:embed testdata/zones.txt
var zoneNames string

// clockReading returns the reading of a wall clock in loc at a unix second, as seconds since 1970-01-01 00:00 on that clock. It uses the
// formatted date and time, not offsets.
func clockReading(unix int64, loc *time.Location) int64 {
	l := time.Unix(unix, 0).In(loc)
	year, month, day := l.Date()
	hour, minute, second := l.Clock()
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC).Unix()
}

// endOfSearch is 2038-01-01.
const endOfSearch = 2145916800

// transitionsOf finds the instants from 1970 to 2037 at which the clocks of loc are moved, by bisection.
func transitionsOf(loc *time.Location) (at []int64) {
	offset := func(unix int64) int {
		_, o := time.Unix(unix, 0).In(loc).Zone()
		return o
	}
	const step = 12 * 3600
	before := offset(0)
	for low := int64(0); low < endOfSearch; low += step {
		after := offset(low + step)
		if after == before {
			continue
		}
		lo, hi := low, low+step
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; offset(mid) == before {
				lo = mid
			} else {
				hi = mid
			}
		}
		at = append(at, hi)
		before = after
	}
	return at
}

// movements returns the readings of the clocks of loc around its transitions, and shortly before and after all of them.
func movements(loc *time.Location, transitions []int64) string {
	const days = 3 * 86400
	at := append([]int64{-days, endOfSearch + days}, transitions...)
	var way strings.Builder
	for _, unix := range at {
		fmt.Fprintln(&way, unix, clockReading(unix-1, loc), clockReading(unix, loc))
	}
	return way.String()
}

// Resolve is compared with the readings of a clock, minute by minute, for every local minute around every transition of every zone. Of
// zones with the same transitions (mostly aliases) the first one is tested.
//
// Shows: B34.
func TestResolveEveryTransition(t *testing.T) {
	t.Parallel()
	var zones, transitions, minutes, gaps, overlaps, midnights int
	seen := map[string]bool{} // by movements
	for name := range strings.FieldsSeq(zoneNames) {
		loc, err := civil.LoadZone(name)
		if err != nil {
			t.Fatalf("LoadZone(%q): %v", name, err)
		}
		zones++
		moves := transitionsOf(loc)
		transitions += len(moves)
		if way := movements(loc, moves); seen[way] {
			continue
		} else {
			seen[way] = true
		}
		for _, at := range moves {
			w := watch(at, loc)
			for wall := w.from; wall <= w.to; wall += 60 {
				minutes++
				first, second, exists := w.instants(wall)
				switch {
				case !exists:
					gaps++
				case first != second:
					overlaps++
				}
				d, clock := fromWall(wall)
				if got, ok := civil.Resolve(d, clock, loc, civil.Rule{}); !ok || got.Unix() != first {
					t.Fatalf("%s: Resolve(%v, %v) = %v, %v; want %v", name, d, clock, got, ok, time.Unix(first, 0).UTC())
				}
				got, ok := civil.Resolve(d, clock, loc, civil.Rule{Gap: civil.GapSkip, Overlap: civil.OverlapSecond})
				if ok != exists || ok && got.Unix() != second {
					t.Fatalf("%s: Resolve(%v, %v, skip, second) = %v, %v; want %v, %v",
						name, d, clock, got, ok, time.Unix(second, 0).UTC(), exists)
				}
			}
			for _, hours := range []int64{-14, -1, 0, 1, 14} {
				midnights++
				checkDay(t, name, loc, at+hours*3600)
			}
		}
	}
	t.Logf("%d zones (%d that differ), %d transitions, %d local minutes (%d in gaps, %d twice), %d days",
		zones, len(seen), transitions, minutes, gaps, overlaps, midnights)
	if zones < 590 || len(seen) < 300 || transitions < 30_000 || gaps == 0 || overlaps == 0 {
		t.Errorf("the search found too little: %d zones, %d transitions", zones, transitions)
	}
}

// watched holds the readings of a clock, step by step, around one transition.
type watched struct {
	start, step int64
	shown       []int64
	byReading   map[int64][]int64 // reading → the instants with that reading
	from, to    int64             // the readings to test, in whole minutes
}

func watch(at int64, loc *time.Location) watched {
	before, after := clockReading(at-1, loc)+1, clockReading(at, loc)
	moved := after - before
	if moved < 0 {
		moved = -moved
	}
	// Old offsets have seconds. Then the steps are short enough to reach whole minutes on both sides.
	w := watched{step: gcd(gcd(60, at%60), gcd((before-at)%60, (after-at)%60)), byReading: map[int64][]int64{}}
	pad := (moved + 3*3600) / 60 * 60
	w.start = at - pad
	for u := w.start; u <= at+pad; u += w.step {
		r := clockReading(u, loc)
		w.shown = append(w.shown, r)
		w.byReading[r] = append(w.byReading[r], u)
	}
	w.from, w.to = (min(before, after)-3600)/60*60, (max(before, after)+3600)/60*60
	return w
}

// instants returns the first and the last instant with the reading wall. If there is none, the clock jumped over wall; instants then
// returns the instant at which the clock would have shown wall without the jump.
func (w watched) instants(wall int64) (first, last int64, exists bool) {
	if at := w.byReading[wall]; len(at) > 0 {
		return at[0], at[len(at)-1], true
	}
	for i := 1; i < len(w.shown); i++ {
		if w.shown[i-1] < wall && wall < w.shown[i] {
			at := w.start + int64(i-1)*w.step + wall - w.shown[i-1]
			return at, at, false
		}
	}
	return 0, 0, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

func fromWall(wall int64) (civil.Date, civil.TimeOfDay) {
	l := time.Unix(wall, 0).UTC()
	return civil.Date{Year: l.Year(), Month: l.Month(), Day: l.Day()}, civil.TimeOfDay(l.Hour()*3600 + l.Minute()*60 + l.Second())
}

// checkDay compares the bounds of the day around an instant with formatted dates.
func checkDay(t *testing.T, name string, loc *time.Location, unix int64) {
	t.Helper()
	day := func(u int64) int64 { return clockReading(u, loc) / 86400 }
	start, end := civil.DayBounds(time.Unix(unix, 0), loc)
	if s, e := start.Unix(), end.Unix(); unix < s || unix >= e || s >= e {
		t.Fatalf("%s: DayBounds(%d) = [%d, %d)", name, unix, s, e)
	}
	for _, edge := range []int64{start.Unix(), end.Unix()} {
		began := day(edge)
		for back := int64(0); back < 27*3600; back += 900 {
			if u := edge - 1 - back; day(u) >= began {
				t.Fatalf("%s: %v is said to be the first instant of its day, and %v shows that date too",
					name, time.Unix(edge, 0).In(loc), time.Unix(u, 0).In(loc))
			}
		}
	}
}
