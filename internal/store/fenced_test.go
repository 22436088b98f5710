package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// If the lease of a worker has run out and another worker has claimed the occasion since, the first worker finishes nothing:
// neither while the other one has the lease nor afterwards.
//
// Shows: B26.
func TestALateWorkerFinishesNothing(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		const lease = 30 * time.Second
		in := f.instance("k", instance.Pending)
		f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
			return store.OccasionWrites{Instances: []instance.Row{in}}, nil
		})
		takeUp := func(at time.Time) (taken store.TakenInstance) {
			n, err := f.fanOut(at, dueAt(at, 10), nil, func(due []store.DueInstance, _ []store.People) ([]result, error) {
				taken = store.TakenInstance{Workspace: due[0].Workspace, ID: due[0].ID, Version: due[0].Version + 1}
				return []result{{Patch: instance.Patch{Status: instance.Pending, LeaseUntil: at.Add(lease)}}}, nil
			})
			if f.must(err); n != 1 {
				t.Fatalf("at %s %d are taken up", at, n)
			}
			return taken
		}
		finish := func(at time.Time, taken store.TakenInstance) int {
			n, err := f.fanOut(at, func(tx *store.Tx) ([]store.DueInstance, error) {
				return tx.TakenInstances([]store.TakenInstance{taken})
			}, nil, complete)
			f.must(err)
			return n
		}
		late := takeUp(now)
		other := takeUp(now.Add(lease))
		if n := finish(now.Add(lease+time.Second), late); n != 0 {
			t.Errorf("the late worker finishes %d while the other holds them", n)
		}
		row, err := s.InstanceByID(t.Context(), f.ws, in.ID)
		if f.must(err); row.Status != instance.Pending || row.Version != other.Version {
			t.Errorf("it is %s, version %d instead of %d", row.Status, row.Version, other.Version)
		}
		if n := finish(now.Add(lease+2*time.Second), other); n != 1 {
			t.Errorf("who holds it finishes %d", n)
		}
		if n := finish(now.Add(lease+3*time.Second), late); n != 0 {
			t.Errorf("the late worker finishes %d that are over", n)
		}
		if row, err = s.InstanceByID(t.Context(), f.ws, in.ID); err != nil || row.Status != instance.Completed || row.Reason != reason.Expanded {
			t.Errorf("%+v, %v", row, err)
		}
	})
}

// In another workspace an instance is found neither by its id nor by its key, and its history is not listed.
//
// Shows: reliability 35.
func TestAnInstanceOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("secret"), now)
		f.must(err)
		in := f.instance("k", instance.Pending)
		f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
			return store.OccasionWrites{Instances: []instance.Row{in}}, nil
		})
		if row, err := s.InstanceByID(t.Context(), f.ws, in.ID); err != nil || row.Key != "k" {
			t.Fatalf("%+v, %v", row, err)
		}
		for what, read := range map[string]func() error{
			"by its id":  func() error { _, err := s.InstanceByID(t.Context(), other.ID, in.ID); return err },
			"by its key": func() error { _, err := s.InstanceByKey(t.Context(), other.ID, "k"); return err },
			"in a list": func() error {
				rows, err := s.Instances(t.Context(), other.ID, store.InstanceFilter{}, store.Page{Limit: 10})
				if err == nil && len(rows) == 0 {
					return store.ErrNotFound
				}
				return err
			},
		} {
			if err := read(); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v, want %v", what, err, store.ErrNotFound)
			}
		}
	})
}

// A copy that was accepted gets a higher number than the database that it was made from. So a database that replaces it afterwards,
// such as the original's last state, is found to be older.
func TestAnAcceptedCopyIsAheadOfWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	folder := t.TempDir()
	path, early, last := filepath.Join(folder, "carillon.db"), filepath.Join(folder, "early.db"), filepath.Join(folder, "last.db")
	beside := func() (epoch int64) {
		t.Helper()
		text, err := os.ReadFile(path + "-epoch")
		var known struct{ Epoch int64 }
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		if err != nil {
			t.Fatal(err)
		}
		return known.Epoch
	}
	s := opened(t, path)
	setup(t, s).event("e")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range 9 {
		if c := recognised(t, path, now.Add(time.Duration(n)*time.Minute)); c.Restored() {
			t.Fatal(c)
		}
		if n == 1 {
			sh(t, path, early)
		}
	}
	sh(t, path, last)
	before := beside()
	sh(t, early, path) // a backup is put in its place by hand
	if c := recognised(t, path, now.Add(time.Hour)); !strings.Contains(c.Why, "it is older") {
		t.Fatalf("the backup: %+v", c)
	}
	s = opened(t, path)
	err := s.AcceptRestore(t.Context(), now.Add(time.Hour), false, store.Audit{Actor: "a", Action: "database.accept"})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if after := beside(); after <= before {
		t.Errorf("accepted, its number is %d, and %d was known", after, before)
	}
	if c := recognised(t, path, now.Add(2*time.Hour)); c.Restored() {
		t.Errorf("the accepted copy: %+v", c)
	}
	sh(t, last, path) // and now the last state of the other one
	if c := recognised(t, path, now.Add(3*time.Hour)); !strings.Contains(c.Why, "it is older") {
		t.Errorf("the database that was left behind: %+v", c)
	}
}

// The next occasions of series in two workspaces are planned in one transaction, under equal keys. A key that was used in one
// workspace is free in the other.
//
// Shows: reliability 35.
func TestSeriesOfTwoWorkspacesWithEqualKeys(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		for n, spentIn := range []int{0, 1} {
			var both [2]subject.WorkspaceID
			for i := range both {
				ws, err := s.EnsureWorkspace(t.Context(), fmt.Sprint("w", n, i), []byte("secret"), now)
				if err != nil {
					t.Fatal(err)
				}
				both[i] = ws.ID
				f := fixture{t, s, ws.ID}
				f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
					return store.OccasionWrites{Instances: []instance.Row{f.instance("k1", instance.Pending)}}, nil
				})
			}
			_, err := s.Exec(t.Context(), `INSERT INTO spent (ws, hash, instance_id, retries, forgotten) VALUES ($1, $2, 1, 0, 0)`, int64(both[spentIn]), key.Hash("k2"))
			if err != nil {
				t.Fatal(err)
			}
			taken, err := fixture{TB: t, s: s}.fanOut(now, dueAt(now, 10), nil, func(due []store.DueInstance, _ []store.People) (results []result, err error) {
				for _, d := range due {
					f := fixture{t, s, d.Workspace}
					following := func(yield func(instance.Row) bool) {
						for i, k := range []string{"k2", "k3"} {
							row := f.instance(k, instance.Pending)
							if row.DueAt = now.AddDate(0, 0, i+1); !yield(row) {
								return
							}
						}
					}
					results = append(results, result{Patch: instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, Successors: []iter.Seq[instance.Row]{following}})
				}
				return results, nil
			})
			if err != nil || taken != 2 {
				t.Fatalf("%d, %v", taken, err)
			}
			for i, ws := range both {
				want := map[bool]string{true: "k3", false: "k2"}[i == spentIn]
				rows, err := s.Instances(t.Context(), ws, store.InstanceFilter{Status: "pending"}, store.Page{Limit: 10})
				if err != nil || len(rows) != 1 || rows[0].Key != want {
					t.Errorf("used up in workspace %d, workspace %d waits for %+v, want %s; %v", spentIn+1, i+1, rows, want, err)
				}
			}
		}
	})
}
