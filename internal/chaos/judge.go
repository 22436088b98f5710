package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
)

// judge looks at the two logs for the verdict, and at the journals and the attempts for what the run brought about.
func (r *run) judge(ctx context.Context) (Report, error) {
	report := Report{
		Name: r.Name, Database: r.Dialect, Workers: r.Workers, Seed: r.Seed, Events: r.Events, Freezes: r.frozen,
		Overtaken: r.effective, BrokenPosts: int(r.poster.broken.Load()), Skipped: int(r.poster.skipped.Load()),
		Violations: []string{},
	}
	for _, s := range r.slots {
		report.Kills += s.kills
	}
	r.judgeLogs(&report)
	lines, err := r.journals()
	if err != nil {
		return report, err
	}
	for _, l := range lines {
		switch {
		case putOff(l):
			report.Rested++
		case l.What == journal.Reclaimed:
			report.Reclaimed++
		case l.What == journal.StaleRefused && l.Answered:
			report.StaleRefused++
		case l.What == journal.StaleRefused:
			report.StaleUnsent++
		}
	}
	return report, r.judgeRows(ctx, &report)
}

// judgeLogs compares what was acknowledged with what was accepted.
func (r *run) judgeLogs(report *Report) {
	expected := r.poster.expected()
	report.Messages = len(expected)
	report.Accepted = r.provider.accepted()
	report.Lost, report.Doubled = r.provider.missing(expected)
	r.poster.mu.Lock()
	defer r.poster.mu.Unlock()
	report.Acked = len(r.poster.acks)
	if report.Acked < r.Events {
		report.violate("%d events were never acknowledged", r.Events-report.Acked)
	}
	for id, a := range r.poster.acks {
		if a.created > 1 {
			report.violate("event %s was created %d times", id, a.created)
		}
	}
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	report.OutOfOrder, report.Silent = r.provider.troubled[outOfOrder], r.provider.troubled[silent]
	type try struct {
		key     string
		attempt int
	}
	requests := map[try]int{}
	for _, q := range r.provider.log {
		if q.Repeat {
			report.Repeats++
		}
		requests[try{q.Key, q.Attempt}]++
	}
	for t, n := range requests {
		if n > 1 {
			report.violate("attempt %d under key %.12s was %d requests", t.attempt, t.key, n)
		}
	}
	for key, m := range r.provider.byKey {
		if m.rewritten {
			report.violate("key %.12s came with two messages", key)
		}
		if m.ignored && m.again {
			report.ReplyLost++
		}
	}
	if report.Lost > 0 {
		report.violate("%d messages were lost", report.Lost)
	}
	if report.Doubled > 0 {
		report.violate("%d messages were doubled", report.Doubled)
	}
	if extra := report.Accepted - report.Doubled - report.Messages + report.Lost; extra > 0 {
		report.violate("%d messages belong to no acknowledged event", extra)
	}
}

// judgeRows holds the table of attempts against the requests of killed workers, and looks for what the fence should
// have prevented.
func (r *run) judgeRows(ctx context.Context, report *Report) error {
	attempts, err := r.db.attempts(ctx)
	if err != nil {
		return err
	}
	deliveries, err := r.db.deliveries(ctx)
	if err != nil {
		return err
	}
	watched, err := r.db.watched(ctx)
	if err != nil {
		return err
	}
	killed := r.requestsOfKilled()
	counted, delivered := map[int64]map[int]int{}, map[[2]int64]int{}
	var recovery []time.Duration
	for _, a := range attempts {
		if a.number == 0 {
			continue // nothing was tried
		}
		if counted[a.delivery] == nil {
			counted[a.delivery] = map[int]int{}
		}
		counted[a.delivery][a.number]++
		if a.outcome == "delivered" {
			delivered[[2]int64{a.delivery, int64(a.step)}]++
		}
		if a.outcome == "unknown" && a.reason == "worker_lost" {
			report.WorkerLost++
			recovery = append(recovery, a.settle.Sub(a.intentAt))
			if killed[fmt.Sprint(a.key, " ", a.number)] {
				report.OpenIntents++
			}
		}
	}
	slices.Sort(recovery)
	if n := len(recovery); n > 0 {
		report.RecoveryP50, report.RecoveryP99 = recovery[n/2].Seconds(), recovery[n*99/100].Seconds()
	}
	for _, d := range deliveries {
		if !d.done {
			report.violate("delivery %d is %s and not complete", d.id, d.status)
		}
		if n := len(counted[d.id]); n != d.attempts {
			report.violate("delivery %d has made %d attempts and %d are written down", d.id, d.attempts, n)
		}
		for number, n := range counted[d.id] {
			if n > 1 {
				report.unfence("delivery %d: attempt %d has %d outcomes", d.id, number, n)
			}
		}
	}
	for at, n := range delivered {
		if n > 1 {
			report.unfence("delivery %d: step %d was settled as delivered %d times", at[0], at[1], n)
		}
	}
	for _, what := range watched {
		report.unfence("%s", what)
	}
	return nil
}

// requestsOfKilled are the requests, as key and attempt, of workers that were killed and never frozen.
func (r *run) requestsOfKilled() map[string]bool {
	fates := map[string]fate{}
	for _, s := range r.slots {
		for life, f := range s.fates {
			fates[life] = f
		}
	}
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	killed := map[string]bool{}
	for _, q := range r.provider.log {
		if f := fates[q.Life]; f.killed && !f.frozen {
			killed[fmt.Sprint(q.Key, " ", q.Attempt)] = true
		}
	}
	return killed
}

// putOff reports whether a message waits for its channel, since a breaker is open.
func putOff(l line) bool { return l.What == journal.Deferred && l.Reason == reason.ChannelDown }

// journals reads what the workers have written. A kill may have torn the last line of a life.
func (r *run) journals() ([]line, error) {
	var all []line
	for _, s := range r.slots {
		lines, err := readJournal(s.journal())
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

func readJournal(name string) (lines []line, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l line
		if json.Unmarshal(s.Bytes(), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, nil
}
