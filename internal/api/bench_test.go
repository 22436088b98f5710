package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// BenchmarkPostEvents takes batches in that make nothing new, so that the API's own share shows: reading the
// request, finding the key, writing the answer.
func BenchmarkPostEvents(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := storetest.Memory(b)
			bundle := enginetest.Setup(b, s, definitions, nil)
			routes := api.New(api.Deps{Store: s, Engine: app.Operations(bundle.Engine), Clock: clock.NewManual(start), Version: "test"})
			key, err := app.CreateKey(b.Context(), s, bundle.Workspace, "bench", []string{"ingest"}, start)
			if err != nil {
				b.Fatal(err)
			}
			events := make([]string, n)
			for i := range events {
				events[i] = fmt.Sprintf(`{"id":"%d","kind":"service-visit-closed","payload":{"wip":"%d","dealerId":"1","jobType":"GR","VIN":"JTMABBBJ2N4024400"},`+
					`"recipient":{"address":"+964 770 000 %04d","locale":"ar","customer_ref":"cust-%d"}}`, i, i, i, i)
			}
			body := []byte(`{"events":[` + strings.Join(events, ",") + `]}`)
			post := func() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/events", bytes.NewReader(body))
				r.Header.Set("Authorization", "Bearer "+key)
				w := httptest.NewRecorder()
				if routes.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatalf("got %d %s", w.Code, w.Body)
				}
			}
			post()
			b.ReportAllocs()
			for b.Loop() {
				post()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
