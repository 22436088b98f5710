package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A wait for a new day of the calendar ends at the later of resume_at and the message's own time of day, which its timing or its schedule sets. Each
// message below is the second one of its contact's day.
func TestWaitsEndAtTheMessagesOwnTime(t *testing.T) {
	t.Parallel()
	const recipient = "audience: [{to: event.recipient}]\n"
	const onRecord = "triggers: [{id: t, record: task, when: record.open}]\naudience: [{to: '\"ann\"'}]\n"
	for _, c := range []struct{ name, limits, flow, zone, want string }{
		{"a message without one waits until the day begins", "{max_per_day: 1}", "triggers: [{id: t, event: two}]\n" + recipient, "UTC", "15 00:00"},
		{"or until resume_at", `{max_per_day: 1, resume_at: "08:00"}`, "triggers: [{id: t, event: two}]\n" + recipient, "UTC", "15 08:00"},
		{
			"the at of a date", "{max_per_day: 1}",
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "15 11:30",
		},
		{
			"09:00 of a date, in the timing's zone", "{max_per_day: 1}",
			onRecord + "timing: {anchor: record.due, timezone: America/New_York}\n", "UTC", "15 13:00",
		},
		{
			"which is on the person's day", "{max_per_day: 1}", // 13:00 UTC is 01:00 of the next day in Auckland, and so is the end of the wait
			onRecord + "timing: {anchor: record.due, timezone: America/New_York}\n", "Pacific/Auckland", "15 13:00",
		},
		{
			"a later resume_at goes before it", `{max_per_day: 1, resume_at: "12:00"}`,
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "15 12:00",
		},
		{
			"an at from a field", "{max_per_day: 1}",
			onRecord + "timing: {anchor: record.due, at: record.hour}\n", "UTC", "15 13:15",
		},
		{
			"an instant has none of its own", "{max_per_day: 1}",
			onRecord + "timing: {anchor: record.starts}\n", "UTC", "15 00:00",
		},
		{
			"the at of a schedule", "{max_per_day: 1}",
			"triggers: [{id: t, schedule: {every: 1mo, days: [14], at: \"12:45\"}}]\naudience: [{persona: Manager}]\n", "UTC", "15 12:45",
		},
		{
			"in the zone of each contact", "{max_per_day: 1}",
			"triggers: [{id: t, schedule: {every: 1mo, days: [14], at: \"14:45\", timezone: contact.timezone}}]\naudience: [{persona: Manager}]\n",
			"Europe/Berlin", "15 12:45",
		},
		{
			"09:00 where an event gives a date, when the message is put off at the send", "{max_per_day: 1}",
			"triggers: [{id: t, event: two}]\ntiming: {anchor: \"date('2026-05-14')\"}\n" + recipient, "UTC", "15 09:00",
		},
		{
			"a new week", "{max_per_week: 1}",
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "18 11:30",
		},
		{
			"over all channels", "{total: {max_per_day: 1}}",
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "15 11:30",
		},
		{
			"not by the last 24 hours", "{max_per_day: 1, window: rolling}",
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "15 06:05",
		},
		{
			"not for the end of quiet hours", `{quiet_hours: "07:00-17:00"}`,
			onRecord + "timing: {anchor: record.due, at: \"11:30\"}\n", "UTC", "14 17:00",
		},
		{
			"a reminder has none", "{max_per_day: 1}",
			onRecord + "timing: {anchor: record.due, at: \"06:30\", reminders: [3h]}\n", "UTC", "15 00:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				first := "workflow: one\ntype: alert\ntriggers: [{id: t, event: one}]\n" + recipient + "channel: inbox\nmessage: {inbox: {subject: s, text: t}}\n"
				second := "workflow: two\ntype: alert\nchannel: inbox\nmessage: {inbox: {subject: s, text: t}}\n" + c.flow
				w := world{enginetest.Setup(t, s, strings.Join([]string{
					"workspace: default\ncadence: {max_per_day: 0}\n", "channel: inbox\nprovider: inbox\n", "persona: Manager\ncadence: " + c.limits + "\n",
					"record_type: task\nfields: {open: bool, due: date, hour: text, starts: datetime}\n", first, second,
				}, "---\n"), nil)}
				day := time.Date(2026, time.May, 14, 0, 0, 0, 0, time.UTC)
				w.Clock.Set(day.Add(6 * time.Hour))
				w.person("ann", `"persona": "Manager", "timezone": "`+c.zone+`"`)
				if strings.Contains(c.flow, "record: task") {
					w.put("task/1", `{"open": true, "due": "2026-05-14", "hour": "13:15", "starts": "2026-05-14T09:30:00Z"}`)
				}
				if strings.Contains(c.flow, "date(") {
					w.post("two", "ann")
				}
				w.follow(day.Add(6*time.Hour + 5*time.Minute))
				if c.zone == "Pacific/Auckland" {
					w.follow(day.Add(12*time.Hour + 30*time.Minute))
				}
				if !strings.Contains(c.flow, "reminders") {
					w.post("one", "ann")
				}
				if strings.Contains(c.flow, "event: two") && !strings.Contains(c.flow, "date(") {
					w.post("two", "ann")
				}
				w.follow(day.Add(16 * time.Hour))
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 9})
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					if row.Workflow == "two" {
						if got := row.SendAt.UTC().Format("02 15:04"); got != c.want || row.DeferredBy == "" {
							t.Errorf("waits until %s for %q, want %s", got, row.DeferredBy, c.want)
						}
						return
					}
				}
				t.Error("there is no message")
			})
		})
	}
}
