package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// signUp begins a subscription of an address, or ends it if the frequency is empty, and returns the contact and the outcome.
func (w world) signUp(address, name, frequency string) (who, outcome string) {
	w.Helper()
	r := topics.Request{Address: address, Locale: "de", Topic: name, Frequency: frequency}
	write := func() ([]topics.Subscribed, error) {
		return w.Topics().Subscribe(w.Context(), w.Workspace, []topics.Request{r}, topic.SourceAPI, w.Clock.Now(), nil)
	}
	if frequency == "" {
		write = func() ([]topics.Subscribed, error) {
			return w.Topics().Unsubscribe(w.Context(), w.Workspace, []topics.Request{r}, w.Clock.Now(), nil)
		}
	}
	results, err := write()
	if err != nil {
		w.Fatal(err)
	}
	if e := results[0].Error; e != nil {
		return results[0].Contact, string(e.Reason) + " " + e.Field
	}
	return results[0].Contact, string(results[0].Outcome)
}

// Who signs up by an address is one contact, whatever its case: the one who has it, or one that is made, and that the contact takes over who claims the address
// later.
//
// Shows: E2.
func TestSignUpByAddress(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics)
		ann, outcome := w.signUp("Ann@Example.org", "tax", "immediate")
		if !strings.HasPrefix(ann, "addr:") || outcome != "created" {
			t.Errorf("signed up as %s: %s", ann, outcome)
		}
		row, err := s.ContactRow(t.Context(), w.Workspace.ID, ann)
		if err != nil || row.Locale != "de" || row.Address != "Ann@Example.org" {
			t.Errorf("the contact is %+v, %v", row.Contact, err)
		}
		for _, step := range [][4]string{
			{"ann@example.org", "tax", "immediate", "unchanged"},
			{"ANN@EXAMPLE.ORG", "visas", "immediate", "created"},
			{"ann@example.org", "visas", "", "changed"},
			{"nobody@example.org", "visas", "", "invalid_subscription address"},
			{"bob@example.org", "nothing", "immediate", "invalid_subscription topic"},
		} {
			who, got := w.signUp(step[0], step[1], step[2])
			if got != step[3] || got != "invalid_subscription address" && (who == ann) != strings.EqualFold(step[0], "ann@example.org") {
				t.Errorf("%v: %s, as %s", step, got, who)
			}
		}
		item := contact.Parse(json.RawMessage(`{"addresses": {"email": "ann@example.org", "inbox": "ann"}}`), "ann")
		if _, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{item}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		if who, got := w.signUp("ann@example.org", "tax", "immediate"); who != "ann" || got != "unchanged" {
			t.Errorf("after the merge it is %s: %s", who, got)
		}
		w.publish(`{"id": "1", "topics": ["tax"]}`)
		w.mustBe("after the merge", w.told(), []string{"ann 1"})
	})
}

// A sign-up that is refused leaves nothing behind: no contact is made for its address.
//
// Shows: E2.
func TestRefusedSignUpMakesNobody(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics+"---\ntopic: slow\nfrequencies: [daily]\n")
		for _, step := range [][3]string{
			{"nothing", "immediate", "invalid_subscription topic"},
			{"slow", "immediate", "invalid_subscription frequency"},
		} {
			if _, got := w.signUp("ann@example.org", step[0], step[1]); got != step[2] {
				t.Errorf("%s: %s, not %s", step[0], got, step[2])
			}
		}
		if rows, err := s.Contacts(t.Context(), w.Workspace.ID, store.ContactFilter{}, store.Page{Limit: 2}); err != nil || len(rows) > 0 {
			t.Errorf("there are %v, %v", rows, err)
		}
		if who, got := w.signUp("ann@example.org", "slow", "daily"); !strings.HasPrefix(who, "addr:") || got != "created" {
			t.Errorf("what is offered: %s, %s", who, got)
		}
	})
}

// Two people who sign up at once with one address are one contact with one subscription.
func TestSignUpsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsOfTopics)
		const many = 8
		who, outcomes := make([]string, many), make([]string, many)
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				address := "ann@example.org"
				if i%2 == 1 {
					address = "ANN@example.org"
				}
				results, err := w.Topics().Subscribe(context.Background(), w.Workspace, []topics.Request{{Address: address, Topic: "tax", Frequency: "immediate"}}, topic.SourceAPI, w.Clock.Now(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				who[i], outcomes[i] = results[0].Contact, string(results[0].Outcome)
			})
		}
		all.Wait()
		created := 0
		for i := range many {
			if who[i] != who[0] || outcomes[i] != "created" && outcomes[i] != "unchanged" {
				t.Errorf("%s: %s, and the first one is %s", who[i], outcomes[i], who[0])
			}
			if outcomes[i] == "created" {
				created++
			}
		}
		if created != 1 {
			t.Errorf("%d subscriptions", created)
		}
	})
}

// Where a contact takes over one who signed up, the more frequent subscription goes on, and what waited for the digest of the other one leaves at once, without
// what the other one has got.
//
// Shows: R22.
func TestMergedSubscriptions(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"the contact has digests": "ann", "who signed up has digests": "private@example.org"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, digestsOfTopics, "ann")
				begin := func(who, frequency string) {
					if who == "ann" {
						w.subscribe(who, "tax", frequency)
					} else {
						w.signUp(who, "tax", frequency)
					}
				}
				second := "ann"
				if first == "ann" {
					second = "private@example.org"
				}
				texts := func() (list []string) {
					for _, one := range w.told() {
						list = append(list, one[strings.Index(one, " ")+1:])
					}
					return list
				}
				w.until(dayAt(0, "09:00"))
				begin(first, "daily")
				w.publish(`{"id": "1", "topics": ["tax"]}`)
				w.mustBe("what waits for a digest", texts(), nil)
				w.Clock.Set(w.Clock.Now().Add(time.Hour))
				begin(second, "immediate")
				w.publish(`{"id": "2", "topics": ["tax"]}`)
				w.mustBe("at once", texts(), []string{"at once 2"})
				w.Clock.Set(w.Clock.Now().Add(time.Hour))
				item := contact.Parse(json.RawMessage(`{"addresses": {"email": "private@example.org", "inbox": "ann"}}`), "ann")
				if _, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{item}, w.Clock.Now(), nil); err != nil {
					t.Fatal(err)
				}
				w.mustBe("at the merge", texts(), []string{"daily tax:1,"})
				w.publish(`{"id": "3", "topics": ["tax"]}`)
				w.mustBe("after the merge", texts(), []string{"at once 3"})
				w.until(w.Clock.Now().Add(72 * time.Hour))
				w.mustBe("days later", texts(), nil)
			})
		})
	}
}

// Somebody has signed up by two addresses, which turn out to be those of one contact at once: they follow the topic as often as the more frequent of the two.
//
// Shows: E2, R20.
func TestClaimOfTwoWhoSignedUp(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, digestsOfTopics)
		w.signUp("ann@example.org", "tax", "rare")
		w.signUp("ann@work.example", "tax", "daily")
		w.signUp("ann@work.example", "visas", "rare")
		w.Clock.Set(at("12:00"))
		item := contact.Parse(json.RawMessage(`{"addresses": {"email": "ann@example.org", "inbox": "ann@work.example"}}`), "ann")
		results, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{item}, w.Clock.Now(), nil)
		if err != nil || results[0].Error != nil {
			t.Fatal(err, results)
		}
		w.mustBe("followed", w.followed(), []string{"ann tax daily", "ann visas rare"})
	})
}
