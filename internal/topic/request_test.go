package topic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/topic"
)

// Who is to confirm a subscription is asked at once and three days later; a week later the request is gone. After an outage they are asked once, not twice.
func TestRequest(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)
	days := func(n float64) time.Time { return start.Add(time.Duration(n * 24 * float64(time.Hour))) }
	for _, row := range []struct {
		asked int
		now   float64 // days after the request
		want  string  // asked, and days until the next step
	}{
		{0, 0, "asks: 1, then 3"},
		{0, 2.9, "asks: 1, then 3"},
		{1, 3, "asks: 2, then 7"},
		{0, 3, "asks: 2, then 7"}, // nothing ran for three days
		{0, 6.9, "asks: 2, then 7"},
		{0, 7, "gone"},
		{1, 7, "gone"},
		{2, 7, "gone"},
		{2, 5, "gone"}, // there is no third time
	} {
		next, asks, gone := topic.Request{Asked: row.asked, RequestedAt: start, NextAt: start}.Ask(days(row.now))
		got := "gone"
		if asks {
			got = fmt.Sprintf("asks: %d, then %g", next.Asked, next.NextAt.Sub(start).Hours()/24)
		}
		if got != row.want || asks == gone {
			t.Errorf("asked %d times, after %g days: %s, want %s", row.asked, row.now, got, row.want)
		}
	}
}

// The subjects of links are read as they were written, and nothing else is.
func TestSubjectsOfLinks(t *testing.T) {
	t.Parallel()
	for _, m := range []topic.Managing{{Contact: 7}, {Contact: 1 << 60}} {
		if got, ok := topic.ParseManaging(m.String()); !ok || got != m {
			t.Errorf("%+v: %+v, %v", m, got, ok)
		}
	}
	for _, c := range []topic.Confirming{{Contact: 7, Topic: "tax"}, {Contact: 7, Topic: "a/b c"}} {
		if got, ok := topic.ParseConfirming(c.String()); !ok || got != c {
			t.Errorf("%+v: %+v, %v", c, got, ok)
		}
	}
	for _, text := range []string{"", "x", "07", "+7", " 7", "7/topic/1", "7/", "/tax", "07/tax"} {
		if got, ok := topic.ParseManaging(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
		if got, ok := topic.ParseConfirming(text); ok && text != "7/topic/1" {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
