package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// notice is a workflow for the recipient of an event.
func notice(name, text string) string {
	return "workflow: " + name + "\ntype: custom\ntriggers: {id: t, event: signed-up}\ntiming: {offset: 1d}\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: " + text + "}}\n"
}

const inbox = "---\nchannel: inbox\nprovider: inbox\n"

// edits changes definitions and reads their history.
type edits struct{ *enginetest.Bundle }

func (e edits) edit(w engine.Edit) engine.Applied {
	e.Helper()
	applied, err := e.EditDefinitions(e.Context(), e.Workspace, w, engine.Applier{Name: "ann", Secrets: true}, nil)
	if err != nil || definition.HasErrors(applied.Problems) {
		e.Fatal(applied.Problems, err)
	}
	return applied
}

func (e edits) back(r engine.Rollback) engine.Applied {
	e.Helper()
	applied, err := e.Rollback(e.Context(), e.Workspace, r, engine.Applier{Name: "ann", Secrets: true}, nil)
	if err != nil || definition.HasErrors(applied.Problems) {
		e.Fatal(applied.Problems, err)
	}
	return applied
}

func (e edits) history(ref definition.Ref) (lines []string) {
	e.Helper()
	sets, err := e.History(e.Context(), e.Workspace.ID, ref, 0, 50)
	if err != nil {
		e.Fatal(err)
	}
	for _, s := range sets {
		for _, c := range s.Changes {
			lines = append(lines, fmt.Sprintf("%d %s by %s at %s: %s %s %s %d", s.Number, s.Action, s.Actor, s.At.Format("15:04"), c.Action, c.Kind, c.Name, c.Version))
		}
	}
	return lines
}

// inForce returns the text and the version of a definition.
func (e edits) inForce(kind, name string) string {
	e.Helper()
	n, err := e.Store.DefinitionsNumber(e.Context(), e.Workspace.ID)
	if err != nil {
		e.Fatal(err)
	}
	docs, err := e.Store.DefinitionSet(e.Context(), e.Workspace.ID, n)
	if err != nil {
		e.Fatal(err)
	}
	for _, d := range docs {
		if d.Kind == kind && d.Name == name {
			return fmt.Sprintf("%d: %s", d.Version, d.Text)
		}
	}
	return "none"
}

func files(text string) []definition.File {
	return []definition.File{{Name: "a.yaml", Text: []byte(text)}}
}

// Every change of the definitions is in the history with its set. A rollback restores an earlier version as a new one: of one definition, of a
// deleted one, and of the whole set, where newer definitions are deleted.
func TestHistoryAndRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		e := edits{enginetest.Setup(t, s, "", nil)}
		e.edit(engine.Edit{Files: files(notice("a", "one") + inbox)})
		e.Clock.Set(e.Now().Add(time.Hour))
		e.edit(engine.Edit{Files: files(notice("a", "two") + "---\n" + notice("b", "one"))})
		a := definition.Ref{Kind: definition.KindWorkflow, Name: "a"}
		e.back(engine.Rollback{Ref: a})
		if got, want := e.inForce("workflow", "a"), "3: "+notice("a", "one"); got != want {
			t.Errorf("after a rollback %q, want %q", got, want)
		}
		if applied := e.back(engine.Rollback{Ref: a, Version: 1}); applied.Number != 3 || applied.Changes[0].Action != store.Unchanged {
			t.Errorf("what is in force already: %+v", applied)
		}
		if _, err := e.DeleteDefinition(t.Context(), e.Workspace, a, false, engine.Applier{Name: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		e.back(engine.Rollback{Ref: a})
		if got, want := e.inForce("workflow", "a"), "4: "+notice("a", "one"); got != want {
			t.Errorf("what was deleted came back as %q, want %q", got, want)
		}
		e.back(engine.Rollback{Ref: a, Set: 2})
		if got, want := e.inForce("workflow", "a"), "5: "+notice("a", "two"); got != want {
			t.Errorf("as of set 2: %q, want %q", got, want)
		}
		e.back(engine.Rollback{Set: 1})
		if a, b := e.inForce("workflow", "a"), e.inForce("workflow", "b"); a != "6: "+notice("a", "one") || b != "none" {
			t.Errorf("set 1 again: %q and %q", a, b)
		}
		e.back(engine.Rollback{})
		if a, b := e.inForce("workflow", "a"), e.inForce("workflow", "b"); a != "7: "+notice("a", "two") || b != "2: "+notice("b", "one") {
			t.Errorf("the set before: %q and %q", a, b)
		}
		want := []string{
			"8 rollback by ann at 06:12: changed workflow a 7", "8 rollback by ann at 06:12: added workflow b 2",
			"7 rollback by ann at 06:12: changed workflow a 6", "7 rollback by ann at 06:12: deleted workflow b 1",
			"6 rollback by ann at 06:12: changed workflow a 5",
			"5 rollback by ann at 06:12: added workflow a 4",
			"4 delete by ann at 06:12: deleted workflow a 3",
			"3 rollback by ann at 06:12: changed workflow a 3",
			"2 apply by ann at 06:12: changed workflow a 2", "2 apply by ann at 06:12: added workflow b 1",
			"1 apply by ann at 05:12: added channel inbox:default 1", "1 apply by ann at 05:12: added workflow a 1",
		}
		if diff := cmp.Diff(want, e.history(definition.Ref{})); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		b := []string{want[1], want[3], want[9]}
		if diff := cmp.Diff(b, e.history(definition.Ref{Kind: definition.KindWorkflow, Name: "b"})); diff != "" {
			t.Errorf("history of b (-want +got):\n%s", diff)
		}
		page, err := e.History(t.Context(), e.Workspace.ID, definition.Ref{}, 4, 2)
		if err != nil || len(page) != 2 || page[0].Number != 3 || page[1].Number != 2 {
			t.Errorf("a page: %+v, %v", page, err)
		}
		log, err := s.AuditLog(t.Context(), e.Workspace.ID, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, entry := range log {
			actions = append(actions, entry.Action+" "+string(entry.Detail))
		}
		if got, want := strings.Join(actions, "|"), `rollback |rollback {"deleted":["workflow b"]}|rollback |rollback |delete {"deleted":["workflow a"]}|rollback |apply |apply `; got != want {
			t.Errorf("audit %q, want %q", got, want)
		}
		for _, r := range []engine.Rollback{{Ref: a, Version: 99}, {Ref: a, Set: 99}, {Set: 99}} {
			var none *engine.NoVersionError
			if _, err := e.Rollback(t.Context(), e.Workspace, r, engine.Applier{}, nil); !errors.As(err, &none) {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

// A rollback passes the same validation as an apply: it is refused if it does not fit the definitions in force, or if it changes where a secret goes
// and the caller may not do that.
func TestARollbackPassesTheChecksOfAnApply(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		e := edits{enginetest.Setup(t, s, "", nil)}
		sends := strings.Replace(notice("a", "one"), "to: event.recipient", "persona: P", 1)
		e.edit(engine.Edit{Files: files(sends + "---\npersona: P\n" + inbox + "---\nchannel: push\nprovider: http\nsettings: {url: \"http://127.0.0.1:1\", token: {secret: T}}\n")})
		e.edit(engine.Edit{Files: files(notice("a", "one"))})
		e.edit(engine.Edit{Files: files("channel: push\nprovider: http\nsettings: {url: \"http://127.0.0.1:2\", token: {secret: T}}\n")})
		if _, err := e.DeleteDefinition(t.Context(), e.Workspace, definition.Ref{Kind: "persona", Name: "P"}, false, engine.Applier{Name: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		applied, err := e.Rollback(t.Context(), e.Workspace, engine.Rollback{Ref: definition.Ref{Kind: "workflow", Name: "a"}}, engine.Applier{}, nil)
		if err != nil || len(applied.Problems) != 1 || applied.Problems[0].String() != "workflow a version 1:5:21: no persona named \"P\"\n    define it with persona: P" {
			t.Errorf("a reference to what was deleted: %v, %v", applied.Problems, err)
		}
		for _, r := range []engine.Rollback{{Ref: definition.Ref{Kind: "channel", Name: "push:default"}}, {Set: 1}} {
			var refused *engine.SecretsError
			if _, err := e.Rollback(t.Context(), e.Workspace, r, engine.Applier{Name: "bob"}, nil); !errors.As(err, &refused) {
				t.Errorf("%+v without the scope: %v", r, err)
			}
			r.DryRun = true
			applied, err := e.Rollback(t.Context(), e.Workspace, r, engine.Applier{Name: "bob"}, nil)
			if err != nil || !applied.Preview.Refused || len(applied.SecretChanges) != 1 {
				t.Errorf("%+v, dry: %+v, %v", r, applied, err)
			}
		}
		var refused *engine.SecretsError
		if _, err := e.DeleteDefinition(t.Context(), e.Workspace, definition.Ref{Kind: "channel", Name: "push:default"}, false, engine.Applier{Name: "bob"}, nil); !errors.As(err, &refused) {
			t.Errorf("a deletion without the scope: %v", err)
		}
	})
}

// Prune deletes definitions that the files do not contain, and refuses files without a definition.
func TestPrune(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		e := edits{enginetest.Setup(t, s, "", nil)}
		e.edit(engine.Edit{Files: files(notice("a", "one") + "---\n" + notice("b", "one") + inbox)})
		all := notice("a", "two") + inbox
		dry := e.edit(engine.Edit{Files: files(all), Prune: true, DryRun: true})
		done := e.edit(engine.Edit{Files: files(all), Prune: true})
		for what, applied := range map[string]engine.Applied{"dry": dry, "done": done} {
			var got []string
			for _, c := range applied.Changes {
				got = append(got, fmt.Sprint(c.Action, " ", c.Kind, " ", c.Name, " ", c.Version))
			}
			if diff := cmp.Diff([]string{"changed workflow a 2", "unchanged channel inbox:default 1", "deleted workflow b 1"}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		if dry.Number != 1 || done.Number != 2 || e.inForce("workflow", "b") != "none" {
			t.Errorf("dry %d, done %d, b %q", dry.Number, done.Number, e.inForce("workflow", "b"))
		}
		applied, err := e.EditDefinitions(t.Context(), e.Workspace, engine.Edit{Files: files("scenario: none\n"), Prune: true}, engine.Applier{}, nil)
		if err != nil || !definition.HasErrors(applied.Problems) || applied.Number != 2 {
			t.Errorf("nothing but a scenario: %+v, %v", applied, err)
		}
		applied, err = e.EditDefinitions(t.Context(), e.Workspace, engine.Edit{Files: files(notice("a", "three")), Prune: true}, engine.Applier{}, nil)
		if err != nil || len(applied.Problems) == 0 || applied.Problems[0].Message != "it needs channel inbox:default, which would be deleted" {
			t.Errorf("a channel that is needed: %+v, %v", applied.Problems, err)
		}
	})
}

// A dry run shows the changes and what would happen to waiting messages, and changes nothing: no version, no job, no occasion, no audit entry.
func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, four, "ann")
		w.Post(`{"kind": "signed-up", "id": "1", "recipient": {"address": "bob@example.org"}}`)
		w.put("visit/v", `{"on_date": "2026-05-16"}`)
		w.exhaust()
		type state struct {
			Number  int64
			Waiting []string
			Runs    int
			Audit   int
		}
		now := func() state {
			runs, err := s.Jobs(t.Context(), w.Workspace.ID, store.Page{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			log, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			return state{w.number(), w.waiting(w.Workspace), len(runs), len(log)}
		}
		before := now()
		next := strings.NewReplacer("text: direct", "text: other", "at: \"12:00\"", "at: \"13:00\"", "{every: 1d, at: \"11:00\"}", "{every: 1d, at: \"12:00\"}").Replace(four)
		later := strings.Index(next, "workflow: later")
		visits := strings.Index(next, "workflow: visits")
		next = next[:later] + next[visits:] // without the workflow later
		applied := edits(w).edit(engine.Edit{Files: files("workspace: default\ncadence: {max_per_day: 0}\n---" + next), Prune: true, DryRun: true})
		want := &engine.Preview{
			Effects: []engine.Effect{
				{Workflow: "daily", Action: store.Changed, Instances: 1, Made: 1, Ended: 1},
				{Workflow: "direct", Action: store.Changed, Keep: 1},
				{Workflow: "later", Action: store.Deleted, InstancesWithdrawn: 1},
				{Workflow: "visits", Action: store.Changed, Instances: 1},
			},
			Evaluated: []string{"visit"},
		}
		if diff := cmp.Diff(want, applied.Preview); diff != "" {
			t.Errorf("preview (-want +got):\n%s", diff)
		}
		for _, c := range applied.Changes {
			if c.Kind == "workflow" && c.Name == "direct" && (c.Version != 2 ||
				!strings.HasPrefix(c.Diff, "--- workflow direct version 1\n+++ workflow direct version 2\n@@ ") || !strings.Contains(c.Diff, "\n-message: {inbox: {text: direct}}\n+message: {inbox: {text: other}}\n")) {
				t.Errorf("version %d, difference\n%s", c.Version, c.Diff)
			}
			if c.Name == "later" && !strings.Contains(c.Diff, "+++ /dev/null\n") {
				t.Errorf("difference of what is deleted\n%s", c.Diff)
			}
		}
		if diff := cmp.Diff(before, now()); diff != "" {
			t.Errorf("a dry run changed (-before +after):\n%s", diff)
		}
		if same := edits(w).edit(engine.Edit{Files: files("persona: Manager\n"), DryRun: true}); len(same.Preview.Effects)+len(same.Preview.Evaluated) != 0 || same.Changes[0].Action != store.Unchanged {
			t.Errorf("of what is in force already: %+v", same)
		}
	})
}
