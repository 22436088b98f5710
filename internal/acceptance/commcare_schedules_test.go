package acceptance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/schedule"
)

// The schedules of CommCare HQ, as they compute them: each row of the acceptance data is a subtest. The machine below is theirs (one
// position for each recipient, which goes on by sending and by passing over what is past); every instant comes from a Course.
//
// Shows: D20, D21.
func TestAcceptanceCommCareSchedules(t *testing.T) {
	t.Parallel()
	for _, name := range scheduleFiles() {
		rows := readSchedules(t, name)
		for _, row := range rows {
			t.Run(row.ID, func(t *testing.T) {
				t.Parallel()
				row.compute(t)
			})
		}
		t.Logf("%s: %d rows run", name, len(rows))
	}
}

// commcare is the machine: their position of each recipient.
type commcare struct {
	schedule theirSchedule
	project  string
	zones    map[string]string
	record   map[string]string
	places   map[string]*commcarePlace
	sent     int
}

type commcarePlace struct {
	start    schedule.Start
	at       schedule.CourseOccurrence
	active   bool
	done     bool
	revision string
	reset    string
}

func (row scheduleRow) compute(t testing.TB) {
	m := commcare{project: row.Timezone, zones: row.Zones, record: map[string]string{}, places: map[string]*commcarePlace{}}
	m.schedule.merge(t, row.Schedule)
	for i, step := range row.Steps {
		if step.Patch != nil {
			m.schedule.merge(t, step.Patch)
		}
		for k, v := range step.Record {
			m.record[k] = v
		}
		m.project = cmp.Or(step.Project, m.project)
		if step.Zone != "" {
			m.zones = map[string]string{"r1": step.Zone}
		}
		err := m.course(t).Check(nil)
		if step.Error != (err != nil) && !strings.Contains(fmt.Sprint(err), "never due after") {
			t.Errorf("step %d: the course is refused with %v, expected %v", i, err, step.Error)
		}
		if step.Error {
			continue
		}
		switch step.Op {
		case "refresh":
			m.refresh(t, step.Now, step.StartDate, step.Recipients, row.Reset)
		case "fire", "process":
			for who, p := range m.places {
				m.fire(t, who, p, step.Now, step.Op == "fire")
			}
		case "unmatch", "no_start_date", "delete_schedule":
			clear(m.places)
		case "stop_condition":
			if got := m.stopped(t, step.NextDue); got != *step.Reached {
				t.Errorf("step %d: the stop date is reached: %v, expected %v", i, got, *step.Reached)
			}
			continue
		default:
			t.Fatalf("unknown step %q", step.Op)
		}
		m.expect(t, i, step.scheduleExpected, step.For)
	}
}

// course returns the rule; the stop date and the number of rounds are in it.
func (m *commcare) course(t testing.TB) *schedule.Course {
	s := m.schedule
	c := &schedule.Course{
		Offset: civil.Duration{Days: s.Offset}, Rounds: max(s.Total, 0), AllRounds: true, Missing: civil.MissingDaySkip,
		Rule: civil.Rule{Overlap: civil.OverlapSecond}, Until: m.until(t),
		Draw: func(round civil.Date, _ schedule.Dated, minutes int) int { return round.Day * 7919 % minutes },
	}
	switch {
	case s.Kind == "alert":
	case s.Unit == "month":
		c.Every.Months = s.Every
	default:
		c.Every.Days = s.Every
	}
	if s.StartDay != nil && s.Unit != "month" {
		c.StartOn = []time.Weekday{time.Weekday((*s.StartDay + 1) % 7)}
	}
	for i, e := range s.Events {
		at, err := civil.ParseTimeOfDay(cmp.Or(m.record[e.Property], strings.TrimSuffix(e.Time, ":00"), "12:00"))
		if err != nil {
			at = 12 * 3600
		}
		message := schedule.CourseMessage{Day: e.Day, Timed: true, At: at, Window: time.Duration(e.Window) * time.Minute}
		if s.Kind == "alert" {
			message = schedule.CourseMessage{Follows: i > 0, After: civil.Duration{Clock: time.Duration(e.Wait) * time.Minute}}
		}
		if s.Unit == "month" && e.Day == 0 { // day 0 is the day of the start in a Course, and no day with them
			message.Day = 32
		}
		c.Messages = append(c.Messages, message)
	}
	return c
}

func (m *commcare) zone(t testing.TB, who string) *time.Location {
	name := m.zones[who]
	if name == "" {
		if name = m.project; m.schedule.UTC {
			name = "UTC"
		}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// until returns their stop date: a date is its midnight in the project's zone.
func (m *commcare) until(t testing.TB) time.Time {
	if m.schedule.Stop == nil {
		return time.Time{}
	}
	text := m.record[*m.schedule.Stop]
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	date, err := civil.ParseDate(text)
	if err != nil {
		return time.Time{}
	}
	at, _ := civil.Resolve(date, 0, m.zone(t, ""), civil.Rule{})
	return at
}

// stopped reports whether a daily course with the present stop date has ended before an instant.
func (m *commcare) stopped(t testing.TB, due time.Time) bool {
	date, at := civil.DateOf(due, time.UTC)
	c := m.course(t)
	c.StartOn, c.Messages = nil, []schedule.CourseMessage{{Timed: true, At: at}}
	_, on := c.Starting(schedule.Start{Date: date}, time.UTC).First(due)
	return !on
}

func (m *commcare) revision(t testing.TB, zone string) string {
	s := m.schedule
	c := m.course(t)
	return fmt.Sprint(s.Every, s.Total, s.Offset, c.StartOn, c.Messages, s.UTC, zone)
}

func (m *commcare) enabled() bool { return m.schedule.Active == nil || *m.schedule.Active }

func (m *commcare) refresh(t testing.TB, now time.Time, given string, recipients []string, resetBy string) {
	if recipients == nil {
		recipients = []string{"r1"}
	}
	var model *commcarePlace // of the record's other recipients
	for who, p := range m.places {
		if model = p; !slices.Contains(recipients, who) {
			delete(m.places, who)
		}
	}
	for _, who := range recipients {
		p, loc := m.places[who], m.zone(t, who)
		c := m.course(t)
		reset := m.record[resetBy]
		switch {
		case p == nil && model != nil && (m.schedule.Kind == "alert" || given == ""):
			p = &commcarePlace{}
			*p = *model
			if m.schedule.Kind != "alert" {
				m.move(t, p, who, now)
			}
		case p == nil:
			p = &commcarePlace{start: c.Begin(now, loc, true), reset: reset, active: true, revision: m.revision(t, "")}
			if given != "" {
				p.start = startOn(t, given)
			}
			m.move(t, p, who, now)
		case p.reset != reset:
			p.start, p.reset = c.Begin(now, loc, true), reset
			m.move(t, p, who, now)
		case given != "" && p.start != startOn(t, given), m.schedule.Kind != "alert" && p.revision != m.revision(t, ""):
			if given != "" {
				p.start = startOn(t, given)
			}
			p.revision = m.revision(t, "")
			m.move(t, p, who, now)
		case !p.active && m.enabled() && !p.done:
			m.move(t, p, who, now)
		}
		p.active = m.enabled() && !p.done && m.running(t, p)
		m.places[who] = p
	}
}

func startOn(t testing.TB, text string) schedule.Start {
	date, err := civil.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return schedule.Start{Date: date}
}

func (m *commcare) running(t testing.TB, p *commcarePlace) bool {
	until := m.until(t)
	return until.IsZero() || p.at.Due.Before(until)
}

// endless is the course without its bounds: they keep the position that would have come after the last one.
func (m *commcare) endless(t testing.TB, p *commcarePlace, who string) *schedule.StartedCourse {
	c := m.course(t)
	c.Rounds, c.Until = 0, time.Time{}
	return c.Starting(p.start, m.zone(t, who))
}

// move passes over what is past.
func (m *commcare) move(t testing.TB, p *commcarePlace, who string, now time.Time) {
	c := m.course(t)
	c.Until = time.Time{}
	o, ok := c.Starting(p.start, m.zone(t, who)).First(now)
	if p.done = !ok; !ok {
		last := schedule.Position{Round: c.Rounds - 1, Message: len(c.Messages) - 1}
		o, _ = m.endless(t, p, who).Next(last)
	}
	p.at = o
}

// fire sends the present message, if it is due, and moves on.
func (m *commcare) fire(t testing.TB, who string, p *commcarePlace, now time.Time, whatever bool) {
	p.active = p.active && m.running(t, p)
	if !p.active || !whatever && !p.at.Due.Before(now) {
		return
	}
	if !(schedule.Timing{}).Stale(now, p.at.Due) {
		m.sent++
	}
	o, ok := m.endless(t, p, who).Next(p.at.Position)
	if !ok { // an alert points to the first message after the last
		o = p.at
		o.Position = schedule.Position{Round: p.at.Round + 1}
		o.Due = o.Due.Add(m.course(t).Messages[0].After.Exact())
	}
	p.at = o
	if total := m.schedule.Total; m.schedule.Kind == "alert" {
		p.done = o.Round > 0
	} else if p.done = total > 0 && o.Round >= total; !p.done && o.Due.Before(now) {
		m.move(t, p, who, now)
	}
	p.active = !p.done && m.running(t, p)
}

func (m *commcare) expect(t testing.TB, step int, e scheduleExpected, each map[string]scheduleExpected) {
	t.Helper()
	if e.Instances != nil && len(m.places) != *e.Instances {
		t.Errorf("step %d: %d instances, expected %d", step, len(m.places), *e.Instances)
	}
	if e.Sent != nil && m.sent != *e.Sent {
		t.Errorf("step %d: %d sent, expected %d", step, m.sent, *e.Sent)
	}
	for _, who := range e.Recipients {
		if m.places[who] == nil || len(m.places) != len(e.Recipients) {
			t.Errorf("step %d: %s is missing, or somebody else is there", step, who)
		}
	}
	for who, p := range m.places {
		own := each[who]
		where := fmt.Sprintf("step %d, %s", step, who)
		equal(t, where+": due", cmp.Or(own.Due, e.Due), p.at.Due.UTC())
		equal(t, where+": active", e.Active, p.active)
		equal(t, where+": iteration", cmp.Or(own.Iteration, e.Iteration), p.at.Round+1)
		equal(t, where+": event", e.Event, p.at.Message)
		if m.schedule.Kind != "alert" {
			equal(t, where+": start", e.Start, p.start.Date.String())
		}
		if e.Min != nil && (p.at.Due.Before(*e.Min) || p.at.Due.After(*e.Max)) {
			t.Errorf("%s: due at %v, expected between %v and %v", where, p.at.Due, *e.Min, *e.Max)
		}
	}
}
