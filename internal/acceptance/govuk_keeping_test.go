package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	govDay  = 24 * time.Hour
	govYear = 365 * govDay
)

// shifted is an instant of a row, ten years later: the ids of a store begin with the time at which it was made, and never go back.
func shifted(t *testing.T, v any) time.Time { return at(t, v).Add(3654 * govDay) }

// govKept keeps what is over for as long as they do.
func govKept(t *testing.T, s *store.Store, begin time.Time, definitions string) govWorld {
	w := govWorld{enginetest.Setup(t, s, "workspace: default\n", func(c *engine.Config) {
		c.Retention = retention.Keep{Digests: govYear, Messages: 7 * govDay, Subscriptions: govYear, Addresses: 28 * govDay, Topics: 7 * govDay}
	}), t}
	w.Clock.Set(begin)
	w.Apply(definitions)
	return w
}

// sweptAt goes to an instant and lets whole passes happen there. Their cutoffs are minutes later: a pass after another one needs an hour.
func (w govWorld) sweptAt(now time.Time) {
	w.t.Helper()
	w.until(now)
	for range 2 {
		w.Clock.Set(w.Clock.Now().Add(retention.Rest))
		for range 30 { // each tick is one step of a pass
			if _, err := w.Tick(w.Context()); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// jump goes to an instant over runs that were missed.
func (w govWorld) jump(now time.Time) {
	w.Clock.Set(now)
	w.until(now)
}

func govTopics(names ...string) string {
	text := govDefinitions("UTC", 8, nil)
	for _, name := range names {
		text += "---\ntopic: " + name + "\nfrequencies: [immediate, daily]\n"
	}
	return text
}

// nullified says whether the address of somebody is gone. Who never had a subscription has asked for one that was not confirmed.
func nullified(t *testing.T, s *store.Store, r govRow) map[string]any {
	created, now := shifted(t, r.Given["subscriber_created"]), shifted(t, r.When["now"])
	subs, _ := r.Given["subs"].([]any)
	begin := created
	if len(subs) > 0 {
		begin = shifted(t, dig(subs[0])["created_at"])
	}
	w := govKept(t, s, begin, govTopics("L1")+"---\ntopic: asked\nfrequencies: [daily]\nconfirm: true\n")
	list, ended := "asked", any(nil)
	if len(subs) > 0 {
		list, ended = fmt.Sprint(dig(subs[0])["list"]), dig(subs[0])["ended_at"]
	}
	who, _ := w.signUp("a@example.com", list, "daily")
	if ended != nil {
		w.jump(shifted(t, ended))
		w.signUp("a@example.com", list, "")
	}
	w.jump(now.Add(-govDay))
	w.sweptAt(now)
	c, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"address_removed": c.Address == ""}
}

// historyDeleted says whether something of a kind is gone.
func historyDeleted(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := shifted(t, r.When["now"])
	created := now.Add(-2 * govYear)
	if r.Given["created_at"] != nil {
		created = shifted(t, r.Given["created_at"])
	}
	w := govKept(t, s, created.Add(-govDay), govTopics("L1"))
	gone := func(err error) bool {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err != nil
	}
	var deleted func() bool
	switch r.Given["kind"] {
	case "digest_run":
		w.signUp("a@example.com", "L1", "daily")
		w.until(created)
		runs, err := s.DigestRuns(t.Context(), w.Workspace.ID, store.Page{Limit: 10})
		if err != nil || len(runs) == 0 {
			t.Fatal(runs, err)
		}
		deleted = func() bool {
			_, err := s.DigestRun(t.Context(), w.Workspace.ID, runs[0].Instance)
			_, alsoErr := s.InstanceByID(t.Context(), w.Workspace.ID, runs[0].Instance)
			if gone(err) != gone(alsoErr) {
				t.Error("the run and its instance part")
			}
			return gone(err)
		}
	case "subscription":
		who, _ := w.signUp("a@example.com", "L1", "daily")
		if r.Given["ended_at"] != nil {
			w.jump(shifted(t, r.Given["ended_at"]))
			w.signUp("a@example.com", "L1", "")
		}
		deleted = func() bool {
			c, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.SubscriptionsOf(t.Context(), store.SubscriptionFilter{Contact: c.ID, Ended: true, Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 0
		}
	case "list":
		w.Clock.Set(created)
		name := w.find("", []any{map[string]any{"tags": map[string]any{"policy": map[string]any{"any": []string{"tax"}}}}}).Row.Name
		if r.Given["subs"] != 0.0 {
			w.jump(now.Add(-8 * govDay))
			w.signUp("a@example.com", name, "daily")
			w.jump(now.Add(-7 * govDay))
			w.signUp("a@example.com", name, "")
		}
		deleted = func() bool {
			_, err := s.Topic(t.Context(), w.Workspace.ID, name)
			return gone(err)
		}
	case "subscriber":
		who, _ := w.signUp("a@example.com", "L1", "daily")
		deleted = func() bool {
			c, err := s.ContactRow(t.Context(), w.Workspace.ID, who)
			return gone(err) || c.Address == ""
		}
	}
	w.jump(now.Add(-govDay / 2))
	w.sweptAt(now)
	return map[string]any{"deleted": deleted()}
}

// mailDeleted says which mails are gone, by the items that they are about.
func mailDeleted(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := shifted(t, r.When["now"])
	mails := r.Given["mails"].(map[string]any)
	w := govKept(t, s, now.Add(-10*govDay), govTopics("L1"))
	w.signUp("a@example.com", "L1", "immediate")
	for _, name := range []string{"e1", "e2"} {
		w.until(shifted(t, mails[name]).Add(-time.Minute))
		raw := json.RawMessage(fmt.Sprintf(`{"id": %q, "version": %q, "topics": ["L1"], "urgent": false}`, name, name))
		if results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
			t.Fatal(results, err)
		}
		w.until(shifted(t, mails[name]))
	}
	left := func() (texts string) {
		rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			contents, err := s.Contents(t.Context(), w.Workspace.ID, row.ID, store.Page{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range contents {
				texts += c.Text + " "
			}
		}
		return texts
	}
	if sent := w.Provider.Sent(); len(sent) != 2 {
		t.Fatalf("mails: %v", sent)
	}
	w.sweptAt(now)
	deleted := []string{}
	for _, name := range []string{"e1", "e2"} {
		if !strings.Contains(left(), name) {
			deleted = append(deleted, name)
		}
	}
	return map[string]any{"deleted": deleted}
}

// overdueRuns counts the runs that are not over two hours after they began: the message of each waits for a channel that is not defined.
func overdueRuns(t *testing.T, s *store.Store, r govRow) map[string]any {
	now, runs := shifted(t, r.When["now"]), r.Given["runs"].([]any)
	triggers, frequencies := "", []string{}
	for n, v := range runs {
		begins := shifted(t, dig(v)["created_at"]).UTC()
		triggers += fmt.Sprintf("  - {id: r%[1]d, schedule: {every: 30d, from: %[2]s, at: %[3]q, timezone: UTC, period: 1d, period_end: %[3]q}, audience: {topics: all, frequency: f%[1]d}}\n",
			n, begins.Format(time.DateOnly), begins.Format("15:04"))
		frequencies = append(frequencies, fmt.Sprint("f", n))
	}
	w := govAt(t, s, now.Add(-4*govDay), "workflow: late\ntype: digest\ntriggers:\n"+triggers+"digest: {duplicates: each}\nchannel: email\nmessage: {email: {subject: s, text: x}}\n"+
		"---\ntopic: L1\nfrequencies: ["+strings.Join(frequencies, ", ")+"]\n")
	for n, v := range runs {
		w.until(shifted(t, dig(v)["created_at"]).Add(-time.Minute))
		w.signUp(fmt.Sprintf("p%d@example.com", n), "L1", frequencies[n])
		raw := json.RawMessage(fmt.Sprintf(`{"id": "%d", "topics": ["L1"]}`, n))
		if results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
			t.Fatal(results, err)
		}
	}
	w.until(now)
	begun, err := s.DigestRuns(t.Context(), w.Workspace.ID, store.Page{Limit: 10})
	if err != nil || len(begun) != len(runs) {
		t.Fatal(begun, err)
	}
	b, err := s.Backlog(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"value": b.OverdueRuns}
}
