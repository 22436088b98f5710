package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

func adpFiles() []file {
	return []file{
		{name: "adp-csi-gr.json", run: csiGR, wants: []string{
			"timeline[*].expect.**", "filtered_out.response.**", "submit[*].row.**", "submit[*].http", "submit[*].then", "submit[*].outbox",
		}, notes: []string{
			"submit[*].when", "timeline[9].expect.note",
			"filtered_out.body.items[0].payload.jobType", // any other than the filter's
		}},
		{name: "adp-voc.json", run: voc, tried: many, wants: []string{"timeline[*].row.**", "timeline[*].sent", "timeline[*].remaining_before", "timeline[*].next_day"}},
		{name: "adp-dedup-hash.json", run: dedupHash, tried: every, wants: []string{"vectors[*].canonical", "vectors[*].sha256", "byte_length"}, notes: []string{
			"separator", "encoding", // in words; the digests show both
		}},
		{name: "adp-expiry.json", run: expiry, wants: []string{"cases[*].after", "per_workflow.after"}},
		{name: "adp-failure-modes.json", run: failureModes, wants: []string{"literal.rows[*].row.**", "literal.rows[*].log.**", "default.ladder[*].row.**", "default.ladder[*].fail", "default.no_channel.row.**", "default.no_channel.then", "default.throws"}, notes: []string{"literal.note"}},
		adpOutboxFile(),
	}
}

// Shows: C1, C12, C13, C18, C24, C25.
func TestAcceptanceADPCsiGR(t *testing.T) { run(t, "adp-csi-gr.json") }

// Shows: C20, C22, C28.
func TestAcceptanceADPVoc(t *testing.T) { run(t, "adp-voc.json") }

// Shows: C8, C9.
func TestAcceptanceADPDedupHash(t *testing.T) { run(t, "adp-dedup-hash.json") }

// Shows: C28, C29, C30, C31.
func TestAcceptanceADPExpiry(t *testing.T) { run(t, "adp-expiry.json") }

// Shows: C44, C45, C46, C47.
func TestAcceptanceADPFailureModes(t *testing.T) { run(t, "adp-failure-modes.json") }

// survey writes a workflow of the source in our format.
type survey struct {
	extID, trigger, event, filter, dedup, channel, offset, grace, retry string
	reminders                                                           []string
	undefined                                                           bool // leave the channel out
}

func (s survey) yaml() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("workflow: survey\ntype: survey\next_id: %q\ntriggers:\n  - id: %s\n    event: %s", s.extID, s.trigger, s.event)
	if s.filter != "" {
		p("    when:\n%s", s.filter)
	}
	if s.dedup != "" {
		p("    dedup: %s", s.dedup)
	}
	p("timing:\n  offset: %s\n  catch_up: forever", s.offset)
	if len(s.reminders) > 0 {
		p("  reminders: [%s]", strings.Join(s.reminders, ", "))
	}
	p("  expire_after: %s", s.grace)
	p("audience:\n  - to: event.recipient\nchannel: %s\nmessage:\n  survey: form", s.channel)
	if s.retry != "" {
		p("retry: %s", s.retry)
	}
	p("---\nsurvey: form\ntitle: Form\ninvitation:\n  text: \"{{ survey.link }}\"\nquestions:\n  - id: rate\n    type: rating\n    text: Rate\n    min: 1\n    max: 5")
	if !s.undefined {
		p("---\nchannel: %s\nprovider: memory", s.channel)
	}
	return b.String()
}

// csiGR walks through the source's worked example, tick by tick.
func csiGR(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	filter := config["filter"].(map[string]any)
	var recipe, reminders []string
	for _, path := range config["dedup"].([]any) {
		recipe = append(recipe, path.(string))
	}
	for _, r := range config["reminders"].([]any) {
		reminders = append(reminders, r.(string))
	}
	definitions := survey{
		extID: fmt.Sprint(config["survey"]), trigger: config["trigger"].(string), event: "service-visit-closed",
		filter: fmt.Sprintf("      field: %s\n      op: %q\n      value: %s", filter["questionId"], filter["op"], filter["value"]),
		dedup:  "[" + strings.Join(recipe, ", ") + "]", channel: config["channel"].(string),
		offset: config["initialDelay"].(string), reminders: reminders, grace: config["grace"].(string),
	}.yaml()
	w := newWorld(t, open(), definitions)
	bound := map[string]any{}
	var body, link any
	for _, step := range data["timeline"].([]any) {
		step := step.(map[string]any)
		w.Clock.Set(at(t, step["at"]))
		where := "at " + step["at"].(string)
		got := map[string]any{}
		for _, action := range step["do"].([]any) {
			action := action.(map[string]any)
			switch op := action["op"]; op {
			case "ingest":
				if action["body"] != "same" {
					body = action["body"]
				}
				status, answer := w.post(ingestPath, body)
				if status != 200 {
					t.Fatalf("%s: %d %v", where, status, answer)
				}
				got["response"], link = answer, dig(answer, "items", 0, "instances", 0)["publicId"]
			case "tick":
				got["processed"] = w.tick()["processed"]
			case "submit":
				status, _ := w.post(responsesPath(link), map[string]any{"answers": map[string]any{"rate": 5}})
				got["http"] = count(status)
				got["note"] = dig(step, "expect")["note"] // in words
			default:
				o.differ("%s: unknown op %v", where, op)
			}
		}
		o.begin(where)
		rows := w.rows()
		if len(rows) == 0 {
			o.differ("%s: no row", where)
			continue
		}
		d := rows[len(rows)-1]
		got["rows"], got["row"], got["log"] = json.Number(fmt.Sprint(len(rows))), w.row(d), w.log(d)
		if step["at"] == dig(data, "timeline", 0)["at"] {
			w.dedupedBy(&o, d, recipe, data["context"].(map[string]any))
		}
		got["row_fixed"] = map[string]any{"triggered_by": "event:" + w.event(d).Kind, "channel": d.Channel, "locale": d.Locale, "customer_ref": d.CustomerRef}
		o.equal(where, step["expect"], got, bound)
	}

	other := data["filtered_out"].(map[string]any)
	fresh := newWorld(t, open(), definitions)
	_, answer := fresh.post(ingestPath, other["body"])
	o.begin("filtered out")
	o.equal("filtered out", other["response"], answer, bound)
	if rows := fresh.rows(); len(rows) > 0 {
		o.differ("filtered out: %d rows", len(rows))
	}
	// It is the same visit but for the filter: with the filter's value it is taken.
	visit := dig(other, "body", "items", 0)
	visit["payload"].(map[string]any)["jobType"] = filter["value"]
	o.equal("filtered out, but for the filter", dig(data, "timeline", 0, "do", 0)["body"], other["body"], nil)
	for _, c := range data["submit"].([]any) {
		c := c.(map[string]any)
		w := newWorld(t, open(), definitions)
		w.Clock.Set(at(t, dig(data, "timeline", 0)["at"]))
		_, taken := w.post(ingestPath, body)
		path := responsesPath(dig(taken, "items", 0, "instances", 0)["publicId"])
		w.answers(&o, c, path, at(t, dig(data, "timeline", 2)["at"]))
	}
	return o
}

// responsesPath is where the source takes the answers to a public id (C33).
func responsesPath(id any) string {
	return fmt.Sprintf("/api/Surveys/SurveyInstances/%v/responses", id)
}

// answers lives through one case of opening or answering a survey that was just ingested; its first message is sent at first.
func (w *world) answers(o *outcome, c map[string]any, path string, first time.Time) {
	w.Helper()
	where := "submit, " + c["when"].(string)
	o.begin(where)
	submit := func() int {
		before := len(w.outboxEvents())
		defer func() {
			if want, ok := c["outbox"]; ok && (c["when"] != "second submit" || before > 0) {
				o.equal(where+": outbox", want, count(len(w.outboxEvents())-before), nil)
			}
		}()
		status, _ := w.post(path, map[string]any{"answers": map[string]any{"rate": 5}})
		return status
	}
	send := func(at time.Time) int {
		before := len(w.Provider.Sent())
		w.Clock.Set(at)
		w.tick()
		return len(w.Provider.Sent()) - before
	}
	check := func() {
		all := w.row(w.rows()[0])
		o.equal(where+": row", c["row"], map[string]any{"status": all["status"], "next_send_at": all["next_send_at"]}, nil)
	}
	then := ""
	switch c["when"] {
	case "after first send, before reminder":
		send(first)
		submit()
		check()
		if send(first.Add(24*time.Hour)) == 0 {
			then = "tick at +24h sends nothing"
		}
	case "before first send":
		submit()
		check()
		if send(first) == 0 && send(first.Add(24*time.Hour)) == 0 {
			then = "never sent"
		}
	case "second submit":
		send(first)
		submit()
		o.equal(where, c["http"], count(submit()), nil)
		return
	case "link opened after send":
		send(first)
		w.open()
		check()
		if send(first.Add(24*time.Hour)) == 1 && w.rows()[0].Status == delivery.Opened {
			then = "reminder still sent, status stays opened"
		}
	default:
		o.differ("%s: unknown", where)
	}
	o.equal(where+": then", c["then"], then, nil)
}

// open opens the survey of the only delivery, as the script of its page does.
func (w *world) open() {
	w.Helper()
	d := w.rows()[0]
	if _, err := w.Answers().Open(w.Context(), answer.Link{Workspace: d.Workspace, Delivery: d.ID}, w.Now()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) event(d delivery.Row) subject.Event {
	w.Helper()
	ref := store.EventRef{Workspace: d.Workspace, ID: d.Event}
	events, err := w.Store.EventsByID(w.Context(), []store.EventRef{ref})
	if err != nil {
		w.Fatal(err)
	}
	return events[ref].Event
}

// dedupedBy holds what a trigger can read of the event against the context of the case, and the key against the recipe over it.
func (w *world) dedupedBy(o *outcome, d delivery.Row, recipe []string, context map[string]any) {
	w.Helper()
	ev := w.event(d)
	for path, want := range context {
		got, _ := plan.Lookup(ev, fmt.Sprint(context["templateId"]), path)
		o.equal("context "+path, fmt.Sprint(want), fmt.Sprint(got), nil)
	}
	for _, path := range recipe {
		if _, ok := context[path]; !ok {
			o.differ("the context has no %s", path)
		}
	}
	text, _ := key.DedupString(recipe, func(path string) (any, bool) { v, ok := context[path]; return v, ok })
	if k := w.Instance(d.Instance).Key; !strings.HasSuffix(k, ":event:"+key.Hash(text)) {
		o.differ("the key is %s, want the hash of %s", k, text)
	}
}

// voc0 is day 0 of the long schedule.
var voc0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// voc walks through the long schedule: 60 days, then 5, 10 and 15.
func voc(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	config := data["config"].(map[string]any)
	var reminders []string
	for _, r := range config["reminders"].([]any) {
		reminders = append(reminders, r.(string))
	}
	w := newWorld(t, open(), survey{
		extID: "1", trigger: "voc", event: "vehicle-invoiced", channel: "memory:default", offset: config["initialDelay"].(string),
		reminders: reminders, grace: "30d",
	}.yaml())
	w.Clock.Set(voc0)
	w.post(ingestPath, map[string]any{"eventKind": "vehicle-invoiced", "items": []any{map[string]any{
		"payload": map[string]any{"salesInvoiceNumber": 1}, "recipient": map[string]any{"address": "+9647700000001"},
	}}})
	for _, step := range data["timeline"].([]any) {
		step := step.(map[string]any)
		o.begin(fmt.Sprintf("day %v", step["day"]))
		o.equal("day", step["day"], count(int(at(t, step["at"]).Sub(voc0).Hours()/24)), nil)
		w.Clock.Set(at(t, step["at"]))
		before := w.rows()[0]
		processed := w.tick()["processed"]
		after := w.rows()[0]
		where := fmt.Sprintf("day %v", step["day"])
		o.equal(where+" row", step["row"], w.row(after), nil)
		o.equal(where+" remaining_before", step["remaining_before"], json.Number(fmt.Sprint(before.RemindersRemaining)), nil)
		o.equal(where+" sent", step["sent"], processed == json.Number("1") && after.Step == before.Step+1, nil)
		var next any
		if !after.SendAt.IsZero() {
			next = json.Number(fmt.Sprint(int(after.SendAt.Sub(voc0).Hours() / 24)))
		}
		o.equal(where+" next_day", step["next_day"], next, nil)
	}
	return o
}

// dedupHash replays the vectors of the dedup string.
func dedupHash(_ testing.TB, _ func() *store.Store, data map[string]any) outcome {
	var o outcome
	for _, v := range data["vectors"].([]any) {
		v := v.(map[string]any)
		var recipe []string
		for _, path := range v["recipe"].([]any) {
			recipe = append(recipe, path.(string))
		}
		values := v["values"].(map[string]any)
		text, _ := key.DedupString(recipe, func(path string) (any, bool) { value, ok := values[path]; return value, ok })
		where := v["name"].(string)
		o.begin(v["name"].(string))
		o.equal(where+" canonical", v["canonical"], strings.ReplaceAll(text, "\x1f", "␟"), nil)
		o.equal(where+" sha256", v["sha256"], key.Hash(text), nil)
		if where == "worked example" {
			o.equal("byte_length", data["byte_length"], json.Number(fmt.Sprint(len(text))), nil)
		}
	}
	return o
}

// expiry brings a row into the state that a case describes by living through it, and then sweeps once.
func expiry(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	run := func(where, grace string, c map[string]any) {
		row := c["row"].(map[string]any)
		status := row["status"].(string)
		now := at(t, c["now"])
		last, sent := now, false
		if v, ok := row["last"]; ok {
			last, sent = at(t, v), true
		}
		triggered := last
		if v, ok := row["triggered"]; ok {
			triggered = at(t, v)
		}
		s := survey{
			extID: "1", trigger: "t", event: "e", channel: "memory:default", grace: grace, undefined: !sent,
			offset: fmt.Sprintf("%dh", int(max(last.Sub(triggered), 0).Hours())),
		}
		if !sent {
			s.offset = "0d"
		}
		if v, ok := row["next"]; ok {
			s.reminders = []string{fmt.Sprintf("%dd", int(at(t, v).Sub(last).Hours()/24))}
		}
		w := newWorld(t, open(), s.yaml())
		w.Clock.Set(triggered)
		w.post(ingestPath, map[string]any{"eventKind": "e", "items": []any{map[string]any{"recipient": map[string]any{"address": "+9647700000001"}}}})
		if sent {
			w.Clock.Set(last)
		}
		w.tick()
		switch status {
		case "opened":
			w.open()
		case "responded":
			d := w.rows()[0]
			_, err := w.Answers().Submit(w.Context(), answer.Link{Workspace: d.Workspace, Delivery: d.ID}, answer.Submission{Answers: map[string]any{"rate": 5.0}}, w.Now(), nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		o.begin(where)
		o.equal(where+": before", status, theirStatus(w.rows()[0].Status, ""), nil)
		w.Clock.Set(now)
		w.tick()
		o.equal(where, c["after"], theirStatus(w.rows()[0].Status, ""), nil)
	}
	for _, c := range data["cases"].([]any) {
		c := c.(map[string]any)
		run(c["name"].(string), data["grace"].(string), c)
	}
	own := data["per_workflow"].(map[string]any)
	_, grace, _ := strings.Cut(own["config"].(string), ": ")
	run("per workflow", grace, own)
	return o
}

// failureModes holds each way of failing against the source's table (literal) and against ours (default).
func failureModes(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	ingested := time.Date(2026, 5, 14, 5, 0, 0, 0, time.UTC)
	start := func(s survey) *world {
		w := newWorld(t, open(), s.yaml())
		w.Clock.Set(ingested)
		w.post(ingestPath, map[string]any{"eventKind": "e", "items": []any{map[string]any{"recipient": map[string]any{"address": "+9647700000001"}}}})
		return w
	}
	base := survey{extID: "1", trigger: "t", event: "e", channel: "memory:default", offset: "0d", grace: "30d", reminders: []string{"1d"}}
	literal := data["literal"].(map[string]any)
	for _, c := range literal["rows"].([]any) {
		c := c.(map[string]any)
		where := "literal " + c["outcome"].(string)
		s := base
		s.retry = strings.Replace(strings.TrimPrefix(literal["config"].(string), "retry: "), "forever: true", "then: forever", 1)
		s.undefined = c["outcome"] == "no-channel"
		w := start(s)
		switch c["outcome"] {
		case "throws":
			w.Provider.Next(enginetest.ErrThrow)
		case "failed":
			w.Provider.Next(channel.Temporary(errors.New("not delivered")))
		case "no-channel", "delivered":
		default:
			o.differ("%s: unknown", where)
		}
		w.Clock.Set(ingested.Add(time.Minute))
		w.tick()
		d := w.rows()[0]
		o.begin(where)
		o.equal(where+" row", c["row"], w.row(d), nil)
		o.equal(where+" log", c["log"], w.log(d), nil)
		if c["outcome"] == "throws" || c["outcome"] == "failed" {
			w.Clock.Set(ingested.Add(2 * time.Minute)) // the next tick of the source's ticker tries again
			w.tick()
			if d := w.rows()[0]; d.Status != delivery.Sent {
				o.differ("%s: the next tick did not send it: %+v", where, d)
			}
		}
	}

	ours := data["default"].(map[string]any)
	s := base
	s.retry = strings.Replace(strings.TrimPrefix(ours["config"].(string), "retry: "), "}", ", jitter: none}", 1)
	w := start(s)
	now := ingested
	for i, c := range ours["ladder"].([]any) {
		c := c.(map[string]any)
		where := fmt.Sprintf("default, failure %d", i+1)
		w.Provider.Next(channel.Temporary(errors.New("not delivered")))
		w.Clock.Set(now)
		w.tick()
		d := w.rows()[0]
		o.begin(where)
		o.equal(where+": failures", c["fail"], count(len(w.Attempts(d.ID))), nil)
		if next, ok := c["next"].(string); ok {
			wait, err := time.ParseDuration(strings.TrimPrefix(next, "+"))
			if err != nil {
				t.Fatal(err)
			}
			o.equal(where, instant(now.Add(wait)), instant(d.SendAt), nil)
			now = d.SendAt
		}
		if row, ok := c["row"]; ok {
			o.equal(where, row, w.row(d), nil)
		}
	}

	w = start(base)
	w.Provider.Next(enginetest.ErrThrow)
	w.tick()
	o.begin("default throws")
	log, said := w.Attempts(w.rows()[0].ID), ""
	if len(log) == 1 && log[0].Outcome == delivery.AttemptFailed && log[0].Error != "" {
		said = "logged as failed with the error text (ours)"
	}
	o.equal("default throws", ours["throws"], said, nil)

	s = base
	s.undefined = true
	w = start(s)
	w.tick()
	d := w.rows()[0]
	o.begin("default no_channel")
	want := ours["no_channel"].(map[string]any)["row"]
	o.equal("default no_channel", want, map[string]any{
		"next_send_at": instant(d.SendAt), "status": theirStatus(d.Status, "ours"), "reason": strings.ReplaceAll(string(d.Reason), "_", "-"),
	}, nil)
	w.Clock.Set(ingested.Add(30 * 24 * time.Hour))
	w.tick()
	if d := w.rows()[0]; d.Status != delivery.Scheduled {
		o.differ("no_channel within the grace: %s", d.Status)
	}
	w.Clock.Set(ingested.Add(30*24*time.Hour + time.Second))
	w.tick()
	then := string(w.rows()[0].Status)
	if then == string(delivery.Expired) {
		then = "expired 30d after triggered_at"
	}
	o.equal("default no_channel: then", dig(ours, "no_channel")["then"], then, nil)
	return o
}
