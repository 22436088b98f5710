package fanout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// rounds is how many messages the courses of this file have.
const rounds = 4

func courseOf(policy string) string {
	return strings.Replace(fmt.Sprintf(reminder, berlin, true), "catch_up: 1h", fmt.Sprintf("catch_up: 1h, repeat: {every: 1d, times: %d}, late_joiner: %s", rounds, policy), 1)
}

// clinic lives through a course whose audience comes and goes between any two pages, as the store would have it.
type clinic struct {
	t       *rapid.T
	known   *catalog.Catalog
	run     func(*rapid.T, due) (run, []due)
	there   map[subject.ContactID]bool // the audience
	members map[subject.ContactID]store.CourseMember
	waits   []instance.Row
	got     []string // "3 of everybody: 2"
	state   string
	now     time.Time

	// The naive model: what the description says.
	policy  string
	founded bool
	founder map[subject.ContactID]bool
	joined  map[subject.ContactID]time.Time
	own     map[subject.ContactID]int // how many messages of their own were due
	want    []string
}

func (c *clinic) comeAndGo() {
	for _, id := range rapid.SliceOfN(rapid.IntRange(1, 6), 0, 3).Draw(c.t, "come and go") {
		id := subject.ContactID(id)
		c.there[id] = !c.there[id]
	}
}

// expand expands one page of a row, and returns the row as it is left.
func (c *clinic) expand(row instance.Row, size int) instance.Row {
	in := due{DueInstance: store.DueInstance{Row: row, InForce: 1}}
	record := &store.RecordRow{Record: paper(map[string]any{"wanted": true, "date": "2026-05-14"}), State: c.state, EvaluatedAt: noon}
	if in.Event == 0 {
		in.Source = record
	} else {
		in.About = record
	}
	for _, m := range c.members {
		if row.Contact != 0 && m.Contact == row.Contact {
			in.Own = m
		}
	}
	r, list := c.run(c.t, in)
	r.now = c.now
	audience := r.resolve(list)[0][0]
	var people store.People
	for _, id := range slices.Sorted(maps.Keys(c.there)) {
		switch {
		case !c.there[id] || id <= audience.After || audience.Only != 0 && audience.Only != id:
		case len(people.Members) == size:
			people.After = people.Members[size-1].ID
		default:
			people.Members = append(people.Members, contact(id))
		}
	}
	if m := r.planned[0].members; m != nil {
		m.known = c.members
	}
	writes, successors := r.decide(list, [][]store.People{{people}})
	for _, m := range writes.Members {
		if _, is := c.members[m.Contact]; !is {
			c.members[m.Contact] = m
		}
	}
	for _, s := range successors {
		for row := range s.rows {
			c.waits = append(c.waits, row)
			break
		}
	}
	of := "everybody"
	if row.Contact != 0 {
		of = fmt.Sprint(row.Contact)
	}
	for _, d := range writes.Deliveries {
		switch {
		case d.Status == delivery.Scheduled:
			c.got = append(c.got, fmt.Sprintf("%d of %s: %d on %s", d.Contact, of, row.Round, c.now.Format("02")))
		case d.Reason == reason.LateJoiner:
			c.got = append(c.got, fmt.Sprintf("%d not of %s: %d", d.Contact, of, row.Round))
		}
	}
	c.expect(row, people)
	after := row.With(writes.Patches[0].Patch, c.now)
	if after.Status != instance.Pending && row.Contact == 0 {
		c.founded = true
	}
	return after
}

// expect is what the people of a page are to get.
func (c *clinic) expect(row instance.Row, people store.People) {
	if row.Contact != 0 {
		if day := c.joined[row.Contact].AddDate(0, 0, row.Round).Format(time.DateOnly); row.LocalDate != day { // they joined after the hour of that day
			c.t.Fatalf("message %d of %d is due on %s instead of %s", row.Round, row.Contact, row.LocalDate, day)
		}
		c.own[row.Contact]++
		if c.there[row.Contact] {
			c.want = append(c.want, fmt.Sprintf("%d of %[1]d: %d on %s", row.Contact, row.Round, c.now.Format("02")))
		}
		return
	}
	for _, p := range people.Members {
		if !c.founded {
			c.founder[p.ID] = true
		}
		switch {
		case c.policy == "join" || c.founder[p.ID]:
			c.want = append(c.want, fmt.Sprintf("%d of everybody: %d on %s", p.ID, row.Round, c.now.Format("02")))
		case c.policy == "skip":
			c.want = append(c.want, fmt.Sprintf("%d not of everybody: %d", p.ID, row.Round))
		case c.joined[p.ID].IsZero():
			c.joined[p.ID] = c.now
		}
	}
}

// A course goes on while people come into its audience and leave it, between any two pages of any message. Everybody gets what late_joiner
// says: a person whom a page of the first message finds is in the course from then on, and a person who is found later joins late.
//
// Shows: R16, R17, D20.
func TestJoinersOfPages(t *testing.T) {
	t.Parallel()
	catalogs := map[string]*catalog.Catalog{}
	for _, policy := range []string{"join", "skip", "fresh"} {
		catalogs[policy] = catalogtest.Of(t, courseOf(policy))
	}
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom([]string{"join", "skip", "fresh"}).Draw(t, "policy")
		known := catalogs[policy]
		id := int64(1 << 30)
		c := &clinic{
			t: t, known: known, policy: policy, there: map[subject.ContactID]bool{}, members: map[subject.ContactID]store.CourseMember{},
			founder: map[subject.ContactID]bool{}, joined: map[subject.ContactID]time.Time{}, own: map[subject.ContactID]int{},
			run: func(_ *rapid.T, in due) (run, []due) {
				r, list := runOf(outer, known, in)
				r.newID = func() int64 { id++; return id }
				return r, list
			},
		}
		props := map[string]any{"wanted": true, "date": "2026-05-14"}
		eval := planOf(outer, known, 1, props, nil)
		state := condition.States{condition.Name("w", "due"): {Ahead: condition.Ahead{Fingerprint: eval.Ahead.State.Fingerprint, Course: eval.Ahead.State.Course}}}
		c.state = state.String()
		for row := range eval.Ahead.Course.Rows(eval.Ahead.Desired[0], noon) {
			row.Workspace, row.ID, row.Record, row.Definitions, row.Version = catalogtest.Workspace, 7<<20, 5, 1, 1
			c.waits = []instance.Row{row}
			break
		}
		for c.comeAndGo(); len(c.waits) > 0; c.comeAndGo() {
			slices.SortStableFunc(c.waits, func(a, b instance.Row) int { return a.DueAt.Compare(b.DueAt) })
			row := c.waits[0]
			c.waits = c.waits[1:]
			if c.now.Before(row.DueAt) {
				c.now = row.DueAt
			}
			for row.Status == instance.Pending {
				c.now = c.now.Add(time.Second)
				row = c.expand(row, rapid.IntRange(1, 3).Draw(t, "size"))
				c.comeAndGo()
			}
			if row.Status != instance.Completed {
				t.Fatalf("%s: %s %s", row.Key, row.Status, row.Reason)
			}
		}
		slices.Sort(c.got)
		slices.Sort(c.want)
		if !slices.Equal(c.got, c.want) {
			t.Fatalf("%s: they got\n%s\nexpected\n%s", policy, strings.Join(c.got, "\n"), strings.Join(c.want, "\n"))
		}
		for id := range c.joined {
			if m := c.members[id]; !m.Own() || c.own[id] != rounds {
				t.Fatalf("of a course of their own %d has %d messages: %+v", id, c.own[id], m)
			}
		}
	})
}

// A message of a person who is not in the audience when it is due has nobody, and the next one waits; a person without a course any more has
// none.
func TestAPersonWhoLeft(t *testing.T) {
	t.Parallel()
	known := catalogtest.Of(t, courseOf("fresh"))
	eval := planOf(t, known, 1, map[string]any{"wanted": true, "date": "2026-05-14"}, nil)
	ann := eval.Ahead.Course.Join(100, "c-100", noon.AddDate(0, 0, -1))
	own := store.CourseMember{Contact: 100, Name: "c-100", Start: ann.Start.Date.String(), Moment: ann.Start.Moment}
	var row instance.Row
	for row = range eval.Ahead.Course.Of(ann).All(noon) {
		break
	}
	row.Workspace, row.ID, row.Record, row.Definitions, row.Version = catalogtest.Workspace, 7<<20, 5, 1, 1
	state := condition.States{condition.Name("w", "due"): {Ahead: condition.Ahead{Fingerprint: eval.Ahead.State.Fingerprint, Course: eval.Ahead.State.Course}}}
	for name, tt := range map[string]struct {
		own    store.CourseMember
		people []delivery.Person
		want   instance.Patch
		made   int
		next   string
	}{
		"there":            {own, []delivery.Person{contact(100)}, instance.Patch{Status: instance.Completed, Reason: reason.Expanded}, 1, "2026-05-14"},
		"left":             {own, nil, instance.Patch{Status: instance.Completed, Reason: reason.LeftAudience}, 0, "2026-05-14"},
		"somebody else":    {own, []delivery.Person{contact(200)}, instance.Patch{Status: instance.Completed, Reason: reason.LeftAudience}, 0, "2026-05-14"},
		"without a course": {store.CourseMember{}, nil, instance.Patch{Status: instance.Deactivated, Reason: reason.LeftAudience}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := due{DueInstance: store.DueInstance{Row: row, InForce: 1}, Own: tt.own}
			in.Source = &store.RecordRow{Record: paper(map[string]any{"wanted": true, "date": "2026-05-14"}), State: state.String(), EvaluatedAt: noon.AddDate(0, 0, -2)}
			r, list := runOf(t, known, in)
			r.now = row.DueAt
			if audience := r.resolve(list)[0][0]; audience.Only != tt.own.Contact {
				t.Errorf("%d are read", audience.Only)
			}
			writes, successors := r.decide(list, [][]store.People{{{Members: tt.people}}})
			got := writes.Patches[0].Patch
			got.Trace, got.Event = "", 0
			next := ""
			for _, s := range successors {
				for row := range s.rows {
					if next = row.LocalDate; row.Contact != 100 || !strings.HasSuffix(row.Key, ":c:c-100") {
						t.Errorf("%s is of %d", row.Key, row.Contact)
					}
					break
				}
			}
			if tt.next != "" {
				tt.want.Round = 1 // its place in the list in force is written again
			}
			if tt.want.Recipients = tt.made; got != tt.want || len(writes.Deliveries) != tt.made || next != tt.next {
				t.Errorf("%+v, %d deliveries, then %q", got, len(writes.Deliveries), next)
			}
		})
	}
}
