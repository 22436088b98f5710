package api

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// digestRun adds the run of a digest to its instance, and why it made nothing for the contact that was asked for.
func (a *API) digestRun(ctx context.Context, detail *client.InstanceDetail, row instance.Row, name string, contact subject.ContactID) error {
	run, err := a.Store.DigestRun(ctx, row.Workspace, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	detail.DigestRun = &client.DigestRun{
		Status: string(run.Status()), WindowStart: run.Window.From, WindowEnd: run.Window.End, BegunAt: run.BegunAt, ExpandedAt: run.ExpandedAt, OverAt: run.OverAt,
	}
	if name == "" || len(detail.Deliveries) > 0 || run.ExpandedAt.IsZero() {
		return nil
	}
	why, err := a.Engine.DigestLeftOut(ctx, run, contact)
	if err != nil || why == "" {
		return err
	}
	detail.Without = &client.Without{Contact: name, Reason: string(why), Message: sentence(why)}
	return nil
}
