package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// otherInputs are inputs by which another version of this program may have planned an occasion.
const otherInputs = `{"anchor":"record.on_date","zone":"UTC"}`

var foreign = key.Hash(otherInputs)

// foreign makes the one occasion of a record look as if it had been planned by other inputs, such as those of a version that hashed something else.
func (w world) foreign(row instance.Row) {
	w.Helper()
	storetest.ChangeInstance(w, w.Store, w.Clock.Now(), row, func(in *instance.Row) { in.InputHash = foreign })
}

// away moves the date of a record and moves it back: the record is evaluated twice.
func (w world) away(id string) {
	w.Helper()
	w.put("visit/"+id, `{"on_date": "2026-06-30"}`)
	for w.tick() {
	}
	w.put("visit/"+id, `{"on_date": "2026-05-14"}`)
	for w.tick() {
	}
}

// In every state of a row, a key that comes again with other inputs puts the row on hold and overwrites nothing. A person decides, and the decision
// stays. Nothing is sent twice.
//
// Shows: B19, B21, B22, B23, B41, R14.
func TestTheLifeOfAConflict(t *testing.T) {
	t.Parallel()
	const (
		release = "release"
		cancel  = "cancel"
		retry   = "retry"
		forget  = "forget"
	)
	flags := []struct {
		name    string
		before  string // its state when the inputs change: planned, sent, withdrawn, cancelled
		look    bool   // the record is evaluated again; else the row becomes due
		then    string // the person's action
		held    string // how it is put on hold
		after   string // its final state
		sent    int    // in all
		retried string // the final state of the repetition's row
	}{
		{"due-release", "planned", false, release, "pending input_conflict 12:00", "completed expanded", 1, ""},
		{"due-cancel", "planned", false, cancel, "pending input_conflict 12:00", "cancelled cancelled_by_operator", 0, ""},
		{"due-retry", "planned", false, retry, "pending input_conflict 12:00", "completed expanded", 1, ""},
		{"due-forget", "planned", false, forget, "pending input_conflict 12:00", "cancelled forgotten", 0, ""},
		{"look-release", "planned", true, release, "deactivated rule_changed 11:00", "completed expanded", 1, ""},
		{"sent-release", "sent", true, release, "completed expanded 13:00", "completed expanded", 1, ""},
		{"sent-cancel", "sent", true, cancel, "completed expanded 13:00", "completed expanded", 1, ""},
		{"sent-retry", "sent", true, retry, "completed expanded 13:00", "completed expanded", 2, "completed expanded"},
		{"sent-forget", "sent", true, forget, "completed expanded 13:00", "completed expanded", 1, ""},
		{"gone-release", "withdrawn", true, release, "deactivated date_changed 11:00", "completed expanded", 1, ""},
		{"gone-cancel", "withdrawn", true, cancel, "deactivated date_changed 11:00", "cancelled cancelled_by_operator", 0, ""},
		{"gone-retry", "withdrawn", true, retry, "deactivated date_changed 11:00", "deactivated date_changed", 1, "completed expanded"},
		{"stop-release", "cancelled", true, release, "cancelled cancelled_by_operator 11:00", "cancelled cancelled_by_operator", 0, ""},
		{"stop-cancel", "cancelled", true, cancel, "cancelled cancelled_by_operator 11:00", "cancelled cancelled_by_operator", 0, ""},
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		var people []string
		for _, c := range flags {
			people = append(people, c.name)
		}
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: UTC}`), people...)
		first := func(id string) instance.Row { return w.key("visit:" + id + ":t:2026-05-14:0") }
		is := func(id string) string {
			row := first(id)
			return fmt.Sprintf("%s %s", row.Status, row.Reason)
		}
		heldIs := func(when, id, want string) {
			t.Helper()
			row := first(id)
			got := is(id) + " " + row.HeldAt.Format("15:04")
			if !row.Held() || got != want || row.Hold.Reason() != reason.InputConflict || row.InputHash != foreign {
				t.Errorf("%s: %s: held %t for %s: %s, want %s; inputs %s", when, id, row.Held(), row.Hold.Reason(), got, want, row.InputHash)
			}
		}
		do := func(id, action string) {
			t.Helper()
			row, o := first(id), w.Operator()
			var err error
			switch action {
			case release:
				_, err = o.Release(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now())
			case cancel:
				_, err = o.CancelInstance(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now())
			case retry:
				_, err = o.RetryInstance(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now())
			case forget:
				_, err = o.Forget(t.Context(), w.Workspace.ID, row.Key, "ann", w.Now())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", id, action, err)
			}
		}
		sent := map[string]int{}
		count := func() {
			for _, m := range w.Provider.Sent() {
				sent[m.Address]++
			}
		}

		for _, c := range flags {
			w.put("visit/"+c.name, fmt.Sprintf(`{"on_date": "2026-05-14", "who": %q}`, c.name))
		}
		w.live("11:00")
		for _, c := range flags {
			switch c.before {
			case "withdrawn":
				w.put("visit/"+c.name, `{"on_date": "2026-06-30"}`)
			case "cancelled":
				do(c.name, cancel)
			}
		}
		for w.tick() {
		}
		for _, c := range flags {
			if c.before != "sent" {
				w.foreign(first(c.name))
			}
			if c.before != "sent" && c.look {
				w.away(c.name)
				heldIs("looked at", c.name, c.held)
			}
		}
		w.live("13:00")
		count()
		for _, c := range flags {
			if c.before == "sent" {
				w.foreign(first(c.name))
				w.away(c.name)
			}
			heldIs("before anybody decides", c.name, c.held)
			if want := map[bool]int{true: 1}[c.before == "sent"]; sent[c.name] != want {
				t.Errorf("%s: %d sent, want %d", c.name, sent[c.name], want)
			}
		}
		for _, c := range flags {
			if w.put("visit/"+c.name, `{"battery": 6}`); c.look {
				w.away(c.name)
			}
			heldIs("looked at again", c.name, c.held)
			do(c.name, c.then)
		}
		w.live("14:00")
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Held: true}, store.Page{Limit: 100})
		if err != nil || len(rows) > 0 {
			t.Errorf("%d are held still, %v", len(rows), err)
		}
		for _, c := range flags {
			w.put("visit/"+c.name, `{"battery": 7}`)
			if c.then != cancel && c.before != "cancelled" && c.then != forget { // else the action revives it, like all cancelled rows
				w.away(c.name)
			}
		}
		w.days(3)
		count()
		for _, c := range flags {
			row := first(c.name)
			if row.Held() || !row.HeldAt.IsZero() || is(c.name) != c.after || sent[c.name] != c.sent {
				t.Errorf("%s: held %t since %v, %s, %d sent; want %s, %d sent", c.name, row.Held(), row.HeldAt, is(c.name), sent[c.name], c.after, c.sent)
			}
			if c.retried != "" {
				if again := w.key("visit:" + c.name + ":t:2026-05-14:0:retry:1"); again.Held() || fmt.Sprintf("%s %s", again.Status, again.Reason) != c.retried {
					t.Errorf("%s again: %+v", c.name, again)
				}
			}
		}
		log, err := s.AuditLog(t.Context(), w.Workspace.ID, store.Page{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		accepted := map[string]bool{}
		for _, entry := range log {
			if strings.Contains(string(entry.Detail), `"inputs_before":"`+foreign+`"`) {
				accepted[entry.Action] = true
			}
		}
		if got := slices.Sorted(maps.Keys(accepted)); !slices.Equal(got, []string{cancel, release, retry}) {
			t.Errorf("what was accepted is written down of %v", got)
		}
	})
}

// The due instant is no input: an instance on hold moves with its record, and after its release it is sent at the new time.
//
// Shows: B23, B38.
func TestAnInstanceOnHoldForItsInputsMoves(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := visits(`    timing: {anchor: record.on_date, at: "12:00", timezone: record.zone}`)
		w := newWorld(t, s, definitions, "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann", "zone": "Europe/Berlin"}`) // 10:00 there
		w.put("visit/v", `{"zone": "America/Sao_Paulo"}`)                                    // 15:00
		w.live("10:30")
		row := w.key("2026-05-14:0")
		w.foreign(row)
		w.put("visit/v", `{"zone": "Atlantic/Azores"}`) // 12:00
		w.live("10:40")
		if row = w.key("2026-05-14:0"); !row.Held() || !row.DueAt.Equal(at("12:00")) || row.Timezone != "Atlantic/Azores" {
			t.Errorf("%+v", row)
		}
		w.live("11:00")
		if _, err := w.Operator().Release(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		w.live("11:59")
		if n := len(w.Provider.Sent()); n != 0 {
			t.Errorf("%d are sent too early", n)
		}
		w.live("12:00")
		if sent := w.Provider.Sent(); len(sent) != 1 {
			t.Errorf("%d sent", len(sent))
		}

		// An edit gives an instance on hold the new inputs, and does not release it.
		w.put("visit/v", `{"on_date": "2026-05-15"}`)
		w.live("12:30")
		w.foreign(w.key("2026-05-15:0"))
		w.put("visit/v", `{"zone": "UTC"}`)
		w.live("12:40")
		w.Apply(strings.Replace(definitions, "record.on_date", "(record.on_date)", 1))
		w.days(2)
		if row = w.key("2026-05-15:0"); !row.Held() || row.InputHash == foreign || row.Hold.Reason() != reason.InputConflict || len(w.Provider.Sent()) != 0 {
			t.Errorf("after an edit: %+v", row)
		}
		if _, err := w.Operator().Release(t.Context(), w.Workspace.ID, row.ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		w.live("12:40")
		if n := len(w.Provider.Sent()); n != 1 {
			t.Errorf("%d are sent of what was released", n)
		}
	})
}

// A person sees the inputs by which an occasion was planned beside the present ones of its trigger, as far as both are known.
//
// Shows: B19, B23, B41.
func TestBothInputsAreShown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := visits(`    timing: {anchor: record.on_date, at: "12:00"}`)
		w := newWorld(t, s, definitions, "ann")
		w.put("visit/v", `{"on_date": "2026-05-14", "who": "ann"}`)
		w.live("10:30")
		row := w.key("2026-05-14:0")
		mustBe := func(when string, want plan.InputConflict, agrees bool) {
			t.Helper()
			got, err := w.InputConflict(t.Context(), w.Workspace.ID, row)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Agrees() != agrees {
				t.Errorf("%s: agrees %t (-want +got)\n%s", when, got.Agrees(), diff)
			}
		}
		anchor := plan.InputField{Name: "anchor", Stored: "record.on_date", New: "record.on_date"}
		mustBe("as planned", plan.InputConflict{Known: true, Defined: true, StoredVersion: 1, NewVersion: 1, Fields: []plan.InputField{anchor}}, true)

		row.InputHash = foreign
		unknown := plan.InputField{Name: "anchor", New: "record.on_date"}
		mustBe("planned by an unknown version", plan.InputConflict{Defined: true, StoredVersion: 1, NewVersion: 1, Fields: []plan.InputField{unknown}}, false)

		for range 2 {
			if err := s.KeepInputs(t.Context(), w.Workspace.ID, []string{otherInputs, otherInputs}); err != nil {
				t.Fatal(err)
			}
		}
		zone := plan.InputField{Name: "zone", Stored: "UTC", Differs: true}
		mustBe("planned by another program", plan.InputConflict{Known: true, Defined: true, StoredVersion: 1, NewVersion: 1, Fields: []plan.InputField{anchor, zone}}, false)

		w.Apply(strings.Replace(definitions, "record.on_date", "(record.on_date)", 1))
		edited := plan.InputField{Name: "anchor", Stored: "record.on_date", New: "(record.on_date)", Differs: true}
		mustBe("edited", plan.InputConflict{Known: true, Defined: true, StoredVersion: 1, NewVersion: 2, Fields: []plan.InputField{edited, zone}}, false)

		w.live("10:40")
		w.Apply(strings.Replace(definitions, "  - id: t\n", "  - id: u\n", 1))
		anchor.New, zone.Differs = "", false
		mustBe("defined no longer", plan.InputConflict{Known: true, StoredVersion: 1, NewVersion: 3, Fields: []plan.InputField{anchor, zone}}, false)

		// Definitions that were applied by a version that stored no inputs get them when a newer version starts.
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		doc := store.Definition{Kind: "workflow", Name: "w", Text: definitions[:strings.Index(definitions, "---")], Hash: "h"}
		if _, _, err := storetest.Apply(t.Context(), s, other.ID, w.Clock.Now(), doc); err != nil {
			t.Fatal(err)
		}
		hash := key.Hash(`{"anchor":"record.on_date"}`)
		if _, found, err := s.Inputs(t.Context(), other.ID, hash); found || err != nil {
			t.Fatalf("known before: %t, %v", found, err)
		}
		if err := w.KeepInputs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text, found, err := s.Inputs(t.Context(), other.ID, hash); !found || err != nil {
			t.Errorf("not known: %q, %v", text, err)
		}
	})
}
