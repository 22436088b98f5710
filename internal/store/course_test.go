package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// of is a course of a record.
func (f fixture) course(record subject.RecordID, resets int) store.CourseRef {
	return store.CourseRef{Workspace: f.ws, Record: record, Workflow: "w", Trigger: "t", Resets: resets}
}

// addMembers adds people to courses.
func (f fixture) addMembers(members ...store.CourseMember) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error { return tx.AddCourseMembers(members) }))
}

// inCourse returns who of these people is in a course, with the names of courses of their own.
func (f fixture) inCourse(c store.CourseRef, people ...subject.ContactID) (list []string) {
	f.Helper()
	f.must(f.s.Write(f.Context(), func(tx *store.Tx) error {
		found, err := tx.CourseMembers(map[store.CourseRef][]subject.ContactID{c: people})
		list = nil
		for _, id := range append([]subject.ContactID{0}, people...) {
			if m, ok := found[c][id]; ok {
				list = append(list, fmt.Sprint(slices.Index(people, id), m.Name))
			}
		}
		return err
	}))
	return list
}

func (f fixture) sameList(what string, got []string, want ...string) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Who is in a course stays as they came, and belongs to one course of one workspace.
func TestCourseMembers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ann, bob := f.contact("ann"), f.contact("bob")
		one, again := f.course(7, 0), f.course(7, 1)
		f.addMembers(
			store.CourseMember{CourseRef: one, Contact: ann, JoinedAt: now}, store.CourseMember{CourseRef: one, JoinedAt: now},
			store.CourseMember{CourseRef: one, Contact: ann, JoinedAt: now},
		)
		f.addMembers(
			store.CourseMember{CourseRef: one, Contact: ann, Name: "late", JoinedAt: now}, // is there already
			store.CourseMember{CourseRef: one, Contact: bob, Name: "bob", Start: "2026-05-14", Moment: now, JoinedAt: now},
		)
		f.sameList("the course", f.inCourse(one, ann, bob), "-1", "0", "1bob")
		f.sameList("begun again", f.inCourse(again, ann, bob))
		other := one
		other.Workspace++
		f.sameList("of another workspace", f.inCourse(other, ann, bob))

		row := f.instance("reminder:w:visit:7:t:2026-05-14:0:c:bob", instance.Pending)
		row.Record, row.Workflow, row.Trigger, row.Round, row.Contact = 7, "w", "t", 1, bob
		for name, want := range map[string]subject.ContactID{":c:bob": bob, ":c:ann": 0, ":r1:c:bob": 0, "": 0} {
			row.Key = "reminder:w:visit:7:t:2026-05-14:0" + name
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				found, err := tx.OwnCourses([]instance.Row{row})
				if m := found[row.ID]; m.Contact != want || want != 0 && (m.Start != "2026-05-14" || !m.Moment.Equal(now)) {
					t.Errorf("%s is of %+v", row.Key, m)
				}
				return err
			}))
		}
	})
}

// A person who is merged into another one hands their course over, unless that one is in the course already.
//
// Shows: R20.
func TestMergedPeopleOfCourses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		made, ada := f.contact("addr:x"), f.contact("ada")
		one, two, three := f.course(7, 0), f.course(8, 0), f.course(9, 0)
		f.addMembers(
			store.CourseMember{CourseRef: one, Contact: made, JoinedAt: now},
			store.CourseMember{CourseRef: two, Contact: made, Name: "addr:x", Start: "2026-05-14", JoinedAt: now},
			store.CourseMember{CourseRef: three, Contact: made, Name: "addr:x", Start: "2026-05-14", JoinedAt: now},
			store.CourseMember{CourseRef: three, Contact: ada, JoinedAt: now},
		)
		f.must(s.Write(t.Context(), func(tx *store.Tx) error { return tx.Merge(now, f.ws, made, ada) }))
		f.sameList("of the first message", f.inCourse(one, made, ada), "1")
		f.sameList("of their own", f.inCourse(two, made, ada), "1addr:x")
		f.sameList("both", f.inCourse(three, made, ada), "0addr:x", "1")
		for course, want := range map[store.CourseRef]subject.ContactID{two: ada, three: 0} {
			row := f.instance("reminder:w:visit:7:t:2026-05-14:0:c:addr%3Ax", instance.Pending)
			row.Record, row.Workflow, row.Trigger, row.Round, row.Contact = course.Record, "w", "t", 1, made
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				found, err := tx.OwnCourses([]instance.Row{row})
				if m := found[row.ID]; m.Contact != want {
					t.Errorf("the course of record %d is of %+v", course.Record, m)
				}
				return err
			}))
		}
		// Who was merged between the two reads is looked up again.
		audience := store.Audience{Everyone: true, Only: made}
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.People(now, [][]store.Audience{{audience}}, func(int) subject.WorkspaceID { return f.ws }, nil, false)
			if !errors.Is(err, store.ErrAgain) {
				t.Errorf("a merged person is read: %v", err)
			}
			return nil
		}))
	})
}

// Retention deletes who was in a course when all of its messages are gone, or when it has begun again long ago.
func TestRetentionOfCourseMembers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		old := now.Add(-100 * day)
		var people []subject.ContactID
		for i := range 5 {
			people = append(people, f.contact(fmt.Sprint("c", i)))
		}
		gone, waits, again, fresh := f.course(7, 0), f.course(8, 0), f.course(8, 1), f.course(9, 0)
		for _, c := range []struct {
			of store.CourseRef
			at time.Time
		}{{gone, old}, {waits, old}, {again, old}, {fresh, now}} {
			members := []store.CourseMember{{CourseRef: c.of, JoinedAt: c.at}}
			for _, id := range people {
				members = append(members, store.CourseMember{CourseRef: c.of, Contact: id, JoinedAt: c.at})
			}
			f.addMembers(members...)
		}
		row := f.instance("reminder:w:visit:8:t:2026-05-14:0:r1", instance.Pending)
		row.Record, row.Workflow, row.Trigger, row.Round = 8, "w", "t", 1
		f.add(store.OccasionWrites{Instances: []instance.Row{row}, Deliveries: []delivery.Row{}})
		f.retain(now, now.Add(-30*day), 4)
		for c, want := range map[store.CourseRef]int{gone: 0, waits: 0, again: 6, fresh: 6} {
			if got := f.inCourse(c, people...); len(got) != want {
				t.Errorf("%+v: %d are left, want %d", c, len(got), want)
			}
		}
	})
}

// However many people of however many courses a batch has, they are looked up in one statement and added in one.
func TestMembersOfABatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		for _, n := range []int{1, 10, 500} {
			wanted := map[store.CourseRef][]subject.ContactID{}
			var members []store.CourseMember
			rows := make([]instance.Row, n)
			for i := range n {
				c := f.course(subject.RecordID(i), 0)
				wanted[c] = []subject.ContactID{1, 2, 3}
				members = append(members, store.CourseMember{CourseRef: c, Contact: 2, JoinedAt: now})
				rows[i] = f.instance(fmt.Sprintf("reminder:w:visit:%d:t:2026-05-14:0:c:bob", i), instance.Pending)
				rows[i].Contact = 2
			}
			before := s.Statements()
			f.must(s.Write(t.Context(), func(tx *store.Tx) error {
				if _, err := tx.CourseMembers(wanted); err != nil {
					return err
				}
				if _, err := tx.OwnCourses(rows); err != nil {
					return err
				}
				return tx.AddCourseMembers(members)
			}))
			// begin, members, own courses, new members, commit
			if got := s.Statements() - before; got != 5 {
				t.Errorf("%d courses: %d statements, want 5", n, got)
			}
		}
	})
}
