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

// Where a schedule follows the zone of each contact, its series is that of the zone in which a day begins first (R15):
//
//	10:00 in the first zone: the occasion begins ─▶ a row for each zone of its people, due at 10:00 there
//	10:00 in the last one:   the occasion ends, and takes who was in none of these at their hour, because they moved
//
// A row of a zone belongs to its occasion and is no place of the series.

const (
	// firstZone is where a day begins first, and everywhere how long that is before it begins in the last zone, UTC-12.
	firstZone  = "Etc/GMT-14"
	everywhere = 26 * time.Hour
)

// OfZone reports whether a row is that of one zone of an occasion.
func OfZone(row instance.Row) bool { return row.Record == 0 && row.Episode == zoned }

// zoned is the number in the row of a zone that tells it from an occasion.
const zoned = 1

// ByContact reports whether the occasions are due by the zone of each contact.
func (s *Series) ByContact() bool { return s.lag > 0 }

// EndsAt is when an occasion is over everywhere.
func (s *Series) EndsAt(row instance.Row) time.Time { return row.DueAt.Add(s.lag) }

// ZoneOf is where a person's occasions are due.
func (s *Series) ZoneOf(c subject.Contact, zones *civil.Zones) string {
	if _, err := zones.Load(c.Timezone); c.Timezone != "" && err == nil {
		return c.Timezone
	}
	return s.Elsewhere()
}

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
func (s *Series) DueIn(occasion instance.Row) (i Implied, ok bool) { return s.find(occasion) }

// ZoneRow is the row of a zone of an occasion.
func (s *Series) ZoneRow(i Implied, now time.Time) instance.Row {
	row := s.Row(i, now)
	row.Key, row.Episode = string(i.Key.InZone(s.Zone)), zoned
	return row
}

// OccasionOf is what is known of the row of a zone: what was planned, whatever the schedule says by now (R17).
func (s *Series) OccasionOf(row instance.Row) Implied {
	row.Key = string(key.Instance(row.Key).Everywhere())
	return s.Occasion(row)
}
