package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// While a job goes over what the edit of a workflow has changed, that workflow is not edited again (product decision 48); others are,
// and the job that replaces the running one locks all of them. A person may cancel it, and have it go on.
//
// Shows: D13.
func TestAJobLocksWhatStartedIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, simple("[change]", "", ""))
		text := func(name, limit string) string {
			workflow, _, _ := strings.Cut(simple("[change]", "", ""), "---")
			return strings.NewReplacer("workflow: w", "workflow: "+name, "< 50", "< "+limit).Replace(workflow)
		}
		apply := func(name, limit string) error {
			t.Helper()
			applied, err := w.EditDefinitions(t.Context(), w.Workspace, engine.Edit{Files: []definition.File{{Name: "a.yaml", Text: []byte(text(name, limit))}}}, engine.Applier{Name: "ann", Secrets: true}, nil)
			if len(applied.Problems) > 0 {
				t.Fatal(applied.Problems)
			}
			return err
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		locked := func(err error, name string) bool {
			var e *job.LockedError
			return errors.As(err, &e) && e.Workflow == name && e.Job != 0
		}
		must(apply("w", "51"))
		if err := apply("w", "52"); !locked(err, "w") {
			t.Errorf("an edit meanwhile: %v", err)
		}
		must(apply("w", "51")) // it is in force: nothing changes
		must(apply("v", "50")) // a first apply locks nothing
		must(apply("v", "51"))
		j, open, err := s.OldestJob(t.Context(), job.Backfill)
		if err != nil || !open || j.Cause != "v,w" {
			t.Fatalf("%+v, %t, %v", j, open, err)
		}
		if err := apply("w", "52"); !locked(err, "w") {
			t.Errorf("the lock is lost with the job that was replaced: %v", err)
		}
		audit := store.Audit{At: w.Clock.Now(), Actor: "test", Action: "cancel run"}
		for range 2 { // once is as good as twice
			if got, err := jobs.Cancel(t.Context(), s, w.Workspace.ID, j.ID, w.Clock.Now(), audit); err != nil || got.Status != job.Cancelled {
				t.Errorf("%+v, %v", got, err)
			}
		}
		if got, err := jobs.Resume(t.Context(), s, w.Workspace.ID, j.ID, w.Clock.Now(), audit); err != nil || got.Status != job.Running || !got.FinishedAt.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = jobs.Cancel(t.Context(), s, w.Workspace.ID, j.ID, w.Clock.Now(), audit)
		must(err)
		must(apply("w", "52"))
		var refused *job.StateError
		if _, err := jobs.Resume(t.Context(), s, w.Workspace.ID, j.ID, w.Clock.Now(), audit); !errors.As(err, &refused) || !refused.Newer {
			t.Errorf("a job is resumed beside a newer one: %v", err)
		}
		if _, err := jobs.Cancel(t.Context(), s, w.Workspace.ID, 99, w.Clock.Now(), audit); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("no such job: %v", err)
		}
	})
}
