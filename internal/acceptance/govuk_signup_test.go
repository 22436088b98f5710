package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// signUps is a world in which the people of a row follow topics by their addresses, which are their names at example.com. It returns the contact of each.
func signUps(t *testing.T, s *store.Store, now time.Time, subs []any, frequencies string) (w govWorld, contacts map[string]string) {
	t.Helper()
	begin := now
	lists := map[string]bool{"L1": true, "L2": true}
	for _, v := range subs {
		lists[fmt.Sprint(dig(v)["list"])] = true
		if at := at(t, dig(v)["created_at"]); at.Before(begin) {
			begin = at
		}
	}
	definitions := govDefinitions("UTC", 8, nil)
	for _, name := range sortedNames(lists) {
		definitions += "---\ntopic: " + name + "\nfrequencies: " + frequencies + "\n"
	}
	w = govAt(t, s, begin.Add(-time.Second), definitions)
	contacts = map[string]string{}
	for _, v := range subs {
		sub := dig(v)
		who := fmt.Sprint(sub["subscriber"])
		w.Clock.Set(at(t, sub["created_at"]))
		contacts[who], _ = w.signUp(who+"@example.com", fmt.Sprint(sub["list"]), fmt.Sprint(sub["freq"]))
		if sub["ended_at"] != nil {
			w.Clock.Set(at(t, sub["ended_at"]))
			w.signUp(who+"@example.com", fmt.Sprint(sub["list"]), "")
		}
	}
	w.Clock.Set(now)
	return w, contacts
}

func sortedNames(of map[string]bool) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// signUp begins a subscription of an address, or ends it, and returns the contact and the outcome, or the field that is wrong.
func (w govWorld) signUp(address, list, frequency string) (who, outcome string) {
	w.t.Helper()
	fields := map[string]string{"address": address, "topic": list}
	if frequency != "" {
		fields["frequency"] = frequency
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	requests := []topics.Request{topics.ParseRequest(raw, frequency == "")}
	var results []topics.Subscribed
	if frequency == "" {
		results, err = w.Topics().Unsubscribe(w.Context(), w.Workspace, requests, w.Clock.Now(), nil)
	} else {
		results, err = w.Topics().Subscribe(w.Context(), w.Workspace, requests, topic.SourceAPI, w.Clock.Now(), nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if e := results[0].Error; e != nil {
		return "", e.Field
	}
	return results[0].Contact, string(results[0].Outcome)
}

// goesOn returns the subscriptions that go on, as [list, frequency] with the contact's id before it, and why those that have ended did.
func (w govWorld) goesOn() (active [][3]string, reasons []string, latest topic.Subscription) {
	w.t.Helper()
	list, err := w.Store.Subscriptions(w.Context(), w.Workspace.ID, store.SubscriptionFilter{Ended: true, Before: 1 << 62, Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if latest = list[i].Subscription; latest.Active() {
			active = append(active, [3]string{list[i].ContactExtID, list[i].TopicName, list[i].Frequency})
		} else if why := string(latest.EndReason); !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	return active, reasons, latest
}

func subscribeRow(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := signUps(t, s, at(t, r.When["now"]), r.Given["subs"].([]any), "[daily, immediate, weekly]")
	_, outcome := w.signUp(fmt.Sprint(r.When["subscriber"])+"@example.com", fmt.Sprint(r.When["list"]), fmt.Sprint(r.When["freq"]))
	if outcome == "frequency" {
		return map[string]any{"error": "invalid_frequency"}
	}
	active, _, latest := w.goesOn()
	source := map[topic.Source]string{topic.SourceAPI: "user_signed_up", topic.SourceFrequencyChanged: "frequency_changed"}[latest.Source]
	return map[string]any{"new": outcome == "created", "source": source, "active": active[0][2]}
}

// sameAddress signs up with the address of somebody who is there, in another case.
func sameAddress(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := signUps(t, s, time.Date(2017, 1, 2, 12, 0, 0, 0, time.UTC), nil, "[daily]")
	first, _ := w.signUp(fmt.Sprint(r.Given["subscribers"].([]any)[0]), "L1", "daily")
	if again, outcome := w.signUp(fmt.Sprint(r.When["address"]), "L1", "daily"); again != first || outcome != "unchanged" {
		return map[string]any{"error": nil}
	}
	return map[string]any{"error": "taken"}
}

// racingSignUps has two sign up at once with one address. How often the database has a transaction run again is its own.
func racingSignUps(t *testing.T, s *store.Store, r govRow) map[string]any {
	w, _ := signUps(t, s, time.Date(2017, 1, 2, 12, 0, 0, 0, time.UTC), nil, "[daily]")
	var who [2]string
	var both sync.WaitGroup
	for i := range who {
		both.Go(func() {
			results, err := w.Topics().Subscribe(t.Context(), w.Workspace, []topics.Request{{Address: fmt.Sprint(r.When["address"]), Topic: "L1", Frequency: "daily"}}, topic.SourceAPI, w.Clock.Now(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			who[i] = results[0].Contact
		})
	}
	both.Wait()
	if who[0] == "" || who[0] != who[1] {
		return map[string]any{"result": "two subscribers"}
	}
	return map[string]any{"result": "the existing subscriber"}
}

func validateAddress(t *testing.T, _ *store.Store, r govRow) map[string]any {
	got := map[string]any{"ok": []string{}, "bad": []string{}}
	for _, v := range slices.Concat(r.Then["ok"].([]any), r.Then["bad"].([]any)) {
		kind := "ok"
		if subject.CheckSignUp(v.(string)) != nil {
			kind = "bad"
		}
		got[kind] = append(got[kind].([]string), v.(string))
	}
	return got
}

// mergeRow has K claim the address by which Z has signed up.
func mergeRow(t *testing.T, s *store.Store, r govRow) map[string]any {
	keep, absorb := r.Given["keep"].([]any), r.Given["absorb"].([]any)
	w, contacts := signUps(t, s, time.Date(2017, 1, 2, 12, 0, 0, 0, time.UTC), slices.Concat(keep, absorb), "[daily, immediate, weekly]")
	for _, address := range []string{"K@example.com", "Z@example.com"} { // K first, and then both: a contact has one address of a kind
		item := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"email": %q}}`, address)), "K")
		if address == "Z@example.com" {
			item = contact.Parse(json.RawMessage(`{"addresses": {"email": "K@example.com", "webhook": "Z@example.com"}}`), "K")
		}
		if results, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{item}, w.Clock.Now(), nil); err != nil || results[0].Error != nil {
			t.Fatal(err, results[0].Error)
		}
	}
	active, _, _ := w.goesOn()
	got := map[string]any{"keep_active": [][]string{}, "absorb_active": [][]string{}, "absorbed_address": "Z@example.com"}
	for _, one := range active {
		whose := "keep_active"
		if one[0] != "K" {
			whose = "absorb_active"
		}
		got[whose] = append(got[whose].([][]string), []string{one[1], one[2]})
	}
	if row, err := s.ContactRow(t.Context(), w.Workspace.ID, contacts["Z"]); err != nil || row.Claimant == "K" {
		got["absorbed_address"] = nil // it is K's
	}
	return got
}

// reported reports what became of the mail of a row, or a complaint. Where their answer is 204, ours is 200 and says what has changed.
func reported(status func(string) feedback.Status) func(t *testing.T, s *store.Store, r govRow) map[string]any {
	return func(t *testing.T, s *store.Store, r govRow) map[string]any {
		subs, _ := r.Given["subs"].([]any)
		w, contacts := signUps(t, s, time.Date(2017, 1, 2, 12, 0, 0, 0, time.UTC), subs, "[daily]")
		report := receipt.Report{Status: status(fmt.Sprint(r.When["status"])), Address: fmt.Sprint(r.When["to"])}
		if !strings.Contains(report.Address, "@") {
			report.Address += "@example.com"
		}
		got := map[string]any{"status": 204, "mail_delivery": r.When["status"]}
		if !slices.Contains(feedback.Statuses(), report.Status) {
			got["status"] = 422
		} else if _, err := w.Receipts().Take(t.Context(), w.Workspace, []receipt.Report{report}, w.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		active, reasons, _ := w.goesOn()
		ids := []string{}
		for _, v := range subs {
			if slices.Contains(active, [3]string{contacts[fmt.Sprint(dig(v)["subscriber"])], fmt.Sprint(dig(v)["list"]), fmt.Sprint(dig(v)["freq"])}) {
				ids = append(ids, fmt.Sprint(dig(v)["id"]))
			}
		}
		got["active"] = ids
		if len(reasons) == 1 {
			got["reason"] = map[string]string{"bounced": "non_existent_email", "complained": "marked_as_spam"}[reasons[0]]
		}
		return got
	}
}

func deliveryStatus(name string) feedback.Status {
	return map[string]feedback.Status{"delivered": feedback.Delivered, "permanent-failure": feedback.Bounced, "temporary-failure": feedback.Deferred}[name]
}

func spamReport(string) feedback.Status { return feedback.Complained }

// confirming asks people who sign up for L1 to confirm it, by a mail.
const confirming = `---
workflow: confirm
type: notice
triggers: {id: asked, event: subscription.requested}
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: "confirm {{ event.topic }}"}}
---
topic: L1
confirm: true
frequencies: [daily, weekly]
`

// subscribedAgain subscribes somebody who may subscribe already, or is known to want it, and counts the mails by which they are to confirm it.
func subscribedAgain(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govAt(t, s, time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC), govDefinitions("UTC", 8, nil)+confirming)
	subscribe := func(frequency string, confirmed bool) map[string]any {
		t.Helper()
		list := []topics.Request{{Address: "a@example.com", Topic: "L1", Frequency: frequency, Confirmed: confirmed}}
		results, err := w.Topics().Subscribe(w.Context(), w.Workspace, list, topic.SourceAPI, w.Clock.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(w.Clock.Now().Add(time.Minute))
		got := map[string]any{"confirmation_mail": len(w.Provider.Sent()), "status": 200}
		if results[0].Error != nil {
			got["status"] = 422
		}
		return got
	}
	for _, v := range r.Given["subs"].([]any) {
		if got := subscribe(fmt.Sprint(dig(v)["freq"]), false); got["confirmation_mail"] != 1 {
			t.Errorf("a new one asks for no confirmation: %v", got)
		}
		subscribe(fmt.Sprint(dig(v)["freq"]), true)
	}
	return subscribe(fmt.Sprint(r.When["freq"]), r.When["skip_confirmation"] == true)
}

// tooLong sends a mail that the provider refuses for good.
func tooLong(t *testing.T, s *store.Store, _ govRow) map[string]any {
	w, _ := signUps(t, s, time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC), nil, "[immediate]")
	w.signUp("a@example.com", "L1", "immediate")
	w.Provider.Next(channel.Permanent(errors.New("too long")))
	raw := json.RawMessage(`{"id": "1", "version": "1", "topics": ["L1"], "urgent": false}`)
	if _, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil {
		t.Fatal(err)
	}
	w.until(w.Clock.Now().Add(48 * time.Hour))
	rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	return map[string]any{"mail": map[string]any{"status": string(rows[0].Status)}, "retry": rows[0].AttemptNo != 1 || len(w.Provider.Sent()) > 0}
}
