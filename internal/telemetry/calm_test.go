package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/internal/telemetry"
)

// The same error is logged once a second, wherever it occurs; everything else is logged as it comes.
func TestCalm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		var out bytes.Buffer
		log := telemetry.Calm(slog.New(slog.NewTextHandler(&out, nil)), func(err error) bool { return errors.Is(err, away) })
		other := log.With("part", "other")
		for range 100 { // three seconds
			log.Error("step failed", "error", fmt.Errorf("claim: %w", away))
			other.Warn("not ready", "error", away)
			time.Sleep(30 * time.Millisecond)
		}
		text := out.String()
		if got := strings.Count(text, "connection refused"); got != 3 {
			t.Errorf("%d lines in three seconds:\n%s", got, text)
		}
		if !strings.Contains(text, "left_out=67") {
			t.Errorf("it is not said how many were left out:\n%s", text)
		}
		out.Reset()
		for range 3 {
			log.Error("step failed", "error", errors.New("a fault of its own"))
			log.Info("noted", "error", away)
			log.Warn("no error")
		}
		if got := strings.Count(out.String(), "\n"); got != 9 {
			t.Errorf("%d lines, want 9:\n%s", got, out.String())
		}
	})
}
