package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
)

func adpOutboxFile() file {
	return file{name: "adp-outbox.json", run: adpOutbox, wants: []string{
		"cases[*].after.**", "cases[*].after_1.**", "cases[*].after_2.**", "cases[*].next_tick", "cases[*].calls.**", "cases[2].after", "atomicity", "payload[*]", "states[*]",
	}, notes: []string{
		"cases[4].config", "cases[*].note",
		"cases[6].answers.has-a-complaint", // the rate alone keeps the answers from the sink
	}}
}

// Shows: C34, C35, C36, C37, C38, C39, C40.
func TestAcceptanceADPOutbox(t *testing.T) { run(t, "adp-outbox.json") }

// payload says where a receiver finds each field of the source's payload (docs/how-to/sinks.md).
func payload() map[string]string {
	return map[string]string{
		"surveyId": "data.ext_id", "surveyVersion": "data.definitions", "surveyIntegrationId": "data.survey", "instancePublicId": "data.delivery",
		"triggerId": "data.trigger", "customerRef": "data.customer_ref", "recipientAddress": "data.address", "recipientLocale": "data.locale",
		"eventType": "type", "completedAt": "data.completed_at", "agentId": "data.agent_id", "answers": "data.answers", "candidateMetadata": "data.event.payload",
	}
}

// subscribed is a survey whose answers go to sinks.
type subscribed struct {
	*world
	link    answer.Link
	answers map[string]any // in place of the usual ones
}

// subscribe makes one whose answers go to sinks, each with a condition (empty: always); one answer is awaited.
func subscribe(t testing.TB, s *store.Store, attempts int, sinks ...[2]string) subscribed {
	t.Helper()
	text := `workflow: survey
type: survey
ext_id: "7"
triggers: [{id: t, event: e}]
audience: {to: event.recipient}
channel: memory
message: {survey: form}
`
	routes, defined := "", ""
	for _, k := range sinks {
		route := "  - sink: " + k[0] + "\n"
		if k[1] != "" {
			route += "    when: " + k[1] + "\n"
		}
		routes += route
		defined += fmt.Sprintf("---\nsink: %s\nprovider: test\nsettings: {name: %q}\nretry: {jitter: none, attempts: %d}\n", k[0], k[0], attempts)
	}
	if routes != "" {
		text += "sinks:\n" + routes
	}
	text += `---
survey: form
title: Form
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: rate, type: rating, min: 1, max: 10, text: Rate}
  - {id: has-a-complaint, type: choice, options: [{value: "Yes", text: "Yes"}, {value: "No", text: "No"}], text: Complaint}
---
channel: memory
provider: memory
` + defined
	w := newWorld(t, s, text)
	w.post(ingestPath, map[string]any{"eventKind": "e", "items": []any{map[string]any{
		"payload": map[string]any{"wip": "1"}, "recipient": map[string]any{"address": "+9647700000001", "locale": "ar", "customerRef": "c-1"},
	}}})
	w.tick()
	d := w.rows()[0]
	return subscribed{world: w, link: answer.Link{Workspace: d.Workspace, Delivery: d.ID}}
}

func (s subscribed) submit(once *store.Idempotent[delivery.Response]) error {
	answers := map[string]any{"rate": 3.0, "has-a-complaint": "Yes"}
	if s.answers != nil {
		answers = s.answers
	}
	_, err := s.Answers().Submit(s.Context(), s.link, answer.Submission{Answers: answers, AgentID: "agent"}, s.Now(), once)
	return err
}

// state is the outbox event in the source's words. With a single try, the source calls a dead one failed.
func (s subscribed) state(literal bool) map[string]any {
	s.Helper()
	events := s.outboxEvents()
	if len(events) != 1 {
		s.Fatalf("%d outbox events", len(events))
	}
	rows, err := s.Store.Dispatches(s.Context(), s.Workspace.ID, []int64{events[0].ID})
	if err != nil {
		s.Fatal(err)
	}
	var states []outbox.Status
	attempts, calls := 0, map[string]any{}
	for _, r := range rows[events[0].ID] {
		states, attempts = append(states, r.Status), max(attempts, r.Attempts)
		calls[r.Sink] = count(len(s.Sinks.Got(r.Sink)))
	}
	status := string(outbox.Whole(states))
	if literal && status == string(outbox.Dead) {
		status = "failed"
	}
	return map[string]any{"status": status, "attempts": count(attempts), "calls": calls}
}

func (w *world) outboxEvents() []outbox.Event {
	w.Helper()
	events, err := w.Store.OutboxEvents(w.Context(), w.Workspace.ID, store.OutboxFilter{}, store.Page{})
	if err != nil {
		w.Fatal(err)
	}
	return events
}

// next lives until the next try, if one is planned, and makes it.
func (s subscribed) next() (planned bool) {
	s.Helper()
	at, err := s.NextDue(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if at.IsZero() || at.After(s.Now().Add(14*time.Hour)) { // further ahead is the expiry alone
		return false
	}
	s.At(at)
	return true
}

// adpOutbox lives through the cases of the outbox.
func adpOutbox(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	broken := sink.Failed(errors.New("threw"))
	seen := map[string]bool{}
	note := func(state map[string]any) map[string]any { seen[state["status"].(string)] = true; return state }
	for _, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		name := c["name"].(string)
		o.begin(name)
		attempts := 8
		if config, ok := c["config"].(map[string]any); ok {
			n, err := config["max_attempts"].(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			attempts = int(n)
		}
		literal := attempts == 1
		both := [][2]string{{"A", ""}, {"B", ""}}
		switch {
		case c["filter"] != nil:
			s := subscribe(t, open(), attempts, [2]string{"potential-complaint-tickets", fmt.Sprintf("'%s'", c["filter"])})
			s.answers = dig(c, "answers")
			rate, err := s.answers["rate"].(json.Number).Float64()
			if err != nil {
				t.Fatal(err)
			}
			s.answers["rate"] = rate
			if err := s.submit(nil); err != nil {
				t.Fatal(err)
			}
			s.tick()
			o.equal(name+": calls", c["calls"], map[string]any{"potential-complaint-tickets": count(len(s.Sinks.Got("potential-complaint-tickets")))}, nil)
		case c["op"] == "requeue":
			s := subscribe(t, open(), 1, both...)
			s.Sinks.Answer("B", broken)
			if err := s.submit(nil); err != nil {
				t.Fatal(err)
			}
			s.tick()
			o.equal(name+": given", c["given"], s.state(true)["status"], nil)
			if _, err := s.Engine.Sinks().Redrive(s.Context(), s.Workspace.ID, s.outboxEvents()[0].ID, "", "acceptance", s.Now()); err != nil {
				t.Fatal(err)
			}
			o.equal(name, c["after"], note(s.state(true))["status"], nil)
		default:
			answers := func(s subscribed, sink string, answer any) {
				switch answer {
				case "ok":
					s.Sinks.Answer(sink, nil)
				case "throws":
					s.Sinks.Answer(sink, broken)
				default:
					t.Fatalf("%s: unknown answer %v", name, answer)
				}
			}
			if c["A"] == nil && name == "no subscribers" {
				both = nil
			}
			s := subscribe(t, open(), attempts, both...)
			if a := c["A"]; a != nil {
				answers(s, "A", a)
			}
			switch b := c["B"].(type) {
			case string:
				answers(s, "B", b)
			case []any:
				for _, one := range b {
					answers(s, "B", one)
				}
			case nil:
				if name == "B never ok" {
					for range 20 {
						s.Sinks.Answer("B", broken)
					}
				}
			}
			if err := s.submit(nil); err != nil {
				t.Fatal(err)
			}
			s.tick()
			first := note(s.state(literal))
			if want, ok := c["after_1"]; ok {
				o.equal(name+": after_1", want, first, nil)
				s.next()
				o.equal(name+": after_2", c["after_2"], note(s.state(literal)), nil)
				continue
			}
			for name == "B never ok" && s.next() {
			}
			o.equal(name, c["after"], note(s.state(literal)), nil)
			if want, ok := c["next_tick"]; ok {
				calls, got := len(s.Sinks.Got("B")), "retried"
				s.At(s.Now().Add(time.Hour))
				if len(s.Sinks.Got("B")) == calls {
					got = "not retried"
				}
				o.equal(name+": next_tick", want, got, nil)
			}
			if name == "both ok" {
				o.payload(s, data["payload"].([]any))
			}
		}
	}
	o.begin("states")
	for _, state := range data["states"].([]any) {
		if !seen[state.(string)] && state != "failed" || state == "failed" && !seen["failed"] {
			o.differ("the state %v was never seen: %v", state, seen)
		}
	}
	o.atomicity(subscribe(t, open(), 8, [2]string{"A", ""}), data["atomicity"].(string))
	return o
}

// payload holds that a sink's message has every field of the source, and its message id (C37).
func (o *outcome) payload(s subscribed, fields []any) {
	got := s.Sinks.Got("A")
	id := engine.PublicIDs(s.Workspace).Encode('d', int64(s.Workspace.ID), int64(s.link.Delivery))
	if len(got) != 1 || got[0].ID != id {
		o.differ("messages %+v, want one with the id %s", got, id)
		return
	}
	body := object(s, got[0].Body)
	known := payload()
	for _, f := range fields {
		path, ok := known[f.(string)]
		if !ok {
			o.differ("payload: nothing is said of %v", f)
			continue
		}
		var value any = body
		for part := range strings.SplitSeq(path, ".") {
			value = value.(map[string]any)[part]
		}
		if value == nil || value == "" {
			o.differ("payload: %v has no value at %s in %s", f, path, got[0].Body)
		}
	}
}

// atomicity holds that a submit that fails after everything was written leaves nothing.
func (o *outcome) atomicity(s subscribed, want string) {
	o.begin("atomicity")
	before := s.row(s.rows()[0])
	late := errors.New("the answer cannot be made")
	once := &store.Idempotent[delivery.Response]{
		AnswerKey: store.AnswerKey{Key: "k"}, At: s.Now(), Answer: func(delivery.Response) (store.Answer, error) { return store.Answer{}, late },
	}
	if err := s.submit(once); !errors.Is(err, late) {
		o.differ("submitted: %v", err)
	}
	responses, err := s.Store.Responses(s.Context(), s.Workspace.ID, store.ResponseFilter{}, store.Page{})
	if err != nil {
		s.Fatal(err)
	}
	var left []string
	if len(responses) == 0 {
		left = append(left, "no response")
	}
	if fmt.Sprint(s.row(s.rows()[0])) == fmt.Sprint(before) {
		left = append(left, "no status change")
	}
	if len(s.outboxEvents()) == 0 {
		left = append(left, "no outbox row")
	}
	o.equal("atomicity", want, "submit fails after writing the response => "+strings.Join(left, ", "), nil)
	if err := s.submit(nil); err != nil || len(s.outboxEvents()) != 1 {
		o.differ("submitted again: %v", err)
	}
}
