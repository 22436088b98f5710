package evaluator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// When the definitions that evaluate records have changed, a job goes over all records of the type. Most of them need nothing. The job reads them a
// page at a time and without locks, judges them in memory, and marks only those for which an evaluation would do something. A mark makes a record due
// for evaluation, like a write. The job decides nothing else, and a superfluous mark does no harm.
//
//	page k is judged  ─┬▶ a few marks and the job's cursor, in one transaction ─▶ marked records are evaluated first
//	page k+1 is read  ─┘
//
// A record that is written after its page was read is marked by that write. An evaluation meanwhile uses the definitions that requested the job, or
// later ones, because those were in force before the job became visible. The job judges by the definitions that requested it, whatever is in force by
// now: an apply that changes the evaluation of the type cancels the job and starts its own.

const (
	// firstPage is the number of records that are read before their size is known. Later pages have mostPage records, or fewer if these are more than
	// pageBytes.
	firstPage, leastPage, mostPage = 500, 20, 10000
	pageBytes                      = 4 << 20
	// mostMarks is how many records one transaction marks: few enough that concurrent writes do not wait long.
	mostMarks = 500
	// slice is how many records are judged before other work of this process may go first.
	slice = 64
)

// backfill is what is remembered of a job between two pages. It may be lost at any time: the job's cursor is stored.
type backfill struct {
	job  job.Row  // with the cursor at which left, or next, begins
	left []marked // transactions of the page that was judged last
	next *page
	size int // of the next page
}

// marked is a transaction of a job: its progress, and the records to evaluate.
type marked struct {
	job.Step
	marks []subject.RecordID // in the order of their ids
}

// page is a range of records in the order of their ids.
type page struct {
	after   int64
	records []store.PageRecord
	full    bool // there may be more
	related plan.Related
}

func (p *page) end() int64 {
	if len(p.records) == 0 {
		return p.after
	}
	return int64(p.records[len(p.records)-1].ID)
}

// advance advances a job by one transaction. It returns the number of records.
func (c *Evaluator) advance(ctx context.Context, now time.Time, j job.Row) (done int, err error) {
	s := &c.backfill
	if j.ID != s.job.ID || j.Workspace != s.job.Workspace || j.Cursor != s.job.Cursor {
		s.forget()
	}
	if len(s.left) == 0 {
		if err := c.prefilter(ctx, now, j); err != nil {
			s.forget()
			return 0, err
		}
	}
	step := s.left[0]
	next := j.Advance(step.Step, now)
	err = c.store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.SaveJobs(now, next); err != nil {
			return err
		}
		return tx.MarkRecords(j.Workspace, now, step.marks)
	})
	if err != nil {
		s.forget()
		return 0, err
	}
	if s.job, s.left = next, s.left[1:]; step.End {
		s.forget()
	}
	return step.Done, nil
}

func (s *backfill) forget() { s.job, s.left, s.next = job.Row{}, nil, nil }

// prefilter judges the next page of a job while the page after it is read.
func (c *Evaluator) prefilter(ctx context.Context, now time.Time, j job.Row) (err error) {
	s := &c.backfill
	set, err := c.catalog.At(ctx, j.Workspace, j.Definitions)
	if err != nil {
		return fmt.Errorf("judge records: %w", err)
	}
	if s.size == 0 {
		s.size = firstPage
	}
	this := s.next
	if this == nil {
		if this, err = c.read(ctx, set, j.Workspace, j.Subject, j.Cursor, s.size); err != nil {
			return err
		}
	}
	total := 0
	switch {
	case j.Total > 0:
	case !this.full:
		total = len(this.records)
	default:
		if total, err = c.store.CountRecords(ctx, j.Workspace, j.Subject); err != nil {
			return err
		}
	}
	var next *page
	var running sync.WaitGroup
	var readErr error
	if s.size = sizeAfter(this, s.size); this.full {
		running.Go(func() { next, readErr = c.read(ctx, set, j.Workspace, j.Subject, this.end(), s.size) })
	}
	marks, err := c.judge(ctx, set, j.Subject, this, now)
	running.Wait()
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	s.left, s.next = stepsOf(this, marks), next
	s.left[0].Total = total
	return nil
}

func (c *Evaluator) read(ctx context.Context, set *definition.Set, ws subject.WorkspaceID, typ string, after int64, limit int) (*page, error) {
	records, err := c.store.RecordPage(ctx, ws, typ, after, limit)
	p := &page{after: after, records: records, full: len(records) == limit}
	relations := set.Relations(typ)
	if err != nil || len(relations) == 0 {
		return p, err
	}
	list := make([]subject.Record, len(records))
	for i := range records {
		r := &records[i]
		if json.Unmarshal([]byte(r.PropsJSON), &r.Props) != nil {
			r.Props = nil // the evaluation reports the error
		}
		list[i] = r.Record
	}
	p.related, err = related.Of(ctx, c.store, ws, relations, list)
	return p, err
}

// sizeAfter returns how many records are read next.
func sizeAfter(p *page, size int) int {
	bytes := 0
	for _, r := range p.records {
		bytes += len(r.PropsJSON) + len(r.State)
	}
	if bytes == 0 {
		return size
	}
	return min(max(pageBytes*len(p.records)/bytes, leastPage), mostPage)
}

// judge finds the records to evaluate. It uses half of the cores, because the next page is read and messages are sent meanwhile. A record that cannot
// be judged is evaluated too, which reports why.
func (c *Evaluator) judge(ctx context.Context, set *definition.Set, typ string, p *page, now time.Time) ([]bool, error) {
	records := p.records
	marks := make([]bool, len(records))
	linked := len(set.Relations(typ)) > 0
	var running sync.WaitGroup
	var taken atomic.Int64
	for range min((runtime.GOMAXPROCS(0)+1)/2, (len(records)+slice-1)/slice) {
		running.Go(func() {
			prefilter := plan.NewPrefilter(set, typ, &c.catalog.Zones)
			prefilter.Related = p.related
			for ctx.Err() == nil {
				from := int(taken.Add(slice)) - slice
				if from >= len(records) {
					return
				}
				for i := from; i < min(from+slice, len(records)); i++ {
					r := &records[i]
					unchanged, err := prefilter.Unchanged(r.Record, r.PropsJSON, r.State, plan.Observation{Now: now, EvaluateAt: r.EvaluateAt, EvaluatedAt: r.EvaluatedAt})
					marks[i] = !unchanged || err != nil || linked && store.LinkText(linksOf(p.related, set.Relations(typ), r)) != r.Links
				}
				runtime.Gosched()
			}
		})
	}
	running.Wait()
	return marks, context.Cause(ctx)
}

// linksOf returns the records on which one depends.
func linksOf(related plan.Related, relations []definition.Relation, r *store.PageRecord) []subject.RecordRef {
	if r.Closed || r.Deleted {
		return nil
	}
	return related.Links(relations, r.Record)
}

// stepsOf returns the transactions that a page takes.
func stepsOf(p *page, marks []bool) (steps []marked) {
	var step marked
	for i, r := range p.records {
		step.Cursor, step.Done = int64(r.ID), step.Done+1
		if marks[i] {
			step.marks = append(step.marks, r.ID)
		}
		if len(step.marks) == mostMarks && i < len(p.records)-1 {
			steps, step = append(steps, step), marked{}
		}
	}
	step.Cursor, step.End = p.end(), !p.full
	return append(steps, step)
}
