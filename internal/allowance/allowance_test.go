package allowance_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/allowance"
)

var begin = time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC) //nolint:gochecknoglobals // immutable

// So many are allowed at once, then one after each interval, and what is refunded is there again.
func TestLimit(t *testing.T) {
	t.Parallel()
	now := begin
	l := allowance.NewLimit[string](allowance.Rate{Most: 3, Every: 10 * time.Second}, 10)
	take := func(when, sender string, want time.Duration) {
		t.Helper()
		if wait := l.Wait(sender, now); wait != want {
			t.Errorf("%s: %s would wait %s, want %s", when, sender, wait, want)
		}
		if wait := l.Take(sender, now); wait != want {
			t.Errorf("%s: %s waits %s, want %s", when, sender, wait, want)
		}
	}
	for range 3 {
		take("at once", "a", 0)
	}
	take("none is left", "a", 10*time.Second)
	take("what was refused is not counted", "a", 10*time.Second)
	take("another sender", "b", 0)
	l.Refund("a")
	l.Refund("nobody")
	take("one was refunded", "a", 0)
	now = now.Add(4 * time.Second)
	take("some of the interval has passed", "a", 6*time.Second)
	now = now.Add(6 * time.Second)
	take("the interval has passed", "a", 0)
	take("and one alone has come back", "a", 10*time.Second)
	now = now.Add(time.Hour)
	for range 3 {
		take("after a long time", "a", 0)
	}
	take("no more than at first", "a", 10*time.Second)
}

// What is owed makes a sender wait for longer, up to a bound.
func TestOwed(t *testing.T) {
	t.Parallel()
	l := allowance.NewLimit[string](allowance.Rate{Most: 2, Every: time.Second, Owed: 3}, 10)
	for n, want := range []time.Duration{0, 0, 1, 2, 3, 4, 4, 4} {
		if wait := l.Take("a", begin); wait != want*time.Second {
			t.Errorf("%d: waits %s, want %s", n, wait, want*time.Second)
		}
	}
	if wait := l.Wait("a", begin.Add(4*time.Second)); wait != 0 {
		t.Errorf("after the wait: %s", wait)
	}
}

// After a clock was set back, a sender does not wait for as long as it was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	l := allowance.NewLimit[string](allowance.Rate{Most: 2, Every: time.Second}, 10)
	for range 3 {
		l.Take("a", begin)
	}
	before := begin.Add(-time.Hour)
	for n, want := range []time.Duration{0, 0, time.Second} {
		if wait := l.Take("a", before); wait != want {
			t.Errorf("%d: waits %s, want %s", n, wait, want)
		}
	}
}

// Beyond what is remembered those are forgotten that have most left.
func TestForgotten(t *testing.T) {
	t.Parallel()
	l := allowance.NewLimit[int](allowance.Rate{Most: 2, Every: time.Minute}, 100)
	for range 3 {
		l.Take(0, begin)
	}
	for sender := 1; sender <= 10_000; sender++ {
		l.Take(sender, begin.Add(time.Duration(sender)*time.Millisecond))
		if n := l.Len(); n > 100 {
			t.Fatalf("%d are remembered", n)
		}
	}
	if l.Wait(0, begin.Add(10*time.Second)) == 0 {
		t.Error("the one with nothing left was forgotten")
	}
	l.Take(20_000, begin.Add(time.Hour))
	if n := l.Len(); n != 1 {
		t.Errorf("%d are remembered when all others are whole again", n)
	}
}

// In no time do more get through than the rate allows, whatever is tried when.
func TestRateIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := allowance.Rate{Most: rapid.IntRange(1, 5).Draw(t, "most"), Every: time.Second, Owed: rapid.IntRange(0, 3).Draw(t, "owed")}
		var a allowance.Allowance
		var taken []time.Time
		now := begin
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2500).Draw(t, "after")) * time.Millisecond)
			next, wait := rate.Take(a, now)
			if a = next; wait == 0 {
				taken = append(taken, now)
			} else if rate.Wait(a, now.Add(wait+time.Duration(rate.Owed)*rate.Every)) > 0 {
				t.Fatalf("nothing is left after %s", wait)
			}
		}
		for i := range taken {
			for j := i; j < len(taken); j++ {
				if most := rate.Most + int(taken[j].Sub(taken[i])/rate.Every); j-i+1 > most {
					t.Fatalf("%d in %s, allowed are %d", j-i+1, taken[j].Sub(taken[i]), most)
				}
			}
		}
	})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:1000":          "192.0.2.1",
		"[::ffff:192.0.2.1]:1000": "192.0.2.1",
		"[2001:db8::1]:1":         "2001:db8::",
		"[2001:db8:0:0:ffff::]:1": "2001:db8::",
		"[2001:db8:0:1::1]:1":     "2001:db8:0:1::",
		"[fe80::1%eth0]:1":        "fe80::",
		"":                        "invalid IP",
		"@":                       "invalid IP",
	} {
		if got := allowance.Address(remote).String(); got != want {
			t.Errorf("%q counts as %s, want %s", remote, got, want)
		}
	}
}
