package console

import (
	"context"
	"slices"

	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/trace"
)

const (
	// mostNamed is how many of the newest events that name a person are looked through.
	mostNamed = 100
	// lastNamed is how many of those that made nothing are shown.
	lastNamed = 10
)

func (v visit) eventLine(e store.EventRow) (eventLine, error) {
	verdicts, err := verdictsOf(e)
	if err != nil {
		return eventLine{}, err
	}
	l := eventLine{href: "/events/" + v.public(key.KindEvent, int64(e.ID)), at: e.ReceivedAt, kind: e.Kind}
	if who := recipient(e); len(who) > 0 {
		l.who = who[0]
	}
	l.id = l.href
	for _, one := range verdicts {
		m := mark{badge{reasonTone(one.Reason), words(string(one.Reason))}, one.Workflow, one.Sentence()}
		if one.Reason == reason.Matched {
			m.why = "" // the word says it all
		}
		l.marks = append(l.marks, m)
	}
	if len(verdicts) == 0 {
		l.marks = []mark{{badge{quiet, words(string(reason.NoWorkflow))}, "", reason.NoWorkflow.Sentence()}}
	}
	return l, nil
}

// nothingMade are the last events that named a person and that no trigger matched.
func (c *console) nothingMade(ctx context.Context, v visit, id string) (lines []eventLine, err error) {
	events, err := c.Store.Events(ctx, v.workspace.ID, store.EventFilter{To: v.whom(id)}, store.Page{Limit: mostNamed})
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		verdicts, err := verdictsOf(e)
		if err != nil {
			return nil, err
		}
		if len(lines) == lastNamed || slices.ContainsFunc(verdicts, func(one trace.Trace) bool { return one.Reason == reason.Matched }) {
			continue
		}
		l, err := v.eventLine(e)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// findNamed finds the events that name a person; it is asked when nothing else was found.
func (c *console) findNamed(ctx context.Context, v visit, q string) ([]hit, error) {
	events, err := c.Store.Events(ctx, v.workspace.ID, store.EventFilter{To: v.whom(q)}, store.Page{Limit: 1})
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return []hit{{kind: "events", name: "Events that named " + q, href: listAt("/events", "to", q)}}, nil
}
