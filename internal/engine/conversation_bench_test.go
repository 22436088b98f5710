package engine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// BenchmarkReplies takes in replies of 500 people, a hundred in a call: replies to nothing, and replies that answer a question, which makes the next one. Beside them the
// same number of events that have a message made are taken in, a hundred in a call. of-plain is the time of an event by that of a reply.
//
//	go test ./internal/engine -run xxx -bench Replies -benchtime 20x
func BenchmarkReplies(b *testing.B) {
	for _, database := range []string{"sqlite", "postgres"} {
		for _, kind := range []string{"to nothing", "answers"} {
			b.Run(database+"/"+kind, func(b *testing.B) { benchReplies(b, storetest.Open(b, storetest.URL(b, database)), kind == "answers") })
		}
	}
}

func benchReplies(b *testing.B, s *store.Store, answers bool) {
	b.Helper()
	const people, call = 500, 100
	w := newWorld(b, s, "workflow: long\ntype: survey\ntriggers: {id: over, event: visit}\naudience: {to: event.recipient}\nchannel: sms\nmessage: {survey: long, mode: conversation}\n"+
		"---\nworkflow: plain\ntype: notice\ntriggers: {id: t, event: plain}\naudience: {to: event.recipient}\nchannel: sms\nmessage: {sms: {text: x}}\n"+
		"---\nsurvey: long\ntitle: Long\nquestions:\n"+manyQuestions(b.N*call/people+2)+"---\nchannel: sms\nprovider: memory\n")
	for n := range people {
		item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"sms": "+2547%08d"}}`, n)), fmt.Sprint("p", n))
		if _, err := w.Contacts().Write(b.Context(), w.Workspace, upsert.Replace, []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			b.Fatal(err)
		}
		if answers {
			w.visit(fmt.Sprint("p", n), fmt.Sprint(n))
		}
	}
	w.calm()
	var plain, replied time.Duration
	next := 0
	b.ResetTimer()
	for i := range b.N {
		b.StopTimer()
		if next+call > people {
			next = 0
			w.Clock.Set(w.Clock.Now().Add(time.Second))
			w.calm()
		}
		list, events := make([]reply.Reply, call), make([]ingest.Item, call)
		for n := range call {
			list[n] = reply.Reply{ID: fmt.Sprint(i, "-", n), From: fmt.Sprintf("+2547%08d", next+n), Text: "7"}
			events[n] = ingest.Parse(json.RawMessage(fmt.Sprintf(`{"kind": "plain", "id": "%d-%d", "recipient": {"customer_ref": "p%d"}, "payload": {"text": "7"}}`, i, n, next+n)), w.Clock.Now())
		}
		next += call
		begun := time.Now()
		if _, err := w.Ingest(b.Context(), w.Workspace, events); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(begun)
		b.StartTimer()
		begun = time.Now()
		taken, err := w.Replies().Take(b.Context(), w.Workspace, "sms:default", list, w.Clock.Now(), nil)
		if err != nil {
			b.Fatal(err)
		}
		replied += time.Since(begun)
		if answered := taken[0].Reason == ""; answered != answers {
			b.Fatalf("%+v", taken[0])
		}
	}
	b.ReportMetric(float64(call*b.N)/replied.Seconds(), "replies/s")
	b.ReportMetric(float64(call*b.N)/plain.Seconds(), "events/s")
	b.ReportMetric(plain.Seconds()/replied.Seconds(), "of-plain")
}

func manyQuestions(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("  - {id: q%d, type: number, text: Number %d?}\n", i, i)
	}
	return text
}
