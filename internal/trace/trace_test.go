package trace

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// An instance stores how it was planned and its last three failures, each cut short if it is long.
func TestFailuresAreKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	trace := `{"planned":{"target":"2026-05-14"}}`
	for _, text := range []string{"first", "second", strings.Repeat("ä", 200), "last"} {
		trace = Failed(trace, errors.New(text), now)
	}
	want := `{"failures":[{"at":"2026-05-14T09:00:00Z","error":"second"},{"at":"2026-05-14T09:00:00Z","error":"` + strings.Repeat("ä", 150) +
		`…"},{"at":"2026-05-14T09:00:00Z","error":"last"}],"planned":{"target":"2026-05-14"}}`
	if trace != want {
		t.Errorf("got  %s\nwant %s", trace, want)
	}
	if got, want := Failed("no JSON", errors.New("x"), now), `{"failures":[{"at":"2026-05-14T09:00:00Z","error":"x"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
