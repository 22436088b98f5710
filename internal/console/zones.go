package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
)

// zoneLine is the row of one zone of an occasion that is due by the zone of each person.
type zoneLine struct {
	href  string
	zone  string
	local string
	due   time.Time
	state badge
	why   string
	here  bool // it is the page's own
}

// instanceLines are rows of a list, with the zones of those that are due by the zone of each person.
func (c *console) instanceLines(ctx context.Context, v visit, rows []instance.Row) ([]instanceLine, error) {
	heads := make([]instance.ID, len(rows))
	for n, i := range rows {
		heads[n] = cmp.Or(i.Head, i.ID)
	}
	zones, err := c.Store.ZonesOf(ctx, heads)
	if err != nil {
		return nil, err
	}
	lines := make([]instanceLine, len(rows))
	for n, i := range rows {
		lines[n] = v.instanceLine(i)
		if local := plan.DueLocal(i); local != "" {
			lines[n].local, lines[n].zones = v.clockOf(local), zonesText(zones[heads[n]])
			if v.query.Get("zones") == "true" && i.Head != 0 {
				lines[n].zones = zoneName(i)
			}
		}
	}
	return lines, nil
}

// zoneLines are the zones of the occasion of an instance.
func (c *console) zoneLines(ctx context.Context, v visit, in instance.Row) (lines []zoneLine, err error) {
	head := cmp.Or(in.Head, in.ID)
	zones, err := c.Store.ZonesOf(ctx, []instance.ID{head})
	for _, z := range zones[head] {
		l := v.instanceLine(z)
		lines = append(lines, zoneLine{l.href, zoneName(z), v.clockOf(plan.DueLocal(z)), z.DueAt, l.state, l.why, z.ID == in.ID})
	}
	return lines, err
}

func zoneName(z instance.Row) string { return cmp.Or(key.Instance(z.Key).Zone(), z.Timezone) }

// zonesText counts the zones of an occasion: those that have no row yet are found when it begins.
func zonesText(zones []instance.Row) string {
	if len(zones) == 0 {
		return "in each person's zone"
	}
	counts := map[string]int64{}
	for _, z := range zones {
		counts[instanceBadge(z).word]++
	}
	var parts []string
	for _, word := range sortedKeys(counts) {
		parts = append(parts, number(counts[word])+" "+word)
	}
	return fmt.Sprintf("in %s: %s", plural(int64(len(zones)), "zone", "zones"), strings.Join(parts, ", "))
}

// clockOf writes a local time as short does an instant, without its zone.
func (s scale) clockOf(local string) string {
	t, err := time.Parse("2006-01-02T15:04", local)
	if err != nil {
		return local
	}
	if t.Year() == s.now.In(s.zone).Year() {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// zonesChip is the choice between an occasion and its rows of zones, where a list has some.
func (v visit) zonesChip(rows []instanceLine) []chip {
	if v.query.Get("zones") == "true" {
		return []chip{{name: "each zone", href: v.address("/instances", nil, "zones", "before"), on: true}}
	}
	for _, r := range rows {
		if strings.HasPrefix(r.zones, "in ") {
			return []chip{{name: "each zone", href: v.address("/instances", url.Values{"zones": {"true"}}, "before")}}
		}
	}
	return nil
}

// dueByZone says of the facts of an instance when it is due by the clock of each person, and of which occasion it is a row.
func (v visit) dueByZone(facts []fact, in instance.Row, local string) []fact {
	text := v.clockOf(local) + " in each person's zone"
	if in.Head != 0 {
		text = v.clockOf(local) + " in " + zoneName(in)
	}
	added := []fact{{name: "local time", value: text}}
	if in.Head != 0 {
		id := v.public(key.KindInstance, int64(in.Head))
		added = append(added, fact{name: "occasion", value: id, href: "/instances/" + id, code: true})
	}
	return append(added, facts...)
}
