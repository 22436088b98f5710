package sim

import (
	"context"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

// state reads the lists of `state`.
func (w *world) state(ctx context.Context, asked []expectation) (map[string][]row, error) {
	lists := map[string][]row{}
	deliveries, err := w.deliveries(ctx, store.DeliveryFilter{})
	if err != nil {
		return nil, err
	}
	for _, d := range deliveries {
		r := deliveryRow(d, contactOf(d.Key))
		if r.cells["receipts"], err = w.receiptsCell(ctx, d); err != nil {
			return nil, err
		}
		lists["deliveries"] = append(lists["deliveries"], r)
		if says := trace.Explain(d); len(says) > 0 {
			explained := deliveryRow(d, contactOf(d.Key))
			explained.cells["says"] = textCell(strings.Join(says, "\n"))
			lists["explain"] = append(lists["explain"], explained)
		}
		switch {
		case d.Parked():
			lists["held"] = append(lists["held"], r)
		case !d.SendAt.IsZero() && open(d):
			lists["queued"] = append(lists["queued"], r)
		case d.Status == delivery.Unknown && d.SendAt.IsZero():
			lists["held"] = append(lists["held"], r)
		}
	}
	instances, err := w.instances(ctx, store.InstanceFilter{})
	if err != nil {
		return nil, err
	}
	records, err := w.recordNames(ctx, instances)
	if err != nil {
		return nil, err
	}
	for _, i := range instances {
		r := instanceRow(i, records[i.Record])
		switch {
		case i.Held():
			lists["held"] = append(lists["held"], r)
		case i.Status == instance.Pending:
			lists["pending"] = append(lists["pending"], r)
		}
	}
	upcoming := func(ctx context.Context) ([]row, error) { return w.upcoming(ctx, asked) }
	for name, read := range map[string]func(context.Context) ([]row, error){
		"caps": w.caps, "throttles": w.throttles, "runs": w.runs, "outbox": w.outbox, "subscriptions": w.subscriptions, "sessions": w.sessions, "upcoming": upcoming,
	} {
		if !slices.ContainsFunc(asked, func(e expectation) bool { return e.spec.name == name }) {
			continue
		}
		if lists[name], err = read(ctx); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(asked, func(e expectation) bool { return e.spec.name == "explain" }) {
		reader, err := w.reader()
		if err != nil {
			return nil, err
		}
		left, err := w.leftOut(ctx, reader, deliveries)
		if err != nil {
			return nil, err
		}
		lists["explain"] = append(lists["explain"], left...)
	}
	return lists, nil
}

// recordNames are the records that instances are about, as type/id.
func (w *world) recordNames(ctx context.Context, instances []instance.Row) (map[subject.RecordID]string, error) {
	var ids []subject.RecordID
	for _, i := range instances {
		if i.Record != 0 {
			ids = append(ids, i.Record)
		}
	}
	found, err := w.store.RecordNames(ctx, w.workspace.ID, ids)
	names := make(map[subject.RecordID]string, len(found))
	for id, ref := range found {
		names[id] = ref.Type + "/" + ref.ExtID
	}
	return names, err
}

// reader returns an engine for queries: stored rows can be read although no process runs.
func (w *world) reader() (*engine.Engine, error) {
	if w.engine != nil {
		return w.engine, nil
	}
	return w.open()
}

// caps returns the limits of every contact, each with how much of it is used.
func (w *world) caps(ctx context.Context) (rows []row, err error) {
	engine, err := w.reader()
	if err != nil {
		return nil, err
	}
	for contacts, err := range w.contacts(ctx) {
		if err != nil {
			return nil, err
		}
		for _, c := range contacts {
			limits, err := engine.Limits(ctx, w.workspace.ID, c.ExtID)
			if err != nil {
				return nil, err
			}
			rows = append(rows, capRows(limits)...)
		}
	}
	return rows, nil
}

// throttles returns the contexts that have fired, and when each may fire again.
func (w *world) throttles(ctx context.Context) (rows []row, err error) {
	engine, err := w.reader()
	if err != nil {
		return nil, err
	}
	filter := store.ThrottleFilter{Limit: pageSize}
	for {
		some, err := engine.Throttles(ctx, w.workspace.ID, filter)
		if err != nil {
			return nil, err
		}
		for _, t := range some {
			rows = append(rows, row{cells: map[string]cell{
				"workflow": textCell(t.Workflow), "trigger": textCell(t.Trigger), "context": textCell(t.Context),
				"record": textCell(t.Type + "/" + t.ExtID), "at": instantCell(t.FiredAt), "until": instantCell(t.Until),
			}})
		}
		if len(some) < pageSize {
			return rows, nil
		}
		filter.After = some[len(some)-1].ThrottleRef
	}
}

func (w *world) runs(ctx context.Context) (rows []row, err error) {
	jobs, err := all(w.jobs(ctx))
	if err != nil {
		return nil, err
	}
	for _, r := range jobs {
		rows = append(rows, row{cells: map[string]cell{
			"record": textCell(r.Subject), "reason": textCell(string(r.Kind)), "status": textCell(string(r.Status)),
		}})
	}
	digests, err := w.digestRuns(ctx)
	return append(rows, digests...), err
}
