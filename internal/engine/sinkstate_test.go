package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

const sentAndAnswered = "  - {sink: a, events: [delivery.sent, response.completed]}\n"

func (a asked) ref(name string) store.SinkRef {
	return store.SinkRef{Workspace: a.Workspace.ID, Name: name}
}

func (a asked) enable(name string) {
	a.Helper()
	if _, changed, err := a.Engine.Sinks().Enable(a.Context(), a.ref(name), "test", a.Now()); err != nil || !changed {
		a.Fatalf("enable %s: %t, %v", name, changed, err)
	}
}

func (a asked) pause(name string) {
	a.Helper()
	if _, changed, err := a.Engine.Sinks().Pause(a.Context(), a.ref(name), "test", a.Now()); err != nil || !changed {
		a.Fatalf("pause %s: %t, %v", name, changed, err)
	}
}

func (a asked) took(name string) (types []string) {
	for _, m := range a.Sinks.Took(name) {
		types = append(types, m.Type)
	}
	return types
}

// asleep reports whether nothing is due at sinks: what is due lies in the future.
func (a asked) asleep() {
	a.Helper()
	if at := a.nextDue(); !at.IsZero() && !at.After(a.Now()) {
		a.Errorf("due at %s, and it is %s", at, a.Now())
	}
}

// While a sink is paused nothing leaves and nothing is lost; then all leaves, in order.
func TestAPausedSink(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(sentAndAnswered), func(c *engine.Config) { c.NoJitter, c.Concurrency = true, 0 }) // both are claimed at once
		a.pause("a")
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			a.At(a.Now().Add(time.Hour))
			a.asleep()
		}
		if _, status, rows := a.whole(); status != outbox.Pending || rows["a"].Attempts != 0 || len(a.Sinks.Got("a")) != 0 {
			t.Errorf("while paused: %s, %+v", status, rows)
		}
		a.enable("a")
		if at := a.nextDue(); at.IsZero() || at.After(a.Now()) {
			t.Errorf("enabled: next due %s", at)
		}
		a.At(a.Now())
		if diff := cmp.Diff([]string{"delivery.sent", "response.completed"}, a.took("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// A sink that answers 410 is asked nothing more until somebody enables it, and then gets what waited.
//
// Shows: C38.
func TestASinkThatIsGone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(sentAndAnswered), noJitter)
		a.Sinks.Answer("a", sink.NotWanted(errors.New("410")))
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			a.At(a.Now().Add(time.Hour))
			a.asleep()
		}
		if n := len(a.Sinks.Got("a")); n != 1 {
			t.Errorf("asked %d times", n)
		}
		if sinks, err := s.Sinks(t.Context()); err != nil || sinks[0].State != outbox.Disabled || sinks[0].Reason != reason.Gone || sinks[0].Pending != 2 {
			t.Errorf("%+v, %v", sinks, err)
		}
		a.enable("a")
		a.At(a.Now())
		a.At(a.Now())
		if diff := cmp.Diff([]string{"delivery.sent", "response.completed"}, a.took("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// A sink that rests after a failure is tried at once when a person has its events tried again, one or all of them, and otherwise not before
// its rest is over. What it has not died of keeps its rest.
func TestARedriveEndsTheRest(t *testing.T) {
	t.Parallel()
	once := strings.ReplaceAll(routed(toBoth), "{jitter: none}", "{jitter: none, attempts: 1}")
	for name, redrive := range map[string]func(a asked, event int64) error{
		"one event": func(a asked, event int64) error {
			_, err := a.Engine.Sinks().Redrive(a.Context(), a.Workspace.ID, event, "a", "test", a.Now())
			return err
		},
		"all of a sink": func(a asked, _ int64) error {
			_, err := a.Engine.Sinks().RedriveAll(a.Context(), a.ref("a"), "test", a.Now())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				a := ask(t, s, once, noJitter)
				a.At(a.Now())
				a.Sinks.Answer("a", sink.Failed(errors.New("503")))
				a.Sinks.Answer("b", sink.Failed(errors.New("503")))
				if err := a.submit(good); err != nil {
					t.Fatal(err)
				}
				a.At(a.Now())
				event, status, _ := a.whole()
				before, err := s.SinkHealth(t.Context(), a.Workspace.ID)
				if err != nil || status != outbox.Dead || !before["a"].RestUntil.After(a.Now()) {
					t.Fatalf("%s, %+v, %v", status, before, err)
				}
				a.Clock.Set(a.Now().Add(time.Millisecond))
				if err := redrive(a, event.ID); err != nil {
					t.Fatal(err)
				}
				after, err := s.SinkHealth(t.Context(), a.Workspace.ID)
				if err != nil || !after["a"].RestUntil.Equal(a.Now()) || !after["a"].FailingSince.Equal(before["a"].FailingSince) || after["b"] != before["b"] {
					t.Errorf("after the redrive: %+v, before %+v, %v", after, before, err)
				}
				a.At(a.Now())
				if len(a.took("a")) != 1 || len(a.Sinks.Got("b")) != 1 {
					t.Errorf("a took %v, b got %d", a.took("a"), len(a.Sinks.Got("b")))
				}
				log, err := s.AuditLog(t.Context(), a.Workspace.ID, store.Page{Limit: 1})
				id := engine.PublicIDs(a.Workspace).Encode(key.KindOutbox, int64(a.Workspace.ID), event.ID)
				if want := map[string]string{"one event": id, "all of a sink": "a"}[name]; err != nil || len(log) != 1 || log[0].Action != "redrive" || log[0].Target != want {
					t.Errorf("audited as %+v, %v; it is about %s", log, err, want)
				}
			})
		})
	}
}

// A request that redrives more events than one transaction does takes effect once, and its answer counts all of them.
func TestARedriveOfManyTakesEffectOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const many = 1001 // two pages, and one more
		a := ask(t, s, routed("  - {sink: a}\n"), noJitter)
		events := make([]store.NewOutboxEvent, many)
		for i := range events {
			events[i] = store.NewOutboxEvent{Sinks: []string{"nowhere"}, Event: outbox.Event{
				Workspace: a.Workspace.ID, Type: "delivery.sent", MessageID: fmt.Sprint(i), Workflow: "visit", Instance: instance.ID(i + 1), Body: "{}", CreatedAt: a.Now(),
			}}
		}
		if err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.AddOutboxEvents(events) }); err != nil {
			t.Fatal(err)
		}
		dead := func() int64 {
			t.Helper()
			sinks, err := s.SinksOf(t.Context(), a.Workspace.ID)
			if err != nil || len(sinks) != 1 {
				t.Fatal(sinks, err)
			}
			return sinks[0].Dead
		}
		for n := 0; dead() < many; n++ { // the sink is not defined
			if n == 20 {
				t.Fatalf("%d are dead", dead())
			}
			a.At(a.Now())
		}
		answers := []int{}
		once := &store.Idempotent[int]{
			AnswerKey: store.AnswerKey{Key: strings.Repeat("a", 64), Request: strings.Repeat("b", 64)}, At: a.Now(),
			Answer: func(n int) (store.Answer, error) {
				answers = append(answers, n)
				return store.Answer{Status: 200, Body: fmt.Sprint(n)}, nil
			},
		}
		n, err := a.Engine.Sinks().RedriveAllOnce(t.Context(), a.ref("nowhere"), "test", a.Now(), once)
		if err != nil || n != many || dead() != 0 || !slices.Equal(answers, []int{many}) {
			t.Fatalf("%d redriven, %v, %d dead, answered %v", n, err, dead(), answers)
		}
		a.At(a.Now())
		before := dead()
		var again *store.Replay
		if n, err = a.Engine.Sinks().RedriveAllOnce(t.Context(), a.ref("nowhere"), "test", a.Now(), once); !errors.As(err, &again) || again.Body != fmt.Sprint(many) || n != 0 || dead() != before || before == 0 {
			t.Errorf("again: %d redriven, %v, %d dead, %d before", n, err, dead(), before)
		}
	})
}

// The events of a sink that was removed are dead. Defined again, it gets them once they are redriven, in their order.
func TestASinkThatWasRemoved(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		both := routed(strings.Replace(sentAndAnswered, "sink: a", "sink: b", 1))
		a := ask(t, s, both, noJitter)
		a.pause("b")
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.Apply(routed("  - {sink: a}\n"))
		if _, err := a.EditDefinitions(t.Context(), a.Workspace, engine.Edit{Delete: []definition.Ref{{Kind: definition.KindSink, Name: "b"}}}, engine.Applier{Name: "test", Secrets: true}, nil); err != nil {
			t.Fatal(err)
		}
		a.enable("b") // it is known still
		if r := a.At(a.Now()); r.Dead != 2 {
			t.Errorf("%+v", r)
		}
		if _, status, rows := a.whole(); status != outbox.Dead || rows["b"].Reason != reason.NoSink || rows["b"].Attempts != 0 {
			t.Errorf("%s, %+v", status, rows)
		}
		a.asleep()
		a.Apply(both)
		if a.At(a.Now().Add(time.Hour)); len(a.Sinks.Got("b")) != 0 {
			t.Error("a dead event came back by itself")
		}
		if n, err := a.Engine.Sinks().RedriveAll(t.Context(), a.ref("b"), "test", a.Now()); err != nil || n != 2 {
			t.Fatalf("%d redriven, %v", n, err)
		}
		a.At(a.Now())
		a.At(a.Now())
		if diff := cmp.Diff([]string{"delivery.sent", "response.completed"}, a.took("b")); diff != "" {
			t.Error(diff)
		}
	})
}

// A sink whose secret is missing fails for now, and gets its events once the secret is there.
func TestASinkWithoutItsSecret(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		missing := true
		a := ask(t, s, strings.Replace(routed("  - {sink: a}\n"), "settings: {name: a}", "settings: {name: {secret: who}}", 1), func(c *engine.Config) {
			c.NoJitter = true
			c.Secret = func(_ subject.WorkspaceID, of definition.Setting) (string, error) {
				if of.Secret != "" && missing {
					return "", errors.New("there is no secret who")
				}
				return "a", nil
			}
		})
		a.At(a.Now())
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		if _, status, rows := a.whole(); status != outbox.Pending || rows["a"].Reason != reason.SecretMissing || rows["a"].Attempts != 1 {
			t.Errorf("%s, %+v", status, rows)
		}
		a.asleep()
		missing = false
		a.At(a.nextDue())
		if _, status, _ := a.whole(); status != outbox.Dispatched || len(a.took("a")) != 1 {
			t.Errorf("%s, %v", status, a.took("a"))
		}
	})
}

// A sink that is not defined any more is closed: at once in the process that removes it, and in another one when it looks.
func TestARemovedSinkIsClosed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		var config engine.Config
		a := ask(t, s, routed(sentAndAnswered), func(c *engine.Config) {
			c.NoJitter = true
			config = *c
		})
		other, err := engine.New(config)
		if err != nil {
			t.Fatal(err)
		}
		closed := func(want int) {
			t.Helper()
			if err := a.CloseRemoved(t.Context()); err != nil {
				t.Fatal(err)
			}
			if opened, closed := a.Sinks.Opened("a"); opened != 1 || closed != want {
				t.Errorf("opened %d times, closed %d times, want %d", opened, closed, want)
			}
		}
		a.At(a.Now())
		a.At(a.Now())
		closed(0)
		remove := engine.Edit{
			Files:  []definition.File{{Name: "test.yaml", Text: []byte(strings.Replace(routed("  - {sink: b}\n"), "sink: a\n", "sink: c\n", 1))}},
			Delete: []definition.Ref{{Kind: definition.KindSink, Name: "a"}},
		}
		edit := func(by *engine.Engine, e engine.Edit) {
			t.Helper()
			applied, err := by.EditDefinitions(t.Context(), a.Workspace, e, engine.Applier{Name: "test"}, nil)
			if err != nil || definition.HasErrors(applied.Problems) {
				t.Fatal(err, applied.Problems)
			}
		}
		edit(other, remove)
		if _, n := a.Sinks.Opened("a"); n != 0 {
			t.Error("it was closed before this process could know")
		}
		closed(1)
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		if opened, n := a.Sinks.Opened("b"); opened != 1 || n != 0 {
			t.Fatalf("b was opened %d times and closed %d times", opened, n)
		}
		edit(a.Engine, engine.Edit{
			Files:  []definition.File{{Name: "test.yaml", Text: []byte(strings.ReplaceAll(routed("  - {sink: c}\n"), "sink: b\n", "sink: c\n"))}},
			Delete: []definition.Ref{{Kind: definition.KindSink, Name: "b"}},
		})
		if _, n := a.Sinks.Opened("b"); n != 1 {
			t.Errorf("b was closed %d times by the process that removed it", n)
		}
	})
}

// After an edit a sink's new settings are used, and the old sink is closed once.
func TestASinkThatWasEdited(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed(sentAndAnswered), noJitter)
		a.At(a.Now())
		a.At(a.Now())
		if len(a.took("a")) != 1 {
			t.Fatalf("took %v", a.took("a"))
		}
		a.Apply(strings.Replace(routed(sentAndAnswered), "settings: {name: a}", "settings: {name: other}", 1))
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		a.At(a.Now())
		if len(a.took("a")) != 1 || !slices.Equal(a.took("other"), []string{"response.completed"}) {
			t.Errorf("old %v, new %v", a.took("a"), a.took("other"))
		}
		a.Close()
		for _, name := range []string{"a", "other"} {
			if opened, closed := a.Sinks.Opened(name); opened != 1 || closed != 1 {
				t.Errorf("%s was opened %d and closed %d times", name, opened, closed)
			}
		}
	})
}

// Sinks of the same name in two workspaces are two sinks.
func TestSinksOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a}\n"), noJitter)
		ws, err := s.EnsureWorkspace(t.Context(), "other", []byte("fedcba9876543210fedcba9876543210"), a.Now())
		if err != nil {
			t.Fatal(err)
		}
		text := "workspace: other\ncadence: {max_per_day: 0}\n---\n" + strings.Replace(routed("  - {sink: a}\n"), "settings: {name: a}", "settings: {name: theirs}", 1)
		applied, err := a.Engine.Apply(t.Context(), ws, []definition.File{{Name: "test.yaml", Text: []byte(text)}}, "test")
		if err != nil || definition.HasErrors(applied.Problems) {
			t.Fatal(err, applied.Problems)
		}
		mine := a.Workspace
		a.Workspace = ws
		theirs := answer.Link{Workspace: ws.ID, Delivery: a.Post(visited("2")).Instances[0].Deliveries[0].ID}
		a.Workspace = mine
		a.At(a.Now())
		a.pause("a")
		for _, of := range []asked{a, {a.Bundle, theirs}} {
			if err := of.submit(good); err != nil {
				t.Fatal(err)
			}
		}
		a.At(a.Now())
		if len(a.took("a")) != 0 || len(a.took("theirs")) != 1 || a.Sinks.Took("theirs")[0].Workspace != "other" {
			t.Errorf("mine %v, theirs %+v", a.took("a"), a.Sinks.Took("theirs"))
		}
		if _, status, rows := a.whole(); status != outbox.Pending || len(rows) != 1 {
			t.Errorf("mine: %s, %+v", status, rows)
		}
		for ref, want := range map[store.SinkRef]int{a.ref("a"): 0, {Workspace: ws.ID, Name: "a"}: 0} {
			if n, err := a.Engine.Sinks().RedriveAll(t.Context(), ref, "test", a.Now()); err != nil || n != want {
				t.Errorf("%v: %d, %v", ref, n, err)
			}
		}
		a.enable("a")
		a.At(a.Now())
		if len(a.took("a")) != 1 || len(a.took("theirs")) != 1 {
			t.Errorf("mine %v, theirs %v", a.took("a"), fmt.Sprint(a.took("theirs")))
		}
	})
}

// What a sink has not got yet keeps its occasion, however old it is. When it has got it, all goes.
func TestRetentionWaitsForSinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a}\n"), func(c *engine.Config) { c.NoJitter, c.Retention = true, keepAll(keep) })
		a.At(a.Now())
		a.pause("a")
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		event, _, _ := a.whole()
		gone := func() bool {
			for n := range 4 { // a pass takes several steps
				a.At(a.Now().Add(2*time.Hour + time.Duration(n)*time.Minute))
			}
			_, err := s.InstanceByID(t.Context(), a.Workspace.ID, event.Instance)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return err != nil
		}
		a.Clock.Set(a.Now().Add(2 * keep))
		for range 5 {
			if gone() {
				t.Fatal("deleted while a sink waits for its event")
			}
		}
		a.enable("a")
		for n := 0; !gone(); n++ {
			if n == 20 {
				t.Fatal("never deleted")
			}
		}
		if len(a.took("a")) != 1 {
			t.Errorf("the sink took %v", a.took("a"))
		}
		events, err := s.OutboxEvents(t.Context(), a.Workspace.ID, store.OutboxFilter{}, store.Page{})
		if err != nil || len(events) != 0 {
			t.Errorf("%d outbox events stay, %v", len(events), err)
		}
		at, err := s.Dispatches(t.Context(), a.Workspace.ID, []int64{event.ID})
		if err != nil || len(at) != 0 {
			t.Errorf("dispatches stay: %v, %v", at, err)
		}
		tries, err := s.DispatchAttempts(t.Context(), a.Workspace.ID, event.ID)
		if err != nil || len(tries) != 0 {
			t.Errorf("tries stay: %v, %v", tries, err)
		}
	})
}
