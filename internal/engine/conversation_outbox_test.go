package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The answers of a conversation reach sinks as those of a page do: the body of the outbox event has the same leaves with the same values, but for the ids, the names and
// the instants that are each one's own.
//
// Shows: C34, C38.
func TestAConversationIsHandedOnLikeAPage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		form := checkup[strings.Index(checkup, "---\nsurvey: health"):]
		form = strings.Replace(form, "questions:", "invitation: {text: \"How are you? {{ survey.link }}\"}\nquestions:", 1)
		const asking = `workflow: %s
type: survey
ext_id: "7"
triggers: {id: over, event: %[1]s}
audience: {to: event.recipient}
channel: sms
limits: {critical: true}
message: {survey: health%s}
sinks: [{sink: a}]
---
`
		definitions := fmt.Sprintf(asking, "talk", ", mode: conversation") + strings.TrimSuffix(fmt.Sprintf(asking, "page", ""), "---\n") + form + "---\nsink: a\nprovider: test\nsettings: {name: a}\n"
		w := world{enginetest.Setup(t, s, definitions, noJitter)}
		w.Clock.Set(ten)
		w.phone("ann", "+254700000001")
		const event = `{"kind": %q, "id": "1", "recipient": {"customer_ref": "ann", "locale": "sw"}, "payload": {"name": "you", "ward": {"floor": 3}}}`
		w.Post(fmt.Sprintf(event, "talk"))
		w.Post(fmt.Sprintf(event, "page"))
		w.calm()
		w.Clock.Set(w.Clock.Now().Add(time.Minute))
		w.replies("sms:default", "+254700000001", "ndiyo", "Mapema")
		w.spoken()
		w.replies("sms:default", "+254700000001", "ndiyo ", "earlier")
		w.spoken()
		w.replies("sms:default", "+254700000001", "7")
		w.calm()
		page, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{Workflow: "page"}, store.Page{Limit: 1})
		if err != nil || len(page) != 1 {
			t.Fatal(page, err)
		}
		link := answer.Link{Workspace: w.Workspace.ID, Delivery: page[0].ID}
		if _, err := w.Answers().Submit(t.Context(), link, answer.Submission{Answers: map[string]any{"fever": true, "since": "earlier", "pain": 7}}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.calm()
		bodies := map[string]map[string]any{}
		events, err := s.OutboxEvents(t.Context(), w.Workspace.ID, store.OutboxFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == "response.completed" {
				var body map[string]any
				if err := json.Unmarshal([]byte(e.Body), &body); err != nil {
					t.Fatal(err)
				}
				bodies[e.Workflow] = body
			}
		}
		if len(bodies) != 2 {
			t.Fatalf("%d responses, of %d events", len(bodies), len(events))
		}
		talk, paged := leaves("", bodies["talk"]), leaves("", bodies["page"])
		var own []string
		for name, value := range talk {
			other, both := paged[name]
			switch {
			case !both:
				t.Errorf("the page has no %s", name)
			case value != other:
				own = append(own, name)
			}
		}
		if len(talk) != len(paged) || len(talk) < 15 {
			t.Errorf("%d leaves of the conversation, %d of the page", len(talk), len(paged))
		}
		slices.Sort(own)
		want := []string{".data.delivery", ".data.event.kind", ".data.instance", ".data.workflow", ".id", ".source", ".subject"}
		if diff := cmp.Diff(want, own); diff != "" {
			t.Errorf("what differs (-want +got)\n%s\n%v\n%v", diff, bodies["talk"], bodies["page"])
		}
	})
}

// leaves are the values of a document by their paths.
func leaves(at string, v any) map[string]string {
	all := map[string]string{}
	add := func(path string, v any) {
		for name, value := range leaves(path, v) {
			all[name] = value
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			add(at+"."+name, of)
		}
	case []any:
		for i, of := range v {
			add(fmt.Sprint(at, "[", i, "]"), of)
		}
	default:
		all[at] = fmt.Sprint(v)
	}
	return all
}

// Two processes begin conversations with one person at the same instant: one of them is open in the end, and what was asked in the other one is not asked again.
func TestConversationsBeginAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, checkup)
		other := world{enginetest.Setup(t, s, "", nil)}
		w.phone("ann", "+254700000001")
		for round := range 8 {
			w.Clock.Set(w.Clock.Now().Add(time.Hour))
			other.Clock.Set(w.Clock.Now())
			for n := range 4 {
				w.visit("ann", fmt.Sprint(round, "-", n))
			}
			var all sync.WaitGroup
			for _, in := range []world{w, other} {
				all.Go(func() {
					for range 3 {
						if _, err := in.Tick(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			w.calm()
			open, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{Status: delivery.SessionOpen}, store.Page{Limit: 10})
			if err != nil || len(open) != 1 {
				t.Fatalf("round %d: %d conversations are open, %v", round, len(open), err)
			}
			asked := len(w.Provider.Sent()) + len(other.Provider.Sent())
			ended, err := s.Sessions(t.Context(), w.Workspace.ID, store.SessionFilter{}, store.Page{Limit: 100})
			if err != nil || asked > 4 || len(ended) > 4*(round+1) {
				t.Errorf("round %d: %d were asked, %d sessions, %v", round, asked, len(ended), err)
			}
			w.mustBe("the answer to the last question", w.replies("sms:default", "+254700000001", "no"), []string{"ann"})
			w.Provider.Sent()
			w.spoken()
		}
	})
}
