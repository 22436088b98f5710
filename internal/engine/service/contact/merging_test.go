package contact_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

func (b bundle) merge(id, into string) (contact.Merged, error) {
	b.Helper()
	return b.Contacts().Merge(b.Context(), b.Workspace, contact.Merger{Contact: id, Into: into, Actor: "test"}, b.Now(), nil)
}

func (b bundle) mustMerge(id, into string) contact.Merged {
	b.Helper()
	m, err := b.merge(id, into)
	if err != nil {
		b.Fatalf("merge %s into %s: %v", id, into, err)
	}
	return m
}

// A merge gives the survivor what waits and what was sent of another contact, and the addresses that it lacks. The merged id names the survivor from then
// on, and its other addresses are of nobody.
//
// Shows: R5, R20.
func TestMergeOfTwoContacts(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge,
			`{"id": "bob", "name": "Bob", "addresses": {"sms": "+44 20 000001", "email": "bob@example.org"}}`,
			`{"id": "ada", "name": "Ada", "addresses": {"sms": "+44 20 000002"}, "cadence": {"max_per_day": 3}}`)
		for n := range 4 {
			b.plain(fmt.Sprint("b", n), `"customer_ref": "bob"`)
		}
		b.plain("a1", `"customer_ref": "ada"`)
		b.At(b.Now())
		if diff := cmp.Diff([]string{"14 sent", "14 sent", "15", "15"}, b.plan("bob")); diff != "" {
			t.Fatal(diff)
		}
		m := b.mustMerge("bob", "ada")
		if !m.Changed || m.Contact.Claimant != "ada" || len(m.Contact.Addresses) > 0 || m.Survivor.Name != "Ada" {
			t.Errorf("%+v", m)
		}
		if diff := cmp.Diff(map[string]string{"sms": "+4420000002", "email": "bob@example.org"}, b.row("ada").Addresses); diff != "" {
			t.Error(diff)
		}
		b.At(b.Now().Add(time.Minute))
		if diff := cmp.Diff([]string{"14 sent", "14 sent", "14 sent", "15", "15"}, b.plan("ada")); diff != "" {
			t.Error(diff) // three have left today, which is the survivor's limit
		}
		if left := b.plan("bob"); len(left) > 0 {
			t.Errorf("bob keeps %v", left)
		}
		if again := b.mustMerge("bob", "ada"); again.Changed {
			t.Error("a second merge changes something")
		}
		b.At(b.Now().Add(24 * time.Hour))
		for _, out := range b.Provider.Sent()[3:] {
			if out.Address != "+4420000002" {
				t.Errorf("what waited for bob went to %s", out.Address)
			}
		}
		if d := b.plain("by id", `"customer_ref": "bob"`); d.Contact != b.row("ada").ID {
			t.Error("the merged id does not name the survivor")
		}
		if d := b.plain("by mail", `"address": "bob@example.org"`); d.Contact != b.row("ada").ID {
			t.Error("the address that the survivor has taken does not name it")
		}
		if d := b.plain("by phone", `"address": "+44 20 000001"`); d.Contact == b.row("ada").ID || d.Contact == b.row("bob").ID {
			t.Error("the address that was given up names one of them")
		}
	})
}

// Merges one after the other lead to the last survivor.
//
// Shows: R20.
func TestMergesInARow(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "a"}`, `{"id": "b"}`, `{"id": "c", "addresses": {"sms": "+44 20 000003"}}`)
		b.mustMerge("a", "b")
		b.mustMerge("b", "c")
		for n, id := range []string{"a", "b", "c"} {
			if d := b.plain(fmt.Sprint(n), fmt.Sprintf(`"customer_ref": %q`, id)); d.Contact != b.row("c").ID {
				t.Errorf("%s does not name c", id)
			}
		}
		if of := b.row("a").Claimant; of != "c" {
			t.Errorf("a is merged into %q", of)
		}
	})
}

// Who signed up by an address has another one now: the contact that was made for the old address is merged into that of the new one. When somebody names
// the old address, it is a contact of its own again.
//
// Shows: R20.
func TestMergeOfAnAddress(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		contactOf := func(id, phone string) string {
			who, _, err := b.Store.ContactByID(t.Context(), b.Workspace.ID, b.plain(id, fmt.Sprintf(`"address": %q`, phone)).Contact)
			if err != nil {
				t.Fatal(err)
			}
			return who.ExtID
		}
		old, now := contactOf("1", "+44 20 000001"), contactOf("2", "+44 20 000002")
		b.mustMerge(old, now)
		b.At(b.Now())
		if diff := cmp.Diff([]string{"14 sent", "14 sent"}, b.plan(now)); diff != "" {
			t.Error(diff)
		}
		if b.row(old).Claimant != now {
			t.Errorf("%s is merged into %q", old, b.row(old).Claimant)
		}
		if again := contactOf("3", "+44 20 000001"); again != old || b.row(old).Claimant != "" || len(b.plan(old)) != 1 {
			t.Errorf("named again it is %s, merged into %q, with %v", again, b.row(old).Claimant, b.plan(old))
		}
		b.write(upsert.Merge, `{"id": "ada", "addresses": {"sms": "+44 20 000002"}}`)
		b.mustMerge(old, "ada")
		if got := b.plan("ada"); len(got) != 3 || b.row(now).Claimant != "ada" || b.row(old).Claimant != "ada" {
			t.Errorf("ada has %v", got)
		}
	})
}

// Stop means stop for the person: if one of two is suppressed, the survivor is.
//
// Shows: P5.
func TestMergeOfASuppressedContact(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "bob", "addresses": {"sms": "+44 20 000001"}}`, `{"id": "ada", "addresses": {"sms": "+44 20 000002"}}`)
		for n := range 3 {
			b.plain(fmt.Sprint(n), `"customer_ref": "ada"`)
		}
		b.stop("bob", true)
		b.mustMerge("bob", "ada")
		b.At(b.Now())
		if ada := b.row("ada"); !ada.Suppressed || ada.SuppressReason == "" || len(b.Provider.Sent()) > 0 {
			t.Errorf("ada is suppressed: %t (%s); %d messages left", ada.Suppressed, ada.SuppressReason, len(b.Provider.Sent()))
		}
	})
}

// What cannot be merged is refused, by name, and changes nothing.
func TestWrongMerges(t *testing.T) {
	t.Parallel()
	limited(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"id": "a"}`, `{"id": "b"}`, `{"id": "c"}`)
		who, _, err := b.Store.ContactByID(t.Context(), b.Workspace.ID, b.plain("1", `"address": "+44 20 000001"`).Contact)
		if err != nil {
			t.Fatal(err)
		}
		b.mustMerge("a", "b")
		for _, tt := range []struct{ id, into, want string }{
			{"b", "b", "into: is the contact itself"},
			{"a", "c", "id: was merged into b before"},
			{"c", "a", "into: was merged into b"},
			{"b", "a", "into: was merged into b"},
			{"c", who.ExtID, "into: was made for an address"},
		} {
			_, err := b.merge(tt.id, tt.into)
			var refused *upsert.Error
			if !errors.As(err, &refused) || refused.Error() != tt.want || refused.Hint == "" {
				t.Errorf("%s into %s: %v", tt.id, tt.into, err)
			}
		}
		if _, err := b.merge("c", "nobody"); !errors.Is(err, contact.ErrNoSurvivor) {
			t.Error(err)
		}
		if _, err := b.merge("nobody", "a"); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "nobody") {
			t.Error(err)
		}
		if r := b.write(upsert.Merge, `{"id": "a", "name": "A"}`); r[0].Error == nil || r[0].Error.Error() != "id: was merged into b" {
			t.Errorf("a write of a merged contact: %+v", r[0])
		}
	})
}

// While contacts are merged, two processes make and send messages to them by their ids and addresses: no message is lost, nobody gets more than the limits
// allow, and no two transactions deadlock.
//
// Shows: R20.
func TestMergesUnderLoad(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := bundle{enginetest.Setup(t, s, twoADay, func(c *engine.Config) { c.Concurrency = 0 })}
		const people, rounds = 12, 6
		for p := range people {
			b.write(upsert.Merge, fmt.Sprintf(`{"id": "p%d", "addresses": {"sms": "+44 20 0000%02d"}}`, p, p))
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var ticks, work sync.WaitGroup
		for range 2 {
			ticks.Go(func() {
				for ctx.Err() == nil {
					if _, err := b.Tick(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		work.Go(func() {
			for n := range rounds {
				for p := range people {
					b.Post(fmt.Sprintf(`{"kind": "news", "id": "%d-%d", "recipient": {"customer_ref": "p%d"}}`, n, p, p))
				}
			}
		})
		for half := range 2 {
			work.Go(func() {
				for p := half; p+1 < people; p += 4 {
					b.mustMerge(fmt.Sprintf("p%d", p+2), fmt.Sprintf("p%d", p))
				}
			})
		}
		work.Wait()
		for range 3 {
			if _, err := b.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		ticks.Wait()
		n := 0
		for p := range people {
			plan := b.plan(fmt.Sprintf("p%d", p))
			n += len(plan)
			sent := len(slices.DeleteFunc(slices.Clone(plan), func(line string) bool { return line != "14 sent" }))
			if merged := b.row(fmt.Sprintf("p%d", p)).Claimant != ""; merged != (p%4 >= 2) || merged && len(plan) > 0 || !merged && (len(plan) != 2*rounds || sent < 2 || sent > 4) {
				t.Errorf("p%d: %v", p, plan)
			}
		}
		if n != people*rounds || s.Deadlocks() > 0 {
			t.Errorf("%d of %d messages, %d deadlocks", n, people*rounds, s.Deadlocks())
		}
	})
}
