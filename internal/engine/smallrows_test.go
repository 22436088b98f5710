package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/trace"
)

// The rows of an occasion and of its deliveries stay small, however large the event, the text, the audience and the errors are: the event is stored
// once in a row of its own, rendered content is stored beside the delivery, and only the last failures are stored, each cut short.
//
// Shows: B11.
func TestRowsStaySmall(t *testing.T) {
	t.Parallel()
	const (
		large = 100 << 10 // of the event and of the text
		small = 4 << 10   // of a row as JSON, with the names of its columns
	)
	long := strings.Repeat("x", large)
	definitions := `
workflow: w
type: alert
triggers: {id: t, event: big}
audience:
  - to: "event.fails ? event.list.filter(x, 1 / 0 > 0) : event.list"
channel: inbox
retry: {backoff: [1m, 1m, 1m, 1m, 1m, 1m, 1m, 1m], jitter: none}
message:
  inbox:
    subject: s
    text: "{{ event.text }}` + strings.Repeat("y", 1000) + `"
---
channel: inbox
provider: inbox
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, definitions)
		var list []string
		for i := range 200 {
			list = append(list, fmt.Sprintf("person-%d", i))
			w.person(list[i], `"name": "`+strings.Repeat("n", 200)+`"`)
		}
		event := func(id string, fails bool) string {
			body, err := json.Marshal(map[string]any{"kind": "big", "id": id, "payload": map[string]any{"text": long, "list": list, "fails": fails}})
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
		w.Post(event("sent", false))
		w.Post(event("failing", true)) // at every try
		w.live("10:10")
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 10})
		if err != nil || len(rows) != 2 {
			t.Fatalf("%d occasions, %v", len(rows), err)
		}
		isSmall := func(what string, row any) {
			t.Helper()
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > small {
				t.Errorf("%s takes %d bytes, want at most %d: %.500s…", what, len(text), small, text)
			}
		}
		failed := 0
		for _, row := range rows {
			isSmall("the occasion "+row.Key, row)
			if n := len(trace.Failures(row.Trace)); n > 0 {
				failed++
				if row.Attempts <= n {
					t.Errorf("of %d failures %d are kept", row.Attempts, n)
				}
			}
		}
		deliveries, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
		if err != nil || len(deliveries) != len(list) || failed != 1 {
			t.Fatalf("%d deliveries, %d occasions that failed, %v", len(deliveries), failed, err)
		}
		for _, d := range deliveries {
			isSmall("the delivery "+d.Key, d)
		}
		if sent := w.Provider.Sent(); len(sent) != len(list) || len(sent[0].Text) < large {
			t.Errorf("%d messages were sent, or they are short", len(sent))
		}
	})
}
