package engine_test

import (
	"database/sql"
	"maps"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Of a copy that was accepted with skip nothing is sent that had been due by then, also where its message is made only
// afterwards and waits for quiet hours to be over. What is sent: a message that waited for a later hour already, what came
// due later, and what nobody knew of by then.
func TestWhatACopyGivesUp(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		if storetest.RacedElsewhere(database) {
			continue
		}
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w := newWorld(t, s, "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    record: visit\n"+
				"    timing: {anchor: record.on_date, at: record.clock, timezone: UTC}\n"+
				"audience: {persona: Manager}\nchannel: inbox\nmessage: {inbox: {text: x}}\n"+
				"---\nrecord_type: visit\nfields: {on_date: date, clock: text}\n"+
				"---\nchannel: inbox\nprovider: inbox\n---\npersona: Manager\ncadence: {quiet_hours: \"10:00-18:00\"}\n", "ann")
			w.put("visit/deferred", `{"on_date": "2026-05-14", "clock": "10:30"}`)
			w.put("visit/before", `{"on_date": "2026-05-14", "clock": "11:00"}`)
			w.put("visit/after", `{"on_date": "2026-05-14", "clock": "12:30"}`)
			for w.tick() {
			}
			w.At(at("10:30"))
			if c, err := s.Recognise(t.Context(), at("10:35")); err != nil || c.Restored() {
				t.Fatal(c, err)
			}
			driver := map[string]string{"sqlite": "sqlite", "postgres": "pgx"}[database]
			db, err := sql.Open(driver, url)
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.ExecContext(t.Context(), "UPDATE installation SET restored_at = 1, restored_why = 'a test'")
			if closed := db.Close(); err != nil || closed != nil {
				t.Fatal(err, closed)
			}
			if c, err := s.Recognise(t.Context(), at("12:00")); err != nil || !c.Restored() {
				t.Fatal(c, err)
			}
			if err := s.AcceptRestore(t.Context(), at("12:00"), true, store.Audit{At: at("12:00"), Actor: "ann", Action: "database.accept"}); err != nil {
				t.Fatal(err)
			}
			if c, err := s.Recognise(t.Context(), at("12:01")); err != nil || c.Restored() {
				t.Fatal(c, err)
			}
			w.Clock.Set(at("12:01"))
			w.put("visit/new", `{"on_date": "2026-05-14", "clock": "11:00"}`)
			for _, when := range []string{"12:01", "12:31", "18:00"} {
				w.At(at(when))
				for w.tick() {
				}
			}
			rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			ends := map[string]string{}
			for _, row := range rows {
				_, name, _ := strings.Cut(w.Instance(row.Instance).Key, "visit:")
				name, _, _ = strings.Cut(name, ":")
				ends[name] = strings.TrimSpace(string(row.Status) + " " + string(row.Reason))
			}
			const sent = "sent delivered"
			want := map[string]string{"before": "skipped restored", "deferred": sent, "new": sent, "after": sent}
			if len(rows) != len(want) || !maps.Equal(ends, want) {
				t.Errorf("%v", ends)
			}
		})
	}
}
