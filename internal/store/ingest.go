package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// Ingest stores events and what they make, in one transaction: once it has begun it asks what for, finds the answers that
// are stored, finds the instances that the planned keys meet, finds or makes the recipients, locks the persons whose slots
// may be taken and then loads these, asks decide, and writes. When somebody else inserted one of the keys meanwhile, the
// whole is done again and decide finds their rows. ErrStaleDefinitions: another set than the request's is in force.
// Answers that decide wants kept are stored with the rest.
func (s *Store) Ingest(ctx context.Context, ws subject.WorkspaceID, request func() IngestRequest, decide func(IngestState) (IngestWrites, error)) error {
	err := s.WriteHoldingDefinitions(ctx, func(t *Tx) error { return t.ingest(ws, request(), decide) })
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

func (t *Tx) ingest(ws subject.WorkspaceID, r IngestRequest, decide func(IngestState) (IngestWrites, error)) error {
	var state IngestState
	var err error
	if len(r.Answers) > 0 {
		if state.Answers, err = t.answered(ws, r.At, r.Answers); err != nil {
			return err
		}
		r = r.Unanswered(state.Answers)
	}
	refs := make([]recipient, len(r.Recipients))
	for i, ref := range r.Recipients {
		refs[i] = recipient{ws, ref}
	}
	// Before the persons are locked: who wrote one of the keys meanwhile has the insert fail, and all is done again.
	if state.Instances, state.Forgotten, err = t.existing(ws, r.Definitions, r.Keys); err != nil {
		return err
	}
	if state.Persons, err = t.persons(r.At, refs, r.Floor); err != nil {
		return err
	}
	if r.Fold {
		if err := t.foldHeadsOf(r.At, refs, state.Persons); err != nil {
			return err
		}
	}
	writes, err := decide(state)
	if err != nil {
		return err
	}
	if err := t.writeIngest(ws, r.At, writes); err != nil {
		return err
	}
	return t.keepAnswers(ws, r.At, writes.Answers)
}

func (t *Tx) writeIngest(ws subject.WorkspaceID, now time.Time, w IngestWrites) error {
	if err := t.insertEvents(ws, w.Events); err != nil {
		return err
	}
	if err := t.insertInstances(ws, w.Instances); err != nil {
		return err
	}
	for _, d := range w.Deliveries {
		if err := checkDelivery(d, ws); err != nil {
			return err
		}
	}
	n, err := t.insertDeliveries(w.Deliveries)
	if err != nil {
		return err
	}
	if n < len(w.Deliveries) {
		return ErrAgain
	}
	if err := t.endWaiting(w.Ended); err != nil {
		return err
	}
	if err := t.insertDecisions(ws, w.Decisions); err != nil {
		return err
	}
	return t.holdInstances(ws, now, w.Held)
}

// sortedKeys are the keys of m in ascending order: rows are always touched in one order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
