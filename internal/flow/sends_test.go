package flow_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/flow"
)

// What counts, minute by minute.
func TestSends(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 14, 10, 0, 30, 0, time.UTC)
	two := flow.Sends(nil).Add(start).Add(start.Add(20 * time.Second))
	for name, tt := range map[string]struct {
		sends flow.Sends
		at    time.Duration // after start
		want  int
	}{
		"none":                                   {at: 0, want: 0},
		"at once":                                {sends: two, at: 20 * time.Second, want: 2},
		"within the hour":                        {sends: two, at: 59 * time.Minute, want: 2},
		"an hour later, in the same minute":      {sends: two, at: time.Hour, want: 2},
		"a minute more":                          {sends: two, at: time.Hour + time.Minute, want: 0},
		"in another minute":                      {sends: two.Add(start.Add(time.Minute)), at: time.Hour + time.Minute, want: 1},
		"the clock is set back":                  {sends: two, at: -time.Hour, want: 2},
		"sent before and after it was set back":  {sends: two.Add(start.Add(-time.Hour)), at: -time.Hour, want: 3},
		"and the later ones count longer":        {sends: two.Add(start.Add(-time.Hour)), at: time.Minute, want: 2},
		"an hour earlier drops nothing of later": {sends: two.Add(start.Add(-3 * time.Hour)), at: 0, want: 2},
	} {
		if got := tt.sends.Within(start.Add(tt.at)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := two.Add(start.Add(2 * time.Hour)); len(got) != 1 {
		t.Errorf("what counts no more is kept: %v", got)
	}
	if two[0][1] != 2 {
		t.Errorf("Add has changed what it was given: %v", two)
	}
	read, err := flow.ParseSends(two.String())
	if err != nil || read.String() != two.String() || flow.Sends(nil).String() != "[]" {
		t.Errorf("%s comes back as %s, %v", two, read, err)
	}
	if _, err := flow.ParseSends("{"); err == nil {
		t.Error("what is no count is read")
	}
}

// A workflow that sends only while fewer than most count never sends more than most in any hour, and what counts is stored in no more than 61 minutes.
func TestPropertyNoHourHasMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most, now := rapid.IntRange(1, 5).Draw(t, "most"), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
		var sends flow.Sends
		var left []time.Time
		for _, wait := range rapid.SliceOfN(rapid.IntRange(0, 40*60), 0, 40).Draw(t, "waits") {
			now = now.Add(time.Duration(wait) * time.Second)
			if sends.Within(now) >= most {
				continue
			}
			sends, left = sends.Add(now), append(left, now)
			if len(sends) > 61 {
				t.Fatalf("%d minutes", len(sends))
			}
			if i := len(left) - 1 - most; i >= 0 && now.Sub(left[i]) <= time.Hour {
				t.Fatalf("%d messages from %s to %s", most+1, left[i], now)
			}
		}
	})
}
