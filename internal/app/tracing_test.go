//go:build otlp

package app_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/internal/app"
)

// A request, the step that sends, the send and the provider's request are spans, the last three in one trace that
// goes on at the provider; nothing in them identifies people or grants access.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	spans := map[string]*trace.Span{}
	var all []byte
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &got); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, raw...)
		for _, resource := range got.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					spans[s.GetName()] = s
				}
			}
		}
	}))
	t.Cleanup(sink.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.URL)
	parents := make(chan string, 8)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, `{"id":"gw-1"}`)
	}))
	t.Cleanup(gateway.Close)
	a := start(t, app.Config{Server: server(":memory:"), Version: "1.2.3"})
	c := admin(t, a)
	if _, err := c.Apply(t.Context(), definitions(gateway.URL+"/secret-path?token=secret-token")); err != nil {
		t.Fatal(err)
	}
	answer, err := c.PostEvents(t.Context(), events(1)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Event(t.Context(), answer.Items[0].Event); err != nil {
		t.Fatal(err)
	}
	var parent string
	select {
	case parent = <-parents:
	case <-time.After(patience):
		t.Fatal("nothing was delivered")
	}
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"POST /v1/events", "GET /v1/events/{id}", "step expand", "step send", "send", "HTTP POST"} {
		if spans[name] == nil {
			t.Fatalf("there is no span %q among %v", name, spans)
		}
	}
	send, request := spans["send"], spans["HTTP POST"]
	if string(request.GetParentSpanId()) != string(send.GetSpanId()) || len(send.GetParentSpanId()) == 0 {
		t.Error("the provider's request is not inside of its send, or that not inside of a step")
	}
	if want := "00-" + hex.EncodeToString(request.GetTraceId()) + "-" + hex.EncodeToString(request.GetSpanId()) + "-01"; parent != want {
		t.Errorf("the provider received %q, want %q", parent, want)
	}
	for _, private := range []string{"secret", "+4930", answer.Items[0].Event, "car_"} {
		if strings.Contains(string(all), private) {
			t.Errorf("the spans hold %q", private)
		}
	}
	if !strings.Contains(string(all), "sms:gateway") || !strings.Contains(string(all), "1.2.3") {
		t.Error("the spans name neither channel nor version")
	}
}
