package civil_test

import (
	"testing"

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
	if got := (civil.Span{}).String(); got != "" {
		t.Errorf("no span is written %q", got)
	}
}
