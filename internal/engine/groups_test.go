package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/groups"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// newsTo is a broadcast to an audience, by an event.
func newsTo(audience, rest string) string {
	return "workflow: news\ntype: broadcast\ntriggers: [{id: t, event: news}]\naudience: " + audience +
		"\nchannel: inbox\nmessage: {inbox: {text: \"in {{ contact.groups | join: ' ' }}\"}}\n---\nchannel: inbox\nprovider: inbox\n---\npersona: Nurse\n---\npersona: Manager\n---\n" + rest
}

const twoGroups = "group: adults\nwhere: contact.attributes.age >= 18\n---\ngroup: board\nmembers: [ann, zoe]\n"

// news posts an event, and returns who got its message: "who: their groups".
func (w world) news(id string) (list []string) {
	w.Helper()
	w.Post(fmt.Sprintf(`{"id": %q, "kind": "news"}`, id))
	for w.tick() {
	}
	for _, m := range w.Provider.Sent() {
		list = append(list, m.Address+": "+strings.TrimPrefix(m.Text, "in "))
	}
	slices.Sort(list)
	return list
}

// Contacts join and leave a group when they are written: by its condition, by its list, also when they are made after it, and by an event that makes
// them.
func TestGroups(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo("[{group: adults}, {group: board}]", twoGroups))
		w.person("ann", `"attributes": {"age": 17}`)
		w.person("bob", `"attributes": {"age": 40}`)
		w.person("cyd", `"attributes": {"age": 4}`)
		w.person("dan", `"name": "Dan"`)
		w.mustBe("two groups", w.news("1"), []string{"ann: board", "bob: adults"})
		w.person("ann", `"attributes": {"age": 18}`)
		w.person("bob", `"attributes": {"age": 3}`)
		w.person("zoe", `"name": "Zoe"`)
		w.mustBe("one joins, one leaves, one is made", w.news("2"), []string{"ann: adults board", "zoe: board"})
		w.Apply("group: board\nmembers: [cyd]\n---\ngroup: adults\nwhere: contact.attributes.age >= 3\n")
		w.mustBe("other groups", w.news("3"), []string{"ann: adults", "bob: adults", "cyd: adults board"})
		w.Apply(newsTo("[{group: adults, where: \"!('board' in contact.groups)\"}]", "") + "workspace: default\ncadence: {max_per_day: 0}\n")
		w.mustBe("of one, who are not of the other", w.news("4"), []string{"ann: adults", "bob: adults"})
		w.checkGroups()

		w.Apply("group: readers\nwhere: contact.locale == 'ar'\n---\n" + newsTo("[{group: readers}]", "---\nworkflow: greet\ntype: notice\ntriggers: [{id: t, event: visit}]\naudience: {to: event.recipient, where: \"'readers' in contact.groups\"}\nchannel: inbox\nmessage: {inbox: {text: Welcome}}\n"))
		w.live("11:00")
		w.Post(`{"id": "v", "kind": "visit", "recipient": {"address": "new", "locale": "ar"}}`)
		w.Post(`{"id": "w", "kind": "visit", "recipient": {"address": "other", "locale": "de"}}`)
		w.live("11:01")
		w.mustBe("who is made by an event", w.sentTo(), []string{"inbox:default new: Welcome"})
		w.mustBe("and is a member", w.news("5"), []string{"new: readers"})
		w.checkGroups()
	})
}

// An occasion that is due while its group is being computed goes to all members, whom it looks for among all contacts.
func TestAGroupThatIsBeingComputed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo("[{group: adults}]", twoGroups))
		w.many("p", store.MemberPage+30, func(i int) string { return fmt.Sprintf(`"attributes": {"age": %d}`, i%40) })
		w.live("10:01")
		expand := func(id string) (due []string) {
			w.Post(fmt.Sprintf(`{"id": %q, "kind": "news"}`, id))
			x := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil)
			for {
				n, err := x.Step(t.Context(), w.Clock.Now(), 10)
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					break
				}
			}
			for w.tick() {
			}
			for _, m := range w.Provider.Sent() {
				due = append(due, m.Address)
			}
			return due
		}
		atLeast := func(age int) (n int) {
			for i := range store.MemberPage + 30 {
				if i%40 >= age {
					n++
				}
			}
			return n
		}
		if got := expand("1"); len(got) != atLeast(18) {
			t.Errorf("%d messages, want %d", len(got), atLeast(18))
		}
		w.Apply("group: adults\nwhere: contact.attributes.age >= 30\n")
		if g, err := w.group("adults"); g.Computed || err != nil {
			t.Errorf("%+v, %v", g, err)
		}
		if got := expand("2"); len(got) != atLeast(30) {
			t.Errorf("while it is computed: %d messages, want %d", len(got), atLeast(30))
		}
		w.live("10:02")
		if g, err := w.group("adults"); !g.Computed || err != nil || g.Members != int64(atLeast(30)) {
			t.Errorf("%+v, %v", g, err)
		}
		if got := expand("3"); len(got) != atLeast(30) {
			t.Errorf("computed: %d messages, want %d", len(got), atLeast(30))
		}
		runs, err := w.runs(job.Groups)
		if err != nil || len(runs) != 2 || runs[0].Done != store.MemberPage+30 || runs[0].Total != store.MemberPage+30 || runs[0].Status != job.Done {
			t.Errorf("%+v, %v", runs, err)
		}
		w.checkGroups()
	})
}

// An occasion goes to the group as its version defines it: with an event as it was then, also when the group has been deleted or means others since;
// otherwise as it is when the occasion is due. An alert of a record goes to the members at once.
func TestTheGroupOfAnOccasion(t *testing.T) {
	t.Parallel()
	later := func(pin string) string {
		return strings.Replace(newsTo("{group: adults}", twoGroups), "channel: inbox\nm", "timing: {offset: 1h}\n"+pin+"channel: inbox\nm", 1)
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, later("")+"---\nworkflow: alarm\ntype: alert\ntriggers: [{id: t, record: pump, when: record.on == false}]\naudience: {group: adults}\nchannel: inbox\nmessage: {inbox: {text: Alarm}}\n")
		w.person("ann", `"attributes": {"age": 20}`)
		w.person("bob", `"attributes": {"age": 40}`)
		w.live("10:01")
		w.put("pump/1", `{"on": false}`)
		w.live("10:02")
		w.mustBe("an alert", w.sentTo(), []string{"inbox:default ann: Alarm", "inbox:default bob: Alarm"})
		w.Post(`{"id": "1", "kind": "news"}`)
		w.Apply("group: adults\nwhere: contact.attributes.age >= 30\n")
		w.live("11:30")
		w.mustBe("as it was then", w.sentTo(), []string{"inbox:default ann: in adults board", "inbox:default bob: in adults"})
		w.Apply(later("pin: false\n"))
		w.live("11:31")
		w.Post(`{"id": "2", "kind": "news"}`)
		w.Apply("group: adults\nwhere: contact.attributes.age >= 30\n")
		w.live("13:30")
		w.mustBe("as it is now", w.sentTo(), []string{"inbox:default bob: in adults"})
		w.checkGroups()
	})
}

// A group that is edited when the first of its members have been taken up is for the others as it was.
//
// Shows: R17.
func TestAGroupThatIsEditedInTheMiddle(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.Replace(newsTo("{group: adults}", twoGroups), "channel: inbox\nm", "pin: false\nchannel: inbox\nm", 1))
		w.many("p", store.MemberPage+30, func(int) string { return `"attributes": {"age": 20}` })
		w.live("10:01")
		w.Post(`{"id": "1", "kind": "news"}`)
		if n, err := fanout.New(s, catalog.New(s, loader.Options{}), nil, nil).Step(t.Context(), w.Clock.Now(), 10); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		w.Apply("group: adults\nmembers: [p1]\n")
		w.live("10:02")
		w.each("in the middle", store.MemberPage+30)
		w.Post(`{"id": "2", "kind": "news"}`)
		w.live("10:03")
		w.each("after it", 1)
	})
}

// A long list of people who are named one by one is taken up in pages, with the members of a persona and a group behind it, and each gets the message
// once. The contacts of addresses that nobody has are made.
//
// Shows: R16, R20.
func TestALongListOfPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people = 2*store.MemberPage + 100
		w := newWorld(t, s, newsTo("[{to: event.people}, {address: event.addresses, kind: inbox}, {persona: Nurse}, {group: adults}]", twoGroups))
		w.many("p", people, func(i int) string {
			return fmt.Sprintf(`"persona": %q, "attributes": {"age": %d}`, []string{"Nurse", "Manager", "Manager"}[i%3], i%40)
		})
		w.live("10:01")
		want := map[string]bool{}
		var ids, addresses []string
		for i := range people {
			if named := i%2 == 0; named {
				ids = append(ids, fmt.Sprintf(`"p%d"`, i))
			}
			if i%2 == 0 || i%3 == 0 || i%40 >= 18 {
				want[fmt.Sprint("p", i)] = true
			}
		}
		for i := range store.MemberPage {
			addresses = append(addresses, fmt.Sprintf(`"new%d"`, i))
			want[fmt.Sprint("new", i)] = true
		}
		addresses = append(addresses, `"p0"`, `"p1"`) // contacts of their own
		want["p1"] = true
		w.Post(fmt.Sprintf(`{"id": "1", "kind": "news", "payload": {"people": [%s, "nobody"], "addresses": [%s]}}`, strings.Join(ids, ","), strings.Join(addresses, ",")))
		planned := map[string]int{}
		x := fanout.New(s, catalog.New(s, loader.Options{}), func(e journal.Entry) {
			if e.Delivery != 0 {
				planned[e.Contact]++
			}
		}, nil)
		for before, pages := 0, 0; ; pages++ {
			n, err := x.Step(t.Context(), w.Clock.Now(), 10)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			if made := len(rows) - before; made > 2*store.MemberPage || n > 0 && pages == 0 && made != store.MemberPage {
				t.Errorf("page %d made %d deliveries", pages, made)
			}
			if before = len(rows); n == 0 {
				break
			}
		}
		w.live("10:02")
		got := map[string]bool{}
		for _, m := range w.Provider.Sent() {
			if got[m.Address] {
				t.Errorf("%s has it twice", m.Address)
			}
			got[m.Address] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("recipients (-want +got):\n%s", diff)
		}
		for who, n := range planned {
			if n != 1 {
				t.Errorf("%d messages to %s are reported", n, who)
			}
		}
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 10})
		if err != nil || len(planned) != len(want) || len(rows) != 1 || rows[0].Status != instance.Completed {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}

// A weekly tip to a group leaves at ten in the zone of each of its contacts.
//
// Shows: R15.
func TestAGroupInThreeZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC)) // a Monday
		zone := func(name, zone string, vip bool) {
			w.person(name, fmt.Sprintf(`"timezone": %q, "attributes": {"vip": %t}`, zone, vip))
		}
		zone("amina", "Africa/Nairobi", true)
		zone("berta", "Europe/Berlin", true)
		zone("boris", "Europe/Berlin", false)
		zone("carol", "America/New_York", true)
		w.person("dora", `"attributes": {"vip": true}`) // is meant in Berlin
		w.Apply("group: vip\nwhere: contact.attributes.vip\n---\n" + strings.Replace(zonesBroadcast("every: 1w, days: [mon]", ""), "{persona: Mother}", "{group: vip}", 1))
		day := func(d, h int) time.Time { return time.Date(2026, 10, d, h, 0, 0, 0, time.UTC) }
		want := []string{"19 07:00 amina", "19 08:00 berta", "19 08:00 dora", "19 14:00 carol"}
		if diff := cmp.Diff(want, w.follow(day(19, 23))); diff != "" {
			t.Errorf("the first week (-want +got):\n%s", diff)
		}
		zone("boris", "Europe/Berlin", true)
		zone("carol", "America/New_York", false)
		want = []string{"26 07:00 amina", "26 09:00 berta", "26 09:00 boris", "26 09:00 dora"}
		if diff := cmp.Diff(want, w.follow(day(26, 23))); diff != "" {
			t.Errorf("the second week (-want +got):\n%s", diff)
		}
		w.checkGroups()
	})
}

// Each workspace has groups of its own, of the same name.
func TestGroupsOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, newsTo("[{group: adults}]", twoGroups))
		ws, err := s.EnsureWorkspace(t.Context(), "other", []byte("abcdef0123456789abcdef0123456789"), w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		other := world{&enginetest.Bundle{TB: t, Engine: w.Engine, Store: s, Clock: w.Clock, Provider: w.Provider, Workspace: ws}}
		other.Apply(newsTo("[{group: adults}]", "group: adults\nmembers: [bob]\n---\nworkspace: other\ncadence: {max_per_day: 0}\n"))
		for _, one := range []world{w, other} {
			one.person("ann", `"attributes": {"age": 20}`)
			one.person("bob", `"attributes": {"age": 10}`)
		}
		w.live("10:01")
		w.mustBe("the first one", w.news("1"), []string{"ann: adults board"})
		w.mustBe("the other one", other.news("1"), []string{"bob: adults"})
		w.checkGroups()
		other.checkGroups()
	})
}

// many makes contacts p0, p1 and so on.
func (w world) many(prefix string, n int, fields func(int) string) {
	w.Helper()
	for from := 0; from < n; from += contact.MaxBatch {
		var items []contact.Item
		for i := from; i < min(from+contact.MaxBatch, n); i++ {
			items = append(items, contact.Parse([]byte(fmt.Sprintf(`{"addresses": {"inbox": "%s%d"}, %s}`, prefix, i, fields(i))), fmt.Sprint(prefix, i)))
		}
		results, err := w.Contacts().Write(w.Context(), w.Workspace, upsert.Replace, items, w.Clock.Now(), nil)
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range results {
			if r.Error != nil {
				w.Fatal(r.Error)
			}
		}
	}
}

// group returns what the store knows of a group.
func (w world) group(name string) (store.GroupState, error) {
	states, err := w.Store.GroupStates(w.Context(), w.Workspace.ID, []string{name})
	return states[name], err
}

// checkGroups checks that the members that are kept of each group are those that its definition says, unless it is being computed. It returns how many
// groups are computed.
func (w world) checkGroups() (computed int) {
	w.Helper()
	if err := w.groupsAgree(&computed); err != nil {
		w.Error(err)
	}
	return computed
}

func (w world) groupsAgree(computed *int) error {
	set, err := w.Definitions(w.Context(), w.Workspace.ID)
	if err != nil {
		return err
	}
	contacts, err := w.Store.Contacts(w.Context(), w.Workspace.ID, store.ContactFilter{}, store.Page{Limit: 10_000})
	if err != nil {
		return err
	}
	of, err := w.GroupsOf(w.Context(), w.Workspace.ID, contacts)
	if err != nil {
		return err
	}
	for _, g := range set.Groups() {
		state, err := w.group(g.Name)
		if err != nil {
			return err
		}
		if !state.Computed {
			continue
		}
		*computed++
		var want, got []string
		for i, c := range contacts {
			if slices.Contains(of[i], g.Name) && c.MergedInto == 0 {
				want = append(want, c.ExtID)
			}
		}
		members, err := w.Store.GroupMembers(w.Context(), w.Workspace.ID, g.Name, store.Page{Limit: 10_000})
		if err != nil {
			return err
		}
		for _, m := range members {
			got = append(got, m.ExtID)
		}
		if diff := cmp.Diff(want, got); diff != "" || state.Members != int64(len(want)) {
			return fmt.Errorf("group %s has %d members (-want +got):\n%s", g.Name, state.Members, diff)
		}
	}
	return nil
}

// Whatever is written, edited, merged and interrupted, in whatever order: the members that are kept of a computed group are those that its definition
// says, and every group is computed in the end.
func TestPropertyGroupsAreKeptUp(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		n, enough := 0, storetest.Lives(30)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			n++
			ws, err := s.EnsureWorkspace(t.Context(), fmt.Sprint("w", n), []byte(fmt.Sprintf("0123456789abcdef%016d", n)), ten)
			if err != nil {
				r.Fatal(err)
			}
			w := newWorld(t, s, "")
			w.Workspace = ws
			definitions := catalog.New(s, loader.Options{})
			worker := jobs.New(s, groups.Jobs(s, definitions))
			doomed := jobs.New(s, groups.Jobs(halfway{s}, definitions))
			apply := func(text string) {
				files := []definition.File{{Name: "a.yaml", Text: []byte(text + "---\npersona: Nurse\n---\nworkflow: greet\ntype: notice\ntriggers: [{id: t, event: visit}]\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: inbox\n")}}
				applied, err := w.EditDefinitions(w.Context(), ws, engine.Edit{Files: files, Prune: true}, engine.Applier{Name: "test", Secrets: true}, nil)
				if err != nil || definition.HasErrors(applied.Problems) {
					r.Fatal(err, applied.Problems)
				}
			}
			step := func(w *jobs.Worker) bool {
				_, more, err := w.Step(t.Context(), ten)
				if err != nil && !errors.Is(err, errDied) {
					r.Fatal(err)
				}
				return more
			}
			apply("")
			people := rapid.SampledFrom([]string{"ann", "bob", "cyd", "dan"})
			for range rapid.IntRange(1, 25).Draw(r, "steps") {
				switch rapid.SampledFrom([]string{"write", "write", "write", "apply", "event", "page", "crash", "merge"}).Draw(r, "do") {
				case "write":
					w.person(people.Draw(r, "who"), fmt.Sprintf(`"persona": %q, "locale": %q, "attributes": {"age": %d}`,
						rapid.SampledFrom([]string{"", "Nurse"}).Draw(r, "persona"), rapid.SampledFrom([]string{"ar", "de"}).Draw(r, "locale"), rapid.IntRange(0, 3).Draw(r, "age")))
				case "apply":
					apply(rapid.SampledFrom([]string{
						"", "group: a\nwhere: contact.attributes.age > 1\n", "group: a\nwhere: contact.attributes.age > 2\n---\ngroup: b\nmembers: [ann, dan, eve]\n",
						"group: b\nmembers: [bob]\n---\ngroup: c\nwhere: contact.locale == 'ar'\n", "group: c\nwhere: contact.locale == 'de'\n", "group: a\nwhere: contact.persona == 'Nurse'\n",
					}).Draw(r, "definitions"))
				case "event":
					w.Post(fmt.Sprintf(`{"kind": "visit", "recipient": {"address": %q, "locale": %q}}`,
						rapid.SampledFrom([]string{"x@example.org", "ann@example.org"}).Draw(r, "address"), rapid.SampledFrom([]string{"ar", "de"}).Draw(r, "locale")))
				case "page":
					step(worker)
				case "crash":
					step(doomed)
				case "merge": // of the contact that was made for the address
					who := people.Draw(r, "claims")
					item := contact.Parse([]byte(`{"addresses": {"email": "x@example.org"}}`), who)
					if _, err := w.Contacts().Write(w.Context(), ws, upsert.Merge, []contact.Item{item}, ten, nil); err != nil {
						r.Fatal(err)
					}
				}
				computed := 0
				if err := w.groupsAgree(&computed); err != nil {
					r.Fatal(err)
				}
			}
			for step(worker) {
			}
			computed := 0
			if err := w.groupsAgree(&computed); err != nil {
				r.Fatal(err)
			}
			if set, err := w.Definitions(w.Context(), ws.ID); err != nil || computed != len(set.Groups()) {
				r.Fatalf("%d of %d groups are computed, %v", computed, len(set.Groups()), err)
			}
		})
	})
}

// halfway is a store whose transactions end before their commit.
type halfway struct{ *store.Store }

func (d halfway) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	return d.Store.WriteHoldingDefinitions(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		return errDied
	})
}
