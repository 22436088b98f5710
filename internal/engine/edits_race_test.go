package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Several people edit two workspaces with the same names at once, in every way, while messages are planned and sent. Each edit is based on the
// definitions that were in force before it: a rollback to a set restores exactly that set. A definition that stays loses nothing, and nothing waits
// for a removed one.
func TestEditsAtOnce(t *testing.T) {
	t.Parallel()
	const rounds = 8
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := world{enginetest.Setup(t, s, "workspace: default\n---\n"+four, nil)}
		other, err := s.EnsureWorkspace(t.Context(), "other", w.Workspace.Secret, enginetest.Start)
		if err != nil {
			t.Fatal(err)
		}
		by := engine.Applier{Name: "ann", Secrets: true}
		files := func(text string) []definition.File { return []definition.File{{Name: "a.yaml", Text: []byte(text)}} }
		if _, err := w.EditDefinitions(t.Context(), other, engine.Edit{Files: files("workspace: other\n---\n" + four)}, by, nil); err != nil {
			t.Fatal(err)
		}
		allowed := func(err error) bool {
			var locked *job.LockedError
			var absent *engine.NotInForceError
			return err == nil || errors.As(err, &locked) || errors.As(err, &absent)
		}
		var editing, working sync.WaitGroup
		for _, ws := range []store.Workspace{w.Workspace, other} {
			for name, edit := range map[string]func(n int) error{
				"apply": func(n int) error {
					_, err := w.EditDefinitions(t.Context(), ws, engine.Edit{Files: files(strings.ReplaceAll(notice("extra", fmt.Sprint(n)), "signed-up", "more") + "---\n" + strings.ReplaceAll(notice(fmt.Sprintf("extra%d", n), "x"), "signed-up", "more"))}, by, nil)
					return err
				},
				"prune": func(n int) error {
					text := four
					if n%2 == 0 {
						text += "---\n" + strings.ReplaceAll(notice("pruned", fmt.Sprint(n)), "signed-up", "more")
					}
					_, err := w.EditDefinitions(t.Context(), ws, engine.Edit{Files: files(text), Prune: true}, by, nil)
					return err
				},
				"delete": func(int) error {
					_, err := w.DeleteDefinition(t.Context(), ws, definition.Ref{Kind: definition.KindWorkflow, Name: "extra"}, false, by, nil)
					return err
				},
				"rollback": func(int) error {
					_, err := w.Rollback(t.Context(), ws, engine.Rollback{Set: 1}, by, nil)
					return err
				},
			} {
				editing.Go(func() {
					for n := range rounds {
						if err := edit(n); !allowed(err) {
							t.Errorf("%s of %s: %v", name, ws.Name, err)
						}
					}
				})
			}
			editing.Go(func() {
				for n := range rounds {
					for _, kind := range []string{"signed-up", "more"} {
						items := []ingest.Item{ingest.Parse([]byte(event(kind, kind+fmt.Sprint(n), fmt.Sprintf("p%d@x.org", n))), w.Clock.Now())}
						results, err := w.Ingest(t.Context(), ws, items)
						for errors.Is(err, store.ErrStaleDefinitions) { // many edits in a row outrun a caller, who posts it again
							results, err = w.Ingest(t.Context(), ws, items)
						}
						if err != nil || len(results) != 1 || results[0].Error != nil {
							t.Errorf("event in %s: %+v, %v", ws.Name, results, err)
						}
					}
				}
			})
		}
		done := make(chan struct{})
		for range 2 {
			working.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if _, err := w.Tick(t.Context()); err != nil {
						t.Errorf("tick: %v", err)
						return
					}
				}
			})
		}
		editing.Wait()
		close(done)
		working.Wait()
		w.exhaust()
		for _, ws := range []store.Workspace{w.Workspace, other} {
			first, err := s.DefinitionSet(t.Context(), ws.ID, 1)
			if err != nil {
				t.Fatal(err)
			}
			last, err := s.DefinitionsNumber(t.Context(), ws.ID)
			if err != nil {
				t.Fatal(err)
			}
			sets, err := s.DefinitionSets(t.Context(), ws.ID, 1, last)
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(sets)) != last {
				t.Errorf("%s has %d sets of %d", ws.Name, len(sets), last)
			}
			for _, one := range sets {
				set, err := s.DefinitionSet(t.Context(), ws.ID, one.Number)
				if err != nil {
					t.Fatal(err)
				}
				if one.Action == "rollback" && !slices.EqualFunc(first, set, func(a, b store.Definition) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Hash == b.Hash }) {
					t.Errorf("the rollback to set 1 of %s made set %d of %d definitions, not %d", ws.Name, one.Number, len(set), len(first))
				}
			}
			in, err := w.Definitions(t.Context(), ws.ID)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := s.Deliveries(t.Context(), ws.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			direct := 0
			for _, row := range rows {
				waits := !row.Status.Final() && !row.SendAt.IsZero()
				if row.Workflow == "direct" && waits && row.Status == delivery.Scheduled {
					direct++
				}
				if waits && in.Workflow(row.Workflow) == nil {
					t.Errorf("%s waits of %s, which is not defined in %s", row.Status, row.Workflow, ws.Name)
				}
			}
			if direct != rounds {
				t.Errorf("%d of %d messages of a workflow that was always there wait in %s", direct, rounds, ws.Name)
			}
			pending, err := s.Instances(t.Context(), ws.ID, store.InstanceFilter{Status: instance.Pending, Workflow: "daily"}, store.Page{Limit: 10})
			if err != nil || len(pending) != 1 || pending[0].DueAt.Sub(w.Clock.Now()) > 24*time.Hour {
				t.Errorf("the series of %s: %+v, %v", ws.Name, pending, err)
			}
		}
	})
}
