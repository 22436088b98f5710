package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/topic"
)

func govFiles() []file {
	return []file{{name: "govuk-digest.json", run: govDigest, wants: []string{
		"run.key", "run.window[*]", "run.half_open", "run.recipients[*]", "run.emails.*", "run.sections.**", "run.not_included.*", "run.with_duplicates_once.**",
		"run.subscription_contents", "rules[*].result", "rules[4].key", "rules[4].scope",
	}, notes: []string{
		"id", "source_system", "rules[*].when", "subscriptions[*].id",
	}}}
}

// Shows: E3, E5, E6, E7, E8, E12.
func TestAcceptanceGovUKDigest(t *testing.T) { run(t, "govuk-digest.json") }

// govText says in a message what the file says of it.
const govText = `{{ trigger.id }}{% for s in digest.sections %} {{ s.topic.name }}:{% for i in s.items %}{{ i.id }},{% endfor %}/{% for i in s.see %}{{ i.id }},{% endfor %}{% endfor %} {{ unsubscribe_link }}`

func govSource(data map[string]any, rules string) string {
	config := dig(data, "config")
	daily := dig(config, "daily")
	_, end, _ := strings.Cut(fmt.Sprint(daily["window"]), "-")
	var b strings.Builder
	fmt.Fprintf(&b, `workspace: default
cadence: {max_per_day: 0}
---
workflow: govuk-updates
type: digest
triggers:
  - {id: immediate, event: item.published, audience: {topics: matched, frequency: immediate}, message: {inbox: {text: "immediate {{ item.id }} {{ unsubscribe_link }}"}}}
  - {id: daily, schedule: {every: 1d, at: %[1]q, timezone: %[3]s, period: 1d, period_end: %[2]q}, audience: {topics: all, frequency: daily}}
  - {id: weekly, schedule: {every: 1w, days: [%[4]s], at: %[1]q, timezone: %[3]s, period: 1w, period_end: %[2]q}, audience: {topics: all, frequency: weekly}}
digest: {%[5]s}
channel: inbox
retry: {backoff: [10m], jitter: none}
message: {inbox: {text: %[6]q}}
---
channel: inbox
provider: inbox
`, daily["run_at"], end, config["timezone"], dig(config, "weekly")["on"], rules, govText)
	seen := map[string]bool{}
	for _, v := range data["subscriptions"].([]any) {
		if name := fmt.Sprint(dig(v)["topic"]); !seen[name] {
			seen[name] = true
			fmt.Fprintf(&b, "---\ntopic: %s\n", name)
		}
	}
	return b.String()
}

// govStage is the file as it is played.
type govStage struct {
	govWorld
	data map[string]any
	at   time.Time // of the run
}

// stage lets everything of the file happen that comes before its run.
func stage(t testing.TB, s *store.Store, data map[string]any, rules string, change func(*engine.Config)) *govStage {
	keys, err := key.ParseLinkKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	if err != nil {
		t.Fatal(err)
	}
	bundle := enginetest.Setup(t, s, "workspace: default\n", func(c *engine.Config) {
		c.Links, c.PublicURL = keys, "https://carillon.example.org"
		if change != nil {
			change(c)
		}
	})
	g := &govStage{govWorld: govWorld{bundle, t}, data: data, at: at(t, dig(data, "run")["at"])}
	g.Clock.Set(g.at.AddDate(0, 0, -9))
	g.Apply(govSource(data, rules))
	var all []happening
	for _, v := range data["subscriptions"].([]any) {
		sub := dig(v)
		person := fmt.Sprint(sub["contact"])
		parsed := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}}`, person)), person)
		if _, err := g.Contacts().Write(g.Context(), g.Workspace, "replace", []contact.Item{parsed}, g.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		one := []topics.Request{{Contact: person, Topic: fmt.Sprint(sub["topic"]), Frequency: fmt.Sprint(sub["frequency"])}}
		if _, err := g.Topics().Subscribe(g.Context(), g.Workspace, one, topic.SourceAPI, g.Clock.Now(), nil); err != nil {
			t.Fatal(err)
		}
		if sub["ended_at"] != nil {
			all = append(all, happening{at(t, sub["ended_at"]), func() {
				one[0].Frequency = ""
				if _, err := g.Topics().Unsubscribe(g.Context(), g.Workspace, one, g.Clock.Now(), nil); err != nil {
					t.Fatal(err)
				}
			}})
		}
	}
	for _, v := range data["items"].([]any) {
		raw, err := json.Marshal(map[string]any{"id": dig(v)["id"], "topics": dig(v)["topics"]})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, happening{at(t, dig(v)["at"]), func() {
			if results, err := g.PublishOnce(g.Context(), g.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
				t.Fatal(err, results[0].Error)
			}
		}})
	}
	slices.SortStableFunc(all, func(a, b happening) int { return a.at.Compare(b.at) })
	for _, h := range all {
		g.until(h.at)
		h.do()
	}
	g.until(g.at.Add(-time.Minute))
	g.Provider.Sent()
	return g
}

// got are the messages that were sent since the last call, by who got them: their sections, and how many there were.
func (g *govStage) got(kind string) (sections map[string][]any, emails map[string]int, texts []string) {
	sections, emails = map[string][]any{}, map[string]int{}
	for _, m := range g.Provider.Sent() {
		fields := strings.Fields(m.Text)
		if texts = append(texts, m.Text); fields[0] != kind {
			continue
		}
		emails[m.Address]++
		for _, f := range fields[1 : len(fields)-1] {
			name, lists, _ := strings.Cut(f, ":")
			items, see, _ := strings.Cut(lists, "/")
			section := map[string]any{"topic": name}
			for key, list := range map[string]string{"items": items, "see": see} {
				if list != "" {
					section[key] = strings.Split(strings.TrimSuffix(list, ","), ",")
				}
			}
			sections[m.Address] = append(sections[m.Address], section)
		}
	}
	return sections, emails, texts
}

// runs returns the runs of a trigger that began at an instant, with their instances.
func (g *govStage) runs(trigger string, begun time.Time) (list []store.DigestRun) {
	rows, err := g.Store.Instances(g.Context(), g.Workspace.ID, store.InstanceFilter{Workflow: "govuk-updates"}, store.Page{Limit: 500})
	if err != nil {
		g.t.Fatal(err)
	}
	for _, row := range rows {
		run, err := g.Store.DigestRun(g.Context(), g.Workspace.ID, row.ID)
		if err == nil && run.Trigger == trigger && run.BegunAt.Equal(begun) {
			list = append(list, run)
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			g.t.Fatal(err)
		}
	}
	return list
}

func (g *govStage) keyOf(run store.DigestRun) string {
	row, err := g.Store.InstanceByID(g.Context(), g.Workspace.ID, run.Instance)
	if err != nil {
		g.t.Fatal(err)
	}
	return row.Key
}

// jsonOf is a value as the file has it.
func jsonOf(t testing.TB, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return object(t, []byte(`{"v": `+string(text)+`}`))["v"]
}

func govDigest(t testing.TB, open func() *store.Store, data map[string]any) outcome {
	var o outcome
	wants := dig(data, "run")
	g := stage(t, open(), data, "duplicates: each", nil)
	g.until(g.at)
	sections, emails, _ := g.got("daily")
	runs := g.runs("daily", g.at)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	run := runs[0]
	o.begin("run")
	o.equal("key", wants["key"], g.keyOf(run), nil)
	o.equal("window", wants["window"], jsonOf(t, []any{run.Window.From.Format(time.RFC3339), run.Window.End.Format(time.RFC3339)}), nil)
	people, contents := []string{}, 0
	for who, list := range sections {
		people = append(people, who)
		for _, s := range list {
			contents += len(dig(s)["items"].([]string))
		}
	}
	slices.Sort(people)
	o.equal("recipients", wants["recipients"], jsonOf(t, people), nil)
	o.equal("emails", wants["emails"], jsonOf(t, emails), nil)
	o.equal("sections", wants["sections"], jsonOf(t, sections), nil)
	o.equal("subscription_contents", wants["subscription_contents"], jsonOf(t, contents), nil)
	in := func(id string) bool { return strings.Contains(fmt.Sprint(sections), id) }
	bounds := map[[2]bool]string{{true, false}: "[start,end)", {true, true}: "[start,end]", {false, false}: "(start,end)", {false, true}: "(start,end]"}
	o.equal("half_open", wants["half_open"], bounds[[2]bool{in("c1"), in("c5")}], nil)

	o.begin("not included")
	why := func(person string) string {
		c, _, err := g.Store.ContactByExtID(g.Context(), g.Workspace.ID, person)
		if err != nil {
			t.Fatal(err)
		}
		found, err := g.DigestLeftOut(g.Context(), run, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return map[reason.Reason]string{reason.NothingNew: "no matching item", reason.Unsubscribed: "unsubscribed before generation"}[found]
	}
	g.until(g.at.AddDate(0, 0, 1))
	next, _, _ := g.got("daily")
	late := "never"
	if strings.Contains(fmt.Sprint(next), "c5") && !in("c5") {
		late = "at window end: next run"
	}
	o.equal("not_included", wants["not_included"], jsonOf(t, map[string]any{"cat": why("cat"), "dan": why("dan"), "c5": late}), nil)

	o.begin("duplicates once")
	once := stage(t, open(), data, "duplicates: once", nil)
	once.until(once.at)
	sections, _, _ = once.got("daily")
	o.equal("with_duplicates_once", wants["with_duplicates_once"], jsonOf(t, sections), nil)

	rules := govRules(t, open, data)
	for _, v := range data["rules"].([]any) {
		rule := dig(v)
		name := fmt.Sprint(rule["when"])
		if o.begin(name); rules[name] == nil {
			o.differ("no adapter plays it")
			continue
		}
		for field, got := range rules[name]() {
			o.equal(field, rule[field], got, nil)
		}
	}
	return o
}

// said returns what the file says if that holds, and else what was found.
func said(holds bool, text string, found ...any) string {
	if holds {
		return text
	}
	return fmt.Sprint(found...)
}

// govRules play the rules of the file, by their names.
func govRules(t testing.TB, open func() *store.Store, data map[string]any) map[string]func() map[string]any {
	begun := func(rules string, change func(*engine.Config)) *govStage {
		g := stage(t, open(), data, rules, change)
		g.Clock.Set(g.at)
		return g
	}
	result := func(text string) map[string]any { return map[string]any{"result": text} }
	beside := func(g *govStage) *govStage { // another process
		b := enginetest.Setup(t, g.Store, "", func(c *engine.Config) { c.Clock = g.Clock })
		b.Clock = g.Clock
		return &govStage{govWorld: govWorld{b, t}, data: data, at: g.at}
	}
	return map[string]func() map[string]any{
		"second run for the same date and period": func() map[string]any {
			g := begun("duplicates: each", nil)
			g.until(g.at)
			_, first, _ := g.got("daily")
			other := beside(g)
			other.until(g.at)
			_, second, _ := other.got("daily")
			runs := g.runs("daily", g.at)
			return result(said(len(first) == 2 && len(second) == 0 && len(runs) == 1, "existing run returned, 0 new emails", first, second, runs))
		},
		"two initiators at once": func() map[string]any {
			g := begun("duplicates: each", nil)
			all := []*govStage{g, beside(g)}
			all[1].Provider = g.Provider
			var wait sync.WaitGroup
			for _, one := range all {
				wait.Go(func() { one.until(g.at) })
			}
			wait.Wait()
			g.until(g.at)
			_, first, _ := all[0].got("daily")
			_, second, _ := all[1].got("daily")
			sent := 0
			for _, list := range []map[string]int{first, second} {
				for _, n := range list {
					sent += n
				}
			}
			runs := g.runs("daily", g.at)
			return result(said(len(runs) == 1 && sent == 2, "one run, one set of recipients", runs, first, second))
		},
		"worker dies after 1 of 2 recipients": func() map[string]any {
			died, dies := errors.New("it died"), false
			g := begun("duplicates: each", func(c *engine.Config) {
				c.Failpoint = func(point string) error {
					if dies && point == sender.BeforeResult {
						return died
					}
					return nil
				}
			})
			dies = true
			g.Provider.Next(nil, channel.Temporary(errors.New("not now"))) // one was accepted, and the process dies before it notes that
			var err error
			for err == nil {
				_, err = g.Tick(g.Context())
			}
			if !errors.Is(err, died) {
				t.Fatal(err)
			}
			_, first, _ := g.got("daily")
			open := g.runs("daily", g.at)
			other := beside(g)
			other.Provider = g.Provider // it knows a message by its key
			other.until(g.at.Add(10 * time.Minute))
			_, rest, _ := other.got("daily")
			over := g.runs("daily", g.at)
			holds := len(first) == 1 && len(rest) == 1 && first["ann"]+rest["ann"] == 1 && len(open) == 1 && open[0].OverAt.IsZero() && len(over) == 1 && !over[0].OverAt.IsZero()
			return result(said(holds, "run incomplete; resume sends only the other", first, rest, open, over))
		},
		"all recipients complete": func() map[string]any {
			g := begun("duplicates: each", nil)
			g.until(g.at)
			runs := g.runs("daily", g.at)
			return result(said(len(runs) == 1 && runs[0].OverAt.Equal(g.at), "run.completed_at set", runs))
		},
		"explicit rerun": func() map[string]any {
			g := begun("duplicates: each", nil)
			g.Provider.Next(channel.Permanent(errors.New("no")))
			g.until(g.at)
			_, first, _ := g.got("daily")
			run := g.runs("daily", g.at)[0]
			done, err := g.Operator().RetryInstance(g.Context(), g.Workspace.ID, run.Instance, "ann", g.Clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			g.until(g.at.Add(time.Minute))
			key := done.NewKey
			_, second, _ := g.got("daily")
			if len(first) != 1 || len(second) != 1 || first["ann"]+second["ann"] != 1 {
				return map[string]any{"key": fmt.Sprint(first, second)}
			}
			if done, err = g.Operator().RetryForAll(g.Context(), g.Workspace.ID, done.NewInstance, "ann", g.Clock.Now()); err != nil {
				t.Fatal(err)
			}
			g.until(g.at.Add(2 * time.Minute))
			_, all, _ := g.got("daily")
			return map[string]any{"key": key, "scope": said(len(all) == 2, "failed (default) or all", all)}
		},
		"immediate subscription (s3,c3)": func() map[string]any {
			g := begun("duplicates: each", nil)
			g.until(g.at.AddDate(0, 0, 8))
			var when []string
			rows, err := g.Store.Deliveries(g.Context(), g.Workspace.ID, store.DeliveryFilter{}, store.Page{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range rows {
				if d.Trigger == "immediate" && d.Status == delivery.Sent && d.Address == "ann" {
					when = append(when, d.LastSentAt.UTC().Format(time.RFC3339))
				}
			}
			_, _, texts := g.got("")
			return result(said(len(when) == 1 && !strings.Contains(fmt.Sprint(texts), "c3,"), "own email at "+strings.Join(when, " ")+", never in a digest", when, texts))
		},
		"weekly (s4,c4)": func() map[string]any {
			g := begun("duplicates: each", nil)
			day := ""
			for range 8 {
				g.until(g.Clock.Now().AddDate(0, 0, 1))
				if sections, _, _ := g.got("weekly"); strings.Contains(fmt.Sprint(sections["ann"]), "c4") {
					day += g.Clock.Now().UTC().Format("Monday 2006-01-02")
				}
			}
			return result("in the run of " + day)
		},
		"every digest email": func() map[string]any {
			g := begun("duplicates: each", nil)
			g.until(g.at.AddDate(0, 0, 8))
			_, _, texts := g.got("")
			without := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(text, " https://carillon.example.org/u/") })
			return result(said(len(texts) > 2 && len(without) == 0, "has an unsubscribe link", texts, without))
		},
		"bundle: per_subscription": func() map[string]any {
			g := begun("bundle: subscription", nil)
			g.until(g.at)
			_, emails, _ := g.got("daily")
			return result(fmt.Sprintf("ann gets %d emails", emails["ann"]))
		},
	}
}
