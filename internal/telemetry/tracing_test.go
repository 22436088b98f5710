//go:build !otlp

package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/telemetry"
)

// A build without tracing logs that it sends nothing to the configured collector.
func TestTracesAreSaidToBeOff(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	tracing, err := telemetry.NewTracing(t.Context(), "", log)
	if err != nil || tracing.Handler != nil || out.Len() != 0 {
		t.Fatalf("%+v, %v, %s", tracing, err, out.String())
	}
	ctx, end := tracing.Spans.Begin(t.Context(), "nothing")
	end(nil)
	if ctx != t.Context() {
		t.Error("a span was begun")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
	if _, err := telemetry.NewTracing(t.Context(), "", log); err != nil || !strings.Contains(out.String(), "built without the build tag otlp") {
		t.Errorf("%v, %s", err, out.String())
	}
}
