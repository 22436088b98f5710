package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/subject"
)

const zoneRules = `
SELECT name, rules
FROM zone`

// ZoneRules returns the time zone rules that processes have planned with, by zone.
func (s *Store) ZoneRules(ctx context.Context) (map[string]string, error) {
	rules := map[string]string{}
	_, err := all(ctx, s, "read the rules of zones", func(rows *sql.Rows) (_ struct{}, err error) {
		var name, text string
		err = rows.Scan(&name, &text)
		rules[name] = text
		return struct{}{}, err
	}, zoneRules)
	return rules, err
}

const writeZones = `
INSERT INTO zone (name, rules)
SELECT r.name, r.rules
FROM /*ROWS $1 (name text, rules text)*/ AS r
WHERE true
ON CONFLICT (name) DO UPDATE SET rules = excluded.rules`

// Rescheduled is the work in a workspace after a change of zone rules: records of some types are evaluated, and series are planned by the
// set in force.
type Rescheduled struct {
	Workspace subject.WorkspaceID
	Jobs      []job.Seed
	Calendar  *CalendarPlan
}

// Rezone writes the zone rules and, in the same transaction, plans again the occasions that depend on changed rules. The error is
// ErrStaleDefinitions if another set has come into force.
func (s *Store) Rezone(ctx context.Context, now time.Time, rules map[string]string, list []Rescheduled) error {
	var rows rowset
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rows.row().text(name).text(rules[name])
	}
	err := s.Write(ctx, func(t *Tx) error {
		if _, err := t.exec(writeZones, &rows); err != nil {
			return err
		}
		for _, r := range list {
			if err := t.reschedule(now, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the rules of zones: %w", err)
	}
	return nil
}

func (t *Tx) reschedule(now time.Time, r Rescheduled) error {
	if t.s.dialect.lockPlans != "" {
		if _, err := t.exec(t.s.dialect.lockPlans); err != nil {
			return err
		}
	}
	numbers, err := query(t, scanInt, lockDefinitions, int64(r.Workspace))
	if err != nil {
		return err
	}
	if len(numbers) == 0 || numbers[0] != r.Calendar.Base {
		return ErrStaleDefinitions
	}
	open, err := t.OpenJobs(r.Workspace)
	if err != nil {
		return err
	}
	if err := t.startJobs(r.Workspace, now, numbers[0], open, r.Jobs, r.Calendar, nil); err != nil {
		return err
	}
	rows, err := query(t, scanDefinition, currentDefinitions, int64(r.Workspace))
	if err != nil {
		return err
	}
	versions := map[string]int64{}
	for _, d := range rows {
		if d.Kind == "workflow" {
			versions[d.Name] = d.Version
		}
	}
	return t.planCalendar(r.Workspace, now, numbers[0], func(workflow string) int64 { return versions[workflow] }, r.Calendar)
}
