package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
)

// aheadBy plans one occasion a record, on the first of a month that lies ahead.
func aheadBy(at string, offset int) string {
	return fmt.Sprintf("workflow: service-due\ntype: reminder\ntriggers:\n  - id: due\n    record: kiosk\ntiming:\n  anchor: record.service_on\n  offset: -%dd\n  at: %q\n  timezone: UTC\n"+
		"audience:\n  - to: record.owner\nchannel: memory\nmessage:\n  sms:\n    text: \"{{ record.name }}\"\n", offset, at)
}

// datedRows have a date a year ahead, and have not been evaluated.
var datedRows = `
INSERT INTO record (ws, id, type, ext_id, props, rev, modified_by, evaluate_at, evaluated_at, created_at, updated_at)
SELECT w.id, n, 'kiosk', 'kiosk-' || n, '{"name":"Kiosk ' || n || '","owner":"person-0000007","service_on":"' || $2::text || '","note":"` + note + `"}', 1, 'bench', 0, $1, $1, $1
FROM workspace AS w, generate_series(1, $3::bigint) AS n`

func fillDated(ctx context.Context, url string, records int) error {
	now := (&clock.System{}).Now()
	if err := execute(ctx, url, datedRows, now.UnixMicro(), now.AddDate(1, 0, 0).Format(time.DateOnly), records); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// copyPlanned is the limit: the same rows again, by one statement.
const copyPlanned = `
INSERT INTO instance (ws, id, key, workflow, workflow_version, definitions, type, trigger, source, event_id, record_id, status, due_at, ready_at, input_hash, trace, local_date, timezone, created_at)
SELECT ws, -id, key || ':copy', 'copy', workflow_version, definitions, type, trigger, source, event_id, record_id, status, due_at, ready_at, input_hash, trace, local_date, timezone, created_at
FROM instance WHERE workflow = 'service-due' AND status = 'pending'`

// aheadContenders plan one occasion for each of many records, move them, and plan others instead of them.
func aheadContenders(s settings) []contender {
	return []contender{onDatabase("planned ahead", []string{"T16"}, func(ctx context.Context, r *round, url string) (err error) {
		p, err := newProduct(ctx, url)
		if p != nil {
			defer func() { err = errors.Join(err, p.store.Close()) }()
		}
		if err != nil {
			return err
		}
		if err := p.fill(ctx, 1000); err != nil {
			return err
		}
		if err := fillDated(ctx, url, s.planned); err != nil {
			return err
		}
		if err := r.calm(ctx, url); err != nil {
			return err
		}
		for _, step := range []struct {
			name, text string
		}{{planPostgres, aheadBy("09:00", 7)}, {movePostgres, aheadBy("10:30", 7)}, {changePostgres, aheadBy("10:30", 14)}} {
			if err := p.ahead(ctx, s, r, step.name, step.text); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		m, err := r.meter()
		if err != nil {
			return err
		}
		elapsed := clock.Monotonic()
		if err := execute(ctx, url, copyPlanned); err != nil {
			return err
		}
		return m.rate(copyPostgres, s.planned, elapsed())
	})}
}

// ahead puts a definition in force, and has the run that it brings with it go over the records.
func (p *product) ahead(ctx context.Context, s settings, r *round, name, text string) error {
	if err := p.apply(ctx, text); err != nil {
		return err
	}
	m, err := r.meter()
	if err != nil {
		return err
	}
	took, err := profiled(s.profile, name, func() (time.Duration, error) {
		_, took, err := p.check(ctx)
		return took, err
	})
	if err != nil {
		return err
	}
	runs, err := p.store.Jobs(ctx, p.workspace.ID, store.Page{})
	if err == nil && (len(runs) == 0 || runs[0].Status != job.Done || int(runs[0].Done) != s.planned) {
		err = fmt.Errorf("the run is not done: %+v", runs)
	}
	return errors.Join(err, m.rate(name, s.planned, took))
}
