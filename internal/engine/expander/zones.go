package expander

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/engine/audience"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// zonal is a row of an occasion that is due by the zone of each contact (R15): the occasion itself, which makes a row for each
// zone of its people when it begins and takes who is left when it ends, or the row of a zone.
type zonal struct {
	series *plan.Series
	opens  bool   // the occasion begins: nobody is told yet
	row    string // the zone of the row; empty: the occasion itself
	found  map[string]bool
	by     map[string]*plan.Series
	key    key.Instance // of the occasion
}

func newZonal(series *plan.Series, in store.DueInstance, now time.Time) *zonal {
	return &zonal{
		series: series, opens: now.Before(series.EndsAt(in.Row)), found: map[string]bool{}, by: map[string]*plan.Series{}, key: key.Instance(in.Key),
	}
}

// narrow has only those read who may be concerned, and says who was told already.
func (z *zonal) narrow(p *audience.Plan) {
	if z.row != "" {
		p.Zone, p.Homeless = z.row, z.row == z.series.Elsewhere()
	}
	if !z.opens {
		p.Occasion = z.key
	}
}

// due is when a person's message of the occasion is due, and whether this row makes it.
func (z *zonal) due(r *run, in store.DueInstance, person store.Person, told map[subject.ContactID]bool) (time.Time, bool) {
	zone := z.series.ZoneOf(person.Contact, &r.catalog.Zones)
	switch {
	case z.opens:
		z.found[zone] = true
		return time.Time{}, false
	case told[person.ID]:
		return time.Time{}, false
	case z.row != "":
		return in.DueAt, zone == z.row
	}
	// The occasion is over. Who joined since it began has missed it (R16).
	there, ok := z.in(zone, r)
	if !ok || int64(person.ID) > int64(in.Event) && in.Event != 0 {
		return time.Time{}, false
	}
	i, ok := there.DueIn(in.Row)
	return i.Due, ok && !i.Due.Before(in.CreatedAt)
}

func (z *zonal) in(zone string, r *run) (*plan.Series, bool) {
	if z.by[zone] == nil {
		s, err := z.series.In(zone, &r.catalog.Zones)
		if err != nil { // it was loaded when it was found
			return nil, false
		}
		z.by[zone] = s
	}
	return z.by[zone], true
}

// seeds are the rows of the zones that were found. What was over there when the series came has none.
func (r *run) seeds(in store.DueInstance, z *zonal) (seeds []store.Seed) {
	for _, zone := range slices.Sorted(maps.Keys(z.found)) {
		there, ok := z.in(zone, r)
		if !ok {
			continue
		}
		i, ok := there.DueIn(in.Row)
		if !ok || i.Due.Before(in.CreatedAt) {
			continue
		}
		row := there.ZoneRow(i, r.now)
		seeds = append(seeds, r.seed(in, there, func(yield func(instance.Row) bool) { yield(row) }, 0))
	}
	return seeds
}

// ofZone decides about the row of a zone.
func (r *run) ofZone(p *planned, in store.DueInstance, series *plan.Series) (input expr.Input, err error) {
	if !series.ByContact() { // an edit has taken the zones away
		p.over = &store.ExpandResult{Status: instance.Deactivated, Reason: reason.RuleChanged}
		return input, nil
	}
	there, err := series.In(in.Timezone, &r.catalog.Zones)
	if err != nil {
		return input, err
	}
	p.zones = &zonal{series: series, row: in.Timezone, key: key.Instance(in.Key).Everywhere()}
	payload := there.Payload(there.OccasionOf(in.Row))
	input = r.input(there, in, payload)
	if in.Event != 0 {
		return input, nil
	}
	o := there.CatchUp(in.Row, r.now)
	switch why := there.Ended(there.OccasionOf(in.Row), r.now); {
	case why != "":
		p.over = &store.ExpandResult{Status: instance.Deactivated, Reason: why}
	case !o.Send:
		p.over = &store.ExpandResult{Status: instance.Skipped, Reason: o.Reason}
	case p.trigger.When != nil && !p.trigger.When.Holds(input):
		p.over = &store.ExpandResult{Status: instance.Skipped, Reason: reason.ConditionFalse}
	default:
		return input, r.begin(p, in, payload)
	}
	return input, nil
}
