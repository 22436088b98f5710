package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// ends returns status and reason of the deliveries, the oldest first.
func ends(t *testing.T, b *enginetest.Bundle) (list []string) {
	t.Helper()
	rows, err := b.Store.Deliveries(b.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range slices.Backward(rows) {
		list = append(list, strings.TrimSpace(string(row.Status)+" "+string(row.Reason)))
	}
	return list
}

// An offset beyond the calendar is refused and reported once; the others of its date are planned.
//
// Shows: B34.
func TestAnOffsetOutsideTheCalendar(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, offset: [-7d, 5d], at: "12:00"}`), "ann")
		w.put("visit/v", `{"on_date": "9999-12-30", "who": "ann"}`)
		w.live("10:05")
		w.mustPlan("one is within", map[string]string{"visit:v:t:9999-12-30:7": "pending"})
		w.put("visit/v", `{"note": "x"}`)
		w.live("10:10")
		w.mustBe("reports", w.decided("visit/v"), []string{"10:00 outside_calendar"})
		w.mustBe("what the log says", w.happened(journal.Failed), []string{"10:00 failed outside_calendar"})
		w.put("visit/v", `{"on_date": "2026-06-30"}`)
		w.live("10:15")
		w.mustPlan("after a write", map[string]string{
			"visit:v:t:9999-12-30:7": "deactivated date_changed", "visit:v:t:2026-06-30:7": "pending", "visit:v:t:2026-06-30:-5": "pending",
		})
	})
}

// A daily message that waits over midnight is superseded by the one of the new day.
//
// Shows: B36, R6.
func TestTheNextDaySupersedes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits("    metric: {name: m, value: record.booked, thresholds: [80]}\n    fire: once_per_day\n    limits: {send_window: \"06:00-08:00\"}"), "ann")
		w.put("visit/v", `{"booked": 85, "who": "ann"}`)
		w.live("23:00")
		w.mustBe("at night", ends(t, w.Bundle), []string{"scheduled"})
		w.days(1)
		w.mustBe("in the morning, and for the next day", ends(t, w.Bundle), []string{"superseded superseded", "sent delivered"})
		w.put("visit/v", `{"booked": 90}`)
		w.Clock.Set(at("23:30").AddDate(0, 0, 1))
		w.put("visit/v", `{"booked": 5}`) // the condition is over
		w.days(1)
		w.mustBe("when it is over", ends(t, w.Bundle), []string{"superseded superseded", "sent delivered"})
	})
}

// A series that has ended by its stop_when ends its waiting messages, but not those that a person requested by hand.
//
// Shows: D21.
func TestStopWhenOfASeriesIsAskedAtTheSend(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := func(over string) string {
			return daily(nine+", from: 2026-05-14", "limits: {send_window: \"12:00-13:00\"}\nvars: {over: "+over+"}\ntiming: {stop_when: vars.over == true}\n")
		}
		b := newSeries(t, s, text("false"), nil)
		b.to(may(14, "08:00"))
		if got := ends(t, b.Bundle); len(got) != 1 || !strings.HasPrefix(got[0], "scheduled") {
			t.Fatalf("%q", got)
		}
		b.Apply(text("true"))
		b.to(may(16, "12:00"))
		if got := ends(t, b.Bundle); !slices.Equal(got, []string{"skipped condition_cleared"}) {
			t.Errorf("%q", got)
		}
		if n := len(b.Provider.Sent()); n != 0 {
			t.Errorf("%d messages were sent", n)
		}
	})
}

// A period is in the zone of its schedule, wherever its reader is.
//
// Shows: B46.
func TestAPeriodIsThatOfItsSchedule(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := strings.NewReplacer("type: broadcast", "type: report", `"Good morning"`,
			`'{{ period.start | date: "%F %R" }}, {{ period.end }}, {{ period.start | local_time }}{% if period.start < now %}, past{% endif %}'`).
			Replace(daily(nine+", period: 1d", "---\nworkspace: default\ntimezone: America/New_York\n"))
		b := newSeries(t, s, text, nil)
		b.to(may(14, "12:00"))
		sent := b.Provider.Sent()
		if len(sent) != 1 || sent[0].Text != "2026-05-13 00:00, 2026-05-14 00:00, 13 May 2026 00:00, past" {
			t.Errorf("%+v", sent)
		}
	})
}

// A waiting message of a disabled workflow is not claimed again and again. It leaves when the workflow is enabled, unless it is too late by then.
func TestWaitingMessagesOfAWorkflow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		text := func(on string) string {
			return daily(nine+", from: 2026-05-14", "enabled: "+on+"\nlimits: {send_window: \"12:00-13:00\"}\n")
		}
		b := newSeries(t, s, text("true"), nil)
		b.to(may(14, "08:00"))
		b.Apply(text("false"))
		b.Clock.Set(may(14, "12:00"))
		taken := 0
		for range 50 { // minutes
			r, err := b.Tick(b.Context())
			if err != nil {
				t.Fatal(err)
			}
			taken += r.Processed
			b.Clock.Set(b.Clock.Now().Add(time.Minute))
		}
		if taken != 1 {
			t.Errorf("it was taken up %d times", taken)
		}
		rows, err := s.Deliveries(b.Context(), b.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Reason != reason.WorkflowInactive || rows[0].Status != delivery.Scheduled {
			t.Fatalf("%+v, %v", rows, err)
		}
		b.Apply(text("true"))
		b.to(may(14, "12:58"))
		if n := len(b.Provider.Sent()); n != 1 {
			t.Errorf("%d messages were sent", n)
		}
		b.to(may(15, "08:00"))
		b.Apply(text("false"))
		b.to(may(18, "08:00"))
		b.Apply(text("true"))
		b.to(may(18, "08:30"))
		if got := ends(t, b.Bundle); got[1] != "skipped stale" {
			t.Errorf("%q", got)
		}
	})
}

// A related record has an open write when a record that reads it is evaluated for the first time; the write does not know that record yet. The record
// is evaluated again after the commit.
//
// Shows: B31, R14.
func TestAChildBesideItsParentsOpenWrite(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t, "postgres")
	w := newWorld(t, storetest.Open(t, url), papers{offsets: []int{-1}, at: "09:00", zone: "UTC", enabled: true, there: true}.text())
	w.put("home/x", `{"open": true, "zone": "Europe/Berlin"}`)
	w.live("10:01")
	tx, err := behind(t, "postgres", url).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or the test has failed
	if _, err := tx.ExecContext(t.Context(), `UPDATE record SET props = '{"open":true,"zone":"Asia/Tokyo"}', rev = rev + 1 WHERE ext_id = 'x'`); err != nil {
		t.Fatal(err)
	}
	w.put("paper/a", `{"date": "2026-06-01", "wanted": true, "who": "ann", "home": "x"}`)
	w.live("10:02")
	w.mustBe("beside the write", w.waits(), []string{"31 07:00"})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	w.live("10:03")
	w.mustBe("after it", w.waits(), []string{"31 00:00"})
	w.put("home/x", `{"zone": "UTC"}`)
	w.live("10:04")
	w.mustBe("after another one", w.waits(), []string{"31 09:00"})
}
