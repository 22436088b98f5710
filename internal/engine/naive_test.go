package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// watch is the random definition under test.
type watch struct {
	change   bool
	every    int // minutes
	holds    int // minutes
	cooldown int // minutes
	silent   int // minutes, of the issue SILENT; 0 = as the others
	per      string
	reset    bool
	resolved bool
}

func drawWatch(t *rapid.T) watch {
	w := watch{
		change: rapid.Bool().Draw(t, "change"), every: rapid.SampledFrom([]int{0, 5, 7}).Draw(t, "every"),
		holds: rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "for"), cooldown: rapid.SampledFrom([]int{3, 10, 25}).Draw(t, "cooldown"),
		silent: rapid.SampledFrom([]int{0, 2, 40}).Draw(t, "cooldown of SILENT"),
		per:    rapid.SampledFrom([]string{"[]", "[record.id]", "[record.id, issues]", "[issues]"}).Draw(t, "per"),
		reset:  rapid.Bool().Draw(t, "reset"), resolved: rapid.Bool().Draw(t, "resolved"),
	}
	if w.every == 0 {
		w.change = true
	}
	if !strings.Contains(w.per, "record") {
		w.reset = false // others that share a context see its reset at their next evaluation
	}
	return w
}

func (w watch) definition() string {
	check := []string{}
	if w.change {
		check = append(check, "change")
	}
	if w.every > 0 {
		check = append(check, fmt.Sprintf("%dm", w.every))
	}
	extra := ""
	if w.silent > 0 {
		extra = fmt.Sprintf("\n      issues: {SILENT: %dm}", w.silent)
	}
	holds := ""
	if w.holds > 0 {
		holds = fmt.Sprintf("    for: %dm\n", w.holds)
	}
	resolved := ""
	if w.resolved {
		resolved = "resolved:\n  inbox: {subject: over, text: over}\n"
	}
	return fmt.Sprintf(`
workflow: w
type: alert
triggers:
  - id: t
    record: host
    check: [%s]
%s    issues:
      LOAD: record.load > 5
      DISK: record.disk == "full"
      SILENT: age(record.seen) >= minutes(6)
    cooldown:
      length: %dm
      per: %s
      reset_on_clear: %t%s
audience:
  - persona: Manager
channel: inbox
message:
  inbox: {subject: alert, text: alert}
%s---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
`, strings.Join(check, ", "), holds, w.cooldown, w.per, w.reset, extra, resolved)
}

// host is a record of the naive evaluator.
type host struct {
	load   int
	full   bool
	seen   time.Time
	since  map[string]time.Time
	open   bool
	firing int // of this episode
	fired  map[string]firing
}

type firing struct {
	at     time.Time
	issues []string
}

func (h *host) met(now time.Time) map[string]bool {
	return map[string]bool{"LOAD": h.load > 5, "DISK": h.full, "SILENT": now.Sub(h.seen) >= 6*time.Minute}
}

// naive evaluates every record at every minute, or at every tick, and knows nothing of marks and evaluation instants.
type naive struct {
	watch
	hosts  []*host
	stamps map[string]time.Time
	log    []string
}

func (n *naive) minute(now time.Time) {
	tick := n.every > 0 && now.Sub(now.Truncate(24*time.Hour))%(time.Duration(n.every)*time.Minute) == 0
	if !tick && !n.change {
		return
	}
	before := map[string]time.Time{}
	for context, at := range n.stamps {
		before[context] = at
	}
	for id, h := range n.hosts {
		if h == nil {
			continue
		}
		met := h.met(now)
		left := false
		var issues []string
		for _, name := range []string{"DISK", "LOAD", "SILENT"} {
			if !met[name] {
				delete(h.since, name)
				continue
			}
			left = true
			if _, known := h.since[name]; !known {
				h.since[name] = now
			}
			if now.Sub(h.since[name]) >= time.Duration(n.holds)*time.Minute {
				issues = append(issues, name)
			}
		}
		context := ""
		if len(issues) > 0 {
			h.open = true
			context = "t"
			if strings.Contains(n.per, "record") {
				context += fmt.Sprint(":", id)
			}
			if strings.Contains(n.per, "issues") {
				context += ":" + strings.Join(issues, ",")
			}
			length := n.cooldown
			if slices.Contains(issues, "SILENT") && n.silent > 0 {
				length = n.silent
			}
			last, ever := before[context]
			if !ever || now.Sub(last) >= time.Duration(length)*time.Minute {
				n.log = append(n.log, fmt.Sprintf("%s %s host/%d", now.Format("15:04"), context, id))
				n.stamps[context] = now
				h.firing++
				h.fired[context] = firing{now, issues}
			}
		}
		for of, f := range h.fired {
			gone := slices.ContainsFunc(f.issues, func(name string) bool { return !met[name] })
			if n.reset && of != context && gone && !f.at.Equal(now) {
				if n.stamps[of].Equal(f.at) {
					delete(n.stamps, of)
				}
				delete(h.fired, of)
			}
		}
		if !left && h.open {
			if n.resolved && h.firing > 0 {
				n.log = append(n.log, fmt.Sprintf("%s resolved host/%d", now.Format("15:04"), id))
			}
			h.open, h.firing = false, 0
		}
	}
}

// Evaluating records when they are marked or have to be evaluated fires exactly what evaluating all of them at every instant would.
// Shows: A7, A11, A16, A22, A23.
func TestEvaluatorFiresWhatANaiveOneFires(t *testing.T) {
	t.Parallel()
	storetest.NotUnderRace(t, "one goroutine and a store in memory")
	outer := t
	enough := storetest.Lives(15) // of an hour
	rapid.Check(t, func(t *rapid.T) {
		if enough() {
			return
		}
		def := drawWatch(t)
		w := newWorld(outer, storetest.Memory(outer), def.definition(), "alice")
		n := &naive{watch: def, hosts: make([]*host, 3), stamps: map[string]time.Time{}}
		var got []string
		minutes := rapid.IntRange(30, 90).Draw(t, "minutes")
		for m := range minutes {
			now := ten.Add(time.Duration(m) * time.Minute)
			w.live(now.Add(-time.Second).Format("15:04:05")) // what is due now meets what is written now
			w.Clock.Set(now)
			for range rapid.IntRange(0, 2).Draw(t, "writes") {
				id := rapid.IntRange(0, 2).Draw(t, "host")
				h := n.hosts[id]
				if h == nil {
					h = &host{since: map[string]time.Time{}, fired: map[string]firing{}}
					n.hosts[id] = h
				}
				if rapid.IntRange(0, 2).Draw(t, "heartbeat") > 0 || h.seen.IsZero() {
					h.seen = now
				}
				h.load = rapid.SampledFrom([]int{1, 1, 9, h.load}).Draw(t, "load")
				h.full = rapid.SampledFrom([]bool{false, true, h.full}).Draw(t, "full")
				disk := "free"
				if h.full {
					disk = "full"
				}
				w.put(fmt.Sprint("host/", id), fmt.Sprintf(`{"load": %d, "disk": %q, "seen": %q}`, h.load, disk, h.seen.Format(time.RFC3339)))
			}
			n.minute(now)
			w.live(now.Format("15:04"))
		}
		for _, e := range w.Journal() {
			if e.What != journal.Created {
				continue
			}
			what := e.Context
			if strings.HasSuffix(e.Key, ":resolved") {
				what = "resolved"
			}
			got = append(got, fmt.Sprintf("%s %s %s", e.At.Format("15:04"), what, e.Record))
		}
		slices.Sort(got)
		slices.Sort(n.log)
		if !slices.Equal(got, n.log) {
			t.Fatalf("%s\ngot\n%s\nwant\n%s", def.definition(), strings.Join(got, "\n"), strings.Join(n.log, "\n"))
		}
	})
}
