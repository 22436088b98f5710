package telemetry

import (
	"context"
	"net/http"
)

// Tracing makes spans of requests, of steps and of sends. The zero value makes none, which is what every build does
// that lacks the build tag otlp: few need it, and its libraries are 7 MB of program.
type Tracing struct {
	Spans Spans
	// Handler and Transport wrap the server and the one client; nil = there is nothing to wrap.
	Handler   func(http.Handler) http.Handler
	Transport func(http.RoundTripper) http.RoundTripper
	// Stop sends what has been gathered; nil = nothing has.
	Stop func(context.Context) error
}

// Spans begins a span, whose attributes are names and values by turns, and returns the context inside of it and its
// end. Attributes hold neither addresses nor texts. A nil Spans begins none.
type Spans func(ctx context.Context, name string, attributes ...string) (context.Context, func(error))

// Begin begins a span.
func (s Spans) Begin(ctx context.Context, name string, attributes ...string) (context.Context, func(error)) {
	if s == nil {
		return ctx, func(error) {}
	}
	return s(ctx, name, attributes...)
}

// tracesWanted are the variables of the environment, of the OpenTelemetry specification, one of which names the
// collector; the exporter reads them and their like (headers, timeout, sampler, service name) by itself.
func tracesWanted() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
}
