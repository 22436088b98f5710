package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

func TestParseInstant(t *testing.T) {
	t.Parallel()
	berlin, err := civil.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2026, 5, 14, 22, 30, 0, 0, time.UTC) // 15 May 00:30 in Berlin
	tests := []struct {
		name, in, want, hint string
	}{
		{"time of day on the base's local day", "10:05", "2026-05-15T08:05:00Z", ""},
		{"with seconds", "10:05:30", "2026-05-15T08:05:30Z", ""},
		{"offset", "+5m", "2026-05-14T22:35:00Z", ""},
		{"days are exact", "+5d", "2026-05-19T22:30:00Z", ""},
		{"back", "-1h", "2026-05-14T21:30:00Z", ""},
		{"date and time", "2026-01-02 10:05", "2026-01-02T09:05:00Z", ""},
		{"date and seconds", "2026-01-02 10:05:07", "2026-01-02T09:05:07Z", ""},
		{"own offset", "2026-01-02T10:05:00-03:00", "2026-01-02T13:05:00Z", ""},
		{"fraction", "2026-01-02T10:05:00.0000015Z", "2026-01-02T10:05:00.000001Z", ""},
		{
			"twice", "2026-10-25 02:30", "2026-10-25 02:30 happens twice in Europe/Berlin",
			"write 2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00",
		},
		{
			"never", "2026-03-29 02:30", "2026-03-29 02:30 does not exist in Europe/Berlin",
			"write 2026-03-29T01:30:00+01:00 or 2026-03-29T03:30:00+02:00",
		},
		{"date alone", "2026-01-02", "2026-01-02 has no time of day", "add the time of day: 2026-01-02 00:00"},
		{"no such day", "2026-02-30 10:00", "2026-02-30 does not exist", "February 2026 has 28 days"},
		{"no such hour", "25:00", `"25:00" is not an instant`, instantHint},
		{"bad seconds", "10:05:60", `"10:05:60" is not an instant`, instantHint},
		{"one digit", "9:00", `"9:00" is not an instant`, instantHint},
		{"empty", "", `"" is not an instant`, instantHint},
		{"bad offset", "+5 minutes", `"+5 minutes" is not an offset`, "-2d is two days before the anchor, +3d three days after"},
		{"T without offset", "2026-01-02T10:05:00", `"2026-01-02T10:05:00" is not an instant`, instantHint},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseInstant(test.in, base, berlin)
			if err == nil {
				if g := got.Format(time.RFC3339Nano); g != test.want || test.hint != "" {
					t.Fatalf("parseInstant(%q) = %s, want %s", test.in, g, test.want)
				}
				if back, err := parseInstant(formatInstant(got, base, berlin), base, berlin); err != nil || !back.Equal(got) {
					t.Errorf("written %q, read back as %s, %v", formatInstant(got, base, berlin), back, err)
				}
				return
			}
			var refused *civil.Error
			if !errors.As(err, &refused) {
				t.Fatalf("parseInstant(%q): %T, want *civil.Error", test.in, err)
			}
			if refused.Message != test.want || refused.Hint != test.hint {
				t.Errorf("parseInstant(%q):\ngot  %s\n     %s\nwant %s\n     %s", test.in, refused.Message, refused.Hint, test.want, test.hint)
			}
		})
	}
}

func TestFormatInstant(t *testing.T) {
	t.Parallel()
	berlin, err := civil.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2026, 10, 25, 10, 0, 0, 0, time.UTC)
	tests := []struct{ in, want string }{
		{"2026-10-25T09:00:00Z", "10:00"},
		{"2026-10-25T09:00:01Z", "10:00:01"},
		{"2026-10-26T09:00:00Z", "2026-10-26 10:00"},
		{"2026-10-25T00:30:00Z", "2026-10-25T02:30:00+02:00"},
		{"2026-10-25T01:30:00Z", "2026-10-25T02:30:00+01:00"},
		{"2026-10-25T09:00:00.000001Z", "2026-10-25T10:00:00.000001+01:00"},
	}
	for _, test := range tests {
		at, err := time.Parse(time.RFC3339Nano, test.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := formatInstant(at, base, berlin); got != test.want {
			t.Errorf("formatInstant(%s) = %s, want %s", test.in, got, test.want)
		}
	}
	if got := formatInstant(time.Time{}, base, berlin); got != "none" {
		t.Errorf("formatInstant of no instant = %s, want none", got)
	}
}

func TestFormatSpan(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   time.Duration
		want string
	}{
		{0, "0s"},
		{7 * time.Second, "7s"},
		{90 * time.Second, "1m 30s"},
		{5 * time.Minute, "5m"},
		{126 * time.Minute, "2h 6m"},
		{3 * time.Hour, "3h"},
		{24 * time.Hour, "1 day"},
		{31*24*time.Hour + time.Hour, "31 days"},
	}
	for _, test := range tests {
		if got := formatSpan(test.in); got != test.want {
			t.Errorf("formatSpan(%s) = %s, want %s", test.in, got, test.want)
		}
	}
}
