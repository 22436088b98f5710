package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// Where occasions follow the zone of each contact, each is planned in the zone in which a day begins first (R15):
//
//	10:00 in the first zone: the occasion begins ─▶ a row for each zone of its people, due at 10:00 there
//	10:00 in the last one:   the occasion ends, and takes who was in none of these at their hour, because they moved
//
// A row of a zone belongs to its occasion. Of a schedule it is no place of the series; of a record it is implied as long as its
// occasion is.

const (
	// firstZone is where a day begins first, and everywhere how long that is before it begins in the last zone, UTC-12.
	firstZone  = "Etc/GMT-14"
	everywhere = 26 * time.Hour
)

// OfZone reports whether a row is that of one zone of an occasion.
func OfZone(row instance.Row) bool {
	return row.Record == 0 && row.Episode == zoned || row.Record != 0 && key.Instance(row.Key).Zone() != ""
}

// DueLocal is when an occasion is due by the clock of each person, as 2026-05-14T10:00; empty: it is due for all at once.
func DueLocal(row instance.Row) string {
	if row.Head == 0 && row.Timezone != firstZone {
		return ""
	}
	loc, err := civil.LoadZone(row.Timezone)
	if err != nil { // a person has had it done again: it is no day of a calendar
		return ""
	}
	return row.DueAt.In(loc).Format("2006-01-02T15:04")
}

// zoned is the number in the row of a zone of the calendar that tells it from an occasion.
const zoned = 1

// ZoneOf is where a person's occasions are due; elsewhere is the zone of people without one.
func ZoneOf(c subject.Contact, elsewhere string, zones *civil.Zones) string {
	if _, err := zones.Load(c.Timezone); c.Timezone != "" && err == nil {
		return c.Timezone
	}
	return elsewhere
}

// Ends is when an occasion is over everywhere that is due first at an instant.
func (i Desired) Ends(due time.Time) time.Time {
	if i.Elsewhere == "" {
		return due
	}
	return due.Add(everywhere)
}

// In is an occasion as it is in one zone; not ok: it is not due by zones, or has no such time of day there.
func (a *Ahead) In(i Desired, zone string) (in Desired, ok bool) {
	if i.Elsewhere == "" {
		return in, false
	}
	i.Due, i.Date, ok = DueIn(zone, i.Due, a.rule, a.zones)
	i.Zone, i.Elsewhere = zone, ""
	return i, ok
}

// DueIn is when it is as late in a zone as it was at an instant in the first one.
func DueIn(zone string, first time.Time, rule civil.Rule, zones *civil.Zones) (due time.Time, date civil.Date, ok bool) {
	from, err := zones.Load(firstZone)
	if err != nil {
		return due, date, false
	}
	loc, err := zones.Load(zone)
	if err != nil {
		return due, date, false
	}
	day, clock := civil.DateOf(first, from)
	if due, ok = civil.Resolve(day, clock, loc, rule); ok {
		date, _ = civil.DateOf(due, loc)
	}
	return due, date, ok
}

// ByContact reports whether the occasions are due by the zone of each contact.
func (s *Series) ByContact() bool { return s.lag > 0 }

// EndsAt is when an occasion is over everywhere.
func (s *Series) EndsAt(row instance.Row) time.Time { return row.DueAt.Add(s.lag) }

// Elsewhere is the zone of people without one.
func (s *Series) Elsewhere() string {
	return cmp.Or(s.Trigger.Schedule.Timezone, s.set.Workspace.Timezone)
}

// In is the series as it is in one zone.
func (s *Series) In(zone string, zones *civil.Zones) (*Series, error) {
	in := &Series{Workflow: s.Workflow, Trigger: s.Trigger, Zone: zone, set: s.set}
	var err error
	if in.loc, err = zones.Load(zone); err != nil {
		return nil, fmt.Errorf("schedule of workflow %s: %w", s.Workflow.Name, err)
	}
	return in, nil
}

// DueIn is when an occasion is due in the zone of this series; not ok: it has none there, as in a gap that is skipped.
func (s *Series) DueIn(occasion instance.Row) (i Desired, ok bool) { return s.find(occasion) }

// ZoneRow is the row of a zone of an occasion.
func (s *Series) ZoneRow(i Desired, now time.Time) instance.Row {
	row := s.Row(i, now)
	row.Key, row.Episode = string(i.Key.InZone(s.Zone)), zoned
	return row
}

// OccasionOf is what is known of the row of a zone: what was planned, whatever the schedule says by now (R17).
func (s *Series) OccasionOf(row instance.Row) Desired {
	row.Key = string(key.Instance(row.Key).Everywhere())
	return s.Occasion(row)
}
