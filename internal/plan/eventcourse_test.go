package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// courseAfter returns the first messages of a course after an event of 14 May 2026, 10:30 in Berlin, as "i2:e3 05-14 09:00 zone", or why there is none.
func courseAfter(t *testing.T, timing string, contact subject.Contact, payload map[string]any, n int) (list []string) {
	t.Helper()
	text := "workflow: w\ntype: custom\ntriggers: [{id: t, event: e, dedup: [member]}]\ntiming: {" + timing + "}\naudience: {to: event.recipient}\nchannel: sms\n" +
		"message: {sms: {text: x}}\n---\nchannel: sms\nprovider: memory\n---\nworkspace: default\ntimezone: Europe/Berlin\n"
	b, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
	if definition.HasErrors(problems) {
		t.Fatalf("%s: %v", timing, problems)
	}
	at := time.Date(2026, 5, 14, 8, 30, 0, 0, time.UTC)
	ev := subject.Event{Kind: "e", Payload: payload, OccurredAt: at, ReceivedAt: at.Add(25 * time.Hour), OccurredGiven: true, Recipient: &subject.Recipient{Address: "+49"}}
	var zones civil.Zones
	o := plan.Placed(plan.Event(b.Set, ev), 7, contact, &zones)[0]
	if !o.Matched() {
		return []string{string(o.Reason) + " " + o.Field}
	}
	base := string(o.Key)
	note := func(key, zone string, due time.Time) {
		list = append(list, fmt.Sprintf("%s %s %s", key[len(base):], due.Format("01-02 15:04"), zone))
	}
	note(string(o.First.Key), o.First.Zone, o.NotBefore)
	for row := range o.Course.Next(o.First, at) {
		if len(list) == n {
			break
		}
		note(row.Key, row.Timezone, row.DueAt)
	}
	return list
}

// TestCoursesAfterEvents shows when the messages of a course after an event are due: all of it follows from the event, the definition and the zone.
//
// Shows: D15, D16, D20, D21, 38.
func TestCoursesAfterEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		timing  string
		contact string // their zone
		payload map[string]any
		want    []string
	}{
		{timing: `sequence: [{after: 0m}, {day: 3, at: "09:00"}, {after: 90m}, {day: 7}]`, want: []string{
			" 05-14 08:30 ", ":d2026-05-17 05-17 07:00 Europe/Berlin", ":d2026-05-17:e2 05-17 08:30 ", ":d2026-05-21 05-21 08:30 ",
		}},
		{timing: `at: "09:00", sequence: [{day: 0}, {day: 1}]`, want: []string{" 05-15 07:00 Europe/Berlin"}}, // nine has passed
		{timing: `at: "09:00", first: whole, sequence: [{day: 0}, {day: 1}]`, want: []string{" 05-15 07:00 Europe/Berlin", ":d2026-05-16 05-16 07:00 Europe/Berlin"}},
		{timing: `anchor: now, at: "09:00"`, want: []string{" 05-16 07:00 Europe/Berlin"}}, // received a day later, at half past eleven
		{timing: `at: "09:00", repeat: {every: 2d, times: 3}, offset: 1d`, want: []string{" 05-15 07:00 Europe/Berlin", ":i2 05-17 07:00 Europe/Berlin", ":i3 05-19 07:00 Europe/Berlin"}},
		{timing: `at: "09:00", repeat: {every: 1w, days: [mon, fri], times: 1}`, want: []string{" 05-15 07:00 Europe/Berlin", ":d2026-05-18 05-18 07:00 Europe/Berlin"}},
		{timing: `anchor: event.on, repeat: {every: 1mo, days: [31], times: 2, count: all}, missing_day: skip`, payload: map[string]any{"on": "2026-05-01"}, want: []string{" 05-31 07:00 Europe/Berlin"}},
		{timing: `anchor: event.on, repeat: {every: 1mo, days: [31], times: 2}, missing_day: skip`, payload: map[string]any{"on": "2026-06-01"}, want: []string{" 07-31 07:00 Europe/Berlin", ":i2:d2026-08-31 08-31 07:00 Europe/Berlin"}},
		{timing: `anchor: event.on, offset: -3d, timezone: event.zone, at: event.clock`, payload: map[string]any{"on": "2026-06-10", "zone": "Asia/Tokyo", "clock": "18:00"}, want: []string{" 06-07 09:00 Asia/Tokyo"}},
		{timing: `anchor: event.on, sequence: [{after: 1h}, {day: 1, at: "06:00"}]`, payload: map[string]any{"on": "2026-06-10T23:30:00Z"}, want: []string{" 06-11 00:30 ", ":d2026-06-12 06-12 04:00 Europe/Berlin"}},
		{timing: `anchor: event.on, at: "06:00"`, payload: map[string]any{"on": "2026-06-10T23:30:00Z"}, want: []string{" 06-11 04:00 Europe/Berlin"}},
		{timing: `at: "09:00", timezone: contact.timezone`, contact: "America/New_York", want: []string{" 05-14 13:00 America/New_York"}},
		{timing: `at: "09:00", timezone: [contact.timezone, Asia/Tokyo]`, want: []string{" 05-15 00:00 Asia/Tokyo"}},
		{timing: `at: "09:00", timezone: [contact.timezone, Asia/Tokyo]`, contact: "Mars/Olympus", want: []string{" 05-15 00:00 Asia/Tokyo"}},
		{timing: `at: "09:00", repeat: {every: 1d, until: event.ends}`, payload: map[string]any{"ends": "2026-05-17"}, want: []string{" 05-15 07:00 Europe/Berlin", ":i2 05-16 07:00 Europe/Berlin"}},
		{timing: `at: "02:30", dst: {gap: skip}, anchor: event.on, repeat: {every: 1d, times: 2}`, payload: map[string]any{"on": "2027-03-28"}, want: []string{" 03-29 00:30 Europe/Berlin", ":i2 03-30 00:30 Europe/Berlin"}},

		{timing: `at: "09:00", repeat: {every: 1d, until: event.ends}`, payload: map[string]any{"ends": "2026-05-01"}, want: []string{"course_over "}},
		{timing: `anchor: event.on, at: "09:00"`, want: []string{"value_missing event.on"}},
		{timing: `anchor: event.on, at: "09:00"`, payload: map[string]any{"on": 7}, want: []string{"expression_failed event.on"}},
		{timing: `at: "09:00", timezone: event.zone`, payload: map[string]any{"zone": "Europe/Berln"}, want: []string{"expression_failed timing.timezone"}},
		{timing: `at: "09:00", timezone: event.zone`, payload: map[string]any{"zone": 3}, want: []string{"expression_failed event.zone"}},
		{timing: `at: event.clock`, payload: map[string]any{"clock": "25:00"}, want: []string{"expression_failed event.clock"}},
		{timing: `at: "09:00", repeat: {every: 1d, until: event.ends}`, payload: map[string]any{"ends": "soon"}, want: []string{"expression_failed event.ends"}},
		{timing: `anchor: event.on, offset: 1d, at: "09:00"`, payload: map[string]any{"on": "9999-12-31"}, want: []string{"expression_failed event.on"}},
		{timing: `anchor: event.on, at: "09:00"`, payload: map[string]any{"on": "9999-12-31"}, want: []string{" 12-31 08:00 Europe/Berlin"}},
	} {
		if diff := cmp.Diff(tc.want, courseAfter(t, tc.timing, subject.Contact{Timezone: tc.contact}, tc.payload, 4)); diff != "" {
			t.Errorf("%s, %v, %s (-want +got):\n%s", tc.timing, tc.payload, tc.contact, diff)
		}
	}
}

// TestACourseAfterAnEventKeepsItsStart takes the recipient to another zone while the second message waits, and again while the third one does. The
// days on which messages are due are counted from the same day as before.
func TestACourseAfterAnEventKeepsItsStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		timing string
		zones  [3]string
		want   []string
	}{
		{`at: "11:00", repeat: {every: 1w, times: 4}`, [3]string{"Europe/Berlin", "Pacific/Auckland", "Pacific/Honolulu"}, []string{
			"i1 05-14 09:00", "i2 05-21 09:00", "i3 05-27 23:00", "i4 06-04 21:00",
		}},
		{`at: "11:00", repeat: {every: 1w, times: 4}`, [3]string{"Europe/Berlin", "Pacific/Auckland", "Pacific/Auckland"}, []string{
			"i1 05-14 09:00", "i2 05-21 09:00", "i3 05-27 23:00", "i4 06-03 23:00",
		}},
		{`at: "09:00", repeat: {every: 1d, times: 4}`, [3]string{"America/New_York", "Europe/Berlin", "Europe/Berlin"}, []string{
			"i1 05-14 13:00", "i2 05-15 13:00", "i3 05-16 07:00", "i4 05-17 07:00",
		}},
		{`at: "11:00", start_on: thu, repeat: {every: 1w, times: 4}`, [3]string{"Europe/Berlin", "Pacific/Auckland", "Pacific/Auckland"}, []string{
			"i1 05-14 09:00", "i2 05-21 09:00", "i3 05-27 23:00", "i4 06-03 23:00",
		}},
		{`at: "11:00", repeat: {every: 1mo, times: 4}, missing_day: last`, [3]string{"Europe/Berlin", "Pacific/Auckland", "Pacific/Auckland"}, []string{
			"i1 05-14 09:00", "i2 06-14 09:00", "i3 07-13 23:00", "i4 08-13 23:00",
		}},
		{`sequence: [{after: 0m}, {day: 2, at: "09:00"}, {day: 3, at: "09:00"}, {day: 4, at: "09:00"}]`, [3]string{"Pacific/Honolulu", "Pacific/Auckland", "Europe/Berlin"}, []string{
			"i1 05-14 08:30", "i1:e2 05-15 19:00", "i1:e3 05-15 21:00", "i1:e4 05-17 07:00",
		}},
	} {
		text := "workflow: w\ntype: custom\ntriggers: [{id: t, event: e, dedup: [member]}]\ntiming: {timezone: [contact.timezone, UTC], " + tc.timing + "}\naudience: {to: event.recipient}\nchannel: sms\n" +
			"message: {sms: {text: x}}\n---\nchannel: sms\nprovider: memory\n"
		b, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
		if definition.HasErrors(problems) {
			t.Fatalf("%s: %v", tc.timing, problems)
		}
		at := time.Date(2026, 5, 14, 8, 30, 0, 0, time.UTC)
		ev := subject.Event{Kind: "e", OccurredAt: at, ReceivedAt: at, OccurredGiven: true, Recipient: &subject.Recipient{Address: "+49"}}
		var zones civil.Zones
		o := plan.Placed(plan.Event(b.Set, ev), 7, subject.Contact{Timezone: tc.zones[0]}, &zones)[0]
		if !o.Matched() {
			t.Fatalf("%s: %s", tc.timing, o.Reason)
		}
		var got []string
		note := func(row instance.Row) {
			line := fmt.Sprintf("i%d", iterationOf(row))
			if row.Message > 0 {
				line += fmt.Sprintf(":e%d", row.Message+1)
			}
			got = append(got, line+row.DueAt.Format(" 01-02 15:04"))
		}
		c, row := o.Course, o.Course.Row(o.First, at)
		note(row)
		for range tc.zones {
			for next := range c.Next(plan.Desired{Position: schedule.Position{Round: row.Round - 1, Message: row.Message}}, at) {
				row = next
				break
			}
			note(row)
			if len(got) == len(tc.want) {
				break
			}
			_, m, _ := plan.TriggerAfterEvent(b.Set, b.Set, row)
			var why reason.Reason
			if c, why, _ = plan.CourseAt(b.Set, m, ev, row, subject.Contact{Timezone: tc.zones[len(got)-1]}, &zones); why != "" {
				t.Fatalf("%s: %s", tc.timing, why)
			}
			if i, ok := c.Find(row); !ok || i.Iteration != iterationOf(row) {
				t.Errorf("%s: %s is iteration %d (%v)", tc.timing, row.Key, i.Iteration, ok)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, %v (-want +got):\n%s", tc.timing, tc.zones, diff)
		}
	}
}

func iterationOf(row instance.Row) int {
	_, iteration := key.Instance(row.Key).OfEvent()
	return iteration
}
