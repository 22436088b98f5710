package sim

import (
	"context"
	"iter"
	"slices"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// pageSize is how many rows are read at once.
const pageSize = 1000

// pagesOf yields a list of the store page by page, the newest rows first. It ends with the first error.
func pagesOf[T any](read func(store.Page) ([]T, error), id func(T) int64) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		page := store.Page{Limit: pageSize}
		for {
			rows, err := read(page)
			if !yield(rows, err) || err != nil || len(rows) < pageSize {
				return
			}
			page.Before = id(rows[len(rows)-1])
		}
	}
}

// all reads every page.
func all[T any](pages iter.Seq2[[]T, error]) (rows []T, err error) {
	for page, err := range pages {
		if err != nil {
			return nil, err
		}
		rows = append(rows, page...)
	}
	return rows, nil
}

// deliveries returns the deliveries that match, the oldest first.
func (w *world) deliveries(ctx context.Context, f store.DeliveryFilter) ([]delivery.Row, error) {
	rows, err := all(pagesOf(
		func(p store.Page) ([]delivery.Row, error) { return w.store.Deliveries(ctx, w.workspace.ID, f, p) },
		func(d delivery.Row) int64 { return int64(d.ID) }))
	slices.Reverse(rows)
	return rows, err
}

// instances returns the instances that match, the oldest first.
func (w *world) instances(ctx context.Context, f store.InstanceFilter) ([]instance.Row, error) {
	rows, err := all(pagesOf(
		func(p store.Page) ([]instance.Row, error) { return w.store.Instances(ctx, w.workspace.ID, f, p) },
		func(i instance.Row) int64 { return int64(i.ID) }))
	slices.Reverse(rows)
	return rows, err
}

// everyRun returns the runs of digests, the newest first.
func (w *world) everyRun(ctx context.Context) ([]store.DigestRun, error) {
	return all(pagesOf(
		func(p store.Page) ([]store.DigestRun, error) { return w.store.DigestRuns(ctx, w.workspace.ID, p) },
		func(r store.DigestRun) int64 { return int64(r.Instance) }))
}

// contacts yields every contact.
func (w *world) contacts(ctx context.Context) iter.Seq2[[]subject.ContactRow, error] {
	return pagesOf(
		func(p store.Page) ([]subject.ContactRow, error) {
			return w.store.Contacts(ctx, w.workspace.ID, store.ContactFilter{}, p)
		},
		func(c subject.ContactRow) int64 { return int64(c.ID) })
}

// jobs yields every job.
func (w *world) jobs(ctx context.Context) iter.Seq2[[]job.Row, error] {
	return pagesOf(
		func(p store.Page) ([]job.Row, error) { return w.store.Jobs(ctx, w.workspace.ID, p) },
		func(j job.Row) int64 { return j.ID })
}
