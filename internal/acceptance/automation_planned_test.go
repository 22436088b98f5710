package acceptance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// thresholdPolicies has a class fill up and empty, under each of the policies.
func thresholdPolicies(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	var thresholds []string
	for _, v := range data["thresholds"].([]any) {
		thresholds = append(thresholds, fmt.Sprint(v))
	}
	fires := map[string]string{
		"OncePerSource": definition.FireOncePerSource, "OncePerThreshold": definition.FireOncePerThreshold,
		"OncePerDay": definition.FireOncePerDay, "FalseToTrue": definition.FireFalseToTrue,
	}
	for policy, rows := range data["policies"].(map[string]any) {
		w := newWorld(t, open(), capacity(fires[policy], "["+strings.Join(thresholds, ", ")+"]", "0d"))
		w.person("kim")
		set, err := w.Definitions(t.Context(), w.Workspace.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := rows.([]any)
		for _, input := range data["input"].([]any) {
			now, occupancy := at(t, input.([]any)[0]), input.([]any)[1]
			w.Clock.Set(now)
			w.record("class/c1", map[string]any{"occupancy": occupancy, "owner_id": "kim"})
			w.rest(now)
			created := map[string]bool{}
			for _, e := range w.Journal() {
				if e.What == journal.Created {
					created[e.Key] = true
				}
			}
			row, err := w.Store.Record(t.Context(), w.Workspace.ID, subject.RecordRef{Type: "class", ExtID: "c1"})
			if err != nil {
				t.Fatal(err)
			}
			states, err := condition.Parse(row.State)
			if err != nil {
				t.Fatal(err)
			}
			look := plan.Record(set, row.Record, nil, states, plan.Observation{Now: now, EvaluateAt: now, EvaluatedAt: now}, &civil.Zones{})[0]
			for _, threshold := range thresholds {
				o.begin(fmt.Sprintf("%s at %v, threshold %s", policy, now.Format(time.RFC3339), threshold))
				wanted := want[0].(map[string]any)
				want = want[1:]
				o.equal(fmt.Sprintf("%s at %v, threshold %s", policy, now, threshold), wanted, metBy(w, &look, input, threshold, created), nil)
			}
		}
		made := 0
		for _, row := range w.occasions() {
			if row.Status == instance.Completed || row.Status == instance.Pending {
				made++
			}
		}
		o.begin(policy + ", fired")
		o.equal(policy+": fired", dig(data, "fired_counts")[policy], count(made), nil)
	}
	o.begin("withdraw")
	withdrawn(&o, open(), t, dig(data, "withdraw"))
	return o
}

// withdrawn lets the condition of a waiting occasion clear and become true again.
func withdrawn(o *outcome, s *store.Store, t testing.TB, want map[string]any) {
	w := newWorld(t, s, capacity("once_per_threshold", "[80]", "1h"))
	w.person("kim")
	fill := func(occupancy int) instance.Row {
		w.record("class/c1", map[string]any{"occupancy": occupancy, "owner_id": "kim"})
		w.rest(enginetest.Start)
		return w.only()
	}
	was, gone := fill(85), fill(75)
	if was.Status != instance.Pending || len(w.Provider.Sent()) > 0 {
		o.differ("before it: %+v", was)
	}
	o.equal("row", want["row"], string(gone.Status), nil)
	o.equal("reason", want["reason"], theirReason(gone.Reason), nil)
	then := "rises again: " + string(fill(85).Status)
	if back := w.only(); back.Key == was.Key && back.Status == instance.Pending {
		then = "rises again: same key reactivated (OncePerThreshold)"
	}
	o.equal("then", want["then"], then, nil)
}

// metBy is what was made of a threshold.
func metBy(w *world, look *plan.Evaluation, input any, threshold string, created map[string]bool) map[string]any {
	n := json.Number(threshold)
	got := map[string]any{"at": input.([]any)[0], "occupancy": input.([]any)[1], "threshold": n, "met": false, "result": "none", "key": nil}
	if !slices.ContainsFunc(look.Judged, func(j plan.Judged) bool { return j.Issue == threshold && j.Met }) {
		return got
	}
	got["met"] = true
	for _, i := range look.Ahead.Desired {
		if key.ThresholdOf(i.Key) != threshold && key.ThresholdOf(i.Key) != "" {
			continue
		}
		got["key"] = string(i.Key)
		if _, stored := w.occasions()[string(i.Key)]; stored {
			got["result"] = map[bool]string{true: "fired", false: "exists"}[created[string(i.Key)]]
		}
	}
	return got
}

// dates plans an occasion of a date for each case, and reads when it is due.
func dates(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	type wanted struct{ target, offset, at, zone, date, utc, shown string }
	var cases []wanted
	for _, c := range data["conversions"].([]any) {
		c := c.(map[string]any)
		cases = append(cases, wanted{fmt.Sprint(c["local_date"]), "0d", fmt.Sprint(c["local_time"]), fmt.Sprint(c["timezone"]), fmt.Sprint(c["local_date"]), fmt.Sprint(c["utc"]), fmt.Sprint(c["shown_local"])})
	}
	offsets := dig(data, "date_offsets")
	for _, c := range offsets["cases"].([]any) {
		c := c.(map[string]any)
		days, err := c["offset_days"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, wanted{fmt.Sprint(c["target_date"]), fmt.Sprintf("%+dd", -days), fmt.Sprint(offsets["at"]), fmt.Sprint(offsets["timezone"]), fmt.Sprint(c["scheduled_local_date"]), fmt.Sprint(c["scheduled_on"]), ""})
	}
	var text strings.Builder
	text.WriteString("record_type: paper\nfields: {name: text, target: date}\n---\nchannel: email\nprovider: memory\n")
	for i, c := range cases {
		fmt.Fprintf(&text, "---\nworkflow: w%d\ntype: reminder\ntriggers:\n  - id: t\n    record: paper\n    when: record.name == \"p%d\"\n    timing: {anchor: record.target, offset: %s, at: %q, timezone: %s, catch_up: forever}\n"+
			"audience:\n  - to: record.id\nchannel: email\nmessage:\n  email: {subject: x, text: x}\n", i, i, strings.Replace(c.offset, "+0d", "0d", 1), c.at, c.zone)
	}
	w := newWorld(t, open(), text.String())
	for i, c := range cases {
		w.record(fmt.Sprintf("paper/p%d", i), map[string]any{"name": fmt.Sprintf("p%d", i), "target": c.target})
	}
	w.rest(enginetest.Start)
	byWorkflow := map[string]instance.Row{}
	for _, row := range w.occasions() {
		byWorkflow[row.Workflow] = row
	}
	for i, c := range cases {
		o.begin(fmt.Sprintf("%s %s %s in %s", c.target, c.offset, c.at, c.zone))
		row := byWorkflow[fmt.Sprintf("w%d", i)]
		where := fmt.Sprintf("%s %s %s in %s", c.target, c.offset, c.at, c.zone)
		o.equal(where, c.utc, instant(row.DueAt), nil)
		loc, err := civil.LoadZone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		o.equal(where+": date", c.date, row.LocalDate, nil)
		if c.shown != "" {
			o.equal(where+": shown", c.shown, row.DueAt.In(loc).Format("2006-01-02T15:04:05-0700"), nil)
		}
	}
	return o
}
