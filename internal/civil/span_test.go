package civil_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
)

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]civil.Span{
		"22:00-07:00": {From: 22 * 3600, To: 7 * 3600},
		"08:00-20:30": {From: 8 * 3600, To: 20*3600 + 30*60},
		"00:00-00:01": {To: 60},
		"23:59-00:00": {From: 23*3600 + 59*60},
	} {
		got, err := civil.ParseSpan(text)
		if err != nil || got != want || got.String() != text || got.IsZero() {
			t.Errorf("ParseSpan(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "-", "22:00", "22:00-", "-07:00", "22-07", "22:00 - 07:00", "22:00–07:00", "24:00-07:00", "22:00-07:60",
		"22:00-07:00-08:00", "9:00-10:00", "10:00-10:00", "00:00-00:00",
	} {
		if got, err := civil.ParseSpan(text); err == nil || !got.IsZero() {
			t.Errorf("ParseSpan(%q) = %v, want a refusal", text, got)
		}
	}
	night := civil.Span{From: 20 * 3600, To: 7 * 3600}
	if got := night.Rest().String(); got != "07:00-20:00" {
		t.Errorf("the rest of the day is %q", got)
	}
	if got := (civil.Span{}).String(); got != "" {
		t.Errorf("no span is written %q", got)
	}
}

func TestSpanAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, span, zone, at, want string }{
		{"outside", "20:00-07:00", "UTC", "2026-05-14T12:00:00Z", "2026-05-14T12:00:00Z"},
		{"it begins", "20:00-07:00", "UTC", "2026-05-14T20:00:00Z", "2026-05-15T07:00:00Z"},
		{"its last microsecond", "20:00-07:00", "UTC", "2026-05-15T06:59:59.999999Z", "2026-05-15T07:00:00Z"},
		{"its end is outside", "20:00-07:00", "UTC", "2026-05-15T07:00:00.5Z", "2026-05-15T07:00:00.5Z"},
		{"within a day", "12:00-14:00", "Europe/Berlin", "2026-05-14T12:30:00+02:00", "2026-05-14T14:00:00+02:00"},
		{"until midnight", "22:00-00:00", "UTC", "2026-05-14T23:00:00Z", "2026-05-15T00:00:00Z"},
		{"a night that loses an hour", "20:00-07:00", "Europe/Berlin", "2026-03-28T22:00:00+01:00", "2026-03-29T07:00:00+02:00"},
		{"its end is in the gap", "20:00-02:30", "Europe/Berlin", "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"its end comes twice", "20:00-02:30", "Europe/Berlin", "2026-10-25T01:00:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"inside once more", "20:00-02:30", "Europe/Berlin", "2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+01:00"},
		{"it lies in the gap", "02:00-03:00", "Europe/Berlin", "2026-03-29T01:59:59+01:00", "2026-03-29T01:59:59+01:00"},
		{"a date left out", "22:00-06:00", "Pacific/Apia", "2011-12-29T23:00:00-10:00", "2011-12-31T06:00:00+14:00"},
	} {
		span, err := civil.ParseSpan(c.span)
		if err != nil {
			t.Fatal(err)
		}
		at, want := instant(t, c.at), instant(t, c.want)
		if got := span.After(at, zone(t, c.zone)); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}

// After returns the first second at which the clocks are outside the span, which the test finds second by second.
func TestSpanAfterIsTheFirst(t *testing.T) {
	t.Parallel()
	names := []string{"UTC", "Asia/Kolkata", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"}
	starts := []time.Time{
		time.Date(2011, 12, 29, 0, 0, 0, 0, time.UTC), time.Date(2018, 11, 3, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 0, 0, 0, 0, time.UTC),
	}
	inside := 0
	rapid.Check(t, func(t *rapid.T) {
		loc, err := civil.LoadZone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		minute := rapid.IntRange(0, 24*60-1)
		span := civil.Span{From: civil.TimeOfDay(60 * minute.Draw(t, "from")), To: civil.TimeOfDay(60 * minute.Draw(t, "to"))}
		if span.From == span.To {
			return
		}
		at := rapid.SampledFrom(starts).Draw(t, "start").Add(time.Duration(rapid.IntRange(0, 48*3600).Draw(t, "second")) * time.Second)
		got := span.After(at, loc)
		want := at
		for span.Contains(want, loc) {
			want = want.Add(time.Second)
			inside++
		}
		if !got.Equal(want) {
			t.Fatalf("%v in %v at %v: got %v, want %v", span, loc, at, got, want)
		}
	})
	if inside == 0 {
		t.Error("no instant was inside")
	}
}
