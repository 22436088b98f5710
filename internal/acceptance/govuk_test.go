package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/topic"
)

// govRow is a row of GOV.UK's email alerts: what they do, or what we want instead.
type govRow struct {
	ID     string         `json:"id"`
	Expect string         `json:"expect"`
	Given  map[string]any `json:"given"`
	When   map[string]any `json:"when"`
	Then   map[string]any `json:"then"`
	Want   map[string]any `json:"want"`
}

func (r govRow) op() string { return fmt.Sprint(r.When["op"]) }

// wanted is what the row wants of us.
func (r govRow) wanted() map[string]any {
	if r.Expect == "avoid" {
		return r.Want
	}
	return r.Then
}

// govOps run the rows of an operation. The others wait.
func govOps() map[string]func(t *testing.T, s *store.Store, r govRow) map[string]any {
	return map[string]func(t *testing.T, s *store.Store, r govRow) map[string]any{
		"digest_range": rangeOf, "due_subscribers": dueSubscribers, "digest_items": digestItems, "match_lists": matchLists, "find_exact": findExact,
		"token_valid": tokenValid, "timeline": timelineOf,
		"run_digest": runDigest, "generate_digest": generateDigest, "immediate_fanout": fanOut, "start_run": startRun,
		"criteria":   criteriaOf,
		"insert_run": insertRun, "insert_work_rows": insertWorkRows, "insert_content_row": insertContentRow, "mark_complete": markComplete,
		"digest_email": digestMail, "change_block": changeBlock, "one_click_post": oneClickPost, "unsubscribe_page": unsubscribePage,
		"ingest": ingestOf, "ingest_errors": ingestErrors, "match": matchedAgain, "process": matchedAgain,
		"subscribe": subscribeRow, "subscribe_http": subscribedAgain, "create_subscriber": sameAddress, "find_or_create": racingSignUps, "validate_address": validateAddress, "merge": mergeRow,
		"delivery_status": reported(deliveryStatus), "spam_report": reported(spamReport),
		"nullify": nullified, "delete_history": historyDeleted, "delete_mail": mailDeleted, "gauge_overdue_runs": overdueRuns,
		"footer": footerOf, "bulk_unsubscribe": bulkUnsubscribe, "bulk_migrate": bulkMigrate, "unsubscribe": unsubscribeRow, "unsubscribe_all": unsubscribeAll,
		"subscribe_http_errors": subscribeErrors,
		"missing_runs":          missingRuns, "recover": recovered, "batch": batchOf, "batches": batchesOf,
	}
}

// govRows are rows that another adapter runs than those of their operation.
func govRows() map[string]func(t *testing.T, s *store.Store, r govRow) map[string]any {
	return map[string]func(t *testing.T, s *store.Store, r govRow) map[string]any{
		"gov-061": resumedRun, "gov-066": twoRuns, "gov-067": twiceAtOnce, "gov-069": twoGroups, "gov-145": oneClickHeaders, "gov-158": tooLong,
	}
}

// govDiffers are rows that cannot come to pass here, and why.
func govDiffers() map[string]string {
	return map[string]string{
		"gov-155": "a message over the rate waits for its own place, not for five minutes",
		"gov-161": "a process without --only-to writes to everybody; with it, the others are skipped, and none counts as sent",
		"gov-078": "a run among others that are missing: here each run of a digest makes the next one, so that those which are missing are always the last ones",
	}
}

// GOV.UK's topic digests: each row of the data that can come to pass here is a subtest, on both databases.
//
// Shows: E9, E14.
func TestAcceptanceGovUK(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(folder(), "govuk", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range bytes.Lines(text) {
		var row govRow
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		run := govOps()[row.op()]
		if of := govRows()[row.ID]; of != nil {
			run = of
		}
		switch {
		case govDiffers()[row.ID] != "":
			continue
		case run == nil:
			t.Errorf("%s: no adapter runs %s", row.ID, row.op())
			continue
		}
		ran++
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				got := run(t, s, row)
				for name, want := range row.wanted() {
					if !slices.Contains(govBeyond(), name) && !reflect.DeepEqual(normal(t, want), normal(t, got[name])) {
						t.Errorf("%s: got %v, want %v", name, got[name], want)
					}
				}
			})
		})
	}
	if ran == 0 {
		t.Error("no row was run")
	}
}

// govBeyond are leaves that say nothing of us: the zone in which they wrote a row, their queues, how often their database tries, and that other routes need another
// permission, which the matrix of routes and keys shows.
func govBeyond() []string { return []string{"given_tz", "queue", "attempts_max", "without_permission"} }

// normal is a value as JSON has it.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// govDefinitions are the digests of GOV.UK, and topics.
func govDefinitions(zone string, hour float64, lists []string) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, `workspace: default
cadence: {max_per_day: 0}
---
workflow: updates
type: digest
triggers:
  - {id: urgent, event: item.published, when: item.urgent, audience: {topics: matched}, message: {inbox: {text: "now {{ item.version }}"}}}
  - {id: immediate, event: item.published, audience: {topics: matched, frequency: immediate}, message: {inbox: {text: "now {{ item.version }}"}}}
  - {id: daily, schedule: {every: 1d, at: "%02[2]d:30", timezone: %[1]s, period: 1d, period_end: "%02[2]d:00"}, audience: {topics: all, frequency: daily}}
  - {id: weekly, schedule: {every: 1w, days: [sat], at: "%02[2]d:30", timezone: %[1]s, period: 1w, period_end: "%02[2]d:00"}, audience: {topics: all, frequency: weekly}}
digest: {duplicates: each}
channel: inbox
message: {inbox: {text: "{{ trigger.id }}{%% for s in digest.sections %%} {{ s.topic.name }}:{%% for i in s.items %%}{{ i.version }},{%% endfor %%}{%% endfor %%}"}}
---
channel: inbox
provider: inbox
`, zone, int(hour))
	for _, name := range lists {
		fmt.Fprintf(&b, "---\ntopic: %s\n", name)
	}
	return b.String()
}

// rangeOf computes the window of a run.
func rangeOf(t *testing.T, _ *store.Store, r govRow) map[string]any {
	zone := fmt.Sprint(r.Given["tz"])
	if own, ok := r.wanted()["given_tz"]; ok { // theirs was the mistake
		zone = fmt.Sprint(own)
	}
	bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(govDefinitions(zone, r.Given["hour"].(float64), nil))}}, loader.Options{})
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	calendar := bundle.Set.Workflow("updates").TriggerByID(fmt.Sprint(r.When["range"])).OnSchedule().Calendar
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	date, err := civil.ParseDate(fmt.Sprint(r.When["date"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := calendar.Find(date, calendar.Times[0], loc); !ok {
		return map[string]any{"error": "weekly_must_be_saturday"}
	}
	start, end, _ := calendar.PeriodOf(date, loc)
	return map[string]any{"starts_at": start.UTC().Format(time.RFC3339), "ends_at": end.UTC().Format(time.RFC3339), "hours": end.Sub(start).Hours()}
}

// govWorld plays what happened before a run, in its order.
type govWorld struct {
	*enginetest.Bundle
	t testing.TB
}

// govAt makes a world whose definitions come into force at an instant.
func govAt(t testing.TB, s *store.Store, begin time.Time, definitions string) govWorld {
	w := govWorld{enginetest.Setup(t, s, "workspace: default\n", nil), t}
	w.Clock.Set(begin)
	w.Apply(definitions)
	return w
}

func (w govWorld) until(end time.Time) {
	for {
		for {
			did, err := w.Tick(w.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			if !did.Any() {
				break
			}
		}
		next, err := w.NextDue(w.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if !w.Clock.Now().Before(end) {
			return
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		w.Clock.Set(next)
	}
}

type happening struct {
	at time.Time
	do func()
}

// play lets the subscriptions and the items of a row happen, and returns what each person got at the run.
func play(t *testing.T, s *store.Store, r govRow) map[string]string {
	got := map[string]string{}
	for _, m := range perform(t, s, r, "duplicates: each", nil) {
		got[m[0]] = m[1]
	}
	return got
}

// perform is play with rules of its own for digests. It returns the messages: who got it, and what it says. Before is called when the run is about to begin.
func perform(t *testing.T, s *store.Store, r govRow, rules string, before func(w govWorld)) (got [][2]string) {
	now := at(t, r.When["now"])
	run, _ := r.Given["run"].(map[string]any)
	subs, _ := r.Given["subs"].([]any)
	items, _ := r.Given["items"].([]any)
	lists := map[string]bool{}
	for _, v := range subs {
		lists[fmt.Sprint(dig(v)["list"])] = true
	}
	begin := now.AddDate(0, 0, -9) // a run before the one in question, also where it is weekly
	definitions := govDefinitions(fmt.Sprint(run["tz"]), run["hour"].(float64), slices.Sorted(maps.Keys(lists)))
	w := govAt(t, s, begin, strings.Replace(definitions, "duplicates: each", rules, 1))
	subscribe := func(v any, frequency string) {
		sub := dig(v)
		list := []topics.Request{{Contact: fmt.Sprint(sub["subscriber"]), Topic: fmt.Sprint(sub["list"]), Frequency: frequency}}
		var err error
		if frequency != "" {
			_, err = w.Topics().Subscribe(w.Context(), w.Workspace, list, topic.SourceAPI, w.Clock.Now(), nil)
		} else {
			_, err = w.Topics().Unsubscribe(w.Context(), w.Workspace, list, w.Clock.Now(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []happening
	began := map[string]bool{}
	for _, v := range subs {
		sub := dig(v)
		person := fmt.Sprint(sub["subscriber"])
		if !began[person] {
			began[person] = true
			parsed := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}}`, person)), person)
			if _, err := w.Contacts().Write(w.Context(), w.Workspace, "replace", []contact.Item{parsed}, begin, nil); err != nil {
				t.Fatal(err)
			}
		}
		since := at(t, sub["created_at"])
		if since.Before(begin) {
			since = begin
		}
		all = append(all, happening{since, func() { subscribe(v, fmt.Sprint(sub["freq"])) }})
		successor := slices.ContainsFunc(subs, func(other any) bool { return dig(other)["created_at"] == sub["ended_at"] })
		if sub["ended_at"] != nil && !successor {
			all = append(all, happening{at(t, sub["ended_at"]), func() { subscribe(v, "") }})
		}
	}
	for _, v := range items {
		it := dig(v)
		id := it["key"]
		if id == nil {
			id = it["id"]
		}
		raw, err := json.Marshal(map[string]any{"id": id, "version": it["id"], "topics": it["lists"], "urgent": it["override"] == true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, happening{at(t, it["at"]), func() {
			results, err := w.PublishOnce(w.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil)
			if err != nil || results[0].Error != nil {
				t.Fatal(err, results[0].Error)
			}
		}})
	}
	const soon = 3 * time.Hour
	all = append(all, happening{now.Add(-soon), func() {
		w.Provider.Sent()
		if before != nil {
			before(w)
		}
	}})
	slices.SortStableFunc(all, func(a, b happening) int { return a.at.Compare(b.at) })
	for _, h := range all {
		w.until(h.at)
		h.do()
	}
	w.until(now)
	for _, m := range w.Provider.Sent() {
		if kind, rest, _ := strings.Cut(m.Text, " "); kind == run["range"] {
			got = append(got, [2]string{m.Address, rest})
		}
	}
	return got
}

func dueSubscribers(t *testing.T, s *store.Store, r govRow) map[string]any {
	return map[string]any{"subscribers": append([]string{}, slices.Sorted(maps.Keys(play(t, s, r)))...)}
}

func digestItems(t *testing.T, s *store.Store, r govRow) map[string]any {
	groups := []any{}
	for _, section := range strings.Fields(play(t, s, r)[fmt.Sprint(r.Given["subscriber"])]) {
		list, items, _ := strings.Cut(section, ":")
		for _, v := range r.Given["subs"].([]any) {
			if sub := dig(v); sub["list"] == list {
				groups = append(groups, []any{sub["id"], strings.Split(strings.TrimSuffix(items, ","), ",")})
			}
		}
	}
	return map[string]any{"groups": groups}
}

// rulesOf are the rules of one of their lists: its content id is an alternative to all others.
func rulesOf(list map[string]any) []any {
	rule, rules := map[string]any{}, []any{}
	for name, value := range list {
		switch name {
		case "tags", "links":
			rule[name] = value
		case "document_type":
			rule["fields"] = map[string]any{name: value}
		case "content_id":
			rules = append(rules, map[string]any{name: value})
		}
	}
	if len(rule) > 0 || len(rules) == 0 {
		rules = append(rules, rule)
	}
	return rules
}

func (w govWorld) find(name string, rules []any) topics.Found {
	document := map[string]any{"match": rules}
	if name != "" {
		document["topic"] = name
	}
	raw, err := json.Marshal(document)
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := w.Topics().Find(w.Context(), w.Workspace, raw, w.Clock.Now(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func matchLists(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govWorld{enginetest.Setup(t, s, "workspace: default\n", nil), t}
	lists := r.Given["lists"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		w.find(name, rulesOf(dig(lists[name])))
	}
	fields := map[string]any{"id": "c"}
	for name, value := range dig(r.When["item"]) {
		if name == "document_type" {
			name, value = "fields", map[string]any{name: value}
		}
		fields[name] = value
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	if results, err := w.PublishOnce(t.Context(), w.Workspace, []item.Item{item.Parse(raw)}, nil); err != nil || results[0].Error != nil {
		t.Fatal(err, results[0].Error)
	}
	w.until(w.Clock.Now())
	found, err := s.Item(t.Context(), w.Workspace.ID, store.ItemRef{ExtID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"matched": append([]string{}, found.Topics...)}
}

func findExact(t *testing.T, s *store.Store, r govRow) map[string]any {
	w := govWorld{enginetest.Setup(t, s, "workspace: default\n", nil), t}
	w.find("", rulesOf(map[string]any{"links": r.Given["list_links"]}))
	return map[string]any{"found": !w.find("", rulesOf(map[string]any{"links": r.When["links"]})).Created}
}

func tokenValid(t *testing.T, _ *store.Store, r govRow) map[string]any {
	keys, err := key.ParseLinkKeys("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	if err != nil {
		t.Fatal(err)
	}
	link := key.Link{Purpose: key.LinkUnsubscribe, Workspace: 1, Subject: topic.Leaving{Contact: 1, Topic: 1}.String(), Expires: at(t, r.Given["issued"]).AddDate(1, 0, 0)}
	token, err := keys.Sign(link)
	if err != nil {
		t.Fatal(err)
	}
	valid := []bool{}
	for _, when := range r.When["at"].([]any) {
		_, err := keys.Open(key.LinkUnsubscribe, token, at(t, when))
		if err != nil && !errors.Is(err, key.ErrLinkExpired) {
			t.Fatal(err)
		}
		valid = append(valid, err == nil)
	}
	return map[string]any{"valid": valid}
}

// timelineOf plays a row that says in words what happens.
func timelineOf(t *testing.T, s *store.Store, r govRow) map[string]any {
	sub := dig(r.Given["subs"].([]any)[0])
	w := govAt(t, s, time.Date(2016, 12, 30, 0, 0, 0, 0, time.UTC), govDefinitions("UTC", 11, []string{fmt.Sprint(sub["list"])}))
	person := fmt.Sprint(sub["subscriber"])
	parsed := contact.Parse(json.RawMessage(fmt.Sprintf(`{"addresses": {"inbox": %q}}`, person)), person)
	if _, err := w.Contacts().Write(t.Context(), w.Workspace, "replace", []contact.Item{parsed}, w.Clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	change := []topics.Request{{Contact: person, Topic: fmt.Sprint(sub["list"]), Frequency: fmt.Sprint(sub["freq"])}}
	if _, err := w.Topics().Subscribe(t.Context(), w.Workspace, change, topic.SourceAPI, w.Clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	mails := 0
	for i, v := range r.Given["timeline"].([]any) {
		when, what, ok := strings.Cut(fmt.Sprint(v), " ")
		if !ok {
			what = when
		} else {
			instant, err := time.Parse("2006-01-02T15:04Z", when)
			if err != nil {
				t.Fatal(err)
			}
			w.until(instant)
		}
		switch what {
		case "item":
			raw := fmt.Sprintf(`{"id": "i%d", "topics": [%q]}`, i, sub["list"])
			if results, err := w.PublishOnce(t.Context(), w.Workspace, []item.Item{item.Parse(json.RawMessage(raw))}, nil); err != nil || results[0].Error != nil {
				t.Fatal(err, results[0].Error)
			}
		case "unsubscribe":
			change[0].Frequency = ""
			if _, err := w.Topics().Unsubscribe(t.Context(), w.Workspace, change, w.Clock.Now(), nil); err != nil {
				t.Fatal(err)
			}
		case "daily run":
		default:
			t.Fatalf("unknown: %s", what)
		}
		mails += len(w.Provider.Sent())
	}
	return map[string]any{"mails": mails}
}
