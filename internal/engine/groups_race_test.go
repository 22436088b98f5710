package engine_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/groups"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// ages writes the age of a contact through a store of its own, and returns when that is done, or the transaction is open.
func (w world) ages(o *open, name string, age int) (ended chan error) {
	w.Helper()
	ended = make(chan error, 1)
	go func() {
		item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"attributes": {"age": %d}}`, age)), name)
		writer := contact.New(o, catalog.New(w.Store, enginetest.Options(nil)), func(journal.Entry) {})
		_, err := writer.Write(w.Context(), w.Workspace, upsert.Merge, []contact.Item{item}, w.Clock.Now(), nil)
		ended <- err
	}()
	select {
	case <-o.done:
	case err := <-ended:
		w.Fatal("a write of a contact holds no definitions", err)
	}
	return ended
}

// A group comes into force while a contact is written that would belong to it: the edit waits for the write, whose groups are those of the set before, and
// the job finds the contact.
func TestAGroupComesDuringAWrite(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "postgres")
	s, db := storetest.Open(t, url), connect(t, url)
	w := newWorld(t, s, "persona: Manager\n")
	o := openOf(s)
	ended := w.ages(o, "ann", 20)
	applied := make(chan struct{})
	go func() {
		w.Apply(twoGroups)
		close(applied)
	}()
	waitsForALock(t, db)
	close(o.release)
	<-applied
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.live("10:05")
	if g, err := w.group("adults"); !g.Computed || g.Members != 1 || err != nil {
		t.Errorf("%+v, %v", g, err)
	}
	w.checkGroups()
}

// The job has read a contact that is being written: it waits for the write, and computes the groups of what was written.
func TestAContactIsWrittenDuringTheJob(t *testing.T) {
	t.Parallel()
	for _, after := range []int{10, 30} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, "postgres")
			s, db := storetest.Open(t, url), connect(t, url)
			w := newWorld(t, s, "persona: Manager\n")
			w.person("ann", `"attributes": {"age": 20}`)
			w.Apply(twoGroups)
			o := openOf(s)
			ended := w.ages(o, "ann", after)
			paged := make(chan error, 1)
			go func() {
				_, _, err := jobs.New(s, groups.Jobs(s, catalog.New(s, loader.Options{}))).Step(t.Context(), w.Clock.Now())
				paged <- err
			}()
			waitsForALock(t, db)
			close(o.release)
			for _, one := range []chan error{ended, paged} {
				if err := <-one; err != nil {
					t.Fatal(err)
				}
			}
			if n := w.checkGroups(); n != 2 {
				t.Errorf("%d groups are computed", n)
			}
		})
	}
}

// Contacts are written while the job computes their groups and while the groups are edited, all at once: nothing is lost.
func TestGroupsUnderConcurrentWrites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, twoGroups)
		w.many("p", 60, func(i int) string { return fmt.Sprintf(`"attributes": {"age": %d}`, i) })
		var all sync.WaitGroup
		var failed sync.Map
		for n := range 4 {
			all.Go(func() {
				for round := range 15 {
					items := []contact.Item{}
					for i := range 10 {
						who := (n*7 + round*3 + i*5) % 80
						items = append(items, contact.Parse([]byte(fmt.Sprintf(`{"attributes": {"age": %d}}`, (round*11+n*5+i)%40)), fmt.Sprint("p", who)))
					}
					if _, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Merge, items, w.Clock.Now(), nil); err != nil {
						failed.Store(err.Error(), true)
					}
				}
			})
		}
		all.Go(func() {
			for round := range 8 {
				file := definition.File{Name: "a.yaml", Text: []byte(fmt.Sprintf("group: adults\nwhere: contact.attributes.age >= %d\n", 10+round%3*10))}
				if _, err := w.Engine.Apply(w.Context(), w.Workspace, []definition.File{file}, "test"); err != nil {
					failed.Store(err.Error(), true)
				}
			}
		})
		all.Go(func() {
			worker := jobs.New(s, groups.Jobs(s, catalog.New(s, loader.Options{})))
			for range 40 {
				if _, _, err := worker.Step(t.Context(), w.Clock.Now()); err != nil {
					failed.Store(err.Error(), true)
				}
			}
		})
		all.Wait()
		failed.Range(func(err, _ any) bool { t.Error(err); return true })
		w.live("10:05")
		if n := w.checkGroups(); n != 2 {
			t.Errorf("%d groups are computed", n)
		}
	})
}
