package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/condition"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/journal"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

func automationFiles() []file {
	return []file{
		{name: "automation-ensure.json", run: ensureCases, bite: func(data map[string]any) {
			dig(data, "cases", 9)["result"] = "reactivated"
		}},
		{name: "automation-setting-changes.json", run: settingChanges, bite: func(data map[string]any) {
			dig(data, "cases", 3, "row")["scheduled_on"] = "2026-07-31T20:30:00Z"
		}},
		{name: "automation-threshold-policies.json", run: thresholdPolicies, bite: func(data map[string]any) {
			dig(data, "policies", "FalseToTrue", 8)["result"] = "exists"
		}},
		{name: "automation-dst.json", run: dates, bite: func(data map[string]any) {
			dig(data, "date_offsets", "cases", 3)["scheduled_on"] = "2028-02-27T20:00:00Z"
		}},
		{name: "automation-claim-lease-backoff.json", run: runsOfOccasions, bite: func(data map[string]any) {
			dig(data, "ladder", 1)["next_retry_on"] = "2026-05-14T09:15:00Z"
		}},
	}
}

// What ensuring an occasion makes of each state that it may be in.
//
// Shows: B8, B19, B20, B21, B22, B23.
func TestAcceptanceEnsure(t *testing.T) { run(t, automationFiles(), "automation-ensure.json") }

// What each change of a setting makes of what is planned.
//
// Shows: B37, B38, B39, B40.
func TestAcceptanceSettingChanges(t *testing.T) {
	run(t, automationFiles(), "automation-setting-changes.json")
}

// A class that fills up, under each of the four policies.
//
// Shows: B13, B16, B35, B36.
func TestAcceptanceThresholdPolicies(t *testing.T) {
	run(t, automationFiles(), "automation-threshold-policies.json")
}

// Dates and times of day in zones, as occasions of records.
//
// Shows: B12, B34.
func TestAcceptanceDates(t *testing.T) { run(t, automationFiles(), "automation-dst.json") }

// What is due, what a run that fails waits for, and what is asked when it is due.
//
// Shows: B24, B28, B30, B41.
func TestAcceptanceRunsOfOccasions(t *testing.T) {
	run(t, automationFiles(), "automation-claim-lease-backoff.json")
}

// vetting reminds of a date of a person.
const vetting = `
workflow: set1
type: reminder
triggers:
  - id: vetting_expiry
    record: staff
    timing:
      anchor: record.vetting_expiry
      offset: -30d
      at: "09:00"
      timezone: Pacific/Auckland
audience:
  - to: record.owner_id
channel: email
message:
  email: {subject: v1, text: v1}
  sms: {text: v1}
---
record_type: staff
fields:
  vetting_expiry: date
  owner_id: text
---
channel: email
provider: memory
---
channel: sms
provider: memory
`

// capacity tells of a class that is nearly full.
func capacity(fire, thresholds, offset string) string {
	return `
workflow: set2
type: reminder
triggers:
  - id: capacity
    record: class
    metric:
      name: occupancy
      value: record.occupancy
      thresholds: ` + thresholds + `
    fire: ` + fire + `
    timing: {offset: ` + offset + `}
audience:
  - to: record.owner_id
channel: email
message:
  email: {subject: full, text: full}
---
record_type: class
fields:
  occupancy: number
  owner_id: text
---
channel: email
provider: memory
`
}

// rest runs every stage at an instant until nothing is left to do there.
func (w *world) rest(at time.Time) {
	w.Helper()
	for range 1000 {
		if r := w.At(at); !r.Any() {
			return
		}
	}
	w.Fatalf("at %s there is no end to it", at)
}

// record writes fields of a record such as staff/s1.
func (w *world) record(name string, props map[string]any) {
	w.Helper()
	w.must("PUT", "/v1/records/"+name, map[string]any{"props": props})
}

// person is somebody who can be told by every channel.
func (w *world) person(id string) {
	w.Helper()
	w.must("PUT", "/v1/contacts/"+id, map[string]any{"addresses": map[string]any{"email": id + "@example.org", "sms": "+4930000001"}})
}

// occasions are all that was planned, by key.
func (w *world) occasions() map[string]instance.Row {
	w.Helper()
	rows, err := w.Store.Instances(w.Context(), w.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	all := map[string]instance.Row{}
	for _, r := range rows {
		all[r.Key] = r
	}
	return all
}

// theirReason are the source's words.
func theirReason(r reason.Reason) string {
	theirs := map[reason.Reason]string{
		reason.SourceGone: "SourceNoLongerValid", reason.RecordClosed: "SourceNoLongerValid",
		reason.WorkflowInactive: "ReminderSettingInactive", reason.TriggerDisabled: "ReminderSettingInactive",
	}
	return cmp.Or(theirs[r], string(r))
}

func count(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// ensureCases holds the comparison of what is implied with what is stored against each state of a row. A row is one of the
// version in force, so that its inputs are compared; the hashes of the data stand for ours.
func ensureCases(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	w := newWorld(t, open(), vetting)
	set, err := w.Definitions(t.Context(), w.Workspace.ID)
	if err != nil {
		t.Fatal(err)
	}
	given, now := dig(data, "given"), enginetest.Start
	rec := subject.Record{ID: 1, Type: "staff", ExtID: "s1", Props: map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"}}
	look := func() plan.Look {
		return plan.Record(set, rec, nil, nil, plan.Glance{Now: now, LookAt: now}, &civil.Zones{})[0]
	}
	for i, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		l := look()
		l.Ahead.Inputs = c["ensure_hash"].(string)
		var rows []instance.Row
		if c["existing"] != nil {
			row := instance.Row{
				ID: 7, Key: data["key"].(string), Status: instance.Status(c["existing"].(string)), InputHash: given["input_hash"].(string),
				Trace: given["diagnostics"].(string), Attempts: 3, DueAt: l.Ahead.Implied[0].Due, LocalDate: "2026-08-01", Timezone: "Pacific/Auckland", WorkflowVersion: l.Workflow.Version,
			}
			row.Held, _ = c["held"].(bool)
			switch c["existing"] {
			case "processing": // a lease on what is pending
				row.Status, row.LeaseUntil = instance.Pending, now.Add(time.Minute)
			case "pending":
			default:
				row.CompletedAt = now.Add(-time.Hour)
			}
			rows = append(rows, row)
		}
		by := plan.BySource
		if c["by"] == "reconciliation" {
			by = plan.ByRepair
		}
		changes := l.Diff(rows, by, now)
		where := fmt.Sprintf("case %d, %v by %v", i, c["existing"], by)
		o.cases++
		if len(changes) != 1 {
			o.differ("%s: %d changes", where, len(changes))
			continue
		}
		got := changes[0]
		o.equal(where, c["result"], string(got.Effect), nil)
		status := string(got.Row.Status)
		if got.Row.Processing(now) {
			status = "processing"
		}
		row := map[string]any{"status": status, "held": got.Row.Held, "hold_reason": string(got.Row.Reason), "input_hash": got.Row.InputHash, "retry_count": count(got.Row.RetryCount)}
		want := maps.Clone(c["row"].(map[string]any))
		if want["preserves"] != nil {
			delete(want, "preserves") // its deliveries go by its id
			if got.Row.Trace != given["diagnostics"] || got.Row.Attempts != 3 || got.Row.ID != 7 {
				o.differ("%s: %+v has lost something", where, got.Row)
			}
		}
		o.equal(where, want, row, nil)
		o.equal(where+": key", data["key"], got.Row.Key, nil)
	}
	o.cases++
	resend(&o, open(), t, dig(data, "resend"), data["key"].(string))
	return o
}

// resend is what a freed key is for: what was sent is sent again under another name.
func resend(o *outcome, s *store.Store, t testing.TB, want map[string]any, k string) {
	w := newWorld(t, s, vetting)
	w.person("kim")
	w.record("staff/s1", map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"})
	due := time.Date(2026, 7, 31, 21, 0, 0, 0, time.UTC)
	w.rest(enginetest.Start)
	w.rest(due)
	o.equal("before it is sent again", want["of"], string(w.occasions()[k].Status), nil)
	if _, err := w.Operator().Forget(t.Context(), w.Workspace.ID, k, "test", due); err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"2026-12-31", "2026-08-31"} {
		w.record("staff/s1", map[string]any{"vetting_expiry": date, "owner_id": "kim"})
		w.rest(due)
	}
	again, found := w.occasions()[want["new_key"].(string)]
	if got := map[bool]string{true: "inserted"}[found]; got != want["result"] || again.Status != instance.Completed || len(w.Provider.Sent()) != 2 {
		o.differ("sent again: %q, %+v", got, again)
	}
}

// settingChanges edits a definition or a record while its reminder waits.
func settingChanges(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	given := dig(data, "given")
	for i, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		change := c["change"].(map[string]any)
		where := fmt.Sprintf("case %d, %v", i, change)
		o.cases++
		definitions, name, old := vetting, "staff/s1", given["key"].(string)
		props := map[string]any{"vetting_expiry": given["target_date"], "owner_id": "kim"}
		if change["threshold"] != nil {
			definitions, name = capacity("once_per_threshold", "[80]", "1h"), "class/c1"
			props = map[string]any{"occupancy": json.Number(strings.TrimPrefix(c["given"].(string), "occupancy ")), "owner_id": "kim"}
			old = "reminder:set2:class:c1:capacity:threshold:occupancy:80:OncePerThreshold:all"
		}
		w := newWorld(t, open(), definitions)
		w.person("kim")
		w.record(name, props)
		w.rest(enginetest.Start)
		before, found := w.occasions()[old]
		if !found || before.Status != instance.Pending {
			o.differ("%s: before it there is %+v", where, before)
			continue
		}
		if on := given["scheduled_on"]; definitions == vetting {
			o.equal(where+": before", on, instant(before.DueAt), nil)
		}
		w.Journal()
		edit := func(was, is string) {
			if !strings.Contains(definitions, was) {
				t.Fatalf("%q is not there", was)
			}
			definitions = strings.Replace(definitions, was, is, 1)
			w.Apply(definitions)
			w.rest(enginetest.Start)
		}
		for field, value := range change {
			switch field {
			case "offset_days":
				edit("offset: -30d", fmt.Sprintf("offset: -%vd", value))
			case "target_date":
				props["vetting_expiry"] = value
				w.record(name, props)
				w.rest(enginetest.Start)
			case "threshold":
				edit("[80]", "[90]")
			case "send_time":
				edit(`at: "09:00"`, fmt.Sprintf("at: %q", value))
			case "template":
				edit("{subject: v1, text: v1}", fmt.Sprintf("{subject: %v, text: %v}", value, value))
			case "channel":
				edit("channel: email", fmt.Sprintf("channel: %v", value))
			case "enabled":
				edit("type: reminder", "type: reminder\nenabled: false")
				if value == true {
					edit("enabled: false", "enabled: true")
				}
			default:
				o.differ("%s: an unknown change", where)
			}
		}
		settingChanged(&o, w, where, c, before)
	}
	return o
}

// settingChanged reads what became of the row after an edit.
func settingChanged(o *outcome, w *world, where string, c map[string]any, before instance.Row) {
	var order []journal.What
	for _, e := range w.Journal() {
		if e.What == journal.Withdrawn || e.What == journal.Created {
			order = append(order, e.What)
		}
	}
	all := w.occasions()
	after := all[before.Key]
	became := string(after.Status)
	switch {
	case after == before:
		became = "unchanged"
	case after.Status == instance.Pending && slices.Contains(order, journal.Created):
		became = "reactivated"
	case after.Status == instance.Pending:
		became = "updated"
	}
	o.equal(where+": old row", c["old_row"], became, nil)
	if want, ok := c["new_row"].(map[string]any); ok {
		row := all[fmt.Sprint(want["key"])]
		o.equal(where+": new row", want, map[string]any{"key": row.Key, "scheduled_on": instant(row.DueAt), "status": string(row.Status)}, nil)
	}
	if c["order"] != nil && !slices.Equal(order, []journal.What{journal.Withdrawn, journal.Created}) {
		o.differ("%s: in the order %v", where, order)
	}
	if want, ok := c["row"].(map[string]any); ok {
		same := map[bool]string{true: "same"}[len(all) == 1]
		o.equal(where, want, map[string]any{"key": same, "scheduled_on": instant(after.DueAt), "status": string(after.Status)}, nil)
	}
	if c["reason"] != nil {
		o.equal(where+": reason", c["reason"], theirReason(after.Reason), nil)
	}
	if c["at_due"] != nil {
		w.rest(before.DueAt)
		sent := w.Provider.Sent()
		got := ""
		if len(sent) == 1 {
			got = map[bool]string{true: "sends sms", false: "renders " + sent[0].Subject}[sent[0].Channel == "sms:default"]
		}
		o.equal(where+": at due", c["at_due"], got, nil)
	}
	if c["same_key"] != nil && len(all) != 1 {
		o.differ("%s: %d rows", where, len(all))
	}
}

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
			row, err := w.Store.Record(t.Context(), w.Workspace.ID, store.RecordRef{Type: "class", ExtID: "c1"})
			if err != nil {
				t.Fatal(err)
			}
			states, err := condition.Parse(row.State)
			if err != nil {
				t.Fatal(err)
			}
			look := plan.Record(set, row.Record, nil, states, plan.Glance{Now: now, LookAt: now, LookedAt: now}, &civil.Zones{})[0]
			for _, threshold := range thresholds {
				o.cases++
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
		o.equal(policy+": fired", dig(data, "fired_counts")[policy], count(made), nil)
		o.cases++
	}
	return o
}

// metBy is what was made of a threshold.
func metBy(w *world, look *plan.Look, input any, threshold string, created map[string]bool) map[string]any {
	n := json.Number(threshold)
	got := map[string]any{"at": input.([]any)[0], "occupancy": input.([]any)[1], "threshold": n, "met": false, "result": "none", "key": nil}
	if !slices.ContainsFunc(look.Judged, func(j plan.Judged) bool { return j.Issue == threshold && j.Met }) {
		return got
	}
	got["met"] = true
	for _, i := range look.Ahead.Implied {
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
	type wanted struct{ target, offset, at, zone, date, utc string }
	var cases []wanted
	for _, c := range data["conversions"].([]any) {
		c := c.(map[string]any)
		cases = append(cases, wanted{fmt.Sprint(c["local_date"]), "0d", fmt.Sprint(c["local_time"]), fmt.Sprint(c["timezone"]), fmt.Sprint(c["local_date"]), fmt.Sprint(c["utc"])})
	}
	offsets := dig(data, "date_offsets")
	for _, c := range offsets["cases"].([]any) {
		c := c.(map[string]any)
		days, err := c["offset_days"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, wanted{fmt.Sprint(c["target_date"]), fmt.Sprintf("%+dd", -days), fmt.Sprint(offsets["at"]), fmt.Sprint(offsets["timezone"]), fmt.Sprint(c["scheduled_local_date"]), fmt.Sprint(c["scheduled_on"])})
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
		o.cases++
		row := byWorkflow[fmt.Sprintf("w%d", i)]
		where := fmt.Sprintf("%s %s %s in %s", c.target, c.offset, c.at, c.zone)
		o.equal(where, c.utc, instant(row.DueAt), nil)
		loc, err := civil.LoadZone(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		if row.LocalDate != c.date && !strings.HasPrefix(row.DueAt.In(loc).Format("2006-01-02"), row.LocalDate) {
			o.differ("%s: on %s, want %s", where, row.LocalDate, c.date)
		}
	}
	return o
}
