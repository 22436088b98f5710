package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/engine/plumbing/digests"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// NextDigests returns the next digests of a contact, as they would be now; see nextdigest.Service.Of.
func (e *Engine) NextDigests(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID) ([]nextdigest.Digest, error) {
	return e.next.Of(ctx, ws, contact, e.config.Clock.Now())
}

// DigestLeftOut says why a run of a digest made no message for a contact: nothing was new for them, or they had unsubscribed. Empty: it was not about them, or its
// trigger is defined no longer.
func (e *Engine) DigestLeftOut(ctx context.Context, run store.DigestRun, contact subject.ContactID) (why reason.Reason, err error) {
	set, err := e.catalog.Current(ctx, run.Workspace)
	if err != nil {
		return "", err
	}
	w := set.Workflow(run.Workflow)
	if w == nil || w.TriggerByID(run.Trigger) == nil {
		return "", nil
	}
	people := plan.OnlyFollowers(w.TriggerByID(run.Trigger), 0)
	err = e.config.Store.Read(ctx, func(tx *store.Tx) error {
		listed, err := tx.SubscriptionsOfContact(run.Workspace, contact)
		if err != nil {
			return err
		}
		meant, err := tx.TopicsMeant(run.Workspace, people)
		if err != nil {
			return err
		}
		of := make([]topic.Subscription, len(listed))
		for i, s := range listed {
			of[i] = s.Subscription
		}
		why = digests.LeftOut(of, people, meant, run.BegunAt)
		return nil
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("explain a run: %w", err)
	}
	return why, nil
}
