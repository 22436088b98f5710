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

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// said returns the messages since the last call, sorted.
func (w world) said() (texts []string) {
	for _, m := range w.Provider.Sent() {
		texts = append(texts, m.Text)
	}
	slices.Sort(texts)
	return texts
}

// calm finishes everything that is due now.
func (w world) calm() {
	w.Helper()
	for range 1000 {
		if !w.tick() {
			return
		}
	}
	w.Fatal("there is no end to it")
}

// rising is a trigger on crossings; trigger is its condition and its timing.
func rising(trigger string) string {
	threshold := "{{ metric.threshold }}"
	if !strings.Contains(trigger, "metric:") {
		threshold = ""
	}
	return strings.Replace(visits(trigger+"\n    fire: false_to_true"), "\n  inbox: {text: x}", "\n  inbox:\n    text: \"{{ record.id }} "+threshold+"\"", 1)
}

func metric(thresholds string) string {
	return "    metric: {name: m, value: record.booked, thresholds: [" + thresholds + "]}"
}

// An edit of the thresholds, the metric or the condition crosses nothing, and neither does reverting it. A crossing after the edit counts, even if
// the record is written before its first evaluation with the new thresholds.
//
// Shows: R11, B36.
func TestAnEditIsNoCrossing(t *testing.T) {
	t.Parallel()
	const none = ""
	when := func(line string) string { return "    when: " + line }
	stays := func(definitions ...string) (steps []step) {
		for i, d := range definitions {
			steps = append(steps, step{rising(d), none, none})
			if i == 0 {
				steps = append(steps, step{none, `{"booked": 50, "who": "ann"}`, none}, step{none, `{"booked": 85}`, "*"})
			}
		}
		return steps
	}
	for name, steps := range map[string][]step{
		"a lower threshold":                   stays(metric("80"), metric("70"), metric("80")),
		"one more":                            stays(metric("80"), metric("70, 80"), metric("80")),
		"one less":                            stays(metric("70, 80"), metric("70"), metric("70, 80")),
		"another condition":                   stays(when("record.booked > 80"), when("record.booked > 70"), when("record.booked > 80")),
		"a condition that is false meanwhile": stays(when("record.booked > 80"), when("record.booked > 90"), when("record.booked > 80")),
		"another metric":                      stays(metric("80"), strings.Replace(metric("80"), "record.booked,", "record.booked * 1,", 1), metric("80")),
		"a condition beside the metric":       stays(metric("80"), when("record.booked > 60")+"\n"+metric("80"), metric("80")),
		"for":                                 stays(metric("80"), metric("80")+"\n    for: 1h", metric("80")),
		"no trigger meanwhile": append(stays(metric("80")), step{strings.Replace(rising(metric("80")), "record: visit", "record: stay", 1), none, none},
			step{rising(metric("70")), none, none}),
		"it rises while there is no trigger": {
			{rising(metric("80")), `{"booked": 50, "who": "ann"}`, none},
			{strings.Replace(rising(metric("80")), "record: visit", "record: stay", 1), `{"booked": 85}`, none},
			{rising(metric("80")), none, none},
		},
		"it rises under another policy": {
			{rising(metric("80")), `{"booked": 50, "who": "ann"}`, none},
			{strings.Replace(rising(metric("90")), "false_to_true", "once_per_threshold", 1), `{"booked": 85}`, none},
			{rising(metric("80")), none, none},
		},
		"another policy meanwhile": append(stays(metric("80")), step{strings.Replace(rising(metric("90")), "false_to_true", "once_per_threshold", 1), none, none},
			step{rising(metric("70")), none, none}),
		"a cooldown meanwhile": {
			{rising(when("record.booked > 80")), `{"booked": 50, "who": "ann"}`, none},
			{strings.Replace(visits(when("record.booked > 99")+"\n    cooldown: {length: 9d}"), "inbox: {text: x}", "inbox: {text: quiet}", 1), `{"booked": 85}`, none},
			{rising(when("record.booked > 80")), none, none},
			{none, `{"booked": 50}`, none},
			{none, `{"booked": 85}`, "v "},
		},
		"disabled meanwhile": append(stays(metric("80")), step{strings.Replace(rising(metric("80")), "type:", "enabled: false\ntype:", 1), none, none},
			step{rising(metric("70")), none, none}),
		"what waits for an hour": {
			{rising(metric("80") + "\n    for: 1h"), `{"booked": 50, "who": "ann"}`, none},
			{none, `{"booked": 85}`, none},
			{rising(metric("70, 80") + "\n    for: 1h"), none, none},
			{"+2h", none, "v 80"},
		},
		"what time alone has reached": {
			{rising(strings.Replace(metric("30"), "record.booked", "days_since(record.since)", 1)), `{"since": "2026-04-01", "who": "ann"}`, "v 30"},
			{rising(strings.Replace(metric("30, 40"), "record.booked", "days_since(record.since)", 1)), none, none},
			{rising(strings.Replace(metric("30, 45"), "record.booked", "days_since(record.since)", 1)), none, none},
			{"+47h", none, "v 45"},
		},
		"crossed later": {
			{rising(metric("80")), `{"booked": 50, "who": "ann"}`, none},
			{rising(metric("70, 90")), none, none},
			{none, `{"booked": 75}`, "v 70"},
			{none, `{"booked": 95}`, "v 90"},
			{rising(metric("75, 90")), none, none},
			{none, `{"booked": 60}`, none},
			{none, `{"booked": 95}`, "v 75,v 90"},
		},
		"crossed before it was evaluated": {
			{rising(metric("80")), `{"booked": 50, "who": "ann"}`, none},
			{rising(metric("70")), `{"booked": 75}`, "v 70"},
			{rising(metric("72")), `{"booked": 76}`, none},
		},
		"a condition crossed later": {
			{rising(when("record.booked > 80")), `{"booked": 50, "who": "ann"}`, none},
			{rising(when("record.booked > 70")), none, none},
			{none, `{"booked": 75}`, "v "},
		},
		"a new record": {
			{rising(metric("80")), none, none},
			{rising(metric("70")), `{"booked": 75, "who": "ann"}`, "v 70"},
		},
		"a new record, looked at now and then": {
			{rising(metric("70") + "\n    check: [5m]"), none, none},
			{none, `{"booked": 75, "who": "ann"}`, none},
			{"+10m", none, "v 70"},
		},
		"the highest, looked at now and then": {
			{strings.Replace(rising(metric("50, 70, 90")+"\n    check: [5m]"), "false_to_true", "once_per_source", 1), none, none},
			{none, `{"booked": 75, "who": "ann"}`, none},
			{"+10m", none, "v 70"},
		},
		"a record closed under another policy": {
			{strings.Replace(rising(metric("90")), "false_to_true", "once_per_threshold", 1), `{"booked": 85, "who": "ann"}`, none},
			{none, "close", none},
			{rising(metric("80")), none, none},
			{none, "open", "v 80"},
		},
		"a record closed before there was a trigger": {
			{none, `{"booked": 85, "who": "ann"}`, none},
			{none, "close", none},
			{rising(metric("80")), none, none},
			{none, "open", "v 80"},
		},
		"a record closed while the trigger was switched off": {
			{strings.Replace(rising(metric("80")), "type:", "enabled: false\ntype:", 1), `{"booked": 85, "who": "ann"}`, none},
			{none, "close", none},
			{rising(metric("80")), none, none},
			{none, "open", "v 80"},
		},
		"a record that was closed": {
			{rising(metric("80")), `{"booked": 50, "who": "ann"}`, none},
			{none, "close", none},
			{rising(metric("70")), none, none},
			{none, "open", none},
			{none, "close", none},
			{none, `{"booked": 75}`, none},
			{rising(metric("60")), none, none},
			{none, "open", "v 60"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				w := newWorld(t, s, strings.Replace(rising(metric("80")), "record: visit", "record: stay", 1), "ann")
				for i, st := range steps {
					w.do(st)
					got := strings.Join(w.said(), ",")
					if want := st.want; want == "*" && strings.Count(got, "v") < 1 || want != "*" && got != want {
						t.Fatalf("step %d, %q: reported %q, want %q", i+1, st.write, got, want)
					}
				}
			})
		})
	}
}

// step is an edit or a wait, then a write, and the messages that it sends.
type step struct{ edit, write, want string }

func (w world) do(s step) {
	w.Helper()
	switch {
	case strings.HasPrefix(s.edit, "+"):
		d, err := time.ParseDuration(s.edit[1:])
		if err != nil {
			w.Fatal(err)
		}
		end := w.Clock.Now().Add(d)
		for w.calm(); ; w.calm() {
			next, err := w.NextDue(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			if next.IsZero() || next.After(end) {
				w.Clock.Set(end)
				break
			}
			w.Clock.Set(next)
		}
	case s.edit != "":
		w.Apply(s.edit)
	}
	switch s.write {
	case "":
	case "close", "open":
		w.write(upsert.Merge, "visit/v", fmt.Sprintf(`{"closed": %t}`, s.write == "close"))
	default:
		w.put("visit/v", s.write)
	}
	w.calm()
	w.Clock.Set(w.Clock.Now().Add(time.Second))
}

// An occasion that waits for its offset when its threshold is removed is withdrawn, and waits again once the edit is reverted; an occasion that a
// person has cancelled does not.
func TestRevertingAnEditRevivesWithdrawnOccasions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		later := "\n    timing: {offset: 6h}"
		w := newWorld(t, s, rising(metric("80")+later), "ann")
		w.put("visit/v", `{"booked": 85, "who": "ann"}`)
		w.put("visit/x", `{"booked": 85, "who": "ann"}`)
		w.calm()
		cancelled, err := w.Store.InstanceByKey(t.Context(), w.Workspace.ID, "reminder:w:visit:x:t:threshold:m:80:FalseToTrue:e1")
		if err == nil {
			_, err = w.Operator().CancelInstance(t.Context(), w.Workspace.ID, cancelled.ID, "test", w.Clock.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		plan := func(v, x string) map[string]string {
			return map[string]string{"visit:v:t:threshold:m:80:FalseToTrue:e1": v, "visit:x:t:threshold:m:80:FalseToTrue:e1": x}
		}
		w.mustPlan("at first", plan("pending", "cancelled cancelled_by_operator"))
		w.Apply(rising(metric("70") + later))
		w.calm()
		w.mustPlan("edited", plan("deactivated rule_changed", "cancelled cancelled_by_operator"))
		w.Apply(rising(metric("80") + later))
		w.calm()
		w.mustPlan("taken back", plan("pending", "cancelled cancelled_by_operator"))
		w.put("visit/v", `{"booked": 60}`)
		w.calm()
		w.Apply(rising("    when: record.who == \"ann\"\n" + metric("50") + later))
		w.calm()
		w.mustPlan("fallen, and reached by an edit", plan("deactivated condition_cleared", "cancelled cancelled_by_operator"))
	})
}

// hall is a definition with any of the four policies, and the simplest model of its records.
type hall struct {
	policy     string
	thresholds []int // none: only the condition
	least      int   // of the condition
	enabled    bool

	halls map[string]hallState
	said  map[string]bool // messages that are sent once
}

type hallState struct {
	booked, level int
	closed        bool
}

func (h *hall) text() string {
	rule := fmt.Sprintf("    when: record.level >= %d\n", h.least)
	if len(h.thresholds) > 0 {
		rule += metric(strings.ReplaceAll(strings.Trim(fmt.Sprint(h.thresholds), "[]"), " ", ", "))
	}
	text := strings.Replace(rising(rule), "false_to_true", h.policy, 1)
	return strings.Replace(text, "type: reminder", fmt.Sprintf("type: reminder\nenabled: %t", h.enabled), 1)
}

// reached returns the thresholds that a record has reached.
func (h *hall) reached(s hallState) (list []string) {
	if s.closed || s.level < h.least || !h.enabled {
		return nil
	}
	if len(h.thresholds) == 0 {
		return []string{""}
	}
	for _, at := range h.thresholds {
		if s.booked >= at {
			list = append(list, fmt.Sprint(at))
		}
	}
	return list
}

// write returns the messages when a record is written.
func (h *hall) write(name string, now hallState) (texts []string) {
	before := h.reached(h.halls[name])
	if _, there := h.halls[name]; !there {
		before = nil
	}
	h.halls[name] = now
	if h.policy == "false_to_true" {
		for _, at := range h.reached(now) {
			if !slices.Contains(before, at) {
				texts = append(texts, name+" "+at)
			}
		}
	}
	return texts
}

// stand returns the messages about the present state, whatever caused it.
func (h *hall) stand(date string) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(h.halls)) {
		all := h.reached(h.halls[name])
		if h.policy == "once_per_source" && len(all) > 1 {
			all = all[len(all)-1:] // only the highest one sends
		}
		for _, at := range all {
			once := map[string]string{
				"once_per_source": fmt.Sprint(name, len(h.thresholds) > 0), "once_per_threshold": name + " " + at,
				"once_per_day": fmt.Sprintf("%s %s %s", name, at, date),
			}[h.policy]
			if once == "" || h.said[h.policy+once] {
				continue
			}
			h.said[h.policy+once] = true
			texts = append(texts, name+" "+at)
		}
	}
	return texts
}

// Random edits of thresholds, conditions and policies between random writes: the messages equal those of the simplest model.
//
// Shows: R11, R12, B35, B36.
func TestRandomEditsOfThresholds(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			messages, edits, enough := 0, 0, storetest.MoreLives(12)
			rapid.Check(t, func(rt *rapid.T) {
				if enough() && messages > 0 && edits > 0 { // a few lives more where chance withheld one
					return
				}
				n, m := oneHall(t, rt, storetest.Open(t, storetest.URL(t, database)))
				messages, edits = messages+n, edits+m
			})
			if !t.Failed() && (messages == 0 || edits == 0) {
				t.Errorf("%d messages and %d edits are no test", messages, edits)
			}
		})
	}
}

func oneHall(t *testing.T, rt *rapid.T, s *store.Store) (messages, edits int) {
	h := &hall{enabled: true, halls: map[string]hallState{}, said: map[string]bool{}}
	policies := []string{"once_per_source", "once_per_threshold", "once_per_day", "false_to_true", "false_to_true"}
	thresholds := func() (list []int) {
		for _, at := range []int{20, 40, 60, 80} {
			if rapid.Bool().Draw(rt, "at") {
				list = append(list, at)
			}
		}
		return list
	}
	draw := func() {
		h.thresholds, h.least = thresholds(), rapid.IntRange(0, 2).Draw(rt, "least")
		if h.policy = rapid.SampledFrom(policies).Draw(rt, "policy"); h.policy == "once_per_threshold" && len(h.thresholds) == 0 {
			h.thresholds = []int{50}
		}
	}
	draw()
	w := newWorld(t, s, h.text(), "ann")
	log := []string{fmt.Sprintf("%s %v %d", h.policy, h.thresholds, h.least)}
	was := *h
	for range rapid.IntRange(3, 14).Draw(rt, "steps") {
		var want []string
		what := rapid.SampledFrom([]string{"write", "write", "write", "write", "thresholds", "when", "rule", "back", "switch", "day", "close"}).Draw(rt, "what")
		name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "hall")
		now, there := h.halls[name]
		edited := *h
		switch what {
		case "write":
			now.booked, now.level = rapid.SampledFrom([]int{0, 30, 50, 70, 90}).Draw(rt, "booked"), cmp.Or(rapid.IntRange(0, 2).Draw(rt, "level"), 2)
			want = h.write(name, now)
			w.put("visit/"+name, fmt.Sprintf(`{"booked": %d, "level": %d, "who": "ann"}`, now.booked, now.level))
		case "close":
			if !there {
				continue
			}
			now.closed = !now.closed
			want = h.write(name, now)
			w.write(upsert.Merge, "visit/"+name, fmt.Sprintf(`{"closed": %t}`, now.closed))
		case "thresholds":
			if h.thresholds = thresholds(); h.policy == "once_per_threshold" && len(h.thresholds) == 0 {
				h.thresholds = []int{50}
			}
		case "when":
			h.least = rapid.IntRange(0, 2).Draw(rt, "least")
		case "rule":
			draw()
		case "switch":
			h.enabled = !h.enabled
		case "back":
			h.policy, h.thresholds, h.least, h.enabled = was.policy, was.thresholds, was.least, was.enabled
		case "day":
			w.Clock.Set(w.Clock.Now().AddDate(0, 0, 1))
		}
		log = append(log, fmt.Sprintf("%s %s: %s %v %d %t, %+v", what, name, h.policy, h.thresholds, h.least, h.enabled, h.halls))
		if h.text() != edited.text() {
			was = edited
			w.Apply(h.text())
			edits++
		}
		w.calm()
		want = append(want, h.stand(w.Clock.Now().Format(time.DateOnly))...)
		slices.Sort(want)
		if got := w.said(); !slices.Equal(got, want) {
			rt.Fatalf("reported %q, want %q, after\n%s", got, want, strings.Join(log, "\n"))
		}
		messages += len(want)
		w.Clock.Set(w.Clock.Now().Add(time.Minute))
	}
	return messages, edits
}
