package sender

import (
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/datasource"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// A message that shows records or a document is written in the send batch, where its lease is renewed and only its own channel waits for it. If its
// data cannot be read, the attempt fails and is retried after the next backoff: no message leaves without its data.

// reading returns a function that reads the data of a message and then writes it.
func (s *Sender) reading(ws catalog.Workspace, c delivery.Claim, r admission.Rules, ev store.EventRow, now time.Time, digests shown) func(context.Context) (channel.Outgoing, error) {
	return func(ctx context.Context) (channel.Outgoing, error) {
		data, err := s.Reports.Read(ctx, now, datasource.Query{
			Workspace: c.Workspace, Data: messageOf(r, ev.Kind).Data, Contact: c.Person.ID, Input: s.readingOf(c, r, ev, now).Input(),
			Occasion: fmt.Sprintf("%d %s %s %d", c.Instance, ev.Kind, r.Trigger.ID, r.Set.Number),
		})
		if err != nil {
			return s.blank(ws, c, r, ev), &channel.SendError{Reason: reason.CannotRead, Retry: true, Err: err}
		}
		return s.write(ws, c, r, ev, now, shownData{data: data, digests: digests})
	}
}

// finish writes a message that had to wait for its data.
func (f *sendBatch) finish(j *job) {
	if j.later == nil {
		return
	}
	out, err := j.later(f.ctx)
	j.out, j.later = out, nil
	if err != nil {
		j.refused, j.unwritten = refusal(err), true
	}
}
