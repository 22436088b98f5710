package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// begin begins a run over subscriptions.
func (w world) begin(q bulk.Request) bulk.Found {
	w.Helper()
	found, err := w.Subscribers().Begin(w.Context(), w.Workspace, q, "ann@ops", w.Clock.Now(), nil)
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// undo begins the undo of a run.
func (w world) undo(run job.Row) {
	w.Helper()
	if _, err := w.Subscribers().Undo(w.Context(), w.Workspace, run.ID, w.Clock.Now(), store.Audit{At: w.Clock.Now(), Actor: "ann@ops", Action: "undo run"}); err != nil {
		w.Fatal(err)
	}
}

// followed returns who follows which topic: "ann tax daily".
func (w world) followed() (list []string) {
	w.Helper()
	rows, err := w.Store.Subscriptions(w.Context(), w.Workspace.ID, store.SubscriptionFilter{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range rows {
		list = append(list, s.ContactExtID+" "+s.TopicName+" "+s.Frequency)
	}
	slices.Sort(list)
	return list
}

func verdicts(by map[topic.Verdict]int) string { return strings.TrimPrefix(fmt.Sprint(by), "map") }

var moving = bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: []string{"tax"}, To: "visas"}}

// Who follows a topic follows another one instead, with the more frequent frequency. What was published before reaches them: at once those who get each item,
// and the others by the digest that it waited for. Nobody gets anything twice.
//
// Shows: R22.
func TestMigrate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd", "dan", "eve", "fay")
		for who, of := range map[string][]string{"ann": {"tax daily"}, "bob": {"tax immediate"}, "cyd": {"tax immediate", "visas daily"}, "dan": {"tax daily", "visas daily"}, "eve": {"tax daily"}, "fay": {"visas rare"}} {
			for _, one := range of {
				name, frequency, _ := strings.Cut(one, " ")
				w.subscribe(who, name, frequency)
			}
		}
		w.subscribe("dan", "visas", "") // has left it
		w.until(dayAt(1, "12:00"))
		w.publish(tagged("t1", "tax"))
		w.publish(tagged("v1", "visas"))
		w.person("eve", `"persona": "Manager"`)
		w.Clock.Set(dayAt(1, "12:01"))
		q := moving
		q.Except = []string{"eve@example.org", "nobody"}
		preview, err := w.Subscribers().Preview(t.Context(), w.Workspace, q, w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := verdicts(preview.ByVerdict); preview.People != 5 || got != "[changed:3 excepted:1 left_before:1]" || len(preview.Samples) != 3 || preview.Run.ID != 0 {
			t.Errorf("preview: %+v", preview)
		}
		if got := fmt.Sprint(preview.Samples); got != "[{ann [{tax daily}] [{visas daily}]} {bob [{tax immediate}] [{visas immediate}]} {cyd [{visas daily} {tax immediate}] [{visas immediate}]}]" {
			t.Errorf("samples: %s", got)
		}
		run := w.begin(q).Run // before the items have found anybody
		if again := w.begin(q).Run; again.ID != run.ID {
			t.Error("the same request began a second run")
		}
		w.mustBe("at once", w.told(), []string{"bob at once t1", "cyd at once t1", "cyd at once v1"})
		w.mustBe("who follows what", w.followed(), []string{"ann visas daily", "bob visas immediate", "cyd visas immediate", "dan tax daily", "eve tax daily", "fay visas rare"})
		w.publish(tagged("t2", "tax"))
		w.publish(tagged("v2", "visas"))
		w.until(dayAt(2, "12:00"))
		w.mustBe("the next day", w.told(), []string{"ann daily tax:t1, visas:v2,", "bob at once v2", "cyd at once v2", "dan daily tax:t1,t2,", "eve daily tax:t1,t2,"})
		w.until(dayAt(4, "21:00"))
		w.mustBe("later", w.told(), []string{"fay rare visas:v1,v2,"})
		if again := w.begin(q).Run; again.ID != 0 {
			t.Errorf("a run for nobody: %+v", again)
		}
		w.undo(run)
		w.tick()
		w.mustBe("undone", w.followed(), []string{"ann tax daily", "bob tax immediate", "cyd tax immediate", "cyd visas daily", "dan tax daily", "eve tax daily", "fay visas rare"})
		w.publish(tagged("t3", "tax"))
		w.publish(tagged("v3", "visas"))
		w.until(dayAt(5, "12:00"))
		w.mustBe("after that", w.told(), []string{"ann daily tax:t2,t3,", "bob at once t3", "cyd at once t3", "cyd daily visas:v3,", "dan daily tax:t3,", "eve daily tax:t3,"})
	})
}

// An item reaches those whose subscriptions a run ends, even who gets digests, and nothing after it does.
//
// Shows: R22.
func TestEndManyWithAMessage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd", "dan")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("bob", "tax", "immediate")
		w.subscribe("cyd", "visas", "daily")
		w.subscribe("dan", "tax", "daily")
		w.until(dayAt(1, "12:00"))
		q := bulk.Request{
			Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}, Except: []string{"dan"}},
			Item: map[string]any{"id": "closed", "urgent": true},
		}
		found := w.begin(q)
		if found.Item == 0 || found.Run.ID == 0 || found.Run.Kind != job.Unsubscribe || found.Run.Total != 3 {
			t.Fatalf("%+v", found)
		}
		w.Clock.Set(dayAt(1, "12:01"))
		w.publish(tagged("t0", "tax")) // while the run goes on
		w.Clock.Set(dayAt(1, "12:02"))
		if _, _, err := w.Subscribers().Work(t.Context(), w.Clock.Now()); err != nil { // the end before the messages
			t.Fatal(err)
		}
		w.mustBe("who is left", w.followed(), []string{"cyd visas daily", "dan tax daily"})
		w.publish(tagged("t1", "tax"))
		w.mustBe("got it", w.told(), []string{"ann urgent closed", "bob at once t0", "bob urgent closed"})
		w.until(dayAt(3, "12:00"))
		w.mustBe("later", w.told(), []string{"ann daily tax:t0,", "dan daily tax:t0,t1,"})
		if _, err := w.Subscribers().Begin(t.Context(), w.Workspace, bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}, Item: q.Item}, "x", w.Clock.Now(), nil); !errors.Is(err, bulk.ErrPublished) {
			t.Errorf("the item again: %v", err)
		}
		w.mustBe("nothing changed by that", w.followed(), []string{"cyd visas daily", "dan tax daily"})
		w.subscribe("bob", "tax", "daily") // comes back, by themselves
		w.undo(found.Run)
		w.tick()
		w.mustBe("undone", w.followed(), []string{"ann tax daily", "bob tax daily", "cyd visas daily", "dan tax daily"})
	})
}

// An item goes to the people of many topics, each once, but those who are left out: no digest tells them either.
func TestTellMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd", "dan")
		w.person("bob", `"persona": "Manager"`)
		w.subscribe("ann", "tax", "immediate")
		w.subscribe("ann", "visas", "immediate")
		w.subscribe("bob", "visas", "immediate")
		w.subscribe("cyd", "tax", "daily")
		w.subscribe("dan", "tax", "daily")
		w.until(dayAt(1, "12:00"))
		found := w.begin(bulk.Request{
			Bulk: topic.Bulk{Action: topic.ActMessage, Topics: []string{"tax", "visas"}, Except: []string{"bob@example.org", "dan"}}, Item: map[string]any{"id": "hello"},
		})
		if got := fmt.Sprint(found.People, verdicts(found.ByVerdict), found.ByFrequency); got != "4[changed:2 excepted:2]map[daily:1 immediate:1]" || found.Run.ID != 0 {
			t.Errorf("%s: %+v", got, found)
		}
		w.mustBe("at once", w.told(), []string{"ann at once hello"})
		w.until(dayAt(3, "12:00"))
		w.mustBe("later", w.told(), []string{"cyd daily tax:hello,"})
	})
}

// People of another topic, or who are named, begin to follow one: who left it stays away, and who follows it keeps their frequency.
func TestSubscribeMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd", "dan")
		w.subscribe("ann", "tax", "daily")
		w.subscribe("bob", "tax", "daily")
		w.subscribe("bob", "visas", "rare")
		w.subscribe("cyd", "tax", "immediate")
		w.subscribe("cyd", "visas", "daily")
		w.subscribe("cyd", "visas", "")
		copied := w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Topics: []string{"tax"}, To: "visas"}})
		w.tick()
		w.mustBe("copied", w.followed(), []string{"ann tax daily", "ann visas daily", "bob tax daily", "bob visas rare", "cyd tax immediate"})
		w.person("dan", `"persona": "Manager"`)
		named := w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: []string{"dan@example.org", "ann", "nobody"}, To: "visas", Frequency: "immediate"}})
		if got := verdicts(named.ByVerdict); got != "[already:1 changed:1 unknown:1]" {
			t.Errorf("named: %s", got)
		}
		w.tick()
		w.mustBe("named", w.followed(), []string{"ann tax daily", "ann visas daily", "bob tax daily", "bob visas rare", "cyd tax immediate", "dan visas immediate"})
		w.undo(copied.Run)
		w.undo(named.Run)
		w.tick()
		w.tick()
		w.mustBe("undone", w.followed(), []string{"ann tax daily", "bob tax daily", "bob visas rare", "cyd tax immediate"})
	})
}

// A request that cannot be meant is refused at its field, and a topic that does not exist is named.
func TestMistakesOfRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics+"---\ntopic: closed\nmatch: [{tags: {policy: {any: [closed]}}}]\nfrequencies: [daily]\nconfirm: true\n", retention.Keep{}, "ann")
		tax := []string{"tax"}
		item := map[string]any{"id": "x"}
		for _, test := range []struct {
			q    bulk.Request
			want string
		}{
			{bulk.Request{Bulk: topic.Bulk{Action: "merge", Topics: tax}}, "action"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActUndo, Topics: tax}}, "action"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, To: "visas"}}, "topics"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, To: "visas"}}, "topics"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: tax}}, "to"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: tax, To: "tax"}}, "to"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: tax, To: "visas"}}, "to"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: tax, Frequency: "daily"}}, "frequency"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: tax, To: "closed", Frequency: "hourly"}}, "frequency"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: tax, To: "visas", Frequency: "Every day"}}, "frequency"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: []string{"ann"}, To: "visas"}}, "frequency"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: []string{"ann"}, Topics: tax, To: "visas"}}, "contacts"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Contacts: []string{"ann"}, Topics: tax}}, "contacts"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Topics: tax, To: "closed"}}, "confirmed"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: tax, To: "closed"}, Confirmed: true}, "confirmed"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMessage, Topics: tax}}, "item"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: []string{"ann"}, To: "visas", Frequency: "daily"}, Item: item}, "item"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMessage, Topics: tax}, Item: map[string]any{"id": "x", "topics": "visas"}}, "item.topics"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMessage, Topics: slices.Repeat(tax, 101)}, Item: item}, "topics"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActMessage, Topics: tax, Except: make([]string, 10_001)}, Item: item}, "except"},
			{bulk.Request{Bulk: topic.Bulk{Action: topic.ActSubscribe, Contacts: make([]string, 10_001), To: "visas", Frequency: "daily"}}, "contacts"},
		} {
			_, err := w.Subscribers().Preview(t.Context(), w.Workspace, test.q, w.Clock.Now())
			var wrong *upsert.Error
			if !errors.As(err, &wrong) || wrong.Field != test.want || wrong.Message == "" || wrong.Hint == "" {
				t.Errorf("%+v: %v, want the field %s", test.q.Bulk, err, test.want)
			}
		}
		for _, q := range []topic.Bulk{{Action: topic.ActUnsubscribe, Topics: []string{"tax", "nope"}}, {Action: topic.ActMigrate, Topics: tax, To: "nope"}} {
			var missing *bulk.ErrNoTopic
			if _, err := w.Subscribers().Preview(t.Context(), w.Workspace, bulk.Request{Bulk: q}, w.Clock.Now()); !errors.As(err, &missing) || missing.Name != "nope" || !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%+v: %v", q, err)
			}
		}
		w.subscribe("ann", "tax", "daily")
		_, err := w.Subscribers().Begin(t.Context(), w.Workspace, bulk.Request{Bulk: topic.Bulk{Action: topic.ActMessage, Topics: tax}, Item: map[string]any{"title": "no id"}}, "x", w.Clock.Now(), nil)
		if wrong := (*upsert.Error)(nil); !errors.As(err, &wrong) || wrong.Field != "item.id" {
			t.Errorf("an item without id: %v", err)
		}
	})
}

// Who leaves, after a run has moved them, gets nothing more of what they followed before either: by the topic that they follow now, by the one that they followed,
// by all, or by a link in an old message.
//
// Shows: P5.
func TestLeaveAfterARun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		people := []string{"ann", "bob", "cyd", "dan", "eve", "fay"}
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, people...)
		for _, who := range people {
			w.subscribe(who, "tax", "daily")
		}
		w.until(dayAt(1, "12:00"))
		w.publish(tagged("t1", "tax"))
		w.told()
		w.Clock.Set(dayAt(1, "12:01"))
		w.begin(moving)
		w.told()
		w.Clock.Set(dayAt(1, "12:02"))
		w.subscribe("ann", "visas", "")
		if got := w.subscribe("bob", "tax", ""); got != "changed" {
			t.Errorf("the topic that a run has ended: %s", got)
		}
		if results, err := w.Topics().Unsubscribe(t.Context(), w.Workspace, []topics.Request{{Contact: "cyd", All: true}}, w.Clock.Now(), nil); err != nil || results[0].Outcome != upsert.Changed {
			t.Fatal(results, err)
		}
		of, err := s.Topic(t.Context(), w.Workspace.ID, "tax")
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"dan", "eve"} {
			contact, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
			if err != nil {
				t.Fatal(err)
			}
			if who == "eve" {
				w.subscribe("eve", "visas", "") // so that the link finds nothing to end
				w.subscribe("eve", "visas", "daily")
			}
			left, err := w.Topics().Leave(t.Context(), w.Workspace.ID, topic.Leaving{Contact: contact.ID, Topic: of.ID}, w.Clock.Now())
			if err != nil || len(left.Ended) != map[string]int{"dan": 1, "eve": 0}[who] {
				t.Errorf("the link of %s: %+v, %v", who, left, err)
			}
		}
		w.mustBe("who follows what", w.followed(), []string{"bob visas daily", "eve visas daily", "fay visas daily"})
		w.until(dayAt(2, "12:00"))
		w.mustBe("the next day", w.told(), []string{"fay daily tax:t1,"})
	})
}

// Who follows a topic again that a run has ended, or whose run is undone, does not get what a message has brought them for another topic.
//
// Shows: R22.
func TestFollowAgainAfterARun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd")
		for _, who := range []string{"ann", "bob", "cyd"} {
			w.subscribe(who, "tax", "daily")
			w.subscribe(who, "visas", "immediate")
		}
		w.until(dayAt(0, "12:00"))
		w.publish(`{"id": "both", "tags": {"policy": ["tax", "visas"]}}`)
		w.publish(tagged("t1", "tax"))
		w.mustBe("at once", w.told(), []string{"ann at once both", "bob at once both", "cyd at once both"})
		w.Clock.Set(dayAt(0, "12:01"))
		run := w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActUnsubscribe, Topics: []string{"tax"}}}).Run
		w.told()
		w.Clock.Set(dayAt(0, "12:02"))
		w.subscribe("ann", "tax", "daily")
		w.undo(run)
		w.told()
		w.subscribe("cyd", "tax", "")
		w.until(dayAt(1, "12:00"))
		w.mustBe("the next day", w.told(), []string{"ann daily tax:t1,", "bob daily tax:t1,"})
	})
}

// Who has changed what a run began is left alone by its undo, and still gets what was published before the run ended what they followed. Who has followed that
// again keeps it, and what the run began for them ends.
//
// Shows: R22.
func TestUndoKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := keeping(t, s, digestsOfTopics, retention.Keep{}, "ann", "bob", "cyd", "dan")
		for _, who := range []string{"ann", "bob", "cyd", "dan"} {
			w.subscribe(who, "tax", "daily")
		}
		w.until(dayAt(0, "12:00"))
		w.publish(tagged("t1", "tax"))
		w.told()
		w.Clock.Set(dayAt(0, "12:01"))
		run := w.begin(moving).Run
		w.told()
		w.Clock.Set(dayAt(0, "12:02"))
		w.subscribe("ann", "visas", "rare")
		w.subscribe("bob", "visas", "rare")
		w.subscribe("dan", "tax", "daily")
		w.mustBe("moved", w.followed(), []string{"ann visas rare", "bob visas rare", "cyd visas daily", "dan tax daily", "dan visas daily"})
		w.undo(run)
		w.told()
		w.mustBe("undone", w.followed(), []string{"ann visas rare", "bob visas rare", "cyd tax daily", "dan tax daily"})
		w.subscribe("bob", "tax", "rare")
		w.until(dayAt(1, "12:00"))
		w.mustBe("the next day", w.told(), []string{"ann daily tax:t1,", "bob rare tax:t1,", "cyd daily tax:t1,", "dan daily tax:t1,"})
	})
}

// A run that changes how often somebody follows a topic has another subscription take the place of theirs. What waits is in the digest of the new one, and in none if
// they leave what a further run has moved them to.
func TestRunOverWhatARunHasChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann", "dan")
		for _, who := range []string{"ann", "dan"} {
			w.subscribe(who, "tax", "rare")
			w.subscribe(who, "visas", "daily")
		}
		w.until(dayAt(0, "12:00"))
		w.publish(tagged("t1", "tax"))
		w.told()
		for i, way := range [][2]string{{"visas", "tax"}, {"tax", "visas"}} {
			w.Clock.Set(dayAt(0, fmt.Sprintf("12:0%d", i+1)))
			w.begin(bulk.Request{Bulk: topic.Bulk{Action: topic.ActMigrate, Topics: way[:1], To: way[1]}})
			w.told()
		}
		w.mustBe("moved there and back", w.followed(), []string{"ann visas daily", "dan visas daily"})
		w.Clock.Set(dayAt(0, "12:05"))
		w.subscribe("dan", "visas", "")
		w.until(dayAt(0, "21:00"))
		w.mustBe("that day", w.told(), nil)
		w.until(dayAt(2, "21:00"))
		w.mustBe("the next days", w.told(), []string{"ann daily tax:t1,"})
	})
}
