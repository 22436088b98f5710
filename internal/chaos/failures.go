package chaos

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/channel/httpchan"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

// failureDefinitions say what is sent: one message for an order, a message and two reminders for a visit. What was not
// answered is tried again under the same key for as long as it takes.
const failureDefinitions = `
workspace: default
retry: {backoff: [1s, 2s], jitter: none, then: forever}
cadence: {max_per_day: 0} # no limits
---
channel: sms:provider
provider: http
settings: {url: "%s/main"}
---
workflow: receipt
type: alert
triggers: [{id: paid, event: order}]
audience: [{to: event.recipient}]
channel: sms:provider
message: {sms: {text: "{{ candidate.id }} {{ step }}"}}
---
workflow: invitation
type: alert
triggers: [{id: closed, event: visit}]
timing: {reminders: [1s, 2s]}
audience: [{to: event.recipient}]
channel: sms:provider
message: {sms: {text: "{{ candidate.id }} {{ step }}"}}
`

// failures is the profile Failures.
type failures struct {
	*run
	batches []batch
}

func (f *failures) prepare() (string, error) {
	m := moods{{takenLost, 3}, {slowly, 5}}
	if f.Crash != "" {
		m, f.Workers, f.Kills, f.Freezes = nil, 1, 0, 0
	}
	f.addProvider(m)
	if f.Crash != "" {
		f.lease = crashLease
	}
	const perBatch, people = 50, 500
	f.batches = inBatches(f.Events, perBatch, func(i int) client.Event {
		id, kind := fmt.Sprintf("e%06d", i), "order"
		if i%4 == 0 {
			kind = "visit"
		}
		return client.Event{
			ID: id, Kind: kind, Payload: map[string]any{"id": id},
			Recipient: &client.Recipient{Address: fmt.Sprintf("p%d@example.org", i*7%people), Locale: "en"},
		}
	})
	return fmt.Sprintf(failureDefinitions, f.provider.server.URL), nil
}

func (f *failures) storm(ctx context.Context, group *errgroup.Group) error {
	const callers = 4
	f.poster.start(ctx, group, callers, f.batches)
	if f.Crash != "" {
		return f.crashes(ctx, f.batches)
	}
	return f.nemesis(ctx, group)
}

// rests reports whether the database has nothing more to do, ever.
func (f *failures) rests(ctx context.Context) (bool, error) {
	due, err := f.db.store.NextDue(ctx, f.clock.Now())
	return err == nil && due.Earliest().IsZero(), err
}

func (f *failures) counters() (verdicts, proofs []string) {
	verdicts = []string{"lost", "doubled", "unfenced"}
	if f.Kills+f.Freezes == 0 {
		return verdicts, nil // a run of crashes
	}
	return verdicts, []string{
		"kills",
		"freezes",       // longer than the lease
		"open_intents",  // requests of a killed worker whose outcome became unknown
		"reclaimed",     // according to the journals
		"stale_refused", // results that came too late
		"reply_lost",    // keys whose accepting reply was lost and that came again
		"repeats",       // requests that the provider knew by their key
		"broken_posts",  // requests of the poster without an answer
		"skipped",       // events that were posted again and recognised
		string(outOfOrder), string(silent),
		"rested", // messages that were put off by a breaker, each time
	}
}

func (f *failures) judge(ctx context.Context, report *Report) error {
	report.count("freezes", f.frozen)
	report.count("overtaken", f.overtaken)
	requests := f.provider.requests(report)
	f.judgeLog(report, requests)
	lines, err := f.journals()
	if err != nil {
		return err
	}
	for _, l := range lines {
		switch {
		case putOff(l):
			report.count("rested", 1)
		case l.What == journal.Reclaimed:
			report.count("reclaimed", 1)
		case l.What == journal.StaleRefused && l.Answered:
			report.count("stale_refused", 1)
		case l.What == journal.StaleRefused: // a claim that was noticed to be over before it was sent
			report.count("stale_unsent", 1)
		}
	}
	return errors.Join(f.judgeRows(ctx, report), f.judgeRecovery(ctx, report, requests))
}

// judgeLog compares what was acknowledged with what was accepted.
func (f *failures) judgeLog(report *Report, requests []request) {
	type try struct {
		key     string
		attempt int
	}
	tries, accepted, byKey := map[try]int{}, map[string]int{}, map[string][]request{}
	for _, q := range requests {
		accepted[q.Text] += b2i(q.accepted)
		tries[try{q.IdempotencyKey, q.Attempt}]++
		byKey[q.IdempotencyKey] = append(byKey[q.IdempotencyKey], q)
	}
	for _, text := range f.expected() {
		report.count("messages", 1)
		switch n := accepted[text]; {
		case n == 0:
			report.violate("lost", "message %q", text)
		case n > 1:
			report.violate("doubled", "message %q came under %d keys", text, n)
		}
		delete(accepted, text)
	}
	for text, n := range accepted {
		if n > 0 {
			report.violate("unexpected", "message %q belongs to no acknowledged event", text)
		}
	}
	for t, n := range tries {
		if n > 1 {
			report.violate("sent twice", "attempt %d under key %.12s was %d requests", t.attempt, t.key, n)
		}
	}
	message := func(q request) httpchan.Body { q.Attempt = 0; return q.Body }
	for key, all := range byKey {
		if slices.ContainsFunc(all, func(q request) bool { return !reflect.DeepEqual(message(q), message(all[0])) }) {
			report.violate("rewritten", "key %.12s came with two messages", key)
		}
		if i := slices.IndexFunc(all, func(q request) bool { return q.mood == takenLost }); i >= 0 && i < len(all)-1 {
			report.count("reply_lost", 1)
		}
	}
}

// expected lists the texts that the provider must have, one for each step of every acknowledged event.
func (f *failures) expected() (texts []string) {
	const reminders = 2
	for _, b := range f.batches {
		for _, e := range b.events {
			if _, acked := f.poster.acked[e.ID]; !acked {
				continue
			}
			for step := range 1 + reminders*b2i(e.Kind == "visit") {
				texts = append(texts, fmt.Sprintf("%s %d", e.ID, step+1))
			}
		}
	}
	return texts
}

// judgeRows looks for what does not fit together in the engine's rows, and for what the fence should have prevented.
func (f *failures) judgeRows(ctx context.Context, report *Report) error {
	for _, check := range []struct{ verdict, query string }{
		{"unfinished", `SELECT 'delivery ' || id || ' is ' || status || ' and not complete' FROM delivery WHERE completed_at = 0`},
		{"miscounted", `SELECT 'delivery ' || d.id || ' has made ' || d.attempt_no || ' attempts and ' || count(DISTINCT a.number) || ' are written down'
FROM delivery d LEFT JOIN attempt a ON a.ws = d.ws AND a.delivery_id = d.id AND a.number > 0
GROUP BY d.id, d.attempt_no HAVING count(DISTINCT a.number) <> d.attempt_no`},
		{"unfenced", `SELECT 'delivery ' || delivery_id || ': attempt ' || number || ' has ' || count(*) || ' outcomes'
FROM attempt WHERE number > 0 GROUP BY delivery_id, number HAVING count(*) > 1`},
		{"unfenced", `SELECT 'delivery ' || delivery_id || ': step ' || step || ' was settled as delivered ' || count(*) || ' times'
FROM attempt WHERE number > 0 AND outcome = 'delivered' GROUP BY delivery_id, step HAVING count(*) > 1`},
		{"unfenced", `SELECT 'delivery ' || delivery_id || ': ' || what FROM chaos_watch`},
	} {
		if err := f.find(ctx, report, check.verdict, check.query); err != nil {
			return err
		}
	}
	return nil
}

// judgeRecovery counts the attempts that lost their worker, and measures from their intent to the claim by another
// worker, in seconds.
func (f *failures) judgeRecovery(ctx context.Context, report *Report, requests []request) error {
	// Requests, as key and attempt, of workers that were killed and never frozen, and of those that were neither: a busy machine took longer than
	// their lease.
	killed, alive := map[string]bool{}, map[string]bool{}
	for _, q := range requests {
		request := fmt.Sprint(q.IdempotencyKey, " ", q.Attempt)
		dead := slices.ContainsFunc(f.slots, func(s *slot) bool { return s.killed[q.life] })
		frozen := slices.ContainsFunc(f.slots, func(s *slot) bool { return s.frozen[q.life] })
		killed[request] = killed[request] || dead && !frozen
		alive[request] = alive[request] || !dead && !frozen
	}
	const lost = `SELECT idempotency_key || ' ' || number, settled_at - intent_at FROM attempt
WHERE number > 0 AND outcome = 'unknown' AND reason = 'worker_lost' ORDER BY settled_at - intent_at`
	var recovery []float64
	err := f.db.each(ctx, lost, func(r *sql.Rows) error {
		var request string
		var micros int64
		err := r.Scan(&request, &micros)
		report.count("open_intents", b2i(killed[request]))
		report.count("late", b2i(alive[request]))
		recovery = append(recovery, float64(micros/1000)/1000)
		return err
	})
	report.count("worker_lost", len(recovery))
	if n := len(recovery); n > 0 {
		report.measure("recovery_p50", recovery[n/2])
		report.measure("recovery_p99", recovery[n*99/100])
	}
	return err
}

// putOff reports whether a message was put off, since the breaker of its channel is open.
func putOff(l line) bool { return l.What == journal.Deferred && l.Reason == reason.ChannelDown }

// journals reads what the workers have written. A kill may have torn the last line of a life.
func (r *run) journals() (lines []line, err error) {
	for _, s := range r.slots {
		f, err := os.Open(s.journal())
		if err != nil {
			return nil, err
		}
		for scan := bufio.NewScanner(f); scan.Scan(); {
			var l line
			if json.Unmarshal(scan.Bytes(), &l) == nil {
				lines = append(lines, l)
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return lines, nil
}
