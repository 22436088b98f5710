package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// A course whose late joiners are treated differently (late_joiner: skip or fresh) keeps who is in it. The transactions that expand its first
// message write everybody of the audience, whether or not a message could be made for them, and the last of them marks that the first
// message is expanded. From then on who has no row joins late. With fresh they get a row with a course of their own.

// CourseRef names a course of a record.
type CourseRef struct {
	Workspace subject.WorkspaceID
	Record    subject.RecordID
	Workflow  string
	Trigger   string
	Resets    int // how many times it has begun again
}

// CourseOf returns the course that an instance is a message of.
func CourseOf(row instance.Row) CourseRef {
	return CourseRef{row.Workspace, row.Record, row.Workflow, row.Trigger, key.Instance(row.Key).Resets()}
}

func (r CourseRef) compare(o CourseRef) int {
	return cmp.Or(cmp.Compare(r.Workspace, o.Workspace), cmp.Compare(r.Record, o.Record), strings.Compare(r.Workflow, o.Workflow),
		strings.Compare(r.Trigger, o.Trigger), cmp.Compare(r.Resets, o.Resets))
}

// CourseMember is a person of a course.
type CourseMember struct {
	CourseRef
	Contact  subject.ContactID // 0: the mark that the first message is expanded
	Name     string            // of the person in the keys of a course of their own: the id that they had when it began; empty: they have none
	Start    string            // of that course: its date, such as 2026-10-19
	Moment   time.Time         // and its instant; zero: it has none
	JoinedAt time.Time
	ExtID    string // the person's id now, if OwnCourses has read it
}

// Own reports whether the person has a course of their own.
func (m CourseMember) Own() bool { return m.Name != "" }

const courseMemberSpec = "course_member"

var courseMemberColumns = named(courseMemberSpec, columnsOf[CourseMember]{
	{"ws", func(m *CourseMember) field { return integer(&m.Workspace) }},
	{"record_id", func(m *CourseMember) field { return integer(&m.Record) }},
	{"workflow", func(m *CourseMember) field { return text(&m.Workflow) }},
	{"trigger", func(m *CourseMember) field { return text(&m.Trigger) }},
	{"resets", func(m *CourseMember) field { return integer(&m.Resets) }},
	{"contact_id", func(m *CourseMember) field { return integer(&m.Contact) }},
	{"name", func(m *CourseMember) field { return text(&m.Name) }},
	{"start", func(m *CourseMember) field { return text(&m.Start) }},
	{"moment", func(m *CourseMember) field { return moment{&m.Moment} }},
	{"joined_at", func(m *CourseMember) field { return moment{&m.JoinedAt} }},
})

func scanCourseMember(rows *sql.Rows) (CourseMember, error) { return courseMemberColumns.scan(rows) }

const courseMembers = `
SELECT /*NAMES m (` + courseMemberSpec + `)*/
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text, resets bigint, contact_id bigint)*/ AS r CROSS JOIN course_member AS m
WHERE m.ws = r.ws AND m.record_id = r.record_id AND m.workflow = r.workflow AND m.trigger = r.trigger AND m.resets = r.resets AND m.contact_id = r.contact_id`

// CourseMembers returns those of the people who are in the courses, and the mark of each course, under contact 0, if its first message is
// expanded. The people are locked, so nobody adds one of them meanwhile.
func (t *Tx) CourseMembers(wanted map[CourseRef][]subject.ContactID) (map[CourseRef]map[subject.ContactID]CourseMember, error) {
	found := make(map[CourseRef]map[subject.ContactID]CourseMember, len(wanted))
	var rows rowset
	for _, c := range slices.SortedFunc(maps.Keys(wanted), CourseRef.compare) {
		found[c] = map[subject.ContactID]CourseMember{}
		for _, id := range append([]subject.ContactID{0}, wanted[c]...) {
			rows.row().int(int64(c.Workspace)).int(int64(c.Record)).text(c.Workflow).text(c.Trigger).int(int64(c.Resets)).int(int64(id))
		}
	}
	members, err := query(t, scanCourseMember, courseMembers, &rows)
	if err != nil {
		return nil, fmt.Errorf("find who is in a course: %w", err)
	}
	for _, m := range members {
		found[m.CourseRef][m.Contact] = m
	}
	return found, nil
}

// A person who was merged into another one of the course has no course any more.
const ownCourses = `
SELECT /*NAMES m (` + courseMemberSpec + `)*/, COALESCE((SELECT p.ext_id FROM contact AS p WHERE p.ws = c.ws AND p.id = c.contact_id), '')
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text, resets bigint, name text)*/ AS r CROSS JOIN course_member AS m CROSS JOIN cadence AS c
WHERE m.record_id = r.record_id AND m.name = r.name AND m.name <> '' AND +m.ws = r.ws AND m.workflow = r.workflow AND m.trigger = r.trigger AND m.resets = r.resets
  AND c.ws = m.ws AND c.contact_id = m.contact_id AND c.merged_into = 0`

// OwnCourses returns for each message of one person's own course who that is now. It is nobody if the course is known no longer.
func (t *Tx) OwnCourses(messages []instance.Row) (map[instance.ID]CourseMember, error) {
	type name struct {
		CourseRef
		name string
	}
	of := map[name][]instance.ID{}
	var rows rowset
	for _, i := range messages {
		if i.Contact == 0 {
			continue
		}
		n := name{CourseOf(i), key.Instance(i.Key).Person()}
		if of[n] = append(of[n], i.ID); len(of[n]) == 1 {
			rows.row().int(int64(n.Workspace)).int(int64(n.Record)).text(n.Workflow).text(n.Trigger).int(int64(n.Resets)).text(n.name)
		}
	}
	members, err := query(t, func(rows *sql.Rows) (CourseMember, error) {
		id := ""
		m, err := courseMemberColumns.scan(rows, &id)
		m.ExtID = id
		return m, err
	}, ownCourses, &rows)
	if err != nil {
		return nil, fmt.Errorf("find whose course it is: %w", err)
	}
	found := map[instance.ID]CourseMember{}
	for _, m := range members {
		for _, id := range of[name{m.CourseRef, m.Name}] {
			found[id] = m
		}
	}
	return found, nil
}

const ownCoursesOfPlans = `
SELECT /*NAMES m (` + courseMemberSpec + `)*/
FROM /*ROWS $1 (ws bigint, record_id bigint, workflow text, trigger text, resets bigint)*/ AS r CROSS JOIN course_member AS m CROSS JOIN cadence AS c
WHERE m.record_id = r.record_id AND m.name <> '' AND +m.ws = r.ws AND m.workflow = r.workflow AND m.trigger = r.trigger AND m.resets = r.resets
  AND c.ws = m.ws AND c.contact_id = m.contact_id AND c.merged_into = 0
ORDER BY m.contact_id`

// ownOfPlans reads the people who have courses of their own beside those of plans.
func (t *Tx) ownOfPlans(read *plansRead, wanted map[PlanRef][]key.Instance) error {
	of := map[CourseRef]PlanRef{}
	var rows rowset
	for _, ref := range slices.SortedFunc(maps.Keys(wanted), comparePlans) {
		if ref.Own {
			of[CourseRef{ref.Workspace, ref.Record, ref.Workflow, ref.Trigger, ref.Resets}] = ref
			rows.row().int(int64(ref.Workspace)).int(int64(ref.Record)).text(ref.Workflow).text(ref.Trigger).int(int64(ref.Resets))
		}
	}
	members, err := query(t, scanCourseMember, ownCoursesOfPlans, &rows)
	if err != nil {
		return fmt.Errorf("find who has a course of their own: %w", err)
	}
	for _, m := range members {
		p := read.plans[of[m.CourseRef]]
		p.Own = append(p.Own, m)
		read.plans[of[m.CourseRef]] = p
	}
	return nil
}

const insertCourseMembers = `
INSERT INTO course_member (/*NAMES (` + courseMemberSpec + `)*/)
SELECT r.* FROM /*ROWS $1 (` + courseMemberSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, record_id, workflow, trigger, resets, contact_id) DO NOTHING`

// AddCourseMembers adds people to courses. Who is in a course already stays as they are.
func (t *Tx) AddCourseMembers(members []CourseMember) error {
	slices.SortFunc(members, func(a, b CourseMember) int { return cmp.Or(a.compare(b.CourseRef), cmp.Compare(a.Contact, b.Contact)) })
	members = slices.CompactFunc(members, func(a, b CourseMember) bool { return a.CourseRef == b.CourseRef && a.Contact == b.Contact })
	var rows rowset
	for _, m := range members {
		courseMemberColumns.put(&rows, &m)
	}
	if _, err := t.exec(insertCourseMembers, &rows); err != nil {
		return fmt.Errorf("add to a course: %w", err)
	}
	return nil
}

// Who is in the course in their own right stays so.
const handMembers = `
UPDATE course_member SET contact_id = r.survivor
FROM /*ROWS $1 (ws bigint, id bigint, survivor bigint)*/ AS r
WHERE +course_member.ws = r.ws AND course_member.contact_id = r.id
  AND NOT EXISTS (SELECT 1 FROM course_member AS x WHERE x.ws = course_member.ws AND x.record_id = course_member.record_id
    AND x.workflow = course_member.workflow AND x.trigger = course_member.trigger AND x.resets = course_member.resets AND x.contact_id = r.survivor)`

const oldMembers = `
SELECT /*NAMES m (` + courseMemberSpec + `)*/
FROM course_member AS m
WHERE m.ws = $1 AND (m.record_id, m.workflow, m.trigger, m.resets, m.contact_id) > ($2, $3, $4, $5, $6)
ORDER BY m.record_id, m.workflow, m.trigger, m.resets, m.contact_id
LIMIT $7`

// A course is over for good when it has begun again, or when retention has taken all of its messages.
const finishedCourses = `
SELECT r.ws, r.record_id, r.workflow, r.trigger, r.resets
FROM /*ROWS $2 (ws bigint, record_id bigint, workflow text, trigger text, resets bigint)*/ AS r
WHERE NOT EXISTS (
    SELECT 1 FROM instance AS i
    WHERE i.record_id = r.record_id AND i.record_id > 0 AND +i.ws = r.ws AND i.workflow = r.workflow AND i.trigger = r.trigger)
  OR EXISTS (
    SELECT 1 FROM course_member AS n
    WHERE n.ws = r.ws AND n.record_id = r.record_id AND n.workflow = r.workflow AND n.trigger = r.trigger AND n.resets > r.resets AND n.joined_at < $1)`

const deleteMembers = `
DELETE FROM course_member
WHERE joined_at < $1 AND (ws, record_id, workflow, trigger, resets, contact_id) IN (
  SELECT r.ws, r.record_id, r.workflow, r.trigger, r.resets, r.contact_id
  FROM /*ROWS $2 (ws bigint, record_id bigint, workflow text, trigger text, resets bigint, contact_id bigint)*/ AS r)`

// retainMembers deletes the people of courses that are over.
func (t *Tx) retainMembers(ws subject.WorkspaceID, cutoff time.Time, after CourseMember, limit int) (last CourseMember, full bool, err error) {
	found, err := query(t, scanCourseMember, oldMembers, int64(ws), int64(after.Record), after.Workflow, after.Trigger, int64(after.Resets), int64(after.Contact), int64(limit))
	if err != nil || len(found) == 0 {
		return last, false, err
	}
	var courses, members rowset
	seen := map[CourseRef]bool{}
	for _, m := range found {
		if !seen[m.CourseRef] {
			seen[m.CourseRef] = true
			courses.row().int(int64(m.Workspace)).int(int64(m.Record)).text(m.Workflow).text(m.Trigger).int(int64(m.Resets))
		}
	}
	over := map[CourseRef]bool{}
	_, err = query(t, func(rows *sql.Rows) (v struct{}, err error) {
		var c CourseRef
		err = rows.Scan(&c.Workspace, &c.Record, &c.Workflow, &c.Trigger, &c.Resets)
		over[c] = true
		return v, err
	}, finishedCourses, micros(cutoff), &courses)
	if err != nil {
		return last, false, err
	}
	for _, m := range found {
		if over[m.CourseRef] {
			members.row().int(int64(m.Workspace)).int(int64(m.Record)).text(m.Workflow).text(m.Trigger).int(int64(m.Resets)).int(int64(m.Contact))
		}
	}
	_, err = t.exec(deleteMembers, micros(cutoff), &members)
	return found[len(found)-1], len(found) == limit, err
}
