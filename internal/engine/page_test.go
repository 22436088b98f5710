package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// pages is a store that records how many rows each transaction of the evaluator and the fan-out takes.
type pages struct {
	*store.Store
	records, occasions, repaired []int
	repairing                    bool // the step advances a repair
}

func (p *pages) OldestJob(ctx context.Context, kinds ...job.Kind) (oldest job.Row, open bool, err error) {
	oldest, open, err = p.Store.OldestJob(ctx, kinds...)
	p.repairing = open && oldest.Kind == job.Reconcile
	return oldest, open, err
}

// costly are the fields of an occasion whose condition uses much of what one evaluation may use.
func costly(more string) string {
	return fmt.Sprintf(`{"text": %q, "pattern": "x{0,400}y|@"%s}`, strings.Repeat("x", 600)+"@", more)
}

// step runs the evaluator and the fan-out, and returns what each transaction took.
func (w world) step(limit int) *pages {
	w.Helper()
	p := &pages{Store: w.Store}
	definitions := catalog.New(w.Store, loader.Options{})
	c, x := evaluator.New(p, definitions, nil), fanout.New(p, definitions, nil, nil)
	for {
		looked, err := c.Step(w.Context(), w.Clock.Now(), limit)
		if err != nil {
			w.Fatal(err)
		}
		if p.repairing {
			p.repaired, p.repairing = append(p.repaired, looked.Passed), false
		}
		if looked.Evaluated > 0 {
			p.records = append(p.records, looked.Evaluated)
		}
		expanded, err := x.Step(w.Context(), w.Clock.Now(), limit)
		if err != nil {
			w.Fatal(err)
		}
		if expanded > 0 {
			p.occasions = append(p.occasions, expanded)
		}
		if looked.Evaluated == 0 && expanded == 0 && !looked.More {
			return p
		}
	}
}

// split checks that several transactions did the work.
func (w world) split(what string, want int, sizes []int) {
	w.Helper()
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	if sum != want || slices.Max(sizes) > want*2/3 {
		w.Errorf("%s: transactions of %v", what, sizes)
	}
}

const costlyRecords = 60

// The evaluation work of one transaction is bounded. The next transaction does the rest.
//
// Shows: reliability 40.
func TestEvaluationsOfCostlyRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, strings.NewReplacer("record.morale < 50", "matches(record.text, record.pattern)", "{{ record.morale }}", "x", "{{ record.name }}", "x").Replace(simple("[change]", "", "")), "ann")
		for i := range costlyRecords {
			w.put(fmt.Sprint("team/", i), costly(`, "owner_id": "ann"`))
		}
		w.split("evaluations", costlyRecords, w.step(costlyRecords).records)
		w.live("10:01")
		if sent := w.Provider.Sent(); len(sent) != costlyRecords {
			t.Errorf("%d messages instead of %d", len(sent), costlyRecords)
		}
	})
}

// An audience with a costly where is expanded in smaller pages, also of contacts who are named one by one.
func TestCostlyAudiences(t *testing.T) {
	t.Parallel()
	const definitions = `
workflow: members
type: alert
triggers: [{id: t, event: all}]
audience: [{persona: Manager, where: "matches(event.text + contact.id, event.pattern)"}]
channel: inbox
message: {inbox: {text: x}}
---
workflow: named
type: alert
triggers: [{id: t, event: some}]
audience: [{to: event.people, where: "matches(event.text + contact.id, event.pattern)"}]
channel: inbox
message: {inbox: {text: x}}
---
persona: Manager
cadence: {max_per_month: 10000}
---
channel: inbox
provider: inbox
`
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		people := make([]string, costlyRecords)
		for i := range people {
			people[i] = fmt.Sprint("p", i)
		}
		w := newWorld(t, s, definitions, people...)
		w.Post(`{"id": "1", "kind": "all", "payload": ` + costly("") + `}`)
		if pages := w.step(costlyRecords).occasions; len(pages) < 2 || len(pages) > costlyRecords/2 {
			t.Errorf("transactions of %v", pages)
		}
		w.live("10:01")
		w.each("members", costlyRecords)
		w.Post(fmt.Sprintf(`{"id": "2", "kind": "some", "payload": %s}`, costly(fmt.Sprintf(`, "people": ["%s"]`, strings.Join(people, `","`)))))
		if pages := w.step(costlyRecords).occasions; len(pages) < 2 || len(pages) > costlyRecords/2 {
			t.Errorf("named: transactions of %v", pages)
		}
		w.live("10:02")
		w.each("named", costlyRecords)
	})
}

// each checks that so many contacts have got one message each since the last call.
func (w *world) each(what string, people int) {
	w.Helper()
	reported := map[string]bool{}
	for _, m := range w.Provider.Sent() {
		if reported[m.Address] {
			w.Errorf("%s: %s has it twice", what, m.Address)
		}
		reported[m.Address] = true
	}
	if len(reported) != people {
		w.Errorf("%s: %d messages instead of %d", what, len(reported), people)
	}
}

// A repair reads fewer records at a time if its where is costly.
func TestRepairOfCostlyRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, visits(`    timing: {anchor: record.on_date, offset: [-7d], at: "12:00"}
    reconcile: {every: 1d, where: "matches(record.text, record.pattern)", batch: 100}
`), "ann")
		for i := range costlyRecords {
			w.put(fmt.Sprint("visit/", i), costly(`, "on_date": "2026-05-26", "who": "ann"`))
		}
		w.live("10:01")
		w.Clock.Set(w.Clock.Now().AddDate(0, 0, 1))
		w.split("repairs", costlyRecords, w.step(costlyRecords).repaired)
	})
}
