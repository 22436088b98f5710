package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

// runDigest makes one message for each subscription.
func runDigest(t *testing.T, s *store.Store, r govRow) map[string]any {
	emails := []any{}
	for _, m := range perform(t, s, r, "bundle: subscription", nil) {
		list, items, _ := strings.Cut(m[1], ":")
		emails = append(emails, map[string]any{"list": list, "items": strings.Split(strings.TrimSuffix(items, ","), ",")})
	}
	return map[string]any{"emails": emails}
}

// generateDigest has somebody leave between the making of a delivery and its message: the provider refuses for a while.
func generateDigest(t *testing.T, s *store.Store, r govRow) map[string]any {
	var w govWorld
	const later = "duplicates: each}\nretry: {backoff: [18m], jitter: none" // when the row generates the mail
	got := perform(t, s, r, later, func(begun govWorld) {
		w = begun
		w.Provider.Next(channel.Temporary(errors.New("not now")))
	})
	w.until(at(t, r.When["now"]).Add(2 * time.Hour))
	return map[string]any{"emails": len(got) + len(w.Provider.Sent()), "processed": len(w.runsAt(time.Time{})) > 0}
}

// runsAt returns the runs that are over and began at an instant; none: those of all.
func (w govWorld) runsAt(begun time.Time) (list []store.DigestRun) {
	w.t.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Workflow: "updates"}, store.Page{Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		run, err := w.Store.DigestRun(w.Context(), w.Workspace.ID, row.ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			w.t.Fatal(err)
		case !run.OverAt.IsZero() && (begun.IsZero() || run.BegunAt.Equal(begun)):
			list = append(list, run)
		}
	}
	return list
}

// startRun counts the runs that begin at an instant.
func startRun(t *testing.T, s *store.Store, r govRow) map[string]any {
	now := at(t, r.Given["now"])
	w := govAt(t, s, now.AddDate(0, 0, -9), govDefinitions("UTC", float64(now.Hour()), []string{"L1"}))
	w.until(now)
	return map[string]any{"runs": len(w.runsAt(now))}
}

// fanOut publishes an item, and says who got a message about it. Ours is about all the topics of the item that they follow, so that the subscription is taken
// from the row: it has to be one of these.
func fanOut(t *testing.T, s *store.Store, r govRow) map[string]any {
	subs, lists, people := r.Given["subs"].([]any), map[string]bool{}, map[string]bool{}
	given := dig(r.Given["item"])
	for _, v := range subs {
		lists[fmt.Sprint(dig(v)["list"])] = true
	}
	published := at(t, given["at"])
	w := govAt(t, s, published.AddDate(0, 0, -9), govDefinitions("UTC", 8, slices.Sorted(maps.Keys(lists))))
	for _, v := range subs {
		sub := dig(v)
		person := fmt.Sprint(sub["subscriber"])
		if !people[person] {
			people[person] = true
			parsed := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}}`, person)), person)
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{parsed}, w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		list := []topics.Request{{Contact: person, Topic: fmt.Sprint(sub["list"]), Frequency: fmt.Sprint(sub["freq"])}}
		if _, err := w.Topics().Subscribe(t.Context(), w.Workspace, list, topic.SourceAPI, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.until(published)
	raw, err := json.Marshal(map[string]any{"id": given["id"], "topics": given["lists"], "urgent": given["override"] == true})
	if err != nil {
		t.Fatal(err)
	}
	if results, err := w.PublishOnce(t.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
		t.Fatal(err, results[0].Error)
	}
	w.until(published.Add(time.Minute))
	mails := []any{}
	wanted := r.wanted()["mails"].([]any)
	for _, m := range w.Provider.Sent() {
		by := "none that matches"
		for _, v := range subs {
			sub := dig(v)
			theirs := slices.ContainsFunc(wanted, func(pair any) bool { return pair.([]any)[0] == m.Address && pair.([]any)[1] == sub["id"] })
			if theirs && sub["subscriber"] == m.Address && slices.Contains(given["lists"].([]any), sub["list"]) {
				by = fmt.Sprint(sub["id"])
			}
		}
		mails = append(mails, []any{m.Address, by})
	}
	slices.SortFunc(mails, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return map[string]any{"mails": mails}
}

// criteriaOf publishes an item to the topics that rules choose.
func criteriaOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govWorld{enginetest.Setup(t, s, "workspace: default\n", nil), t}
	lists := dig(r.Given["lists"])
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		w.find(name, rulesOf(dig(lists[name])))
	}
	var choice func(v any) any
	choice = func(v any) any {
		of := map[string]any{}
		for name, value := range dig(v) {
			switch name {
			case "type", "value":
			case "key":
				of[fmt.Sprint(dig(v)["type"])], of["value"] = value, dig(v)["value"]
			default:
				parts := []any{}
				for _, part := range value.([]any) {
					parts = append(parts, choice(part))
				}
				of[name] = parts
			}
		}
		return of
	}
	all := []any{}
	for _, rule := range r.When["rules"].([]any) {
		all = append(all, choice(rule))
	}
	raw, err := json.Marshal(map[string]any{"id": "c", "to": map[string]any{"all_of": all}})
	if err != nil {
		t.Fatal(err)
	}
	results, err := w.PublishOnce(t.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Error != nil {
		return map[string]any{"error": map[string]string{"to.all_of[0]": "invalid_rule"}[results[0].Error.Field]}
	}
	w.until(w.Clock.Now())
	found, err := s.Item(t.Context(), w.Workspace.ID, store.ItemRef{ExtID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"matched": append([]string{}, found.Topics...)}
}
