package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// audience returns a page of an audience.
func (f fixture) audience(a store.Audience) (found store.People) {
	f.Helper()
	f.must(f.s.WriteHoldingDefinitions(f.Context(), func(tx *store.Tx) error {
		people, err := tx.People(now, [][]store.Audience{{a}}, func(int) subject.WorkspaceID { return f.ws }, nil, false)
		if err == nil {
			found = people[0][0]
		}
		return err
	}))
	return found
}

// keepGroups writes which contacts, by their ids of the caller, belong to a group, and says that the groups are computed.
func (f fixture) keepGroups(of map[string][]string, computed ...string) {
	f.Helper()
	f.must(f.s.WriteHoldingDefinitions(f.Context(), func(tx *store.Tx) error {
		byID := map[subject.ContactID][]string{}
		for group, ids := range of {
			for _, id := range ids {
				c, err := tx.Contact(f.ws, id)
				if err != nil {
					return err
				}
				byID[c.ID] = append(byID[c.ID], group)
			}
		}
		var list []store.Membership
		for id, groups := range byID {
			list = append(list, store.Membership{Contact: id, Groups: groups})
		}
		if err := tx.KeepGroups(f.ws, list); err != nil {
			return err
		}
		return tx.GroupsComputed(f.ws, computed)
	}))
}

// The page of an audience with groups is the merge of these with personas, each person once, in the order of ids; and of everybody while a group is
// being computed. One statement says which groups are computed.
func TestMembersOfGroups(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var refs []store.RecipientRef
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			refs = append(refs, person(name, ""))
		}
		f.ingest(ingestRequest{Recipients: refs}, func(ingestState) (w store.OccasionWrites, err error) { return w, nil })
		f.exec(`UPDATE contact SET persona = 'Nurse' WHERE ext_id IN ('b', 'd')`)
		f.exec(`UPDATE contact SET timezone = 'Asia/Tokyo' WHERE ext_id IN ('a', 'b')`)
		f.keepGroups(map[string][]string{"vip": {"a", "b"}, "board": {"a", "e"}, "half": {"e"}}, "vip", "board")
		for name, test := range map[string]struct {
			audience store.Audience
			want     []string
		}{
			"one":                 {store.Audience{Groups: []string{"vip"}}, []string{"a", "b"}},
			"two":                 {store.Audience{Groups: []string{"vip", "board", "vip"}}, []string{"a", "b", "e"}},
			"and a persona":       {store.Audience{Groups: []string{"vip"}, Personas: []string{"Nurse"}}, []string{"a", "b", "d"}},
			"in a zone":           {store.Audience{Groups: []string{"board"}, Zone: "Asia/Tokyo"}, []string{"a"}},
			"in a zone or none":   {store.Audience{Groups: []string{"board"}, Zone: "Asia/Tokyo", Homeless: true}, []string{"a", "e"}},
			"being computed":      {store.Audience{Groups: []string{"vip", "half"}}, []string{"a", "b", "c", "d", "e"}},
			"unknown":             {store.Audience{Groups: []string{"none"}, Zone: "Asia/Tokyo"}, []string{"a", "b"}},
			"and everybody":       {store.Audience{Groups: []string{"vip"}, Everyone: true}, []string{"a", "b", "c", "d", "e"}},
			"after somebody else": {store.Audience{Groups: []string{"vip"}, After: f.contactRow("a").ID}, []string{"b"}},
		} {
			var got []string
			for _, p := range f.audience(test.audience).Members {
				got = append(got, p.ExtID)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		// begin, computed groups, members, persons, slots, commit; a second group is a second statement
		for n, want := range map[int]int64{1: 6, 2: 7} {
			before := s.Statements()
			f.audience(store.Audience{Groups: []string{"vip", "board"}[:n]})
			if got := s.Statements() - before; got != want {
				t.Errorf("%d groups: %d statements, want %d", n, got, want)
			}
		}
		states, err := s.GroupStates(t.Context(), f.ws, []string{"vip", "half", "none"})
		f.must(err)
		want := map[string]store.GroupState{"vip": {Computed: true, Members: 2}, "half": {Members: 1}, "none": {}}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		page, err := s.GroupMembers(t.Context(), f.ws, "board", store.Page{Limit: 1})
		f.must(err)
		next, err := s.GroupMembers(t.Context(), f.ws, "board", store.Page{Limit: 5, Before: int64(page[0].ID)})
		f.must(err)
		if page[0].ExtID != "e" || len(next) != 1 || next[0].ExtID != "a" {
			t.Errorf("pages %v, %v", page, next)
		}
	})
}

func (f fixture) contactRow(id string) subject.ContactRow {
	f.Helper()
	c, err := f.s.ContactRow(f.Context(), f.ws, id)
	f.must(err)
	return c
}

// The time of a page of a group of 100 does not depend on how many contacts there are.
func BenchmarkGroupPage(b *testing.B) {
	for _, contacts := range []int{2_000, 200_000} {
		for _, database := range storetest.Databases(b) {
			b.Run(fmt.Sprintf("%s/%d", database, contacts), func(b *testing.B) {
				s := storetest.Open(b, storetest.URL(b, database))
				f := setup(b, s)
				numbers := fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", contacts)
				f.exec(fmt.Sprintf(`INSERT INTO contact (ws, id, ext_id, address, locale, timezone, created_at) %s SELECT %d, i, 'c-' || i, '', '', '', 1 FROM n`, numbers, f.ws))
				f.exec(fmt.Sprintf(`INSERT INTO cadence (ws, contact_id) %s SELECT %d, i FROM n`, numbers, f.ws))
				f.exec(fmt.Sprintf(`INSERT INTO group_member (ws, name, contact_id) %s SELECT %d, 'vip', i FROM n WHERE i %% %d = 0`, numbers, f.ws, contacts/100))
				f.exec(fmt.Sprintf(`INSERT INTO contact_group (ws, name) VALUES (%d, 'vip')`, f.ws))
				if database == "postgres" {
					if _, err := s.Exec(b.Context(), "ANALYZE"); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for b.Loop() {
					if n := len(f.audience(store.Audience{Groups: []string{"vip"}}).Members); n != 100 {
						b.Fatal(n)
					}
				}
			})
		}
	}
}

// A contact is in the groups of its last write, and those of others stay.
func TestKeepGroups(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		write := func(id string, grouped bool, groups ...string) {
			f.must(f.writeContacts([]string{id}, func(known map[string]subject.ContactRow) []store.ContactWrite {
				row := known[id]
				row.ExtID = id
				return []store.ContactWrite{{ContactRow: row, Groups: groups, Grouped: grouped}}
			}))
		}
		members := func(group string) (ids []string) {
			rows, err := s.GroupMembers(t.Context(), f.ws, group, store.Page{Limit: 10})
			f.must(err)
			for _, r := range rows {
				ids = append(ids, r.ExtID)
			}
			slices.Sort(ids)
			return ids
		}
		check := func(what string, a, b []string) {
			t.Helper()
			if diff := cmp.Diff([][]string{a, b}, [][]string{members("a"), members("b")}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		write("ann", true, "a", "b")
		write("bob", true, "b")
		check("made", []string{"ann"}, []string{"ann", "bob"})
		write("ann", true, "a")
		write("bob", true, "a", "b")
		check("joined and left", []string{"ann", "bob"}, []string{"bob"})
		write("bob", false)
		check("written without groups", []string{"ann", "bob"}, []string{"bob"})
		write("bob", true)
		check("left all", []string{"ann"}, nil)
		f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.GroupsComputed(f.ws, []string{"a", "b"}) }))
		f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.GroupsComputed(f.ws, []string{"a"}) }))
		f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.RecomputeGroups(f.ws, []string{"a", "c"}) }))
		states, err := s.GroupStates(t.Context(), f.ws, []string{"a", "b"})
		if f.must(err); states["a"].Computed || !states["b"].Computed {
			t.Errorf("%+v", states)
		}
	})
}
