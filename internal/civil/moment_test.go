package civil_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

func TestParseMoment(t *testing.T) {
	t.Parallel()
	berlin, err := civil.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC) // 14:00 in Berlin, on the day of 23 hours
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"2026-05-14T05:00:00Z", "2026-05-14T05:00:00Z"},
		{"2026-05-14T07:00:00+02:00", "2026-05-14T05:00:00Z"},
		{"90m", "2026-03-29T10:30:00Z"},
		{"24h", "2026-03-28T12:00:00Z"},
		{"1d", "2026-03-28T13:00:00Z"}, // the same local time on the day before
		{"1mo", "2026-02-28T13:00:00Z"},
		{"yesterday", `"yesterday" is neither an instant nor a duration`},
		{"2026-05-14", `"2026-05-14" is neither an instant nor a duration`},
		{"-1d", `"-1d" is neither an instant nor a duration`},
	} {
		got, err := civil.ParseMoment(c.text, now, berlin)
		text := ""
		switch refused := (*civil.Error)(nil); {
		case errors.As(err, &refused):
			text = refused.Message
		case !got.IsZero():
			text = got.Format(time.RFC3339)
		}
		if text != c.want {
			t.Errorf("%q: got %s, want %s", c.text, text, c.want)
		}
	}
}
