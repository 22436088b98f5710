package engine_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// acceptedAs makes a database a copy that a person accepts; with skip, what was due is given up.
func acceptedAs(t *testing.T, s *store.Store, database, url string, now time.Time, skip bool) {
	t.Helper()
	if c, err := s.Recognise(t.Context(), now.Add(-time.Hour)); err != nil || c.Restored() {
		t.Fatal(c, err)
	}
	if _, err := behind(t, database, url).ExecContext(t.Context(), "UPDATE installation SET restored_at = 1, restored_why = 'a test'"); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Recognise(t.Context(), now); err != nil || !c.Restored() {
		t.Fatal(c, err)
	}
	if err := s.AcceptRestore(t.Context(), now, skip, store.Audit{At: now, Actor: "ann", Action: "database.accept"}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Recognise(t.Context(), now.Add(time.Minute)); err != nil || c.Restored() {
		t.Fatal(c, err)
	}
}

// Messages of a copy that were due at the very instant of its acceptance or before are sent when it is accepted, unless they are given up. A message
// due a microsecond later is sent either way.
func TestWhatACopyGivesUpAndWhatNot(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		for name, skip := range map[string]bool{"sent": false, "given up": true} {
			t.Run(database+" "+name, func(t *testing.T) {
				t.Parallel()
				url := storetest.URL(t, database)
				s := storetest.Open(t, url)
				w := newWorld(t, s, "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    record: visit\n"+
					"    timing: {anchor: record.starts_at}\n"+
					"audience: {to: record.who}\nchannel: inbox\nmessage: {inbox: {text: x}}\n"+
					"---\nrecord_type: visit\nfields: {starts_at: datetime, who: text}\n---\nchannel: inbox\nprovider: inbox\n"+
					"---\npersona: Manager\n---\nworkflow: e\ntype: alert\ntriggers: [{id: t, event: e}]\ntiming: {offset: 2h}\naudience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: z}}\n", "ann")
				for name, instant := range map[string]string{"before": "2026-05-14T11:00:00Z", "at": "2026-05-14T12:00:00Z", "after": "2026-05-14T12:00:00.000001Z"} {
					w.put("visit/"+name, `{"starts_at": "`+instant+`", "who": "ann"}`)
				}
				w.Post(`{"kind": "e", "id": "event", "recipient": {"address": "ann", "customer_ref": "ann"}}`) // due at 12:00 too: its message exists
				w.At(at("10:30"))
				acceptedAs(t, s, database, url, at("12:00"), skip)
				w.Clock.Set(at("12:01"))
				for w.tick() {
				}
				rows, err := s.Deliveries(t.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{})
				if err != nil {
					t.Fatal(err)
				}
				ends := map[string]string{}
				for _, row := range rows {
					name := "event"
					if _, after, ok := strings.Cut(w.Instance(row.Instance).Key, "visit:"); ok {
						name, _, _ = strings.Cut(after, ":")
					}
					ends[name] = strings.TrimSpace(string(row.Status) + " " + string(row.Reason))
				}
				past := map[bool]string{false: "sent delivered", true: "skipped restored"}[skip]
				want := map[string]string{"before": past, "at": past, "event": past, "after": "sent delivered"}
				if len(rows) != len(want) || !maps.Equal(ends, want) {
					t.Errorf("got %v, want %v", ends, want)
				}
			})
		}
	}
}

// The same holds for zones: the zone whose hour comes at that instant is given up.
func TestACopyGivesUpTheZoneOfTheInstant(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w := zonesWorld(t, s)
			for w.tick() {
			}
			acceptedAs(t, s, database, url, on(16, 7, 0), true)
			w.Clock.Set(on(16, 7, 1))
			w.mustBe("after it", w.follow(on(18, 0, 0)), []string{"16 13:00 carol"})
		})
	}
}
