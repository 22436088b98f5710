package engine_test

import (
	"database/sql"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// acceptCopy makes a database a copy that a person accepts with skip.
func acceptCopy(t *testing.T, s *store.Store, database, url string, now time.Time) {
	t.Helper()
	if c, err := s.Recognise(t.Context(), now.Add(-time.Hour)); err != nil || c.Restored() {
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
	if c, err := s.Recognise(t.Context(), now); err != nil || !c.Restored() {
		t.Fatal(c, err)
	}
	if err := s.AcceptRestore(t.Context(), now, true, store.Audit{At: now, Actor: "ann", Action: "database.accept"}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Recognise(t.Context(), now.Add(time.Minute)); err != nil || c.Restored() {
		t.Fatal(c, err)
	}
}

// If an occasion is due in the zones of its contacts, a copy gives up the zones whose hour had come by then, although it makes their rows only
// afterwards.
//
// Shows: R15.
func TestWhatACopyGivesUpInZones(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			w := zonesWorld(t, s)
			for w.tick() {
			}
			acceptCopy(t, s, database, url, on(16, 6, 30))
			w.Clock.Set(on(16, 6, 31))
			w.mustBe("after it", w.follow(on(18, 0, 0)), []string{"16 07:00 berta", "16 13:00 carol"})
			w.mustBe("its rows", w.zoneRows(), []string{
				"2026-05-16:0 15 19:00 completed expanded", "2026-05-16:0:z:Africa/Nairobi 16 06:00 skipped restored",
				"2026-05-16:0:z:America/New_York 16 13:00 completed expanded", "2026-05-16:0:z:Europe/Berlin 16 07:00 completed expanded",
			})
		})
	}
}

// A copy gives up all occasions of a series that had been due by then, also those that follow the waiting one.
func TestWhatACopyGivesUpOfASeries(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		for _, backlog := range []string{"latest", "all"} {
			t.Run(database+" "+backlog, func(t *testing.T) {
				t.Parallel()
				url := storetest.URL(t, database)
				s := storetest.Open(t, url)
				b := newSeries(t, s, daily(nine+", from: 2026-05-14", "timing: {backlog: "+backlog+"}\n"), nil)
				b.to(may(14, "08:00"))
				if n := len(b.Provider.Sent()); n != 1 {
					t.Fatalf("%d are sent before it is copied", n)
				}
				acceptCopy(t, s, database, url, may(17, "12:00"))
				b.Clock.Set(may(17, "12:01"))
				b.to(may(18, "06:59"))
				if n := len(b.Provider.Sent()); n != 0 {
					t.Errorf("%d are sent that were due by then", n)
				}
				b.to(may(18, "07:00"))
				if n := len(b.Provider.Sent()); n != 1 {
					t.Errorf("%d are sent of the one that came due later", n)
				}
			})
		}
	}
}

// A copy gives up all messages of a course that had been due by then, also those whose rows it makes afterwards: of a record, of a person who joined
// late, and after an event. What is due later is sent, and so is a course that was not known by then.
//
// Shows: D20.
func TestWhatACopyGivesUpOfACourse(t *testing.T) {
	t.Parallel()
	after := welcomes("at: \"12:00\"\n  repeat: {every: 1d, times: 5}\n  backlog: latest", "")
	after = strings.Replace(after, "persona: Member", "persona: Manager", 1)
	for name, tt := range map[string]struct {
		definitions string
		begin       func(w world)
		want        []string // who got what after the copy was accepted
	}{
		"of a date": {
			weekly("      backlog: latest", ""),
			func(w world) { w.put("stay/1", `{"who": "ann", "is_on": true, "on_date": "2026-05-14", "number": 1}`) },
			[]string{"18 12:00 ann"},
		},
		"of people": {
			strings.Replace(joined("fresh", "      backlog: latest"), "times: 3", "times: 5", 1),
			func(w world) {
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1}`)
				w.live("13:00")
				w.put("stay/1", `{"who": ["ann", "bob"]}`)
				w.Clock.Set(at("12:01").AddDate(0, 0, 1))
			},
			[]string{"18 12:00 ann", "18 12:00 bob", "19 12:00 bob", "20 12:00 bob"},
		},
		"after an event": {
			after,
			func(w world) { w.Post(registered("ann", "")) },
			[]string{"18 12:00 ann@example.org"},
		},
	} {
		for _, backlog := range []string{"latest", "all"} {
			for _, database := range storetest.Databases(t) {
				t.Run(name+" "+backlog+" "+database, func(t *testing.T) {
					t.Parallel()
					url := storetest.URL(t, database)
					s := storetest.Open(t, url)
					w := newWorld(t, s, strings.Replace(tt.definitions, "backlog: latest", "backlog: "+backlog, 1), "ann", "bob")
					tt.begin(w)
					for w.tick() {
					}
					w.follow(w.Clock.Now().Add(4 * time.Hour))
					acceptCopy(t, s, database, url, on(17, 13, 0))
					w.Clock.Set(on(17, 13, 1))
					w.mustBe("sent", w.follow(on(25, 0, 0)), tt.want)
				})
			}
		}
	}
}

// A copy that was accepted with skip sends nothing that had been due by then, even if a message is made afterwards and waits for quiet hours. It
// sends messages that waited for a later hour already, messages that were due later, and occasions that were not known by then.
func TestWhatACopyGivesUp(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
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
			acceptCopy(t, s, database, url, at("12:00"))
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
