package engine_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// dayMessage is a message of a list: a day of the round, and minutes after midnight.
type dayMessage struct{ day, clock int }

func drawList(t *rapid.T) (list []dayMessage) {
	for _, day := range slices.Sorted(maps.Keys(rapid.MapOfN(rapid.IntRange(0, 6), rapid.Just(true), 1, 5).Draw(t, "days"))) {
		for _, clock := range slices.Sorted(maps.Keys(rapid.MapOfN(rapid.SampledFrom([]int{60, 600, 720, 1320}), rapid.Just(true), 1, 2).Draw(t, "clocks"))) {
			list = append(list, dayMessage{day, clock})
		}
	}
	return list
}

func timingOf(list []dayMessage) string {
	var lines []string
	for _, m := range list {
		lines = append(lines, fmt.Sprintf("{day: %d, at: \"%02d:%02d\"}", m.day, m.clock/60, m.clock%60))
	}
	return "repeat: {every: 7d, times: 3}\n      sequence: [" + strings.Join(lines, ", ") + "]"
}

// Lists of messages are edited again and again, while courses run that belong to everybody, to people who came later, and to events: no date has one of its
// messages twice, and each date after the last edit has all those of the list by then. After an event an edit counts from the message behind the one that
// waits; when none waits, the course is over.
//
// Shows: D16, D22, C11, P2.
func TestListsThatAreEditedLive(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine")
	storetest.Each(t, func(outer *testing.T, s *store.Store) {
		enough, lives := storetest.Lives(30), 0
		rapid.Check(outer, func(t *rapid.T) {
			if enough() {
				return
			}
			lives++
			byEvent := rapid.Bool().Draw(t, "after an event")
			rule := func(list []dayMessage) string {
				if byEvent {
					return strings.Replace(welcomes(strings.ReplaceAll(timingOf(list), "      ", "  "), "pin: false"), "persona: Member", "persona: Manager", 1)
				}
				text := strings.Replace(joined("fresh", ""), `at: "12:00"`, "anchor: record.since", 1)
				return strings.Replace(text, "repeat: {every: 1d, times: 3, until: record.ends}", timingOf(list), 1)
			}
			list := drawList(t)
			w := newWorld(outer, s, "")
			w.Clock.Set(ten)
			w.Workspace = w.another(fmt.Sprintf("lists-%d", lives), rule(list), "ann", "bob")
			if byEvent {
				w.Post(registered("ann", ""))
			} else {
				w.put("stay/1", `{"who": ["ann"], "is_on": true, "number": 1, "since": "2026-05-15"}`)
			}
			wait := func(d time.Duration) {
				end := w.Clock.Now().Add(d)
				w.follow(end)
				w.Clock.Set(end)
				for w.tick() {
				}
			}
			edited, joins := ten, rapid.IntRange(0, 4).Draw(t, "joins")
			after := map[string]string{} // the date that waited at the last edit, by whose course it is
			for i := range rapid.IntRange(2, 8).Draw(t, "edits") {
				wait(time.Duration(rapid.IntRange(1, 90).Draw(t, "hours")) * time.Hour)
				if i == joins && !byEvent {
					w.put("stay/1", `{"who": ["ann", "bob"]}`)
				}
				list, edited = drawList(t), w.Clock.Now()
				clear(after)
				for _, row := range w.rowsOf(instance.Pending) {
					after[whose(row)] = row.MessageDate
				}
				t.Logf("%s %v", edited.Format("02 15:04"), list)
				w.Apply(rule(list))
				for w.tick() {
				}
			}
			wait(40 * 24 * time.Hour)
			sent, dates, starts := map[string]string{}, map[string][]string{}, map[string]string{}
			for _, row := range w.rowsOf(instance.Completed) {
				name := fmt.Sprint(whose(row), " ", row.MessageDate, " ", row.MessageNumber)
				if sent[name] != "" {
					t.Fatalf("%s went as %s, and as %s", name, sent[name], row.Key)
				}
				sent[name], starts[whose(row)] = row.Key, row.StartDate
				dates[whose(row)] = append(dates[whose(row)], row.MessageDate+row.DueAt.UTC().Format(" 15:04"))
			}
			if len(starts) == 0 {
				t.Fatal("nothing was sent")
			}
			for who, start := range starts {
				begins, err := civil.ParseDate(start)
				if err != nil {
					t.Fatal(err)
				}
				since := edited.Format(time.DateOnly)
				if byEvent {
					since = max(since, after[who])
				}
				var want []string
				for round := range 3 {
					for _, m := range list {
						if byEvent && after[who] == "" {
							break // nothing waited at the last edit: the course was over
						}
						if date := begins.AddDays(7*round + m.day).String(); date > since {
							want = append(want, fmt.Sprintf("%s %02d:%02d", date, m.clock/60, m.clock%60))
						}
					}
				}
				got := slices.DeleteFunc(dates[who], func(line string) bool { return line[:len(since)] <= since })
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Fatalf("after %s went for %q\n%q, expected\n%q", since, who, got, want)
				}
			}
		})
	})
}

// whose returns whose course a row is a message of.
func whose(row instance.Row) string {
	_, name, _ := strings.Cut(row.Key, ":c:")
	return cmp.Or(name, "everybody")
}

func (w world) rowsOf(status instance.Status) []instance.Row {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: status}, store.Page{Limit: 500})
	if err != nil {
		w.Fatal(err)
	}
	return rows
}
