package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// people writes contacts with their names. The hash of an address is "hash of " and the address.
func (f fixture) people(list ...store.ContactWrite) {
	f.Helper()
	var ids []string
	for _, w := range list {
		ids = append(ids, w.ExtID)
	}
	f.must(f.writeContacts(ids, func(known map[string]subject.ContactRow) []store.ContactWrite {
		out := slices.Clone(list)
		for i := range out {
			out[i].ID = known[out[i].ExtID].ID
		}
		return out
	}))
}

func named(ext, name string, addresses ...string) store.ContactWrite {
	w := store.ContactWrite{ContactRow: subject.ContactRow{Contact: subject.Contact{ExtID: ext, Name: name}}}
	for _, a := range addresses {
		w.Hashes = append(w.Hashes, "hash of "+a)
	}
	return w
}

// A search finds persons by id and address first, then by the beginning of the name or id, in small or capital letters, up to
// a limit.
func TestFindContacts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.people(named("c-1", "Ada Lovelace", "ada@x", "+1"), named("C-10", "Adam", "adam@x"), named("ada", "Zoë"), named("p-4", "Ärger"), named("p-5", "Bob"))
		f.contact("from-event")
		f.ingest(ingestRequest{Recipients: []store.RecipientRef{person("", "stranger@x")}}, func(ingestState) (store.OccasionWrites, error) { return store.OccasionWrites{}, nil })
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("other"), now)
		f.must(err)
		fixture{t, s, other.ID}.people(named("c-1", "Ada of the others", "ada@x"))
		for _, c := range []struct {
			text  string
			limit int
			want  string
		}{
			{"ada", 10, "ada c-1 C-10"}, // the id, then names
			{"ADA L", 10, "c-1"},
			{"c-1", 10, "c-1 C-10"},
			{"C-1", 10, "c-1 C-10"},
			{"ada@x", 10, "c-1"},
			{"+1", 10, "c-1"},
			{"ärg", 10, "p-4"},
			{"FROM-", 10, "from-event"},
			{"stranger@x", 10, "addr:hash of stranger@x"},
			{"addr:", 10, ""},
			{"lovelace", 10, ""},
			{" ", 10, ""},
			{"a%", 10, ""},
			{"ad", 2, "ada c-1"},
		} {
			rows, err := s.FindContacts(t.Context(), f.ws, store.ContactQuery{Text: c.text, Hash: "hash of " + c.text}, c.limit)
			f.must(err)
			var got []string
			for _, r := range rows {
				got = append(got, r.ExtID)
			}
			if c.text == "ad" { // which two of three is the order of the index
				if len(got) != 2 {
					t.Errorf("ad: %d found, want 2", len(got))
				}
				continue
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q: got %q, want %q", c.text, strings.Join(got, " "), c.want)
			}
		}
		f.people(named("c-1", "Grace", "ada@x")) // a new name is found, the old one is not
		rows, err := s.FindContacts(t.Context(), f.ws, store.ContactQuery{Text: "grace"}, 10)
		f.must(err)
		if len(rows) != 1 || rows[0].ExtID != "c-1" {
			t.Errorf("by the new name: %+v", rows)
		}
		if rows, err = s.FindContacts(t.Context(), f.ws, store.ContactQuery{Text: "ada l"}, 10); err != nil || len(rows) != 0 {
			t.Errorf("by the old name: %+v, %v", rows, err)
		}
	})
}

// Deliveries are found by any address of the person, the id, the whole name, and an address that only the event named.
func TestDeliveriesToAPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.people(named("c-1", "Ada Lovelace", "ada@x", "+1"), named("c-2", "Bob"))
		ids, err := store.PersonsNamed(s, t.Context(), f.ws, store.ContactQuery{Text: "c-1"})
		f.must(err)
		bobs, err := store.PersonsNamed(s, t.Context(), f.ws, store.ContactQuery{Text: "Bob"})
		f.must(err)
		if len(ids) != 1 || len(bobs) != 1 {
			t.Fatalf("found %v and %v", ids, bobs)
		}
		add := func(n int, p subject.ContactID, address string, own bool) delivery.Row {
			in := f.instance(fmt.Sprint("to:", n), instance.Completed)
			d := f.delivery(in, p)
			d.Address, d.OwnAddress = address, own
			f.add(store.OccasionWrites{Instances: []instance.Row{in}, Deliveries: []delivery.Row{d}})
			return d
		}
		one, two := add(1, ids[0], "ada@x", true), add(2, ids[0], "+1", true)
		three := add(3, bobs[0], "ada@x", false) // the event named her address for him
		four := add(4, bobs[0], "bob@x", true)
		for _, c := range []struct {
			text string
			want []delivery.ID
		}{
			{"ada@x", []delivery.ID{three.ID, two.ID, one.ID}},
			{"+1", []delivery.ID{two.ID, one.ID}},
			{"c-1", []delivery.ID{two.ID, one.ID}},
			{"ada lovelace", []delivery.ID{two.ID, one.ID}},
			{"Ada", nil},
			{"BOB", []delivery.ID{four.ID, three.ID}},
			{"bob@x", []delivery.ID{four.ID}}, // given up since: no hash knows it
		} {
			rows, err := s.Deliveries(t.Context(), f.ws, store.DeliveryFilter{To: store.ContactQuery{Text: c.text, Hash: "hash of " + c.text}}, store.Page{})
			f.must(err)
			var got []delivery.ID
			for _, r := range rows {
				got = append(got, r.ID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("to %q: got %v, want %v", c.text, got, c.want)
			}
		}
	})
}

// No search reads a whole table: each of its parts is a lookup in an index.
func TestFindReadsByIndex(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.people(named("c-1", "Ada", "ada@x"))
		f.made(now, now.Add(time.Second))
		for name, l := range store.FindStatements() {
			plans, err := s.Plans(t.Context(), l.Text, l.Args...)
			f.must(err)
			for _, plan := range plans {
				for _, table := range []string{"p", "a", "x", "y", "d", "rec", "m"} {
					if strings.Contains(plan+"\n", "SCAN "+table+"\n") {
						t.Errorf("%s reads all of %s:\n%s", name, table, plan)
					}
				}
				if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "(ws=?)") {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
		}
	})
}
