package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
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

// WriteZoneRules writes the rules of zones.
func (t *Tx) WriteZoneRules(rules map[string]string) error {
	var rows rowset
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rows.row().text(name).text(rules[name])
	}
	if _, err := t.exec(writeZones, &rows); err != nil {
		return fmt.Errorf("write the rules of zones: %w", err)
	}
	return nil
}
