package sim

import (
	"context"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// digestRuns returns the runs of digests as rows: at and until are their window.
func (w *world) digestRuns(ctx context.Context) (rows []row, err error) {
	runs, err := w.everyRun(ctx)
	for _, r := range runs {
		rows = append(rows, row{instance: int64(r.Instance), cells: map[string]cell{
			"workflow": textCell(r.Workflow), "trigger": textCell(r.Trigger), "at": instantCell(r.Window.From), "until": instantCell(r.Window.End),
			"status": textCell(string(r.Status())), "reason": textCell("digest"),
		}})
	}
	return rows, err
}

// leftOut explains for the last run of each trigger why people who subscribe, or did, have no message of it.
func (w *world) leftOut(ctx context.Context, e *engine.Engine, deliveries []delivery.Row) (rows []row, err error) {
	runs, err := w.everyRun(ctx)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	type pair struct {
		run     instance.ID
		contact subject.ContactID
	}
	has := map[pair]bool{}
	for _, d := range deliveries {
		has[pair{d.Instance, d.Contact}] = true
	}
	contacts, err := w.store.Contacts(ctx, w.workspace.ID, store.ContactFilter{}, store.Page{Limit: pageSize})
	if err != nil {
		return nil, err
	}
	seen := map[[2]string]bool{}
	for _, r := range runs {
		if seen[[2]string{r.Workflow, r.Trigger}] {
			continue
		}
		seen[[2]string{r.Workflow, r.Trigger}] = true
		for _, c := range contacts {
			if has[pair{r.Instance, c.ID}] {
				continue
			}
			why, err := e.DigestLeftOut(ctx, r, c.ID)
			if err != nil {
				return nil, err
			}
			if why != "" {
				rows = append(rows, row{alias: []string{c.ExtID}, cells: map[string]cell{
					"workflow": textCell(r.Workflow), "trigger": textCell(r.Trigger), "to": textCell(c.ExtID), "reason": textCell(string(why)),
				}})
			}
		}
	}
	return rows, nil
}

// linkKeys sign the links of simulated mails.
func linkKeys() key.LinkKeys {
	ring, err := key.ParseLinkKeys("c2ltdWxhdGVkIGtleSBvZiBzaW11bGF0ZWQgbGlua3M=")
	if err != nil {
		panic(err) // it is a constant
	}
	return ring
}
