package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// naiveCourse is a course as its description reads: it lists every message from the start on, whatever that costs.
type naiveCourse struct {
	every, rounds int // days; 0: no bound
	days          []int
	clocks        []int // minutes after midnight of each message
	dated         bool
	backlog       string
	loc           *time.Location
	person        bool // the zone is that of the person

	// The record.
	on, closed bool
	from       time.Time // the date of the record
	visit      int
	until      int // days after the beginning of the test; 0: no bound

	begun  bool
	start  time.Time // the first midnight
	opened time.Time // when it began; none: it counts from a date
	seen   int       // the visit with which it began
	resets int
	waits  string          // the key of the message that waits; empty: none
	due    time.Time       // of it
	ended  map[string]bool // by key
	sent   []string
	paused time.Time // since when the workflow is; none: it is not
}

type naiveMessage struct {
	key string
	due time.Time
}

func (n *naiveCourse) midnight(at time.Time) time.Time {
	y, m, d := at.In(n.loc).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, n.loc)
}

// all lists the messages, with their instants.
func (n *naiveCourse) all() (list []naiveMessage) {
	counted := 0 // rounds that had a message
	for k := 0; k < 90 && (n.rounds == 0 || counted < n.rounds); k++ {
		had := false
		for e, day := range n.days {
			date := n.start.AddDate(0, 0, k*n.every+day)
			due := time.Date(date.Year(), date.Month(), date.Day(), 0, n.clocks[e], 0, 0, n.loc)
			if due.Before(n.opened) {
				continue
			}
			had = true
			if n.until > 0 && !due.Before(ten.Truncate(24*time.Hour).AddDate(0, 0, n.until)) {
				continue
			}
			name := n.start.AddDate(0, 0, k*n.every).Format("2006-01-02") + ":0"
			if n.resets > 0 {
				name += fmt.Sprintf(":r%d", n.resets)
			}
			if e > 0 {
				name += fmt.Sprintf(":e%d", e+1)
			}
			list = append(list, naiveMessage{name, due.UTC()})
		}
		if had {
			counted++
		}
	}
	return list
}

// move takes the person to another zone. Of a course that has begun the first day keeps its date.
func (n *naiveCourse) move(loc *time.Location) {
	y, m, d := n.start.Date()
	n.loc = loc
	n.start = time.Date(y, m, d, 0, 0, 0, 0, loc)
}

func (n *naiveCourse) runs() bool { return n.on && !n.closed }

// begin finds where a course starts that begins now: on the first day on which a message of the first round is not past.
func (n *naiveCourse) begin(now time.Time) {
	n.start, n.opened = n.midnight(n.from), time.Time{}
	if n.dated {
		return
	}
	n.opened = now
	for n.start = n.midnight(now); ; n.start = n.start.AddDate(0, 0, 1) {
		for e, day := range n.days {
			if date := n.start.AddDate(0, 0, day); !time.Date(date.Year(), date.Month(), date.Day(), 0, n.clocks[e], 0, 0, n.loc).Before(now) {
				return
			}
		}
	}
}

// look is what an evaluation of the record leads to: what is overdue is left to take, and otherwise the first message from now on waits.
func (n *naiveCourse) look(now time.Time) {
	if !n.runs() {
		n.waits = ""
		return
	}
	switch {
	case !n.begun:
		n.begun, n.seen = true, n.visit
		n.begin(now)
	case n.seen != n.visit:
		n.seen = n.visit
		n.resets++
		n.begin(now)
	case n.dated:
		n.start = n.midnight(n.from)
	}
	for _, m := range n.all() {
		if m.key == n.waits && m.due.Before(now.Add(-time.Minute)) { // it is overdue: it stays, and may have moved
			n.due = m.due
			return
		}
	}
	n.next(now.Add(-time.Minute))
}

// next makes the first message wait that is due at an instant or later and has not ended.
func (n *naiveCourse) next(from time.Time) {
	n.waits = ""
	for _, m := range n.all() {
		if !m.due.Before(from) && !n.ended[m.key] {
			n.waits, n.due = m.key, m.due
			return
		}
	}
}

// take handles what is due at an instant, unless the workflow is paused.
func (n *naiveCourse) take(now time.Time) {
	if n.paused.IsZero() {
		n.takeSince(now, now)
	}
}

// resume handles what is due when a pause ends. What waited for that is as late as it was when the pause began (R2).
func (n *naiveCourse) resume(now time.Time) {
	since := n.paused
	n.paused = time.Time{}
	n.takeSince(now, since)
}

func (n *naiveCourse) takeSince(now, since time.Time) {
	for n.waits != "" && !n.due.After(now) {
		var overdue []naiveMessage
		for _, m := range n.all() {
			if !m.due.After(now) && (m.key == n.waits || m.due.After(n.due)) {
				overdue = append(overdue, m)
			}
		}
		timely := func(m naiveMessage) bool { return since.Sub(m.due) <= 48*time.Hour }
		send := slices.IndexFunc(overdue, timely) // all: the first that is not too late, and then the next one
		last := len(overdue) - 1
		switch {
		case n.backlog == "latest" && timely(overdue[last]):
			send = last
		case n.backlog == "first" && timely(overdue[0]):
			send = 0
		case n.backlog != "all":
			send = -1
		}
		n.ended[n.waits] = true
		switch {
		case send == 0:
			n.sent = append(n.sent, n.waits+" "+now.UTC().Format("01-02 15:04"))
			if n.backlog == "first" && last > 0 {
				n.ended[overdue[1].key] = true
				n.next(overdue[last].due.Add(time.Microsecond))
				continue
			}
			n.next(n.due.Add(time.Microsecond))
		case send > 0:
			n.next(overdue[send].due)
		default:
			n.next(overdue[last].due.Add(time.Microsecond))
		}
	}
}

func (n *naiveCourse) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow: w\ntype: reminder\ntriggers:\n  - id: t\n    record: patient\n    when: record.is_on == true\n")
	zone := n.loc.String()
	if n.person {
		zone = "[contact.timezone, Asia/Tokyo]"
	}
	fmt.Fprintf(&b, "    timing:\n      timezone: %s\n      reset_on: record.visit\n      backlog: %s\n", zone, n.backlog)
	if n.dated {
		b.WriteString("      anchor: record.begins\n")
	}
	b.WriteString("      sequence:\n")
	for i, day := range n.days {
		fmt.Fprintf(&b, "        - {day: %d, at: \"%02d:%02d\"}\n", day, n.clocks[i]/60, n.clocks[i]%60)
	}
	fmt.Fprintf(&b, "      repeat: {every: %dd, until: record.ends", n.every)
	if n.rounds > 0 {
		fmt.Fprintf(&b, ", times: %d", n.rounds)
	}
	return b.String() + "}\naudience: {to: record}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\npersona: Manager\n---\nchannel: inbox\nprovider: inbox\n"
}

func (n *naiveCourse) rule(t *rapid.T) {
	n.every = rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "every")
	n.rounds = rapid.SampledFrom([]int{0, 2, 6, 30}).Draw(t, "rounds")
	n.days, n.clocks = nil, nil
	for _, clock := range slices.Sorted(maps.Keys(rapid.MapOfN(rapid.SampledFrom([]int{0, 90, 480, 540, 1020, 1380}), rapid.Just(true), 1, 3).Draw(t, "clocks"))) {
		n.days, n.clocks = append(n.days, 0), append(n.clocks, clock)
	}
	if n.every == 7 && rapid.Bool().Draw(t, "spread") {
		for i := range n.days {
			n.days[i] = 2 * i
		}
	}
	n.backlog = rapid.SampledFrom([]string{"latest", "first", "all"}).Draw(t, "backlog")
}

// A course in the life of a record: its date moves, its visit changes, it is closed and opened, its condition comes and goes, its person
// moves to another zone, somebody cancels what waits, the definitions are edited, the workflow is paused, the process is down and another one goes on. At every moment exactly the message waits
// that the rule implies, and no message goes twice.
//
// Shows: D16, D20, D21, D22, R3, R10, R13, R14.
func TestCoursesLive(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	enough := storetest.Lives(40)
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() {
			return
		}
		zone := func() *time.Location {
			loc, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Asia/Kolkata", "Pacific/Honolulu"}).Draw(t, "zone"))
			if err != nil {
				t.Fatal(err)
			}
			return loc
		}
		n := &naiveCourse{loc: zone(), from: ten, ended: map[string]bool{}, on: true, dated: rapid.Bool().Draw(t, "dated"), person: rapid.Bool().Draw(t, "person")}
		n.rule(t)
		w := world{enginetest.Setup(outer, storetest.Memory(outer), n.yaml(), nil)}
		w.Clock.Set(ten)
		move := func() {
			if n.person {
				w.person("p", fmt.Sprintf(`"persona": "Manager", "timezone": %q`, n.loc))
			} else {
				w.person("p", `"persona": "Manager"`)
			}
		}
		move()
		write := func() {
			until := "null"
			if n.until > 0 {
				until = `"` + ten.AddDate(0, 0, n.until).Format("2006-01-02") + `"`
			}
			w.put("patient/p", fmt.Sprintf(`{"is_on": %v, "begins": %q, "visit": %d, "ends": %s}`, n.on, n.from.In(n.loc).Format("2006-01-02"), n.visit, until))
		}
		settle := func() {
			for w.tick() {
			}
		}
		write()
		settle()
		n.look(ten)
		n.take(ten)
		t.Logf("%s\n%s", ten, n.yaml())
		for range rapid.IntRange(5, 25).Draw(t, "steps") {
			now := w.Clock.Now()
			what := rapid.SampledFrom([]string{
				"wait", "wait", "wait", "down", "edit", "edit", "move", "move", "reset", "date", "until", "switch", "close", "cancel", "unrelated", "pause", "pause", "pause", "restart",
			}).Draw(t, "what")
			t.Logf("%s %s", now, what)
			switch what {
			case "wait":
				end := now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "hours")) * time.Hour)
				w.follow(end)
				for n.waits != "" && !n.due.After(end) && n.paused.IsZero() {
					at := n.due
					if at.Before(now) {
						at = now
					}
					n.take(at)
				}
			case "down":
				end := now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "hours")) * time.Hour)
				w.Clock.Set(end)
				settle()
				n.take(end)
			case "edit":
				n.rule(t)
				w.Apply(n.yaml())
				settle()
				n.look(now)
				n.take(now)
			case "move":
				if n.person {
					n.move(zone())
					move()
				}
			case "reset":
				n.visit++
			case "date":
				n.from = ten.AddDate(0, 0, rapid.IntRange(-3, 12).Draw(t, "date"))
			case "until":
				n.until = rapid.IntRange(0, 20).Draw(t, "until")
			case "switch":
				n.on = !n.on
			case "close":
				n.closed = !n.closed
				w.put("patient/p", `{}`)
				w.closed("patient/p", n.closed)
			case "pause": // or an end of it
				var err error
				if n.paused.IsZero() {
					n.paused = now
					_, err = w.Operator().Pause(w.Context(), w.Workspace.ID, "w", "why", "test", now)
				} else if _, err = w.Operator().Resume(w.Context(), w.Workspace.ID, "w", "test", now); err == nil {
					settle()
					n.resume(now)
				}
				if err != nil {
					t.Fatal(err)
				}
			case "restart": // a process goes on that has none of this one's memory
				w = world{enginetest.Setup(outer, w.Store, "", nil)}
				w.Clock.Set(now)
			case "cancel":
				if row, ok := w.waiting1(); ok {
					if _, err := w.Operator().CancelInstance(w.Context(), w.Workspace.ID, row.ID, "test", now); err != nil {
						t.Fatal(err)
					}
					n.ended[n.waits] = true
					n.next(n.due.Add(time.Microsecond))
				}
			}
			if what != "wait" && what != "down" && what != "edit" && what != "cancel" && what != "pause" && what != "restart" {
				write()
				settle()
				n.look(now)
				n.take(now)
			}
			settle()
			n.take(w.Clock.Now())
			compare(t, w, n)
		}
	})
}

func (w world) closed(name string, closed bool) {
	w.Helper()
	w.write(upsert.Merge, name, fmt.Sprintf(`{"closed": %v}`, closed))
}

// waiting1 returns the occasion that waits.
func (w world) waiting1() (instance.Row, bool) {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
	if err != nil || len(rows) > 1 {
		w.Fatalf("%d occasions wait: %v (%v)", len(rows), rows, err)
	}
	if len(rows) == 0 {
		return instance.Row{}, false
	}
	return rows[0], true
}

func compare(t *rapid.T, w world, n *naiveCourse) {
	row, ok := w.waiting1()
	got, want := "", ""
	if ok {
		got = strings.TrimPrefix(row.Key, "reminder:w:patient:p:t:") + " " + row.DueAt.Format(time.RFC3339)
	}
	if n.waits != "" {
		want = n.waits + " " + n.due.Format(time.RFC3339)
	}
	if got != want {
		t.Fatalf("at %s %q waits, expected %q", w.Clock.Now(), got, want)
	}
	var sent []string
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rows {
		k, _, _ := strings.Cut(strings.TrimPrefix(d.Key, "reminder:w:patient:p:t:"), "|")
		sent = append(sent, k+" "+d.LastSentAt.Format("01-02 15:04"))
	}
	slices.Sort(sent)
	expected := slices.Sorted(slices.Values(n.sent))
	if !slices.Equal(sent, expected) {
		t.Fatalf("at %s were sent\n%v, expected\n%v", w.Clock.Now(), sent, expected)
	}
}
