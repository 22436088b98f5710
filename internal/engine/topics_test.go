package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// newsOfTopics tells items to those who follow their topics.
const newsOfTopics = `
workflow: news
type: notice
triggers:
  - id: urgent
    event: item.published
    when: item.urgent
    audience: {topics: matched}
  - id: immediate
    event: item.published
    audience: {topics: matched, frequency: immediate}
channel: inbox
message: {inbox: {text: "{{ item.id }}"}}
---
channel: inbox
provider: inbox
---
topic: tax
match:
  - tags: {policy: {any: [tax, customs]}}
---
topic: visas
match:
  - tags: {policy: {all: [visas]}}
---
topic: named
---
persona: Manager
`

// subscribe begins a subscription, or ends it if the frequency is empty, and returns the outcome.
func (w world) subscribe(contact, name, frequency string) string {
	w.Helper()
	list := []topics.Request{{Contact: contact, Topic: name, Frequency: frequency}}
	write := func() ([]topics.Subscribed, error) {
		return w.Topics().Subscribe(w.Context(), w.Workspace, list, topic.SourceAPI, w.Clock.Now(), nil)
	}
	if frequency == "" {
		write = func() ([]topics.Subscribed, error) {
			return w.Topics().Unsubscribe(w.Context(), w.Workspace, list, w.Clock.Now(), nil)
		}
	}
	results, err := write()
	if err != nil {
		w.Fatal(err)
	}
	if e := results[0].Error; e != nil {
		return string(e.Reason) + " " + e.Field
	}
	return string(results[0].Outcome)
}

// publish publishes an item and returns the outcome, with its reason.
func (w world) publish(fields string) string {
	w.Helper()
	results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(json.RawMessage(fields))}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(string(results[0].Outcome) + " " + string(results[0].Reason))
}

// told returns who got which item since the last call.
func (w world) told() (list []string) {
	w.Helper()
	for w.tick() {
	}
	for _, m := range w.Provider.Sent() {
		list = append(list, m.Address+" "+m.Text)
	}
	slices.Sort(list)
	return list
}

// People who follow a topic of an item get its message, each once.
//
// Shows: E18, R23.
func TestItemsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics, "ann", "bob", "cyd")
		for _, of := range []string{"ann tax immediate", "ann visas immediate", "bob tax daily", "cyd named immediate"} {
			p := strings.Fields(of)
			if got := w.subscribe(p[0], p[1], p[2]); got != "created" {
				t.Fatalf("%s: %s", of, got)
			}
		}
		w.mustBe("answers", []string{
			w.publish(`{"id": "1", "tags": {"policy": ["tax", "visas"]}}`), w.publish(`{"id": "1", "tags": {"policy": ["tax", "visas"]}}`),
			w.publish(`{"id": "1", "tags": {"policy": "tax"}}`), w.publish(`{"id": "1", "version": "2", "tags": {"policy": "visas"}}`), w.publish(`{"id": ""}`),
		}, []string{"created", "skipped duplicate", "failed item_changed", "created", "failed invalid_item"})
		w.mustBe("of two topics", w.told(), []string{"ann 1", "ann 1"})
		w.publish(`{"id": "2", "urgent": true, "tags": {"policy": "customs"}, "topics": ["named", "unknown"]}`)
		w.mustBe("urgent, and of a topic that it names", w.told(), []string{"ann 2", "bob 2", "cyd 2"})
		w.Apply("topic: visas\nmatch:\n  - tags: {policy: {all: [passports]}}\n")
		w.publish(`{"id": "3", "tags": {"policy": "visas"}}`)
		w.publish(`{"id": "4", "tags": {"policy": "passports"}}`)
		w.mustBe("by other rules", w.told(), []string{"ann 4"})
		if _, err := w.EditDefinitions(w.Context(), w.Workspace, engine.Edit{Delete: []definition.Ref{{Kind: definition.KindTopic, Name: "visas"}}}, engine.Applier{Name: "t"}, nil); err != nil {
			t.Fatal(err)
		}
		w.publish(`{"id": "5", "tags": {"policy": "passports"}}`)
		w.mustBe("of a topic that was removed", w.told(), nil)
		w.mustBe("subscriptions", []string{
			w.subscribe("ann", "visas", "daily"), w.subscribe("ann", "visas", ""), w.subscribe("ann", "visas", ""), w.subscribe("dan", "tax", "daily"), w.subscribe("ann", "tax", "immediate"),
			w.subscribe("ann", "tax", "daily"),
		}, []string{"invalid_subscription topic", "changed", "unchanged", "invalid_subscription contact", "unchanged", "changed"})
	})
}

// A message that waits does not leave once its person has left the topics that it is about. One to people who are named leaves.
//
// Shows: P5.
func TestWhoHasLeftGetsNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics+"---\nworkflow: later\ntype: notice\ntriggers:\n  - {id: t, event: item.published, timing: {offset: 1h}, audience: {topics: matched, frequency: immediate}}\n  - {id: u, event: reminder, audience: [{topics: [tax]}, {to: '\"bob\"'}]}\n"+
			"channel: inbox\nmessage: {inbox: {text: 'later {{ now | date: \"%H\" }}'}}\n", "ann", "bob")
		w.subscribe("ann", "tax", "immediate")
		w.subscribe("bob", "tax", "immediate")
		w.publish(`{"id": "1", "tags": {"policy": "tax"}}`)
		w.mustBe("at once", w.told(), []string{"ann 1", "bob 1"})
		w.Clock.Set(at("10:30"))
		w.subscribe("ann", "tax", "daily")
		w.live("11:00")
		w.mustBe("later", w.told(), []string{"bob later 11"})
		w.publish(`{"id": "2", "tags": {"policy": "tax"}}`)
		w.told()
		w.live("12:00")
		w.told()

		// The delivery exists and waits, and then its person leaves.
		w.person("ann", `"persona": "Manager", "cadence": {"quiet_hours": "12:00-13:00"}`)
		w.subscribe("ann", "tax", "immediate")
		w.Post(`{"id": "r", "kind": "reminder"}`)
		w.mustBe("who is named", w.told(), []string{"bob later 12"})
		w.publish(`{"id": "3", "tags": {"policy": "tax"}}`)
		w.mustBe("the other one", w.told(), []string{"bob 3"})
		w.subscribe("ann", "tax", "")
		w.subscribe("bob", "tax", "")
		w.live("13:01")
		if got := w.told(); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "ann 3") }) {
			t.Errorf("sent: %q", got)
		}
		ended := 0
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range rows {
			if d.Reason == reason.Unsubscribed {
				ended++
			}
		}
		if ended == 0 {
			t.Error("no message says that its person has left the topic")
		}

		// Who leaves and comes back gets what arrives from then on, not what waited.
		w.person("ann", `"persona": "Manager", "cadence": {"quiet_hours": "14:00-15:00"}`)
		w.subscribe("ann", "tax", "immediate")
		w.live("14:00")
		w.publish(`{"id": "4", "tags": {"policy": "tax"}}`)
		w.mustBe("it waits", w.told(), nil)
		w.live("14:30")
		w.subscribe("ann", "tax", "")
		w.subscribe("ann", "tax", "immediate")
		w.publish(`{"id": "5", "tags": {"policy": "tax"}}`)
		w.live("15:01")
		w.mustBe("after coming back", w.told(), []string{"ann 5"})
	})
}

// Items are published while people come and go, and two processes match and send them in turns: each person who followed a topic of an item
// got its message once, and nobody else did.
//
// Shows: E18.
func TestItemsLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		people, names, tags := []string{"ann", "bob", "cyd"}, []string{"tax", "visas", "named"}, []string{"tax", "customs", "visas", "other"}
		fits := map[string]string{"tax": "tax", "customs": "tax", "visas": "visas"}
		one, two := newWorld(t, s, ""), newWorld(t, s, "")
		lives := 0
		rapid.Check(t, func(r *rapid.T) {
			lives++
			ws := one.another(fmt.Sprintf("life-%d", lives), newsOfTopics, people...)
			one.Workspace, two.Workspace = ws, ws
			frequency := map[string]string{} // by person and topic
			var want, got []string
			for i := range rapid.IntRange(1, 25).Draw(r, "steps") {
				person, name := rapid.SampledFrom(people).Draw(r, "person"), rapid.SampledFrom(names).Draw(r, "topic")
				switch rapid.IntRange(0, 3).Draw(r, "what") {
				case 0:
					frequency[person+" "+name] = rapid.SampledFrom([]string{"immediate", "daily"}).Draw(r, "frequency")
					one.subscribe(person, name, frequency[person+" "+name])
				case 1:
					delete(frequency, person+" "+name)
					one.subscribe(person, name, "")
				default:
					id, urgent := fmt.Sprintf("i%d", i), rapid.Bool().Draw(r, "urgent")
					has := rapid.SliceOfNDistinct(rapid.SampledFrom(tags), 0, 2, func(s string) string { return s }).Draw(r, "tags")
					own := rapid.SampledFrom([][]string{{}, {"named"}, {"named", "tax"}}).Draw(r, "names")
					of := map[string]bool{}
					for _, tag := range has {
						of[fits[tag]] = true
					}
					for _, name := range own {
						of[name] = true
					}
					text, err := json.Marshal(map[string]any{"id": id, "urgent": urgent, "tags": map[string]any{"policy": has}, "topics": own})
					if err != nil {
						r.Fatal(err)
					}
					one.publish(string(text))
					for _, person := range people {
						if slices.ContainsFunc(names, func(name string) bool {
							f := frequency[person+" "+name]
							return of[name] && (f == "immediate" || urgent && f != "")
						}) {
							want = append(want, person+" "+id)
						}
					}
					for one.tick() || two.tick() {
						if rapid.Bool().Draw(r, "other first") {
							one, two = two, one
						}
					}
					got = append(append(got, one.told()...), two.told()...)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				r.Fatalf("told %q, want %q", got, want)
			}
		})
	})
}

// another makes another workspace with definitions and people.
func (w world) another(name, definitions string, people ...string) store.Workspace {
	w.Helper()
	ws, err := w.Store.EnsureWorkspace(w.Context(), name, []byte("0123456789abcdef0123456789abcdef"), w.Clock.Now())
	if err != nil {
		w.Fatal(err)
	}
	before := w.Workspace
	defer func() { w.Workspace = before }()
	w.Workspace = ws
	w.Apply("workspace: " + name + "\ncadence: {max_per_day: 0}\n---\n" + definitions)
	for _, one := range people {
		w.person(one, `"persona": ""`)
	}
	return ws
}

// Two workspaces with topics, people and items of the same names know nothing of each other.
func TestTopicsOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		one, two := newWorld(t, s, newsOfTopics, "ann"), newWorld(t, s, "")
		two.Workspace = one.another("other", newsOfTopics, "ann", "bob")
		one.subscribe("ann", "tax", "immediate")
		two.subscribe("bob", "tax", "immediate")
		two.mustBe("answers", []string{one.publish(`{"id": "1", "tags": {"policy": "tax"}}`), two.publish(`{"id": "1", "tags": {"policy": "customs"}}`)}, []string{"created", "created"})
		one.mustBe("each its own", one.told(), []string{"ann 1", "bob 1"})
		one.mustBe("once", two.told(), nil)
	})
}

// A message to topics that its sender chooses: by what their rules name as they are by then, and not by whether these fit.
//
// Shows: R23.
func TestMessagesToTopics(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		every := "\n---\ntopic: every\nmatch: [{}]\n"
		w := newWorld(t, s, digestsOfTopics+every, "ann", "bob", "cid", "dan")
		w.subscribe("ann", "tax", "immediate")
		w.subscribe("bob", "visas", "daily")
		w.subscribe("cid", "every", "daily")
		w.subscribe("dan", "tax", "immediate")
		w.subscribe("dan", "visas", "immediate")
		w.publish(`{"id": "n1", "to": {"any_of": [{"tag": "policy", "value": "tax"}, {"topic": "visas"}]}}`)
		w.until(dayAt(1, "09:00"))
		w.mustBe("to any", w.told(), []string{"ann at once n1", "bob daily visas:n1,", "dan at once n1"})
		w.publish(`{"id": "n1", "to": {"any_of": [{"tag": "policy", "value": "tax"}, {"topic": "visas"}]}}`)
		w.publish(`{"id": "n2", "to": {"all_of": [{"tag": "policy", "value": "tax"}, {"topic": "visas"}]}, "tags": {"policy": "visas"}}`)
		w.until(dayAt(2, "09:00"))
		w.mustBe("again, and to what nothing is", w.told(), nil)
		w.Apply(strings.Replace(digestsOfTopics+every, "match: [{tags: {policy: {any: [tax]}}}]", "match: [{tags: {policy: {all: [customs, duty]}}}]", 1))
		w.publish(`{"id": "n3", "to": {"tag": "policy", "value": "tax"}}`)
		w.publish(`{"id": "n4", "to": {"tag": "policy", "value": "duty"}}`)
		w.until(dayAt(3, "09:00"))
		w.mustBe("after an edit of the rules", w.told(), []string{"ann at once n4", "dan at once n4"})
	})
}

// A frequency that no trigger serves is taken, and warned of. A trigger for all frequencies serves each, unless it has a condition.
func TestFrequenciesThatNothingServes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics, "ann")
		warned := func(name, frequency string) bool {
			t.Helper()
			list := []topics.Request{{Contact: "ann", Topic: name, Frequency: frequency}}
			results, err := w.Topics().Subscribe(t.Context(), w.Workspace, list, topic.SourceAPI, w.Clock.Now(), nil)
			if err != nil || results[0].Error != nil {
				t.Fatal(results, err)
			}
			return results[0].Warning != ""
		}
		for frequency, want := range map[string]bool{"immediate": false, "daily": false, "rare": false, "hourly": true} {
			if got := warned("tax", frequency); got != want {
				t.Errorf("%s: warned %v", frequency, got)
			}
		}
		w.Apply(strings.Replace(digestsOfTopics, "topics: all, frequency: daily", "topics: [tax], frequency: daily", 1))
		if warned("tax", "daily") || !warned("visas", "daily") {
			t.Error("a trigger for tax alone")
		}
		w.Apply(strings.Replace(digestsOfTopics, "    when: item.urgent\n", "", 1))
		if warned("visas", "hourly") {
			t.Error("a trigger for every frequency")
		}
	})
}
