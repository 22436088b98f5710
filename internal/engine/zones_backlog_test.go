package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// homelands are the zones of the people of a schedule by zones: the first ones of the earth, the last ones, and some whose clocks change.
var homelands = []string{
	"Pacific/Kiritimati", "Pacific/Auckland", "Australia/Lord_Howe", "Asia/Tokyo", "Africa/Nairobi", "Europe/Berlin", "America/New_York", "Pacific/Honolulu", "Pacific/Niue", "Etc/GMT+12",
}

// outages is a life of a schedule by the zones of contacts. The same schedule in each single zone is its model.
type outages struct {
	world
	zones []string
	rule  string // of a schedule without its zone
	text  string
}

func (o *outages) apply() {
	var b strings.Builder
	workflow := func(name, zone, audience string) {
		fmt.Fprintf(&b, "workflow: %s\ntype: broadcast\ntriggers:\n"+o.rule+"audience: %s\nchannel: inbox\nmessage: {inbox: {text: %s}}\n---\n", name, zone, audience, o.text)
	}
	workflow("by-zones", "[contact.timezone, Europe/Berlin]", "{persona: Mother}")
	for i, zone := range o.zones {
		workflow(fmt.Sprintf("single-%d", i), zone, fmt.Sprintf("{persona: Nurse, where: contact.timezone == %q}", zone))
	}
	o.Apply(b.String() + "persona: Mother\n---\npersona: Nurse\n---\nchannel: inbox\nprovider: memory\n---\nworkspace: default\ncadence: {max_per_day: 0}\n")
}

func (o *outages) begin(outer testing.TB, t *rapid.T, s *store.Store) {
	o.world, o.text = world{enginetest.Setup(outer, s, "", nil)}, "one"
	start := time.Date(2026, time.Month(oneOfInts(t, 3, 5, 9, 10)), 20, 0, 0, 0, 0, time.UTC)
	o.Clock.Set(start.Add(time.Duration(rapid.IntRange(0, 12*24*60).Draw(t, "start")) * time.Minute))
	o.zones = rapid.SliceOfNDistinct(rapid.SampledFrom(homelands), 2, 3, rapid.ID).Draw(t, "zones")
	every := oneOf(t, "every: 1d", "every: 1d", "every: 2d", "every: 1w, days: [mon]", "every: 1w, days: [mon, thu]")
	o.rule = fmt.Sprintf("  - id: t\n    schedule: {%s, at: \"%02d:%02d\", timezone: %%s}\n    timing: {catch_up: %s, backlog: %s}\n", every,
		rapid.IntRange(0, 23).Draw(t, "hour"), oneOfInts(t, 0, 0, 30), oneOf(t, "never", "20h", "30h", "48h", "4d", "forever"), oneOf(t, "latest", "first", "all"))
	t.Logf("%s %v\n%s", o.Clock.Now(), o.zones, o.rule)
	o.apply()
	for i, zone := range o.zones {
		o.person(fmt.Sprintf("z%d", i), fmt.Sprintf(`"persona": "Mother", "timezone": %q`, zone))
		o.person(fmt.Sprintf("n%d", i), fmt.Sprintf(`"persona": "Nurse", "timezone": %q`, zone))
	}
}

func oneOfInts(t *rapid.T, list ...int) int { return rapid.SampledFrom(list).Draw(t, "drawn") }

func (o *outages) act(t *rapid.T) string {
	ahead := func() time.Time {
		return o.Clock.Now().Add(time.Duration(rapid.IntRange(1, 2*24*60).Draw(t, "minutes")) * time.Minute)
	}
	what := oneOf(t, "down", "down", "down", "wait", "text", "pause")
	t.Logf("%s %s", o.Clock.Now(), what)
	switch what {
	case "down":
		o.Clock.Set(o.Clock.Now().Add(time.Duration(oneOfInts(t, 20, 36, 48, 120)*60+rapid.IntRange(-90, 90).Draw(t, "more")) * time.Minute))
		if oneOf(t, "", "", "edited") != "" {
			o.text += "x"
			o.apply()
		}
		o.follow(o.Clock.Now())
	case "wait":
		o.follow(ahead())
	case "text":
		o.text += "x"
		o.apply()
	case "pause":
		for _, each := range []func(*enginetest.Bundle, string){func(b *enginetest.Bundle, w string) { pause(b, w) }, func(b *enginetest.Bundle, w string) { resume(b, w) }} {
			each(o.Bundle, "by-zones")
			for i := range o.zones {
				each(o.Bundle, fmt.Sprintf("single-%d", i))
			}
			o.follow(ahead())
		}
	}
	return what
}

// sent returns the messages of the schedule by zones, and those of the single ones: "instant person occasion".
func (o *outages) sent(t *rapid.T) (byZones, single []string) {
	rows, err := o.Store.Deliveries(o.Context(), o.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rows {
		_, occasion, _ := strings.Cut(occasionOf(d.Key), ":t:")
		switch line := fmt.Sprintf("%s %s %s", d.LastSentAt.UTC().Format(time.RFC3339), d.Address[1:], occasion); {
		case d.LastSentAt.IsZero():
		case d.Workflow == "by-zones":
			byZones = append(byZones, line)
		default:
			single = append(single, line)
		}
	}
	slices.Sort(byZones)
	slices.Sort(single)
	return byZones, single
}

// After outages and pauses, an occasion that is due by the zone of each contact notifies the people of each zone exactly as a schedule in that zone
// does: when, and of which occasions.
//
// Shows: R2, R3, R15, D20.
func TestEachZoneCatchesUpAsASingleOneDoes(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine")
	lives := map[string]int{"memory": 40}
	for _, database := range append([]string{"memory"}, storetest.Databases(t)...) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			outer, messages, acts, enough := t, 0, map[string]int{}, storetest.Lives(max(lives[database], 4))
			rapid.Check(t, func(t *rapid.T) {
				if enough() && messages > 0 { // a life more where chance sent nothing
					return
				}
				s := storetest.Memory(outer)
				if database != "memory" {
					s = storetest.Open(outer, storetest.URL(outer, database))
				}
				o := &outages{}
				o.begin(outer, t, s)
				for range rapid.IntRange(1, 4).Draw(t, "acts") {
					acts[o.act(t)]++
				}
				o.follow(o.Clock.Now().AddDate(0, 0, 8))
				byZones, single := o.sent(t)
				if diff := cmp.Diff(single, byZones); diff != "" {
					t.Fatalf("by zones (-single zones +by zones):\n%s", diff)
				}
				messages += len(single)
			})
			t.Logf("%d messages, %v", messages, acts)
			if messages == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// A schedule that is applied when its hour is past in some zones sends nothing there on that day, whatever happens meanwhile: an edit of a text before
// the occasion is taken up and after it, a restart, and an outage until it is over everywhere.
//
// Shows: R15, R17, D20.
func TestAScheduleAppliedAtNoon(t *testing.T) {
	t.Parallel()
	daily := zonesBroadcast("every: 1d", "timing: {catch_up: 4d, backlog: all}\n")
	for name, story := range map[string]struct {
		does func(w world, s *store.Store)
		want []string // until the 17th, 15:00
	}{
		"nothing":  {func(world, *store.Store) {}, []string{"14 14:00 york", "15 01:00 tokyo", "15 14:00 york", "16 01:00 tokyo", "16 14:00 york", "17 01:00 tokyo", "17 14:00 york"}},
		"a text":   {func(w world, _ *store.Store) { w.otherText() }, nil},
		"later":    {func(w world, _ *store.Store) { w.tick(); w.otherText() }, nil},
		"restarts": {func(w world, s *store.Store) { enginetest.Setup(w.TB, s, "", nil) }, nil},
		"down": {func(w world, _ *store.Store) { w.Clock.Set(at("12:00").AddDate(0, 0, 3)) }, []string{
			"17 12:00 tokyo", "17 12:00 tokyo", "17 12:00 tokyo", "17 12:00 york", "17 12:00 york", "17 12:00 york", "17 14:00 york",
		}},
		"down, and a text": {func(w world, _ *store.Store) { w.tick(); w.Clock.Set(at("12:00").AddDate(0, 0, 3)); w.otherText() }, []string{
			"17 12:00 tokyo", "17 12:00 tokyo", "17 12:00 tokyo", "17 12:00 york", "17 12:00 york", "17 12:00 york", "17 14:00 york",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, "persona: Mother\n")
				w.Clock.Set(at("12:00"))
				w.mother("tokyo", "Asia/Tokyo") // ten was at one
				w.mother("york", "America/New_York")
				w.Apply(daily)
				story.does(w, s)
				want := story.want
				if want == nil {
					want = []string{"14 14:00 york", "15 01:00 tokyo", "15 14:00 york", "16 01:00 tokyo", "16 14:00 york", "17 01:00 tokyo", "17 14:00 york"}
				}
				w.mustBe("until the 17th", w.follow(time.Date(2026, 5, 17, 15, 0, 0, 0, time.UTC)), want)
			})
		})
	}
}

// otherText edits the text of the broadcast that TestAScheduleAppliedAtNoon applies.
func (w world) otherText() {
	w.Helper()
	w.Apply(strings.Replace(zonesBroadcast("every: 1d", "timing: {catch_up: 4d, backlog: all}\n"), "text: Tip", "text: Advice", 1))
}

// An edit that moves the hour brings the schedule into force again: a zone in which the new hour is past gets nothing on that day, as of a schedule in that
// zone alone.
//
// Shows: R15, R17.
func TestAnHourThatIsMovedIntoThePast(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(at("12:00").AddDate(0, 0, -2))
		w.mother("kiri", "Pacific/Kiritimati") // ten is at 20 the day before, and nine at 19
		w.mother("tokyo", "Asia/Tokyo")
		w.Apply(zonesBroadcast("every: 1w, days: [thu]", ""))
		w.follow(time.Date(2026, 5, 13, 19, 30, 0, 0, time.UTC))
		w.Apply(strings.Replace(zonesBroadcast("every: 1w, days: [thu]", ""), "10:00", "09:00", 1))
		w.mustBe("after the edit", w.follow(time.Date(2026, 5, 21, 12, 0, 0, 0, time.UTC)), []string{"14 00:00 tokyo", "20 19:00 kiri", "21 00:00 tokyo"})
	})
}

// What becomes of the rows after an outage over a whole occasion: those of zones decide by themselves, and say why they are left out.
//
// Shows: R3, R15, D20.
func TestRowsOfZonesAfterAnOutage(t *testing.T) {
	t.Parallel()
	for backlog, want := range map[string][]string{
		"latest": {
			"2026-05-14 completed expanded", "2026-05-14:z:America/New_York skipped collapsed", "2026-05-14:z:Asia/Tokyo skipped collapsed",
			"2026-05-15 pending", "2026-05-15:z:America/New_York completed expanded", "2026-05-15:z:Asia/Tokyo completed expanded", "2026-05-16 pending",
		},
		"first": {
			"2026-05-14 completed expanded", "2026-05-14:z:America/New_York completed expanded", "2026-05-14:z:Asia/Tokyo skipped stale",
			"2026-05-15 pending", "2026-05-15:z:America/New_York skipped collapsed", "2026-05-15:z:Asia/Tokyo skipped collapsed", "2026-05-16 pending",
		},
	} {
		t.Run(backlog, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, "persona: Mother\n")
				w.Clock.Set(at("12:00").AddDate(0, 0, -1))
				w.mother("tokyo", "Asia/Tokyo") // at one
				w.mother("york", "America/New_York")
				w.Apply(zonesBroadcast("every: 1d, from: 2026-05-14", "timing: {catch_up: 30h, backlog: "+backlog+"}\n"))
				w.Clock.Set(at("18:00").AddDate(0, 0, 1)) // 41 and 28 hours after the 14th, 17 and 4 after the 15th
				w.follow(w.Clock.Now())
				w.mustBe("rows", rowsOf(w.Bundle, "daily:"), want)
			})
		})
	}
}

// A date of a record that is taken up when its hour has come everywhere goes to those for whom it is not too late.
//
// Shows: R3, R15.
func TestADateInZonesAfterAnOutage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, zonesReminder(byContact+", catch_up: 30h", ""))
		w.Clock.Set(time.Date(2026, 5, 14, 0, 0, 0, 0, time.UTC))
		w.mother("tokyo", "Asia/Tokyo") // nine is at zero
		w.mother("york", "America/New_York")
		w.put("paper/1", `{"date": "2026-05-16", "wanted": true}`)
		w.follow(on(15, 12, 0))
		w.Clock.Set(on(17, 12, 0)) // 36 and 23 hours later
		w.mustBe("after the outage", w.follow(on(20, 0, 0)), []string{"17 12:00 york"})
		w.put("paper/1", `{"date": "2026-05-18"}`) // planned when it is past
		w.mustBe("planned late", w.follow(on(21, 0, 0)), nil)
		w.put("paper/1", `{"date": "2026-05-20"}`)
		w.mustBe("in time for some", w.follow(on(22, 0, 0)), []string{"21 00:00 tokyo", "21 00:00 york"})
	})
}

// A schedule that is switched on again when its hour is past in some zones sends nothing there on that day, although the row of the day is there. An
// occasion that a person cancels after an outage leaves the next one as it would have been.
//
// Shows: R15, R17, D20.
func TestADayThatIsGivenBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		weekly := zonesBroadcast("every: 1w, days: [thu, fri]", "timing: {catch_up: 30h}\n")
		w := newWorld(t, s, "persona: Mother\n")
		w.Clock.Set(at("12:00").AddDate(0, 0, -2))
		w.mother("tokyo", "Asia/Tokyo") // ten is at one
		w.mother("york", "America/New_York")
		w.Apply(weekly)
		w.Apply(strings.Replace(weekly, "type: broadcast\n", "type: broadcast\nenabled: false\n", 1))
		w.mustBe("switched off", w.follow(at("12:00")), nil)
		w.Apply(weekly)
		w.mustBe("switched on", w.follow(at("12:00").AddDate(0, 0, 2)), []string{"14 14:00 york", "15 01:00 tokyo", "15 14:00 york"})
		w.Clock.Set(time.Date(2026, 5, 22, 18, 0, 0, 0, time.UTC)) // a Friday
		if _, err := w.Operator().CancelInstance(t.Context(), w.Workspace.ID, w.key("daily:2026-05-21").ID, "ann", w.Now()); err != nil {
			t.Fatal(err)
		}
		w.mustBe("after an outage", w.follow(time.Date(2026, 5, 23, 0, 0, 0, 0, time.UTC)), []string{"22 18:00 tokyo", "22 18:00 york"})
	})
}
