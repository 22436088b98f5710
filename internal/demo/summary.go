package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
)

// welcome says what runs where and what will be seen.
func (d *demo) welcome(key string, definitions int) {
	about := fmt.Sprintf("the last changes of %s and the visits of a workshop", d.packages.path)
	if d.packages.path == "" {
		about = "a shipped sample, since " + d.Log + " does not exist or has no changes; and the visits of a workshop"
	}
	open := "no key is needed on this machine"
	if !d.guest {
		open = "sign in with the key below"
	}
	url := d.app.URL()
	for _, text := range []string{
		"Carillon, as a demo: engine, API and console in one process, its data in a temporary folder.",
		"",
		"  console      " + d.printer.paint(bold, url) + "  " + open,
		"  key          " + key,
		fmt.Sprintf("  definitions  %d, the examples; every message goes to the inbox, none leaves this machine", definitions),
		"  events       " + about,
		"  their times  are the log's own, kept as payload.logged_at; for the engine they happen now",
		"",
		"  Try it:      curl -s " + url + "/v1/events -H 'Authorization: Bearer " + key + `' \`,
		`                 -d '{"kind":"package.installed","recipient":{"address":"you"},"payload":{"package":"bell","version":"1","arch":"all"}}'`,
		"",
		"  > sent   + new   ~ later   = known already   . concerns no workflow   ! look at it.  Times are UTC. Ctrl-C ends it.",
		"",
	} {
		d.printer.line("%s", text)
	}
	d.printer.begin()
}

// farewell sums up.
func (d *demo) farewell(ctx context.Context, ran time.Duration) error {
	ws := d.app.Workspace().ID
	counts, err := d.app.Store().Counts(ctx, ws)
	if err != nil {
		return err
	}
	known, err := d.known(ctx)
	if err != nil {
		return err
	}
	next, err := d.app.Store().Upcoming(ctx, ws, client.MaxEvents)
	if err != nil {
		return err
	}
	now := d.clock.Now()
	next = slices.DeleteFunc(next, func(r delivery.Row) bool { return !r.SendAt.After(now) }) // being sent already
	next = next[:min(3, len(next))]
	d.printer.line("")
	for _, row := range summary(counts, known, next, ran) {
		d.printer.line("%s", row)
	}
	if d.Keep {
		d.printer.line("  kept         %s", d.database())
		d.printer.line("               carillon serve --db %s goes on from there", d.database())
	}
	return d.printer.failed()
}

// known counts the occasions that existed already.
func (d *demo) known(ctx context.Context) (int, error) {
	n, before := 0, int64(0)
	for {
		rows, err := d.app.Store().Decisions(ctx, d.app.Workspace().ID, store.DecisionFilter{}, store.Page{Before: before})
		if err != nil || len(rows) == 0 {
			return n, err
		}
		before = rows[len(rows)-1].ID
		for _, row := range rows {
			if row.Record == 0 { // the others are of conditions
				n++
			}
		}
	}
}

// summary is the table at the end.
func summary(counts store.Counts, known int, next []delivery.Row, ran time.Duration) []string {
	var states []string
	for _, s := range delivery.Statuses() {
		if n := counts.DeliveriesByStatus[s]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, s))
		}
	}
	var instances int64
	for _, n := range counts.InstancesByStatus {
		instances += n
	}
	if len(states) == 0 {
		states = []string{"none"}
	}
	rows := []string{
		fmt.Sprintf("After %s:", ran.Round(time.Second)),
		fmt.Sprintf("  events       %d kept, %d known already", counts.Events, known),
		fmt.Sprintf("  instances    %d", instances),
		"  deliveries   " + strings.Join(states, ", "),
	}
	for i, n := range next {
		name := "               "
		if i == 0 {
			name = "  next         "
		}
		what := "message"
		if n.Step > 0 {
			what = fmt.Sprintf("reminder %d", n.Step)
		}
		rows = append(rows, fmt.Sprintf("%s%s  %s of %s to %s", name, n.SendAt.UTC().Format("2006-01-02 15:04:05"), what, n.Workflow, n.Address))
	}
	return rows
}
