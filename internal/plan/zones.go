package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
)

// An occasion that follows the zone of each contact is planned in the zone in which a day begins first (R15):
//
//	10:00 in the first zone: the occasion begins ─▶ a row for each zone of its contacts, due at 10:00 there
//	10:00 in the last zone:  the occasion ends, and handles the contacts that no row reached because they moved between zones
//
// A row of a zone belongs to its occasion. For a schedule it is not a place of the series; for a record it is desired as long as its
// occasion is.

const (
	// firstZone is where a day begins first, and everywhere how long that is before it begins in the last zone, UTC-12.
	firstZone  = "Etc/GMT-14"
	everywhere = 26 * time.Hour
)

// DueLocal returns the local time at which an occasion is due for each contact, such as 2026-05-14T10:00, or "" when it is due for all
// at once.
func DueLocal(row instance.Row) string {
	if row.Head == 0 && row.Timezone != firstZone {
		return ""
	}
	loc, err := civil.LoadZone(row.Timezone)
	if err != nil { // a person has retried it: the row has no local date
		return ""
	}
	return row.DueAt.In(loc).Format("2006-01-02T15:04")
}

// Collected reports whether a row was planned by the zone of each contact, and its occasion is not any more: the row is due before its hour
// has come for anybody.
func Collected(row instance.Row, desired Desired) bool {
	return row.Timezone == firstZone && desired.Elsewhere == "" && desired.Zone != firstZone
}

// ZoneOf returns the zone in which a contact's occasions are due; elsewhere is the zone of contacts without one.
func ZoneOf(c subject.Contact, elsewhere string, zones *civil.Zones) string {
	if _, err := zones.Load(c.Timezone); c.Timezone != "" && err == nil {
		return c.Timezone
	}
	return elsewhere
}

// Ends returns when an occasion has become due in every zone. Due is the first instant at which it is due in some zone.
func (i Desired) Ends(due time.Time) time.Time {
	if i.Elsewhere == "" {
		return due
	}
	return due.Add(everywhere)
}

// In returns an occasion as it is in one zone; ok is false when it is not due by zones, or its local time does not exist there.
func (a *Ahead) In(i Desired, zone string) (in Desired, ok bool) {
	if i.Elsewhere == "" {
		return in, false
	}
	i.Due, i.Date, ok = DueIn(zone, i.Due, a.rule, a.zones)
	i.Zone, i.Elsewhere = zone, ""
	return i, ok
}

// DueIn returns the instant at which a zone has the same local time as the first zone had at the instant first.
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

// EndsAt returns when an occasion has become due in every zone.
func (s *Series) EndsAt(row instance.Row) time.Time { return row.DueAt.Add(s.lag) }

// Elsewhere returns the zone of contacts without one.
func (s *Series) Elsewhere() string {
	return cmp.Or(s.source.Timezone, s.set.Workspace.Timezone)
}

// In returns the series as it is in one zone.
func (s *Series) In(zone string, zones *civil.Zones) (*Series, error) {
	in := &Series{Workflow: s.Workflow, Trigger: s.Trigger, Zone: zone, source: s.source, dates: s.dates, set: s.set}
	var err error
	if in.loc, err = zones.Load(zone); err != nil {
		return nil, fmt.Errorf("schedule of workflow %s: %w", s.Workflow.Name, err)
	}
	return in, nil
}

// DueIn returns an occasion as it is due in the zone of this series; ok is false when it has none there, as in a skipped gap.
func (s *Series) DueIn(occasion instance.Row) (i Desired, ok bool) { return s.find(occasion) }

// ZoneRow returns the row of an occasion for one zone.
func (s *Series) ZoneRow(i Desired, now time.Time) instance.Row {
	row := s.Row(i, now)
	row.Key = string(i.Key.InZone(s.Zone))
	return row
}

// OccasionOf returns the occasion of a row of a zone as it was planned, even if the schedule has changed since (R17).
func (s *Series) OccasionOf(row instance.Row) Desired {
	row.Key = string(key.Instance(row.Key).Everywhere())
	return s.Occasion(row)
}

// lookBack bounds how long before an occasion the one before it is looked for, in days: a little more than a year.
const lookBack = 400

// Before returns the latest occasion of this series that was due after since and before an instant.
func (s *Series) Before(at, since time.Time) (last Desired, ok bool) {
	for i := range s.Since(later(since, at.AddDate(0, 0, -lookBack))) {
		if !i.Due.Before(at) {
			break
		}
		last, ok = i, true
	}
	return last, ok
}

// Decisive returns the occasion before that of a row of a zone, if the row is dropped when both belong to one backlog: the schedule sends the oldest
// one alone (R3), and nothing but that has kept the row from being decided.
func (s *Series) Decisive(row instance.Row) (before Desired, ok bool) {
	if s.source.Backlog != schedule.BacklogFirst || row.Event != 0 || row.Delay != instance.DelayedByPause && (row.Attempts > 0 || row.Delay != "") {
		return before, false
	}
	return s.Before(row.DueAt, row.EffectiveAt)
}

// Behind reports whether an occasion in a zone belongs to the backlog of the one before it there: it was due before that one was decided. Whole is the row
// of its own occasion, and before the row of the zone of the one before; no ID: there is none, because nobody was in the zone or because it was too late
// everywhere.
func Behind(due time.Time, whole, before instance.Row) bool {
	switch {
	case before.ID == 0:
		return !whole.CreatedAt.Before(due) // what ended the one before it has made it
	case before.Event != 0:
		return !key.CreatedBy(int64(before.Event), due.Add(-time.Microsecond))
	case before.Status == instance.Pending: // waiting for a person or a retry holds up no series (R2)
		return before.Parked() || before.Delay == instance.DelayedByPause || !before.Held() && before.Delay == "" && before.Attempts == 0
	case before.Status == instance.Cancelled:
		return false
	}
	return !before.CompletedAt.Before(due)
}
