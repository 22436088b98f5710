//go:build otlp

package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// NewTracing sends spans to the collector that the environment names, by OTLP over HTTP; without one it makes none.
func NewTracing(ctx context.Context, version string, _ *slog.Logger) (Tracing, error) {
	if !slices.ContainsFunc(tracesWanted(), func(name string) bool { return os.Getenv(name) != "" }) {
		return Tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return Tracing{}, fmt.Errorf("prepare the sending of traces: %w", err)
	}
	// What the environment says (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) comes last and wins.
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "carillon"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return Tracing{}, fmt.Errorf("prepare the sending of traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discreet{exporter}), sdktrace.WithResource(about))
	options := []otelhttp.Option{otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{})}
	return Tracing{
		Spans: spansOf(provider.Tracer("carillon")),
		Handler: func(next http.Handler) http.Handler {
			return otelhttp.NewHandler(named(next), "request", options...)
		},
		Transport: func(next http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(next, options...) },
		Stop:      provider.Shutdown,
	}, nil
}

// named calls a request's span after its route, once that is known.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.Pattern != "" {
			span := trace.SpanFromContext(r.Context())
			span.SetName(r.Pattern)
			span.SetAttributes(attribute.String("http.route", r.Pattern))
		}
	})
}

func spansOf(tracer trace.Tracer) Spans {
	return func(ctx context.Context, name string, attributes ...string) (context.Context, func(error)) {
		list := make([]attribute.KeyValue, 0, len(attributes)/2)
		for i := 0; i+1 < len(attributes); i += 2 {
			list = append(list, attribute.String(attributes[i], attributes[i+1]))
		}
		ctx, span := tracer.Start(ctx, name, trace.WithAttributes(list...))
		return ctx, func(err error) {
			if err != nil {
				span.SetStatus(codes.Error, "failed")
			}
			span.End()
		}
	}
}

// discreet leaves out what identifies people or grants access: paths and queries hold ids, addresses and keys, and
// the address of a webhook may be its secret.
type discreet struct{ sdktrace.SpanExporter }

// ExportSpans passes spans on without those attributes.
func (d discreet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	shown := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		shown[i] = discreetSpan{s}
	}
	return d.SpanExporter.ExportSpans(ctx, shown)
}

type discreetSpan struct{ sdktrace.ReadOnlySpan }

// Attributes are those of the span that everybody may read.
func (s discreetSpan) Attributes() []attribute.KeyValue {
	return slices.DeleteFunc(slices.Clone(s.ReadOnlySpan.Attributes()), func(a attribute.KeyValue) bool {
		switch a.Key {
		case "url.full", "url.path", "url.query", "client.address", "network.peer.address", "user_agent.original":
			return true
		}
		return false
	})
}
