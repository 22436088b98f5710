package schedule_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

func duration(tb testing.TB, s string) civil.Duration {
	tb.Helper()
	d, err := civil.ParseOffset(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func durations(tb testing.TB, texts ...string) (all []civil.Duration) {
	tb.Helper()
	for _, s := range texts {
		all = append(all, duration(tb, s))
	}
	return all
}

// day returns the instant n days after an anchor on 1 January 2026.
func day(n float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n * 24 * float64(time.Hour)))
}

// Shows: C7.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	for offset, want := range map[string]time.Time{
		"0d":  day(0),
		"15m": day(0).Add(15 * time.Minute),
		"4h":  day(0).Add(4 * time.Hour),
		"2d":  day(2),
		"60d": day(60),
		"-2d": day(-2),
	} {
		if got := (schedule.Timing{Offset: duration(t, offset)}).NotBefore(day(0)); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", offset, got, want)
		}
	}
}

// Shows: C20, C22, C23.
func TestNext(t *testing.T) {
	t.Parallel()
	type step struct {
		at        time.Time
		remaining int
		ok        bool
	}
	for _, c := range []struct {
		name      string
		reminders []string
		from      schedule.From
		lastSent  time.Time
		notBefore time.Time
		remaining int
		want      step
	}{
		{"no reminders", nil, "", day(0), day(0), 0, step{}},
		{"first of three", []string{"5d", "10d", "15d"}, "", day(60), day(60), 3, step{day(65), 2, true}},
		{"second of three", []string{"5d", "10d", "15d"}, "", day(65), day(60), 2, step{day(75), 1, true}},
		{"third of three", []string{"5d", "10d", "15d"}, "", day(75), day(60), 1, step{day(90), 0, true}},
		{"none left", []string{"5d", "10d", "15d"}, "", day(90), day(60), 0, step{}},
		{"from the real send", []string{"1d"}, schedule.FromPrevious, day(0.5), day(0), 1, step{day(1.5), 0, true}},
		{"from the anchor", []string{"1d"}, schedule.FromAnchor, day(0.5), day(0), 1, step{day(1), 0, true}},
		{"from the anchor, second", []string{"1d", "3d"}, schedule.FromAnchor, day(1.2), day(0), 1, step{day(3), 0, true}},
		{"from the anchor, first already past", []string{"1d", "3d"}, schedule.FromAnchor, day(2), day(0), 2, step{day(3), 0, true}},
		{"from the anchor, exactly now is past", []string{"1d", "3d"}, schedule.FromAnchor, day(1), day(0), 2, step{day(3), 0, true}},
		{"from the anchor, all past", []string{"1d", "3d"}, schedule.FromAnchor, day(9), day(0), 2, step{}},
		{"more remaining than there are", []string{"1d"}, "", day(0), day(0), 3, step{day(1), 0, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timing := schedule.Timing{Reminders: durations(t, c.reminders...), RemindersFrom: c.from}
			at, remaining, ok := timing.Next(c.lastSent, c.notBefore, c.remaining)
			if !at.Equal(c.want.at) || remaining != c.want.remaining || ok != c.want.ok {
				t.Errorf("got %v, %d, %v; want %+v", at, remaining, ok, c.want)
			}
		})
	}
}

// Shows: C28, C29, C30.
func TestExpiresAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		after    civil.Duration
		lastSent time.Time
		want     time.Time
	}{
		{"30 days by default", civil.Duration{}, day(14), day(44)},
		{"never sent: from its creation", civil.Duration{}, time.Time{}, day(30)},
		{"the trigger's own", civil.Duration{Days: 7}, day(14), day(21)},
		{"never sent, the trigger's own", civil.Duration{Days: 7}, time.Time{}, day(7)},
	} {
		if got := (schedule.Timing{ExpireAfter: c.after}).ExpiresAt(c.lastSent, day(0)); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   string // "" = not set
		late time.Duration
		want bool
	}{
		{"early", "", -time.Hour, false},
		{"default, at the limit", "", 48 * time.Hour, false},
		{"default, past it", "", 48*time.Hour + time.Microsecond, true},
		{"12h, at the limit", "12h", 12 * time.Hour, false},
		{"12h, past it", "12h", 12*time.Hour + time.Microsecond, true},
		{"never, on time", "never", time.Minute, false},
		{"never, late", "never", time.Minute + time.Microsecond, true},
		{"0d is never", "0d", time.Hour, true},
		{"forever", "forever", 1000 * 24 * time.Hour, false},
	} {
		var timing schedule.Timing
		if c.in != "" {
			var err error
			if timing.CatchUp, err = schedule.ParseCatchUp(c.in); err != nil {
				t.Fatal(err)
			}
		}
		if got := timing.Stale(day(0).Add(c.late), day(0)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	_, err := schedule.ParseCatchUp("always")
	want := civil.Error{Message: `"always" does not say how late`, Hint: "write a duration such as 48h, or never, or forever"}
	if got := new(civil.Error); !errors.As(err, &got) || *got != want {
		t.Errorf("got %v, want %+v", err, want)
	}
}

// The voice-of-customer walkthrough: one message after 60 days, three reminders, each tick of the source.
//
// Shows: C20, C22.
func TestAcceptanceVOCArithmetic(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CARILLON_ACCEPTANCE_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "acceptance")
	}
	data, err := os.ReadFile(filepath.Join(dir, "sources", "adp-voc.json"))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		NextSendAt time.Time `json:"next_send_at"`
		Remaining  int       `json:"reminders_remaining"`
	}
	var file struct {
		Config struct {
			InitialDelay string
			Reminders    []string
		}
		Timeline []struct {
			Day  int
			At   time.Time
			Sent bool
			Row  row
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	timing := schedule.Timing{
		Offset:    duration(t, file.Config.InitialDelay),
		Reminders: durations(t, file.Config.Reminders...),
	}
	anchor := file.Timeline[0].At.AddDate(0, 0, -file.Timeline[0].Day)
	notBefore := timing.NotBefore(anchor)
	now := row{NextSendAt: notBefore, Remaining: len(timing.Reminders)}
	for _, tick := range file.Timeline {
		sent := !now.NextSendAt.IsZero() && !tick.At.Before(now.NextSendAt)
		if sent {
			now.NextSendAt, now.Remaining, _ = timing.Next(tick.At, notBefore, now.Remaining)
		}
		if sent != tick.Sent || now != tick.Row {
			t.Errorf("day %d: got %v, %+v; want %v, %+v", tick.Day, sent, now, tick.Sent, tick.Row)
		}
	}
	t.Logf("adp-voc.json: %d ticks", len(file.Timeline))
}
