package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/guard"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// eligible is a workflow whose condition and audience call functions.
const eligible = `
workflow: w
type: alert
triggers:
  - id: t
    record: kiosk
    when: eligible(record)
    cooldown: {length: 1h}
audience:
  - persona: Manager
    where: known(contact)
channel: inbox
message:
  inbox: {text: "{{ record.id }}"}
---
channel: inbox
provider: inbox
---
persona: Manager
cadence: {max_per_day: 0}
`

type (
	ofCondition = func(ctx context.Context, args []any) (any, error)
	ofAudience  = func(ctx context.Context, occasion map[string]any) ([]expr.Recipient, error)
)

// functionWorld is newWorld with functions of a binary of one's own, each with one object as its value. They have time enough on a busy machine.
func functionWorld(t *testing.T, s *store.Store, definitions string, functions map[string]ofCondition, audiences map[string]ofAudience, people ...string) world {
	t.Helper()
	var guarded []*expr.Function
	for name, call := range functions {
		guarded = append(guarded, guard.Within(patience, name, []expr.Type{expr.Object}, expr.Bool, call))
	}
	return guardedWorld(t, s, definitions, guarded, audiences, people...)
}

// guardedWorld is functionWorld with functions that have times of their own.
func guardedWorld(t *testing.T, s *store.Store, definitions string, functions []*expr.Function, audiences map[string]ofAudience, people ...string) world {
	t.Helper()
	w := world{enginetest.Setup(t, s, definitions, func(c *engine.Config) {
		c.Definitions.Functions = append(c.Definitions.Functions, functions...)
		for name, call := range audiences {
			c.Definitions.Audiences = append(c.Definitions.Audiences, guard.Audience(name, call))
		}
	})}
	w.Clock.Set(ten)
	for _, name := range people {
		w.person(name, `"persona": "Manager"`)
	}
	w.live("10:00")
	w.Journal()
	return w
}

// writes writes to the store, which waits for a transaction that writes, and which a transaction cannot survive that waits for it.
func writes(ctx context.Context, s *store.Store) error {
	return s.Write(ctx, func(*store.Tx) error { return nil })
}

func field(of any, name string) any {
	fields, _ := of.(map[string]any)
	return fields[name]
}

// Functions are called while no transaction writes: each of these writes itself, and would wait for its caller. One that panics makes its line
// false, is named in the log, and keeps no other record back.
func TestConditionsCallFunctionsBetweenTransactions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := functionWorld(t, s, eligible, map[string]ofCondition{
			"eligible": func(ctx context.Context, args []any) (any, error) {
				return field(args[0], "level").(float64) < 20, writes(ctx, s)
			},
			"known": func(ctx context.Context, args []any) (any, error) {
				return field(args[0], "id") != "bob", writes(ctx, s)
			},
		}, nil, "ann", "bob")
		w.put("kiosk/1", `{"level": 5}`)
		w.put("kiosk/2", `{"level": "low"}`)
		w.put("kiosk/3", `{"level": 50}`)
		w.live("10:01")
		w.mustBe("sent", w.sentTo(), []string{"inbox:default ann: 1"})
		var failed []string
		for _, e := range w.Journal() {
			if e.What == journal.Failed {
				failed = append(failed, string(e.Reason)+" "+e.Error)
			}
		}
		if len(failed) != 1 || !strings.HasPrefix(failed[0], "expression_failed eligible(record): eligible: the function panicked at function_test.go:") {
			t.Errorf("the log says %q", failed)
		}
		explained, err := w.ExplainRecord(t.Context(), w.Workspace.ID, w.record("kiosk/3"))
		if err != nil {
			t.Fatal(err)
		}
		if c := explained[0].Judged[0].Clauses[0]; c.Reason != reason.ConditionFalse || c.Field != "eligible(record)" || c.Value != false {
			t.Errorf("explained by %+v", c)
		}
		w.put("kiosk/2", `{"level": 5}`)
		w.live("10:02")
		w.mustBe("sent", w.sentTo(), []string{"inbox:default ann: 2"})
	})
}

// A function that never returns is left behind: other records go on, and the database is written meanwhile.
func TestAFunctionThatNeverReturns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		never := make(chan struct{})
		var calls atomic.Int64
		object := []expr.Type{expr.Object}
		stuck := guard.Condition("eligible", object, expr.Bool, func(context.Context, []any) (any, error) {
			calls.Add(1)
			<-never
			return true, nil
		})
		w := guardedWorld(t, s, eligible, []*expr.Function{
			{Name: "eligible", Takes: object, Gives: expr.Bool, Call: func(args []any, stop <-chan struct{}) (any, error) {
				if field(args[0], "level") == nil {
					return stuck.Call(args, stop)
				}
				return true, nil // at once, however busy the machine is
			}},
			{Name: "known", Takes: object, Gives: expr.Bool, Call: func([]any, <-chan struct{}) (any, error) { return true, nil }},
		}, nil, "ann")
		defer close(never)
		w.put("kiosk/1", `{}`)
		w.put("kiosk/2", `{"level": 5}`)
		w.live("10:01")
		w.mustBe("sent", w.sentTo(), []string{"inbox:default ann: 2"})
		failed := slices.IndexFunc(w.Journal(), func(e journal.Entry) bool {
			return e.What == journal.Failed && e.Reason == reason.ExpressionFailed && e.Error == "eligible(record): eligible: the function has not returned within 100ms"
		})
		if failed < 0 || calls.Load() != 1 {
			t.Errorf("called %d times, and the log does not say it", calls.Load())
		}
	})
}

// named is a workflow on events whose audience is named by a function.
const named = `
workflow: w
type: notice
triggers:
  - id: t
    event: alarm
audience:
  - function: on-call
    where: contact.id != "eve"
channel: email
message:
  email: {subject: x, text: "{{ event.what }}"}
---
channel: email
provider: memory
---
persona: Manager
cadence: {max_per_day: 0}
`

// A function names contacts and addresses when the message is due, while no transaction writes. Who is named twice gets one message; an error is tried
// again as the retry says; nobody is no error.
func TestFunctionsNameAudiences(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		var names []expr.Recipient
		var fails error
		var got map[string]any
		w := functionWorld(t, s, named, nil, map[string]ofAudience{"on-call": func(ctx context.Context, occasion map[string]any) ([]expr.Recipient, error) {
			got = occasion
			return names, errors.Join(fails, writes(ctx, s))
		}}, "ann", "bob", "eve")
		names = []expr.Recipient{{ID: "ann"}, {ID: "ann"}, {ID: "eve"}, {ID: "stranger"}, {Kind: "email", Address: "Zoe@example.org"}, {Kind: "email", Address: "zoe@example.org"}}
		w.Post(`{"id": "1", "kind": "alarm", "payload": {"what": "fire"}}`)
		w.live("10:01")
		w.mustBe("sent", w.sentTo(), []string{"email:default Zoe@example.org: fire", "email:default ann@example.org: fire"})
		if field(got["event"], "what") != "fire" || got["workflow"] != "w" || got["now"] != "2026-05-14T10:00:00Z" {
			t.Errorf("the function got %v", got)
		}
		w.Journal()
		fails = errors.New("the rota is empty")
		w.Post(`{"id": "2", "kind": "alarm", "payload": {"what": "flood"}}`)
		w.live("10:03")
		fails = nil
		entries := w.Journal()
		failed := slices.IndexFunc(entries, func(e journal.Entry) bool {
			return e.What == journal.Retried && e.Reason == reason.AudienceFailed && e.Error == "audience function on-call: the rota is empty"
		})
		if failed < 0 {
			t.Errorf("the log says %+v", entries)
		}
		w.live("10:10")
		w.mustBe("sent later", w.sentTo(), []string{"email:default Zoe@example.org: flood", "email:default ann@example.org: flood"})
		names = nil
		w.Post(`{"id": "3", "kind": "alarm", "payload": {"what": "wind"}}`)
		w.live("10:11")
		w.mustBe("sent to nobody", w.sentTo(), nil)
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1})
		if err != nil || rows[0].Reason != reason.NoRecipient {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// An alert names its audience by a function too; the where of an event's recipient may call one.
func TestFunctionsOfAlertsAndRecipients(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := strings.Replace(eligible, "  - persona: Manager\n    where: known(contact)\n", "  - function: on-call\n", 1) + `---
workflow: e
type: notice
triggers: [{id: t, event: alarm}]
audience: [{to: event.recipient, where: known(contact)}]
channel: inbox
message: {inbox: {text: alarm}}
`
		w := functionWorld(t, s, definitions, map[string]ofCondition{
			"eligible": func(context.Context, []any) (any, error) { return true, nil },
			"known": func(ctx context.Context, args []any) (any, error) {
				return field(args[0], "id") == "ann", writes(ctx, s)
			},
		}, map[string]ofAudience{"on-call": func(ctx context.Context, occasion map[string]any) ([]expr.Recipient, error) {
			owner, _ := field(occasion["record"], "responsible").(string)
			return []expr.Recipient{{ID: owner}}, writes(ctx, s)
		}}, "ann", "bob")
		w.put("kiosk/1", `{"responsible": "bob"}`)
		w.live("10:01")
		w.mustBe("sent", w.sentTo(), []string{"inbox:default bob: 1"})
		for _, name := range []string{"ann", "bob"} {
			w.Post(`{"id": "` + name + `", "kind": "alarm", "recipient": {"customer_ref": "` + name + `"}}`)
		}
		w.live("10:02")
		w.mustBe("sent", w.sentTo(), []string{"inbox:default ann: alarm"})
	})
}
