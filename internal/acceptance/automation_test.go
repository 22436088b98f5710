package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

func automationFiles() []file {
	return []file{
		{name: "automation-ensure.json", run: ensureCases, wants: []string{"cases[*].result", "cases[*].row.**", "cases[*].returns.**", "cases[*].sends", "resend.of", "resend.result"}, notes: []string{
			"given.diagnostics",                            // any text
			"cases[0].ensure_hash",                         // any: the row takes it over
			"cases[6].ensure_hash", "cases[7].ensure_hash", // any other
			"cases[9].ensure_hash", "cases[10].ensure_hash", // a reconciliation does not read it
		}},
		{name: "automation-setting-changes.json", run: settingChanges, wants: []string{
			"cases[*].old_row", "cases[*].new_row.**", "cases[*].order", "cases[*].row.**", "cases[*].at_due", "cases[*].reason", "cases[*].completed_rows", "cases[*].same_key",
		}},
		{name: "automation-threshold-policies.json", run: thresholdPolicies, wants: []string{"fired_counts.*", "policies.**", "withdraw.row", "withdraw.reason", "withdraw.then"}, notes: []string{"withdraw.given"}},
		{name: "automation-dst.json", run: dates, tried: many, wants: []string{
			"conversions[*].utc", "conversions[*].shown_local", "date_offsets.cases[*].scheduled_local_date", "date_offsets.cases[*].scheduled_on",
		}},
		{name: "automation-claim-lease-backoff.json", run: runsOfOccasions, wants: []string{
			"due_query[*].due", "claim[*].rows_changed", "claim[*].token", "claim[*].lease_until", "claim[*].proceeds", "stale[*].result", "stale[*].row.**",
			"stale[*].rows_changed", "stale[*].token", "ladder[*].status", "ladder[*].retry_count", "ladder[*].next_retry_on", "ladder[*].held", "ladder[*].hold_reason",
			"daily_retry.after_third.*", "revalidation[*].status", "revalidation[*].reason", "revalidation[*].held", "revalidation[*].hold_reason",
			"revalidation[*].outcome", "revalidation[*].uses", "claim[*].worker", "stale[*].worker", "stale[*].op", "claim[*].row_version", "stale[*].read_version", "ladder[*].outcome",
		}, notes: []string{
			"claim[1].read_version", // ours reads and claims in one statement
		}},
	}
}

// What ensuring an occasion makes of each state that it may be in.
//
// Shows: B8, B19, B20, B21, B22, B23.
func TestAcceptanceEnsure(t *testing.T) { run(t, "automation-ensure.json") }

// What each change of a setting makes of what is planned.
//
// Shows: B37, B38, B39, B40.
func TestAcceptanceSettingChanges(t *testing.T) {
	run(t, "automation-setting-changes.json")
}

// A class that fills up, under each of the four policies.
//
// Shows: B13, B16, B35, B36.
func TestAcceptanceThresholdPolicies(t *testing.T) {
	run(t, "automation-threshold-policies.json")
}

// Dates and times of day in zones, as occasions of records.
//
// Shows: B12, B34.
func TestAcceptanceDates(t *testing.T) { run(t, "automation-dst.json") }

// What is due, what a run that fails waits for, and what is asked when it is due.
//
// Shows: B24, B28, B30, B41.
func TestAcceptanceRunsOfOccasions(t *testing.T) {
	run(t, "automation-claim-lease-backoff.json")
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

// vettingOf is it with the settings that a file gives.
func vettingOf(given map[string]any) string {
	return strings.NewReplacer("offset: -30d", fmt.Sprintf("offset: -%vd", given["offset_days"]), `at: "09:00"`, fmt.Sprintf("at: %q", given["send_time"]),
		"Pacific/Auckland", fmt.Sprint(given["timezone"])).Replace(vetting)
}

// capacity is a workflow about a class that is nearly full.
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

// person is a contact with an address for every channel.
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
		reason.WorkflowInactive: "ReminderSettingInactive", reason.ConditionCleared: "ConditionNoLongerMet", reason.TriggerDisabled: "ReminderSettingInactive",
	}
	return cmp.Or(theirs[r], string(r))
}

func count(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// ensureCases checks the comparison of desired with stored occasions for each state of a row. A row is one of the
// version in force, so that its inputs are compared; the hashes of the data stand for ours.
func ensureCases(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	w := newWorld(t, open(), vetting)
	set, err := w.Definitions(t.Context(), w.Workspace.ID)
	if err != nil {
		t.Fatal(err)
	}
	given, now := dig(data, "given"), enginetest.Start
	attempts := int(at64(t, given["attempts"]))
	rec := subject.Record{ID: 1, Type: "staff", ExtID: "s1", Props: map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"}}
	look := func() plan.Evaluation {
		return plan.Record(set, rec, nil, nil, plan.Observation{Now: now, EvaluateAt: now}, &civil.Zones{})[0]
	}
	for i, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		l := look()
		l.Ahead.Inputs = c["ensure_hash"].(string)
		var rows []instance.Row
		if c["existing"] != nil {
			row := instance.Row{
				ID: 7, Key: data["key"].(string), InputHash: given["input_hash"].(string),
				Trace: given["diagnostics"].(string), Attempts: attempts, DueAt: l.Ahead.Desired[0].Due, LocalDate: "2026-08-01", Timezone: "Pacific/Auckland", WorkflowVersion: l.Workflow.Version,
			}
			if held, _ := c["held"].(bool); held {
				row.Hold = instance.HoldConflict
			}
			switch c["existing"] {
			case "processing": // a lease on what is pending
				row.Status, row.LeaseUntil = instance.Pending, now.Add(time.Minute)
			case "pending":
				row.Status = instance.Pending
			default:
				row.Status, row.CompletedAt = theirState(t, c["existing"]), now.Add(-time.Hour)
			}
			rows = append(rows, row)
		}
		by := plan.BySource
		switch c["by"] {
		case nil:
		case "reconciliation":
			by = plan.ByRepair
		default:
			t.Fatalf("by %v", c["by"])
		}
		changes := l.Diff(rows, by, now)
		where := fmt.Sprintf("case %d, %v by %v", i, c["existing"], by)
		o.begin(where)
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
		row := map[string]any{"status": status, "held": got.Row.Held(), "hold_reason": string(got.Row.Reason), "input_hash": got.Row.InputHash, "retry_count": count(got.Row.RetryCount)}
		kept := []any{} // its deliveries go by its id
		for name, same := range map[string]bool{"diagnostics": got.Row.Trace == given["diagnostics"], "attempts": got.Row.Attempts == attempts, "dispatch": got.Row.ID == 7} {
			if same {
				kept = append(kept, name)
			}
		}
		wanted := c["row"].(map[string]any)["preserves"]
		if list, ok := wanted.([]any); ok { // in the order of the case
			slices.SortFunc(kept, func(a, b any) int { return slices.Index(list, a) - slices.Index(list, b) })
		}
		row["preserves"] = kept
		o.equal(where, c["row"], row, nil)
		if c["returns"] != nil {
			returned(&o, open(), t, c, given, data["key"].(string))
		}
		if c["existing"] == nil {
			o.equal(where+": inputs", c["ensure_hash"], got.Row.InputHash, nil)
		}
		o.equal(where+": key", data["key"], got.Row.Key, nil)
	}
	o.begin("sent again")
	resend(&o, open(), t, dig(data, "resend"), data["key"].(string))
	return o
}

func at64(t testing.TB, v any) int64 {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// vetted is the world of an occasion that is done; again ensures it once more, through a date that goes away and comes back.
func vetted(t testing.TB, s *store.Store, k string) (w *world, again func()) {
	w = newWorld(t, s, vetting)
	w.person("kim")
	w.record("staff/s1", map[string]any{"vetting_expiry": "2026-08-31", "owner_id": "kim"})
	due := time.Date(2026, 7, 31, 21, 0, 0, 0, time.UTC)
	w.rest(enginetest.Start)
	w.rest(due)
	return w, func() {
		for _, date := range []string{"2026-12-31", "2026-08-31"} {
			w.record("staff/s1", map[string]any{"vetting_expiry": date, "owner_id": "kim"})
			w.rest(due)
		}
	}
}

// returned holds what ensuring an occasion returns that was sent: its delivery, and no message.
func returned(o *outcome, s *store.Store, t testing.TB, c, given map[string]any, k string) {
	w, again := vetted(t, s, k)
	before := w.rows()
	w.Provider.Sent()
	again()
	dispatch := map[string]any{}
	if after := w.rows(); len(before) == 1 && slices.Equal(after, before) && after[0].Instance == w.occasions()[k].ID {
		dispatch = dig(given, "dispatch")
	}
	o.equal("returns", c["returns"], map[string]any{"dispatch": dispatch}, nil)
	o.equal("sends", c["sends"], count(len(w.Provider.Sent())), nil)
}

// resend is what a freed key is for: what was sent is sent again under another name.
func resend(o *outcome, s *store.Store, t testing.TB, want map[string]any, k string) {
	w, again := vetted(t, s, k)
	o.equal("of", want["of"], string(w.occasions()[k].Status), nil)
	if _, err := w.Operator().Forget(t.Context(), w.Workspace.ID, k, "test", w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	again()
	row, found := w.occasions()[want["new_key"].(string)]
	o.equal("result", want["result"], map[bool]string{true: "inserted"}[found], nil)
	if row.Status != instance.Completed || len(w.Provider.Sent()) != 2 {
		o.differ("sent again: %+v", row)
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
		o.begin(where)
		definitions, name, old := vettingOf(given), "staff/s1", given["key"].(string)
		props := map[string]any{"vetting_expiry": given["target_date"], "owner_id": "kim"}
		if change["threshold"] != nil {
			from, _, _ := strings.Cut(fmt.Sprint(change["threshold"]), " -> ")
			definitions, name = capacity("once_per_threshold", "["+from+"]", "1h"), "class/c1"
			props = map[string]any{"occupancy": json.Number(strings.TrimPrefix(c["given"].(string), "occupancy ")), "owner_id": "kim"}
			old = "reminder:set2:class:c1:capacity:threshold:occupancy:" + from + ":OncePerThreshold:all"
		}
		w := newWorld(t, open(), definitions)
		w.person("kim")
		w.record(name, props)
		if c["completed_rows"] != nil { // another one that was sent today
			w.record("staff/s0", map[string]any{"vetting_expiry": "2026-06-13", "owner_id": "kim"})
		}
		w.rest(enginetest.Start)
		w.Provider.Sent()
		before, found := w.occasions()[old]
		if !found || before.Status != instance.Pending {
			o.differ("%s: before it there is %+v", where, before)
			continue
		}
		if on := given["scheduled_on"]; change["threshold"] == nil {
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
				edit(fmt.Sprintf("offset: -%vd", given["offset_days"]), fmt.Sprintf("offset: -%vd", value))
			case "target_date":
				props["vetting_expiry"] = value
				w.record(name, props)
				w.rest(enginetest.Start)
			case "threshold":
				from, to, _ := strings.Cut(value.(string), " -> ")
				edit("["+from+"]", "["+to+"]")
			case "send_time":
				edit(fmt.Sprintf("at: %q", given["send_time"]), fmt.Sprintf("at: %q", value))
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
	if c["order"] != nil {
		got := fmt.Sprint(order)
		if slices.Equal(order, []journal.What{journal.Withdrawn, journal.Created}) {
			got = "old deactivated first"
		}
		o.equal(where+": order", c["order"], got, nil)
	}
	if c["completed_rows"] != nil {
		got := "lost"
		for _, row := range all {
			if row.Status == instance.Completed && row.Key != before.Key {
				got = "kept"
			}
		}
		o.equal(where+": completed rows", c["completed_rows"], got, nil)
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
	if c["same_key"] != nil {
		o.equal(where+": same key", c["same_key"], len(all) == 1, nil)
	}
}
