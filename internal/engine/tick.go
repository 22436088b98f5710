package engine

import (
	"context"
	"sync/atomic"

	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
)

// TickResult counts what stages did (C25).
type TickResult struct {
	Matched     int `json:"matched"`     // items
	Evaluated   int `json:"evaluated"`   // records
	Marked      int `json:"marked"`      // records that a job went over, and contacts that one marked
	Expanded    int `json:"expanded"`    // instances
	Rescheduled int `json:"rescheduled"` // contacts whose limits have changed
	Processed   int `json:"processed"`   // due deliveries that were claimed
	Reclaimed   int `json:"reclaimed"`   // of those: taken over from a lost worker
	Failed      int `json:"failed"`      // attempts
	Expired     int `json:"expired"`     // deliveries
	Dispatched  int `json:"dispatched"`  // outbox events that a sink accepted
	Dead        int `json:"dead"`        // outbox events for which no try follows at a sink

	worked bool // parked rows became due, or a job over deliveries continued
	more   bool // there is more than the step took
}

// Any reports whether anything was found to do.
func (r TickResult) Any() bool {
	return r.Matched+r.Evaluated+r.Marked+r.Expanded+r.Rescheduled+r.Processed+r.Expired+r.Dispatched+r.Dead > 0 || r.worked || r.more
}

// More reports whether there is more than was taken.
func (r TickResult) More() bool { return r.more }

func (r *TickResult) add(o TickResult) {
	r.Matched += o.Matched
	r.Evaluated += o.Evaluated
	r.Marked += o.Marked
	r.Expanded += o.Expanded
	r.Rescheduled += o.Rescheduled
	r.Processed += o.Processed
	r.Reclaimed += o.Reclaimed
	r.Failed += o.Failed
	r.Expired += o.Expired
	r.Dispatched += o.Dispatched
	r.Dead += o.Dead
	r.worked = r.worked || o.worked
	r.more = r.more || o.more
}

// Tick runs every stage that has work once, at the clock's present instant (C17), and a batch of retention. What a stage makes due is taken by the
// later ones.
func (e *Engine) Tick(ctx context.Context) (TickResult, error) {
	now := e.config.Clock.Now()
	var r TickResult
	due, err := e.config.Store.NextDue(ctx, now)
	if err != nil {
		return r, err
	}
	e.note(due.At(now))
	for i, s := range e.list {
		if s.takes != 0 && !e.woken.take(i) {
			continue
		}
		did, err := s.step(ctx, now, TickBatch)
		if did.more || err != nil {
			e.woken.add(i)
		}
		if r.add(did); err != nil {
			return r, err
		}
	}
	_, err = e.retainer.Step(ctx, now, retention.DefaultBatch)
	return r, err
}

// note has the next Tick run the stages that take some kinds of work.
func (e *Engine) note(due store.Works) {
	for i, s := range e.list {
		if s.takes.Any(due) {
			e.woken.add(i)
		}
	}
}

// stageSet is a set of stages, a bit each, by their places in the list.
type stageSet struct{ bits atomic.Uint32 }

// fill adds every stage.
func (s *stageSet) fill() { s.bits.Store(1<<32 - 1) }

func (s *stageSet) add(i int) { s.bits.Or(1 << i) }

// take removes a stage, and reports whether it was in the set.
func (s *stageSet) take(i int) bool { return s.bits.And(^(uint32(1)<<i))&(1<<i) != 0 }
