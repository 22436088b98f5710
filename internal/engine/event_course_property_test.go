package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// naiveAfter is what follows one event, as the description of courses reads: all messages, in their order.
type naiveAfter struct {
	messages []naiveMessage
	waits    int       // the message whose row waits
	first    time.Time // when the first message is due that exists since the answer; none: it is done
	sent     []string
}

// naiveTiming is a rule for courses after events.
type naiveTiming struct {
	days   []int // of the messages; of one that follows, negative
	clocks []int // minutes after midnight; -1: the moment of the event; of one that follows the minutes after the message before
	every  int   // days; 0: one round
	rounds int
	whole  bool
	late   string // backlog
	loc    *time.Location
}

func drawTiming(t *rapid.T) (n naiveTiming) {
	n.loc = rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("Asia/Kolkata", 19800)}).Draw(t, "zone")
	n.late = rapid.SampledFrom([]string{"latest", "first", "all"}).Draw(t, "backlog")
	for i := range rapid.IntRange(1, 3).Draw(t, "messages") {
		day, clock := 2*i, rapid.SampledFrom([]int{0, 500, 700, 1020}).Draw(t, "clock")
		switch {
		case i == 0 && rapid.Bool().Draw(t, "at once"):
			clock = -1
		case i > 0 && rapid.Bool().Draw(t, "follows"):
			day, clock = -1, 1+clock
		}
		n.days, n.clocks = append(n.days, day), append(n.clocks, clock)
	}
	if n.whole = n.clocks[0] >= 0 && rapid.Bool().Draw(t, "whole"); rapid.Bool().Draw(t, "rounds") {
		n.every, n.rounds = 7, rapid.IntRange(1, 3).Draw(t, "times")
	}
	return n
}

func (n naiveTiming) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow: w\ntype: custom\ntriggers: [{id: t, event: registered, dedup: [member]}]\ntiming:\n  backlog: %s\n", n.late)
	if slices.ContainsFunc(n.clocks, func(c int) bool { return c >= 0 }) && n.timed() {
		fmt.Fprintf(&b, "  timezone: %s\n", n.loc)
	}
	if n.whole {
		b.WriteString("  first: whole\n")
	}
	b.WriteString("  sequence:\n")
	for i, clock := range n.clocks {
		switch {
		case n.days[i] < 0:
			fmt.Fprintf(&b, "    - {after: %dm}\n", clock)
		case clock < 0:
			fmt.Fprintf(&b, "    - {day: %d}\n", n.days[i])
		default:
			fmt.Fprintf(&b, "    - {day: %d, at: \"%02d:%02d\"}\n", n.days[i], clock/60, clock%60)
		}
	}
	if n.every > 0 {
		fmt.Fprintf(&b, "  repeat: {every: %dd, times: %d}\n", n.every, n.rounds)
	}
	return b.String() + "audience: {to: event.recipient}\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\nchannel: inbox\nprovider: inbox\n"
}

func (n naiveTiming) timed() bool {
	for i, clock := range n.clocks {
		if n.days[i] >= 0 && clock >= 0 {
			return true
		}
	}
	return false
}

// round lists when the messages of a round are due that begins on a day, counted from the day of the event.
func (n naiveTiming) round(at time.Time, first int) (due []time.Time) {
	for i, clock := range n.clocks {
		switch y, m, d := at.In(n.loc).Date(); {
		case n.days[i] < 0:
			due = append(due, due[i-1].Add(time.Duration(clock)*time.Minute))
		case clock < 0:
			due = append(due, at.Add(time.Duration(first+n.days[i])*24*time.Hour))
		default:
			due = append(due, time.Date(y, m, d+first+n.days[i], 0, clock, 0, 0, n.loc).UTC())
		}
	}
	return due
}

// after returns the course after an event, as it is before anything is sent.
func (n naiveTiming) after(at time.Time) (a naiveAfter) {
	first := 0
	for n.clocks[0] >= 0 {
		due := n.round(at, first)
		if n.whole {
			due = due[:1]
		}
		if slices.ContainsFunc(due, func(d time.Time) bool { return !d.Before(at) }) {
			break
		}
		first++
	}
	for k := range max(n.rounds, 1) {
		day, number := 0, 0
		for e, due := range n.round(at, first+k*n.every) {
			if number++; n.days[e] > day {
				day, number = n.days[e], 1
			}
			if due.Before(at) {
				continue
			}
			name := ""
			if k > 0 {
				name += fmt.Sprintf(":i%d", k+1)
			}
			if y, m, d := at.In(n.loc).Date(); day > 0 {
				name += ":d" + time.Date(y, m, d+first+k*n.every+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			}
			if number > 1 {
				name += fmt.Sprintf(":e%d", number)
			}
			if len(a.messages) == 0 {
				name = ""
			}
			a.messages = append(a.messages, naiveMessage{key: name, due: due})
		}
	}
	return a
}

// take does what is due at an instant.
func (a *naiveAfter) take(now time.Time, backlog string) {
	send := func(i int) { a.sent = append(a.sent, a.messages[i].key+" "+now.UTC().Format("01-02 15:04")) }
	timely := func(due time.Time) bool { return now.Sub(due) <= 48*time.Hour }
	if !a.first.IsZero() && !a.first.After(now) {
		if timely(a.first) {
			send(0)
		}
		a.first = time.Time{}
	}
	for a.waits < len(a.messages) && !a.messages[a.waits].due.After(now) {
		last := a.waits
		for last+1 < len(a.messages) && !a.messages[last+1].due.After(now) {
			last++
		}
		switch from := a.waits; {
		case backlog == "latest" && timely(a.messages[last].due):
			send(last)
			a.waits = last + 1
		case backlog == "first" && timely(a.messages[from].due):
			send(from)
			a.waits = last + 1
		case backlog == "all":
			for ; a.waits <= last; a.waits++ {
				if timely(a.messages[a.waits].due) {
					send(a.waits)
				}
			}
		default:
			a.waits = last + 1
		}
	}
}

// next returns when something is due next; none: nothing is.
func (a *naiveAfter) next() (at time.Time) {
	if at = a.first; at.IsZero() && a.waits < len(a.messages) {
		at = a.messages[a.waits].due
	}
	return at
}

// Random events, late ones too, begin random courses, some come twice, and nothing runs for a while now and then: exactly the messages leave
// that the rule implies, each once, and exactly the one waits that is next.
//
// Shows: D15, D16, D20, R3, C11, P2.
func TestCoursesAfterEventsLive(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	enough := storetest.Lives(40)
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		if enough() {
			return
		}
		n := drawTiming(t)
		w := world{enginetest.Setup(outer, storetest.Memory(outer), n.yaml(), nil)}
		w.Clock.Set(ten)
		t.Logf("%s", n.yaml())
		var all []*naiveAfter
		for range rapid.IntRange(3, 15).Draw(t, "steps") {
			now := w.Clock.Now()
			what := rapid.SampledFrom([]string{"post", "post", "again", "wait", "wait", "down"}).Draw(t, "what")
			end := now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "hours")) * time.Hour)
			t.Logf("%s %s", now, what)
			switch {
			case what == "post":
				at := now.Add(-time.Duration(max(0, rapid.IntRange(-200, 300).Draw(t, "late"))) * time.Hour)
				a := n.after(at)
				if a.messages[0].due.After(now) {
					a.first, a.waits = a.messages[0].due, 1
				}
				a.take(now, n.late)
				member := fmt.Sprint("m", len(all))
				if r := w.Post(registered(member, fmt.Sprintf(`, "occurred_at": %q`, at.Format(time.RFC3339)))); r.Outcome != ingest.Created {
					t.Fatalf("%+v", r)
				}
				all = append(all, &a)
			case what == "again" && len(all) > 0:
				member := fmt.Sprint("m", rapid.IntRange(0, len(all)-1).Draw(t, "member"))
				if r := w.Post(registered(member, "")); r.Reason != reason.Duplicate {
					t.Fatalf("%+v", r)
				}
			case what == "wait":
				w.follow(end)
				for _, a := range all {
					for at := a.next(); !at.IsZero() && !at.After(end); at = a.next() {
						a.take(at, n.late)
					}
				}
			case what == "down":
				w.Clock.Set(end)
				for _, a := range all {
					a.take(end, n.late)
				}
			}
			for w.tick() {
			}
			compareAfter(t, w, all)
		}
	})
}

func compareAfter(t *rapid.T, w world, all []*naiveAfter) {
	var want, got, waits, wait []string
	for i, a := range all {
		for _, s := range a.sent {
			want = append(want, fmt.Sprintf("m%d%s", i, s))
		}
		if a.waits < len(a.messages) {
			waits = append(waits, fmt.Sprintf("%s %s", a.messages[a.waits].key, a.messages[a.waits].due.Format(time.RFC3339)))
		}
	}
	rows, err := w.Store.Deliveries(w.Context(), w.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	ofEvent := func(k string) string { // what follows the hash
		_, k, _ = strings.Cut(k, ":event:")
		return k[64:]
	}
	for _, d := range rows {
		if !d.LastSentAt.IsZero() {
			k, _, _ := strings.Cut(d.Key, "|")
			got = append(got, d.CustomerRef+ofEvent(k)+" "+d.LastSentAt.Format("01-02 15:04"))
		}
	}
	pending, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range pending {
		wait = append(wait, ofEvent(row.Key)+" "+row.DueAt.UTC().Format(time.RFC3339))
	}
	for _, list := range [][]string{want, got, waits, wait} {
		slices.Sort(list)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("at %s were sent\n%q, expected\n%q", w.Clock.Now(), got, want)
	}
	if !slices.Equal(wait, waits) {
		t.Fatalf("at %s wait\n%q, expected\n%q", w.Clock.Now(), wait, waits)
	}
}
