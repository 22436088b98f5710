package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// households are triggers that read parents, children, siblings and owners.
func households(more ...string) string {
	trigger := func(name, record, when, to string) string {
		return fmt.Sprintf(`
workflow: %s
type: alert
triggers:
  - id: t
    record: %s
    when: '%s'
    fire: false_to_true
audience: [%s]
channel: inbox
message: {inbox: {subject: x, text: '%[1]s of {{ record.id }}'}}
---`, name, record, when, to)
	}
	return trigger("owned", "home", `record.alarm == true`, "{to: record.owner}") +
		trigger("below", "child", `record.home.water == "unsafe"`, "{to: record.parent.owner}") +
		trigger("above", "home", `record.children.status == "fever"`, "{to: record.owner}") +
		trigger("beside", "child", `record.parent.children.status == "gone"`, "{to: record.parents}") +
		trigger("among", "home", `size(record.children) >= 3 && record.children.exists(c, c.status == "well")`, "{to: record.children}, {to: record.owner}") +
		strings.Join(more, "---\n") + `
channel: inbox
provider: memory
---
group: team
members: [lea, tim]
---
persona: Manager
cadence: {max_per_day: 0}
`
}

const ofHome = `"parents": {"home": {"type": "home", "id": "h"}}`

// The owner of a record is a contact, or everybody of a group; a group that is not defined, and a place that no record has, have nobody.
func TestTheOwnerIsNotified(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households(), "ann", "lea", "tim", "bob")
		for name, owner := range map[string]string{
			"contact": `{"contact": "ann"}`, "group": `{"group": "team"}`, "nobody": `{"contact": "zoe"}`, "nogroup": `{"group": "none"}`,
			"place": `{"place": "north"}`, "none": "null",
		} {
			w.write(upsert.Merge, "home/"+name, `{"owner": `+owner+`, "props": {"alarm": true}}`)
		}
		w.live("10:05")
		w.mustBe("messages", w.sentTo(), []string{"inbox:default ann: owned of contact", "inbox:default lea: owned of group", "inbox:default tim: owned of group"})
		w.write(upsert.Merge, "home/alone", `{"props": {"alarm": true, "owner": "bob"}}`)
		w.live("10:10")
		w.mustBe("a field named owner", w.sentTo(), []string{"inbox:default bob: owned of alone"})
	})
}

// A child is evaluated after a write of its parent, and a parent after a write of its child, whichever is written first, and when a child comes
// or goes.
func TestRecordsAreEvaluatedAfterTheirRelatives(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households(), "ann", "c", "c2", "c3")
		w.write(upsert.Merge, "child/c", `{`+ofHome+`, "props": {"status": "well"}}`)
		w.live("10:01")
		w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}, "props": {"water": "unsafe"}}`)
		w.live("10:02")
		w.mustBe("the child, after its parent was made", w.sentTo(), []string{"inbox:default ann: below of c"})
		w.put("child/c", `{"status": "fever"}`)
		w.live("10:03")
		w.mustBe("the parent, after its child", w.sentTo(), []string{"inbox:default ann: above of h"})
		w.write(upsert.Merge, "child/c2", `{`+ofHome+`, "props": {"status": "well"}}`)
		w.live("10:04")
		w.mustBe("a second child", w.sentTo(), []string{"inbox:default ann: below of c2"})
		w.write(upsert.Merge, "child/c3", `{`+ofHome+`}`)
		w.live("10:05")
		w.mustBe("a third child: everybody once", w.sentTo(), []string{
			"inbox:default ann: among of h", "inbox:default ann: below of c3", "inbox:default c2: among of h", "inbox:default c3: among of h", "inbox:default c: among of h",
		})
		w.write(upsert.Change, "child/c3", `{"parents": {"home": null}}`)
		w.live("10:06")
		w.write(upsert.Change, "child/c3", `{`+ofHome+`}`)
		w.live("10:07")
		if got := w.sentTo(); len(got) == 0 {
			t.Error("nobody is notified that the child is there again")
		}
	})
}

// Too many children are an error of what reads them, which says so, and of nothing else.
func TestTooManyChildren(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households(), "ann")
		items := make([]record.Item, subject.MaxChildren+1)
		for i := range items {
			items[i] = record.Parse(json.RawMessage(`{`+ofHome+`, "props": {"status": "fever"}}`), "child", fmt.Sprint("c", i))
		}
		if _, err := w.Records().Write(w.Context(), w.Workspace, upsert.Merge, items, "test", w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}, "props": {"alarm": true}}`)
		w.live("10:05")
		w.mustBe("messages", w.sentTo(), []string{"inbox:default ann: owned of h"})
		all, err := w.ExplainRecord(w.Context(), w.Workspace.ID, w.record("home/h"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range all {
			for _, j := range e.Judged {
				for _, c := range j.Clauses {
					found = found || strings.Contains(c.Detail, "more than 500 children")
				}
			}
		}
		if !found {
			t.Errorf("nothing says why: %+v", all)
		}
		w.write(upsert.Delete, "child/c0", `{}`)
		w.live("10:06")
		if got := w.sentTo(); len(got) != 1 || got[0] != "inbox:default ann: above of h" {
			t.Errorf("with as many as are read: %q", got)
		}
	})
}

// childIn writes a child through a store of its own.
func (w world) childIn(s record.Store, name, body string) error {
	item := record.Parse(json.RawMessage(body), "child", name)
	results, err := record.New(s, catalog.New(w.Store, enginetest.Options(nil))).Write(w.Context(), w.Workspace, upsert.Merge, []record.Item{item}, "test", w.Clock.Now(), nil)
	if err == nil && results[0].Error != nil {
		err = results[0].Error
	}
	return err
}

// Write leaves a write of records open, as WriteHoldingDefinitions does.
type openWrite struct{ *open }

func (o openWrite) Write(ctx context.Context, work func(*store.Tx) error) error {
	return o.Store.Write(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		close(o.done)
		<-o.release
		return nil
	})
}

// A child's write that is not committed yet when its parent is evaluated for the first time.
func TestAChildIsWrittenDuringTheEvaluation(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	w := newWorld(t, s, households(), "ann")
	o := openWrite{openOf(s)}
	ended := make(chan error, 1)
	go func() { ended <- w.childIn(o, "c", `{`+ofHome+`, "props": {"status": "fever"}}`) }()
	<-o.done
	w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}}`)
	w.live("10:01")
	w.mustBe("before the commit", w.sentTo(), nil)
	close(o.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.live("10:02")
	w.mustBe("after it", w.sentTo(), []string{"inbox:default ann: above of h"})
}

// The child is written, and the job looks for the records that read its parent's children, before the first evaluation of the parent is
// committed, which has not read the child: the parent is evaluated once more.
func TestTheParentIsLookedForBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	w := newWorld(t, s, households(), "ann")
	w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}}`)
	o := openOf(s)
	o.after = 1 // a step returns cooldowns first
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := evaluator.New(o, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}).Step(t.Context(), w.Clock.Now(), 10); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-o.done:
	case <-time.After(patience):
		t.Fatal("nothing was evaluated")
	}
	if err := w.childIn(s, "c", `{`+ofHome+`, "props": {"status": "fever"}}`); err != nil {
		t.Fatal(err)
	}
	if done, _, err := jobs.New(s, related.Jobs(s, 10)).Step(t.Context(), w.Clock.Now()); err != nil || done != 1 {
		t.Errorf("looked for the readers of %d families, %v", done, err)
	}
	close(o.release)
	running.Wait()
	w.live("10:02")
	w.mustBe("messages", w.sentTo(), []string{"inbox:default ann: above of h"})
}

// After random writes of parents and children, in any order, an evaluation of every record finds nothing that was missed.
func TestNoRelativeIsMissed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for seed := range uint64(4) {
			w := newWorld(t, s, households(), "ann", "lea", "tim")
			draw := rand.New(rand.NewPCG(seed, 12))
			pick := func(of ...string) string { return of[draw.IntN(len(of))] }
			prefix := fmt.Sprint(seed)
			for _, name := range []string{"home/a", "home/b", "child/1", "child/2", "child/3", "child/4"} {
				typ, id, _ := strings.Cut(name, "/")
				w.write(upsert.Merge, typ+"/"+prefix+id, `{"props": {"seen": "no"}}`)
			}
			for step := range 25 {
				switch draw.IntN(3) {
				case 0:
					w.write(upsert.Merge, "home/"+prefix+pick("a", "b"), fmt.Sprintf(`{"owner": %s, "props": {"water": %q}}`, pick(`{"contact": "ann"}`, `{"group": "team"}`), pick("safe", "unsafe")))
				case 1:
					parents := pick("null", `{"home": null}`, `{"home": "home/`+prefix+`a"}`, `{"home": "home/`+prefix+`b"}`, `{"home": ["home/`+prefix+`a", "home/`+prefix+`b"]}`)
					w.write(upsert.Merge, "child/"+prefix+pick("1", "2", "3", "4"), fmt.Sprintf(`{"parents": %s, "props": {"status": %q}}`, parents, pick("well", "fever", "gone")))
				case 2:
					w.live(fmt.Sprintf("10:%02d", step))
				}
			}
			w.live("10:30")
			w.sentTo()
			before := w.standings()
			var items []record.Item
			for _, name := range []string{"home/a", "home/b", "child/1", "child/2", "child/3", "child/4"} {
				typ, id, _ := strings.Cut(name, "/")
				items = append(items, record.Parse(json.RawMessage(fmt.Sprintf(`{"props": {"seen": %d}}`, seed)), typ, prefix+id))
			}
			if _, err := w.Records().Write(w.Context(), w.Workspace, upsert.Merge, items, "test", w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
			w.live("10:31")
			w.mustBe(fmt.Sprint("missed messages, seed ", seed), w.sentTo(), nil)
			w.mustBe(fmt.Sprint("missed changes, seed ", seed), w.standings(), before)
			w.Clock.Set(ten)
		}
	})
}

// standings returns which triggers have an open episode, for each record that there is.
func (w world) standings() (list []string) {
	for _, typ := range []string{"home", "child"} {
		rows, err := w.Store.Records(w.Context(), w.Workspace.ID, typ, store.Page{Limit: 100})
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range rows {
			all, err := w.ExplainRecord(w.Context(), w.Workspace.ID, r)
			if err != nil {
				w.Fatal(err)
			}
			for _, e := range all {
				list = append(list, fmt.Sprintf("%s %s open %v", r.Ref(), e.Workflow.Name, e.Before.Open))
			}
		}
	}
	return list
}

// Records, parents, owners and groups of another workspace are others, whatever their names. A write of one evaluates nothing there.
func TestRelativesOfAnotherWorkspace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households(), "ann", "lea", "tim")
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("fedcba9876543210fedcba9876543210"), w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		n := w.in(other)
		n.apply("workspace: other\ncadence: {max_per_day: 0}\n---\n" + households())
		n.person("ann", "Manager")
		n.person("lea", "Manager")
		there := func(name, body string) {
			typ, id, _ := strings.Cut(name, "/")
			results, err := w.Records().Write(t.Context(), other, upsert.Merge, []record.Item{record.Parse(json.RawMessage(body), typ, id)}, "test", w.Clock.Now(), nil)
			if err != nil || results[0].Error != nil {
				t.Fatal(err, results)
			}
		}
		w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}}`)
		w.write(upsert.Merge, "child/mine", `{`+ofHome+`, "props": {"status": "well"}}`)
		there("home/h", `{"owner": {"group": "team"}, "props": {"alarm": true}}`)
		w.live("10:05")
		w.mustBe("the group of the other one", w.sentTo(), []string{"inbox:default lea@other: owned of h"})
		there("child/c", `{`+ofHome+`, "props": {"status": "fever"}}`)
		w.live("10:06")
		w.mustBe("the parent of the other one", w.sentTo(), []string{"inbox:default lea@other: above of h"})
		there("home/h", `{"props": {"water": "unsafe"}}`)
		w.live("10:07")
		w.mustBe("the child of the other one", w.sentTo(), []string{"inbox:default lea@other: below of c"})
		w.put("child/mine", `{"status": "fever"}`)
		w.live("10:08")
		w.mustBe("and of this one", w.sentTo(), []string{"inbox:default ann: above of h"})
	})
}

// The owner of a record may be a place: the people whose place it is get the message, and those of the places below it do not.
func TestTheOwnerIsAPlace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households())
		w.write(upsert.Merge, "place/north", `{"props": {"type": "region"}}`)
		w.write(upsert.Merge, "place/clinic", `{"props": {"type": "clinic", "parent": "north"}}`)
		w.person("ann", `"persona": "Manager", "place": "north"`)
		w.person("bob", `"persona": "Manager", "place": "clinic"`)
		w.write(upsert.Merge, "home/h", `{"owner": {"place": "north"}, "props": {"alarm": true}}`)
		w.write(upsert.Merge, "home/k", `{"owner": {"place": "clinic"}}`)
		w.write(upsert.Merge, "child/c", `{"parents": {"home": {"type": "home", "id": "k"}}, "props": {"status": "fever"}}`)
		w.live("10:05")
		w.mustBe("messages", w.sentTo(), []string{"inbox:default ann: owned of h", "inbox:default bob: above of k"})
	})
}

// A process that is lost after a write, and before the job that looks for the relatives, leaves the job to the next one.
func TestRelativesAfterACrash(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, households(), "ann")
		w.write(upsert.Merge, "home/h", `{"owner": {"contact": "ann"}, "props": {"water": "safe"}}`)
		w.write(upsert.Merge, "child/c", `{`+ofHome+`, "props": {"status": "well"}}`)
		w.live("10:01")
		w.put("home/h", `{"water": "unsafe"}`)
		w.put("child/c", `{"status": "fever"}`)
		next := world{enginetest.Setup(t, s, "", nil)} // another process, which has written nothing
		next.Clock.Set(w.Clock.Now())
		next.live("10:05")
		next.mustBe("messages", next.sentTo(), []string{"inbox:default ann: above of h", "inbox:default ann: below of c"})
	})
}
