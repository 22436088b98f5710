package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
)

// ofPeople reports whether the row expects something else of each recipient, because they are in zones of their own.
func (row scheduleRow) ofPeople() bool {
	if len(row.Zones) == 0 {
		return false
	}
	for _, step := range row.Steps {
		if len(step.For) > 0 {
			return true
		}
	}
	return false
}

// liveApart lives through a row whose recipients are in zones of their own. Theirs makes an instance of the schedule for each recipient; ours has a
// record for each, with a course in the zone of its person.
func (row scheduleRow) liveApart(t testing.TB, s *store.Store) {
	l := &courseLife{t: t, row: row, dated: true}
	l.s.merge(t, row.Schedule)
	l.Bundle = enginetest.Setup(t, s, "", nil)
	l.Clock.Set(row.Steps[0].Now)
	l.Apply(strings.NewReplacer("timezone: record.zone", "timezone: contact.timezone", "to: record.who", "to: record").Replace(l.yaml()))
	for i, step := range row.Steps {
		if step.Op != "refresh" || step.Now.After(l.Clock.Now()) {
			t.Fatalf("step %d: %s at %s has no meaning for several people", i, step.Op, step.Now)
		}
		for _, who := range step.Recipients {
			person := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}, "timezone": %q}`, who, row.Zones[who])), who)
			if results, err := l.Engine.Contacts().Write(t.Context(), l.Workspace, upsert.Replace, []contact.Item{person}, l.Clock.Now(), nil); err != nil || results[0].Error != nil {
				t.Fatal(who, err, results)
			}
			item := record.Parse(json.RawMessage(fmt.Sprintf(`{"props": {"on": true, "start": %q}}`, step.StartDate)), "case", who)
			if results, err := l.Engine.Records().Write(t.Context(), l.Workspace, upsert.Merge, []record.Item{item}, "test", l.Clock.Now(), nil); err != nil || results[0].Error != nil {
				t.Fatal(who, err, results)
			}
		}
		l.evaluate()
		rows, err := s.Instances(t.Context(), l.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
		if err != nil || len(rows) != len(step.Recipients) {
			t.Fatalf("step %d: %d messages wait for %q, %v", i, len(rows), step.Recipients, err)
		}
		for _, waits := range rows {
			who := strings.Split(waits.Key, ":")[3]
			where := fmt.Sprintf("step %d: %s", i, who)
			due := step.Due
			if own, ok := step.For[who]; ok {
				due = own.Due
			}
			equal(t, where+": due", due, waits.DueAt)
			equal(t, where+": iteration", step.Iteration, waits.Round)
			equal(t, where+": event", step.Event, waits.Message)
		}
	}
}
