package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/pgtest"
)

const (
	// courseRounds is how many rounds of a course are over where their number is compared, and courseRecords how many records have one.
	courseRounds, courseRecords = 1000, 500
	// courseDue is how many records are written at once, and how many messages one step takes.
	courseDue = 10
	// rules are the workflows that evaluate each record, and ruled the records that are written, ruledAtOnce in one call.
	rules, ruled, ruledAtOnce = 50, 20_000, 100
)

// courseBy has one message each round, for ever.
func courseBy(name, at, every string) string {
	return fmt.Sprintf("workflow: %s\ntype: reminder\ntriggers:\n  - id: due\n    record: kiosk\ntiming:\n  anchor: record.started_on\n  at: %q\n  timezone: UTC\n  catch_up: forever\n"+
		"  repeat: {every: %s, times: forever}\naudience:\n  - to: record.owner\nchannel: memory\nmessage:\n  sms:\n    text: \"{{ record.name }}\"\n", name, at, every)
}

// begunRows are records whose course began on a day, and that were not evaluated.
var begunRows = `
INSERT INTO record (ws, id, type, ext_id, props, rev, modified_by, evaluate_at, evaluated_at, created_at, updated_at)
SELECT w.id, n, 'kiosk', 'kiosk-' || n, '{"name":"Kiosk ' || n || '","owner":"person-0000007","started_on":"' || $2::text || '","note":"` + note + `"}', 1, 'bench', 0, $1, $1, $1
FROM workspace AS w, generate_series(1, $3::bigint) AS n`

// finishedRows are the messages of the rounds that are over, of every course that has a message which waits.
const finishedRows = `
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, record_id, status, reason, due_at, input_hash, trace, local_date, timezone,
  round, created_at, completed_at)
SELECT i.ws, -row_number() OVER (), replace(i.key, i.local_date, (i.local_date::date - $1::int * k)::text), i.workflow, i.workflow_version, i.definitions, i.type, i.trigger, i.source, 0,
  i.record_id, 'completed', 'expanded', i.due_at - $1::bigint * 86400000000 * k, i.input_hash, i.trace, (i.local_date::date - $1::int * k)::text, i.timezone, i.round - k, i.created_at,
  i.due_at - $1::bigint * 86400000000 * k
FROM instance AS i, generate_series(1, $2::int) AS k
WHERE i.status = 'pending' AND i.round > 0`

// coursesOn makes records whose courses began some days ago, and the rows of the rounds since then.
func (p *product) coursesOn(ctx context.Context, r *round, url, definition string, records, every, over int) error {
	now := p.clock.Now()
	if err := p.fill(ctx, 10); err != nil { // the person who is notified
		return err
	}
	// The next message is due tomorrow, so that no clock meets it meanwhile.
	began := now.AddDate(0, 0, 1-every*over).Format(time.DateOnly)
	if err := execute(ctx, url, begunRows, now.UnixMicro(), began, records); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := p.apply(ctx, definition); err != nil {
		return err
	}
	if _, _, err := p.check(ctx); err != nil {
		return err
	}
	if err := execute(ctx, url, finishedRows, every, over); err != nil {
		return fmt.Errorf("fill rounds: %w", err)
	}
	planned, err := countOf(ctx, url, `SELECT count(*) FROM instance WHERE round = $1 AND status = 'pending'`, over+1)
	if err == nil && planned != records {
		err = fmt.Errorf("%d of %d records have a message that waits", planned, records)
	}
	return errors.Join(err, r.calm(ctx, url))
}

// courseContenders edit courses in their fifth round and in their second, and write records that many rules evaluate.
func courseContenders(s settings) []contender {
	edited := func(name string, over int) contender {
		return onDatabase("courses, "+name, []string{"T19"}, func(ctx context.Context, r *round, url string) (err error) {
			p, err := newProduct(ctx, url)
			if p != nil {
				defer func() { err = errors.Join(err, p.store.Close()) }()
			}
			if err != nil {
				return err
			}
			const week = 7
			if err := p.coursesOn(ctx, r, url, courseBy("course", "09:00", "1w"), s.planned, week, over); err != nil {
				return err
			}
			if err := p.ahead(ctx, s, r, courseMove+name, courseBy("course", "10:30", "1w")); err != nil {
				return fmt.Errorf("move: %w", err)
			}
			if err := p.ahead(ctx, s, r, courseChange+name, courseBy("course", "10:30", "9d")); err != nil {
				return fmt.Errorf("change: %w", err)
			}
			waiting, err := countOf(ctx, url, `SELECT count(*) FROM instance WHERE workflow = 'course' AND status = 'pending'`)
			if err == nil && waiting != s.planned {
				err = fmt.Errorf("%d messages wait for %d records", waiting, s.planned)
			}
			return err
		})
	}
	written := func(name string, n int) contender {
		return onDatabase("record writes, "+name, []string{"T20"}, func(ctx context.Context, r *round, url string) (err error) {
			p, err := newProduct(ctx, url)
			if p != nil {
				defer func() { err = errors.Join(err, p.store.Close()) }()
			}
			if err != nil {
				return err
			}
			return p.writeRuled(ctx, s, r, url, courseWrites+name, n)
		})
	}
	return []contender{edited(inSecond, 1), edited(inFifth, 4), written(ofOneRule, 1), written(ofManyRules, rules)}
}

// ruledBy are workflows with a course each. One in ten has a condition that every write changes.
func ruledBy(n int) (text string) {
	for i := range n {
		when := fmt.Sprintf("record.level < %d", i+1)
		if i%10 != 0 {
			when = strings.ReplaceAll(watchers[i%len(watchers)], "%d", "1000")
		}
		text += fmt.Sprintf("workflow: rule-%d\ntype: reminder\ntriggers:\n  - id: due\n    record: kiosk\n    check: [change, 12h]\n    when: \"%s\"\ntiming:\n  anchor: record.started_on\n  at: \"09:00\"\n  timezone: UTC\n"+
			"  repeat: {every: 1d, times: forever}\naudience:\n  - to: record.owner\nchannel: memory\nmessage:\n  sms:\n    text: \"{{ record.name }}\"\n---\n", i, when)
	}
	return text
}

// writeRuled writes records, and evaluates each of them after its write.
func (p *product) writeRuled(ctx context.Context, s settings, r *round, url, name string, n int) error {
	if err := p.fill(ctx, 10); err != nil {
		return err
	}
	if err := p.apply(ctx, ruledBy(n)); err != nil {
		return err
	}
	write := func(pass int) (time.Duration, error) {
		elapsed := clock.Monotonic()
		for first := 0; first < ruled; first += ruledAtOnce {
			items := make([]record.Item, ruledAtOnce)
			for i := range items {
				k := first + i
				items[i] = record.Item{Type: "kiosk", ID: fmt.Sprintf("kiosk-%d", k), Props: map[string]any{
					"level": (k + pass*rules/2) % rules, "started_on": "2026-01-01", "owner": person(7), "name": "Kiosk", "note": note, "charging": true, "screen_state": true, "battery_level": 80,
					"connection_status": true, "last_heartbeat_at": p.clock.Now().Format(time.RFC3339), "temperature": 20, "status": "open", "disk_free": 50, "paper_level": 3, "open": true,
					"error_count": 0, "project_id": 1,
				}}
			}
			results, err := p.engine.Records().Write(ctx, p.workspace, upsert.Replace, items, "bench", p.clock.Now(), nil)
			if err != nil {
				return 0, err
			}
			for _, result := range results {
				if result.Error != nil {
					return 0, result.Error
				}
			}
			if _, _, err := p.check(ctx); err != nil {
				return 0, err
			}
		}
		return elapsed(), nil
	}
	if _, err := write(0); err != nil {
		return err
	}
	if err := r.calm(ctx, url); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	took, err := profiled(s.profile, name, func() (time.Duration, error) { return write(1) })
	if err != nil {
		return err
	}
	if err := m.rate(name, ruled, took); err != nil {
		return err
	}
	cpu := r.found.figures[name+cpuOf]
	r.record(name+aCore, 1e6/cpu[len(cpu)-1])
	return nil
}

// rounds measures evaluations and claims beside few and many rounds that are over (T21). The databases are filled once, and take turns.
func rounds(ctx context.Context, s settings, r *round) (err error) {
	names := []string{afterOne, afterMany}
	sides := map[string]*product{}
	for i, over := range []int{1, courseRounds} {
		url, err := r.server.Create(ctx, pgtest.Template{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.server.Drop(context.WithoutCancel(ctx), url)) }()
		p, err := newProduct(ctx, url)
		if p != nil {
			defer func() { err = errors.Join(err, p.store.Close()) }()
		}
		if err != nil {
			return err
		}
		if err := p.coursesOn(ctx, r, url, courseBy("course", "00:00", "1d"), courseRecords, 1, over); err != nil {
			return err
		}
		sides[names[i]] = p
	}
	now := (&clock.System{}).Now().UTC()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	for n := range s.rounds {
		r.n = n + 1
		evaluated, claimed := map[string][]time.Duration{}, map[string][]time.Duration{}
		due := today.AddDate(0, 0, n+1) // in each round the messages of another day
		for k := range courseRecords / courseDue {
			for i := range names {
				name := names[(i+n+k)%len(names)]
				p := sides[name]
				took, err := p.rewrite(ctx, n, k)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				evaluated[name] = append(evaluated[name], took)
				elapsed := clock.Monotonic()
				taken, err := p.fanout.Step(ctx, due, courseDue)
				if err == nil && taken != courseDue {
					err = fmt.Errorf("%d of %d were taken up", taken, courseDue)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				claimed[name] = append(claimed[name], elapsed())
			}
		}
		for _, name := range names {
			if err := errors.Join(r.lateness(courseEvaluated+name, evaluated[name]), r.lateness(courseClaimed+name, claimed[name])); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewrite writes some records, and measures their evaluation.
func (p *product) rewrite(ctx context.Context, round, k int) (time.Duration, error) {
	items := make([]record.Item, courseDue)
	for i := range items {
		items[i] = record.Item{Type: "kiosk", ID: fmt.Sprintf("kiosk-%d", k*courseDue+i+1), Props: map[string]any{"level": round}}
	}
	if _, err := p.engine.Records().Write(ctx, p.workspace, upsert.Merge, items, "bench", p.clock.Now(), nil); err != nil {
		return 0, err
	}
	done, took, err := p.check(ctx)
	if err == nil && done.Evaluated+done.Passed < len(items) {
		err = fmt.Errorf("%d of %d records were evaluated", done.Evaluated+done.Passed, len(items))
	}
	return took, err
}
