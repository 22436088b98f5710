package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// zonesBroadcast is a broadcast at ten in the zone of each contact.
func zonesBroadcast(keys, rest string) string {
	return "workflow: tips\ntype: broadcast\ntriggers:\n  - id: daily\n    schedule: {timezone: [contact.timezone, Europe/Berlin], at: \"10:00\", " + keys + "}\n" +
		"audience: {persona: Mother}\nchannel: inbox\nmessage:\n  inbox: {text: Tip}\n" + rest + "---\npersona: Mother\n---\nchannel: inbox\nprovider: inbox\n---\nworkspace: default\ncadence: {max_per_day: 0}\n"
}

// follow advances the clock to an instant, and returns the sent messages: "day hour:minute who".
func (w world) follow(end time.Time) (list []string) {
	w.Helper()
	for range 10_000 {
		for w.tick() {
		}
		for _, out := range w.Provider.Sent() {
			list = append(list, w.Clock.Now().UTC().Format("02 15:04 ")+out.Address)
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			w.Clock.Set(end)
			slices.Sort(list)
			if w.Provider.Repeats > 0 { // under the same key, so that nobody gets them twice; but not every provider honours keys
				w.Errorf("%d messages left twice", w.Provider.Repeats)
			}
			return list
		}
		w.Clock.Set(next)
	}
	w.Fatal("there is no end to it")
	return nil
}

func (w world) mother(name, zone string) {
	w.Helper()
	w.person(name, fmt.Sprintf(`"persona": "Mother", "timezone": %q`, zone))
}

// Ten o'clock is ten o'clock in Nairobi, Berlin and New York, before and after the clocks change there: one row for each zone of the contacts, and
// one message a contact.
//
// Shows: R15, D1, D21.
func TestTenOClockInThreeZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC)) // a Monday
		w.mother("amina", "Africa/Nairobi")
		w.mother("berta", "Europe/Berlin")
		w.mother("carol", "America/New_York")
		w.person("dora", `"persona": "Mother"`) // is meant in Berlin
		w.Apply(zonesBroadcast("every: 1w, days: [mon, thu]", ""))
		day := func(d, h int) time.Time { return time.Date(2026, 10, d, h, 0, 0, 0, time.UTC) }
		for _, test := range []struct {
			until time.Time
			want  []string
		}{
			{day(19, 23), []string{"19 07:00 amina", "19 08:00 berta", "19 08:00 dora", "19 14:00 carol"}},
			{day(22, 23), []string{"22 07:00 amina", "22 08:00 berta", "22 08:00 dora", "22 14:00 carol"}},
			{day(26, 23), []string{"26 07:00 amina", "26 09:00 berta", "26 09:00 dora", "26 14:00 carol"}}, // Berlin put its clocks back on the 25th
			{day(33, 23), []string{"02 07:00 amina", "02 09:00 berta", "02 09:00 dora", "02 15:00 carol", "29 07:00 amina", "29 09:00 berta", "29 09:00 dora", "29 14:00 carol"}},
		} {
			if diff := cmp.Diff(test.want, w.follow(test.until)); diff != "" {
				t.Errorf("until %s (-want +got):\n%s", test.until, diff)
			}
		}
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var first []string
		for _, row := range rows {
			if strings.Contains(row.Key, "2026-10-22") {
				first = append(first, strings.TrimPrefix(row.Key, "broadcast:tips:daily:")+" "+row.DueAt.Format("02 15:04 ")+string(row.Status))
			}
		}
		slices.Sort(first)
		want := []string{
			"2026-10-22 21 20:00 completed", "2026-10-22:z:Africa/Nairobi 22 07:00 completed", "2026-10-22:z:America/New_York 22 14:00 completed",
			"2026-10-22:z:Europe/Berlin 22 08:00 completed",
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("the rows of a day (-want +got):\n%s", diff)
		}
	})
}

// A zone in which the condition is false when the occasion is due there is left out, also when the occasion ends. An occasion that is taken up when it
// is over everywhere asks then.
//
// Shows: R15.
func TestAZoneWhoseConditionIsFalse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for day, want := range map[string][]string{"2026-05-14": {"13 20:00 kiri"}, "2026-05-13": {"14 08:00 berta", "14 21:00 nia"}, "2026-05-15": nil} {
			w := newWorld(t, s, "persona: Mother\n")
			w.Clock.Set(time.Date(2026, 5, 13, 0, 0, 0, 0, time.UTC))
			w.mother("kiri", "Pacific/Kiritimati")
			w.mother("berta", "Europe/Berlin")
			w.mother("nia", "Pacific/Niue")
			text := strings.ReplaceAll(zonesBroadcast("every: 1w, days: [thu]", ""), "tips", "tips-"+day)
			w.Apply(strings.Replace(text, "\naudience:", "\n    when: today() != date(\""+day+"\")\naudience:", 1))
			end := time.Date(2026, 5, 15, 12, 0, 0, 0, time.UTC)
			if want == nil { // nothing ran meanwhile
				w.Clock.Set(end)
			}
			if diff := cmp.Diff(want, w.follow(end)); diff != "" {
				t.Errorf("not on %s (-want +got):\n%s", day, diff)
			}
			w.Apply(strings.Replace(text, "workflow: tips-"+day+"\n", "workflow: tips-"+day+"\nenabled: false\n", 1))
			w.follow(end)
		}
	})
}

// A contact who moves gets the occasion once: in the zone in which they are at its hour, and at its end if they were in none. A contact who joins
// after it has begun gets the next one.
//
// Shows: R15, R16.
func TestAContactWhoMovesGetsItOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 5, 13, 0, 0, 0, 0, time.UTC))
		for _, name := range []string{"early", "late", "lost", "still"} {
			w.mother(name, "Europe/Berlin")
		}
		w.mother("far", "America/New_York")
		w.Apply(zonesBroadcast("every: 1w, days: [thu]", ""))
		w.follow(at("06:00"))
		w.mother("early", "America/New_York") // before its hour
		w.mother("lost", "Asia/Tokyo")        // its hour has passed there
		w.mother("new", "Europe/Berlin")
		want := []string{"14 08:00 late", "14 08:00 new", "14 08:00 still"}
		if diff := cmp.Diff(want, w.follow(at("09:00"))); diff != "" {
			t.Errorf("in Berlin (-want +got):\n%s", diff)
		}
		w.mother("late", "America/New_York") // after its hour
		w.mother("tardy", "Asia/Tokyo")
		want = []string{"14 14:00 early", "14 14:00 far", "14 22:00 lost"}
		if diff := cmp.Diff(want, w.follow(at("23:59").AddDate(0, 0, 3))); diff != "" {
			t.Errorf("elsewhere (-want +got):\n%s", diff)
		}
	})
}

// After an outage each zone decides by its own hour: an occasion that is too late in one zone may be in time in another.
//
// Shows: R3, R15, D20.
func TestZonesAfterAnOutage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 5, 10, 0, 0, 0, 0, time.UTC))
		w.mother("tokyo", "Asia/Tokyo") // ten is at one
		w.mother("york", "America/New_York")
		w.Apply(zonesBroadcast("every: 1d", "timing: {catch_up: 8h}\n"))
		w.follow(time.Date(2026, 5, 11, 23, 0, 0, 0, time.UTC))
		w.Clock.Set(time.Date(2026, 5, 14, 12, 0, 0, 0, time.UTC)) // Tokyo's is eleven hours ago, New York's two hours ahead
		want := []string{"14 14:00 york", "15 01:00 tokyo"}
		if diff := cmp.Diff(want, w.follow(time.Date(2026, 5, 15, 2, 0, 0, 0, time.UTC))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.Apply(zonesBroadcast("every: 1d", "enabled: false\n"))
		if got := w.follow(time.Date(2026, 5, 17, 2, 0, 0, 0, time.UTC)); len(got) > 0 {
			t.Errorf("switched off: %q", got)
		}
		w.Apply(zonesBroadcast("every: 1d", ""))
		want = []string{"17 14:00 york", "18 01:00 tokyo"}
		if diff := cmp.Diff(want, w.follow(time.Date(2026, 5, 18, 2, 0, 0, 0, time.UTC))); diff != "" {
			t.Errorf("switched on (-want +got):\n%s", diff)
		}
	})
}

// An edit between two zones that removes the zones notifies only the remaining contacts. Cancelling the occasion cancels the rest of it, and
// cancelling the row of a zone leaves out its contacts.
//
// Shows: R15, R17.
func TestZonesThatEndEarly(t *testing.T) {
	t.Parallel()
	cancel := func(key string) func(world) {
		return func(w world) {
			row, err := w.Store.InstanceByKey(w.Context(), w.Workspace.ID, "broadcast:tips:daily:2026-05-14"+key)
			if err == nil {
				_, err = w.operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", w.Clock.Now())
			}
			if err != nil {
				w.Fatal(err)
			}
		}
	}
	for _, story := range []struct {
		name string
		does func(world)
		want []string
	}{
		{"edited", func(w world) {
			w.Apply(strings.Replace(zonesBroadcast("every: 1w, days: [thu]", ""), "[contact.timezone, Europe/Berlin]", "UTC", 1))
		}, []string{"14 22:00 york"}},
		{"cancelled", cancel(""), nil},
		{"cancelled in a zone", cancel(":z:America/New_York"), nil},
	} {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, "persona: Mother\n")
				w.Clock.Set(time.Date(2026, 5, 13, 0, 0, 0, 0, time.UTC))
				w.mother("tokyo", "Asia/Tokyo")
				w.mother("york", "America/New_York")
				w.Apply(zonesBroadcast("every: 1w, days: [thu]", ""))
				w.mustBe("before", w.follow(at("12:00")), []string{"14 01:00 tokyo"})
				story.does(w)
				w.mustBe("after", w.follow(at("12:00").AddDate(0, 0, 2)), story.want)
			})
		})
	}
}

// A person who cancels an occasion stops it in the zones that have begun as well: what waits there is cancelled, what was sent stays sent, and the zones whose hour
// is to come send nothing. The next occasion is not concerned. A retry of the same request finds nothing more to do.
//
// Shows: D2, P5.
func TestAnOccasionIsStoppedInAllItsZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC))
		for _, who := range []string{"amina", "aisha", "asha"} {
			w.mother(who, "Africa/Nairobi")
		}
		w.mother("berta", "Europe/Berlin")
		w.mother("bella", "Europe/Berlin")
		w.mother("carol", "America/New_York")
		w.Apply(strings.Replace(zonesBroadcast("every: 1w, days: [mon, thu]", ""), "provider: inbox\n", "provider: inbox\nrate: 1/h\n", 1))
		at := func(d, h, m int) time.Time { return time.Date(2026, 10, d, h, m, 0, 0, time.UTC) }
		if got := w.follow(at(19, 8, 30)); len(got) != 2 { // of Nairobi, due at seven
			t.Fatalf("sent before the cancel: %v", got)
		}
		rows, err := s.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{Once: true}, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(rows, func(r instance.Row) bool { return strings.HasSuffix(r.Key, ":2026-10-19") })
		if i < 0 {
			t.Fatalf("no occasion of that day: %+v", rows)
		}
		tally := func() delivery.Tally {
			t.Helper()
			row, err := s.InstanceByID(t.Context(), w.Workspace.ID, rows[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.Tally(t.Context(), row, 100)
			if err != nil {
				t.Fatal(err)
			}
			n.Reasons = nil
			return n
		}
		if diff := cmp.Diff(delivery.Tally{Deliveries: 5, Sent: 2, Waiting: 3, TakingUp: true}, tally()); diff != "" {
			t.Errorf("under way (-want +got):\n%s", diff)
		}
		r, err := w.operator().CancelInstance(t.Context(), w.Workspace.ID, rows[i].ID, "ann", w.Clock.Now())
		if err != nil || !r.Changed || len(r.Deliveries) != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(delivery.Tally{Deliveries: 5, Sent: 2, LeftOut: 3}, tally()); diff != "" {
			t.Errorf("stopped (-want +got):\n%s", diff)
		}
		if row := w.Instance(rows[i].ID); row.Status != instance.Cancelled || !row.NextRetryAt.IsZero() {
			t.Errorf("nothing of it comes: %+v", row)
		}
		if r, err := w.operator().CancelInstance(t.Context(), w.Workspace.ID, rows[i].ID, "ann", w.Clock.Now()); err != nil || r.Changed {
			t.Errorf("again: %+v, %v", r, err)
		}
		if got := w.follow(at(22, 6, 0)); len(got) != 0 {
			t.Errorf("sent after the cancel: %v", got)
		}
		if got := w.follow(at(23, 12, 0)); len(got) != 6 {
			t.Errorf("sent of the next one: %v", got)
		}
	})
}

// Two zones of an occasion of tips: of Nairobi, at seven, two of three messages have left; Berlin is due at eight. The instance is the occasion's own.
func halfSent(t *testing.T, s *store.Store) (world, instance.Row, func(h, m int) time.Time) {
	t.Helper()
	w := newWorld(t, s, "persona: Mother\n")
	w.Clock.Set(time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC))
	for _, who := range []string{"amina", "aisha", "asha"} {
		w.mother(who, "Africa/Nairobi")
	}
	w.mother("berta", "Europe/Berlin")
	w.mother("bella", "Europe/Berlin")
	w.mother("carol", "America/New_York")
	w.Apply(strings.Replace(zonesBroadcast("every: 1w, days: [mon, thu]", ""), "provider: inbox\n", "provider: inbox\nrate: 1/h\n", 1))
	at := func(h, m int) time.Time { return time.Date(2026, 10, 19, h, m, 0, 0, time.UTC) }
	if got := w.follow(at(7, 30)); len(got) != 1 {
		t.Fatalf("sent so far: %v", got)
	}
	row, err := s.InstanceByKey(t.Context(), w.Workspace.ID, "broadcast:tips:daily:2026-10-19")
	if err != nil {
		t.Fatal(err)
	}
	return w, row, at
}

// Whose key is freed sends nothing more, in the zones that have begun and in those that are to come. The next occasion is not concerned.
//
// Shows: C10, P5.
func TestAnOccasionIsForgottenInAllItsZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w, row, at := halfSent(t, s)
		r, err := w.operator().Forget(t.Context(), w.Workspace.ID, row.Key, "ann", w.Clock.Now())
		if err != nil || !r.Changed || len(r.Deliveries) != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if row := w.Instance(row.ID); row.Status != instance.Cancelled || row.Reason != reason.Forgotten {
			t.Errorf("%+v", row)
		}
		if got := w.follow(at(7, 0).AddDate(0, 0, 2)); len(got) != 0 {
			t.Errorf("sent after that: %v", got)
		}
		if got := w.follow(at(12, 0).AddDate(0, 0, 4)); len(got) != 6 {
			t.Errorf("sent of the next one: %v", got)
		}
	})
}

// zonesLost is a store whose process is lost when it asks for the zones of an occasion once more, after the first time did something.
type zonesLost struct {
	*store.Store
	first func()
}

func (z *zonesLost) ZonesOf(ctx context.Context, occasions []instance.ID) (map[instance.ID][]instance.Row, error) {
	if z.first == nil {
		return nil, errDied
	}
	found, err := z.Store.ZonesOf(ctx, occasions)
	z.first()
	z.first = nil
	return found, err
}

// A zone begins while an occasion is cancelled, and the process dies before it looks for such zones. The same request made again cancels what waits
// there, though its answer is the first one.
//
// Shows: P5.
func TestACancelIsLostBetweenTwoZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w, row, at := halfSent(t, s)
		once := &store.Idempotent[operator.Result]{
			AnswerKey: store.AnswerKey{Key: strings.Repeat("a", 64), Request: strings.Repeat("b", 64)}, At: w.Clock.Now(),
			Answer: func(r operator.Result) (store.Answer, error) {
				return store.Answer{Status: 200, Body: fmt.Sprint(len(r.Deliveries))}, nil
			},
		}
		lost := operator.New(&zonesLost{s, func() { w.follow(at(8, 5)) }}, catalog.New(s, enginetest.Options(nil)), nil).Idempotent(once)
		if _, err := lost.CancelInstance(t.Context(), w.Workspace.ID, row.ID, "ann", w.Clock.Now()); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		berlin, err := s.InstanceByKey(t.Context(), w.Workspace.ID, row.Key+":z:Europe/Berlin")
		if err != nil || berlin.Status != instance.Completed || berlin.Recipients != 2 {
			t.Fatalf("Berlin has begun: %+v, %v", berlin, err)
		}
		var again *store.Replay
		if _, err := w.operator().Idempotent(once).CancelInstance(t.Context(), w.Workspace.ID, row.ID, "ann", w.Clock.Now()); !errors.As(err, &again) {
			t.Errorf("again: %v", err)
		}
		if got := w.follow(at(7, 0).AddDate(0, 0, 2)); len(got) != 0 {
			t.Errorf("sent after the second request: %v", got)
		}
	})
}

// Processes that die between two pages expand a large audience: everybody gets one message, at their hour.
//
// Shows: R15, P2.
func TestManyPeopleInTwoZones(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const people = 1100
		w := newWorld(t, s, zonesBroadcast("every: 1d", ""))
		items := make([]contact.Item, people)
		for i := range items {
			zone := []string{"Europe/Berlin", "America/New_York"}[i%2]
			items[i] = contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": "%d"}, "persona": "Mother", "timezone": %q}`, i, zone)), fmt.Sprint(i))
		}
		for from := 0; from < people; from += 500 {
			if _, err := w.Contacts().Write(t.Context(), w.Workspace, upsert.Replace, items[from:min(from+500, people)], w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		}
		deaths, want := 0, map[string]int{"15 08:00": people / 2, "15 14:00": people / 2}
		for hour := range 40 { // what is due at an hour is expanded by processes that die
			w.Clock.Set(at("10:00").Add(time.Duration(hour) * time.Hour))
			x := fanout.New(s, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {}, afterChunk)
			for range 20 {
				if _, err := x.Step(t.Context(), w.Clock.Now(), 10); errors.Is(err, errDied) {
					deaths++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for w.tick() {
			}
			if n := len(w.Provider.Sent()); n != want[w.Clock.Now().Format("02 15:04")] {
				t.Errorf("%d messages at %s", n, w.Clock.Now())
			}
		}
		if w.Provider.Repeats > 0 {
			t.Errorf("%d messages left twice", w.Provider.Repeats)
		}
		if deaths < 6 {
			t.Errorf("%d pages", deaths)
		}
	})
}

// A repeated occasion is for everybody at once, because its hours are over. It cannot be repeated before they have come.
//
// Shows: B22, R15.
func TestZonesAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC))
		w.mother("amina", "Africa/Nairobi")
		w.mother("carol", "America/New_York")
		w.person("dora", `"persona": "Mother"`)
		w.Apply(zonesBroadcast("every: 1w, days: [mon]", ""))
		if n := len(w.follow(time.Date(2026, 10, 21, 12, 0, 0, 0, time.UTC))); n != 3 {
			t.Fatalf("%d are notified", n)
		}
		again(w.Bundle, w.key("daily:2026-10-19"))
		if diff := cmp.Diff([]string{"21 12:00 amina", "21 12:00 carol", "21 12:00 dora"}, w.follow(time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC))); diff != "" {
			t.Error(diff)
		}

		w.follow(time.Date(2026, 10, 25, 19, 0, 0, 0, time.UTC)) // the next one begins an hour later
		next := w.key("daily:2026-10-26")
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, next.ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		refused := &operator.StateError{}
		if _, err := w.Operator().RetryInstance(t.Context(), w.Workspace.ID, next.ID, "ann", w.Now()); !errors.As(err, &refused) {
			t.Errorf("what is due by zones yet to come is done again: %v", err)
		}
		if sent := w.follow(time.Date(2026, 10, 28, 12, 0, 0, 0, time.UTC)); len(sent) > 0 {
			t.Errorf("sent %v", sent)
		}
	})
}

// afterChunk is a failpoint at which a process dies each time a chunk is committed.
func afterChunk(point string) error {
	if point == fanout.AfterChunk {
		return errDied
	}
	return nil
}
