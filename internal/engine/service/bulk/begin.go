package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

// Begin publishes the item of a request, and starts the run; if there is nobody, there is no run. A run that goes on for the same request is answered
// instead of a second one. The error may be an *upsert.Error or an *ErrNoTopic. once keeps the answer to a request that may be repeated; see
// store.Idempotent.
func (r *Runner) Begin(ctx context.Context, ws store.Workspace, q Request, actor string, now time.Time, once *store.Idempotent[Found]) (Found, error) {
	if wrong := q.Check(); wrong != nil {
		return Found{}, wrong
	}
	set, err := r.catalog.Current(ctx, ws.ID)
	if err != nil {
		return Found{}, err
	}
	found, err := r.Preview(ctx, ws, q, now)
	if err != nil {
		return Found{}, err
	}
	err = r.store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, ws.ID); err != nil {
			return err
		}
		p, err := r.resolve(tx, ws, q)
		if err != nil {
			return err
		}
		selection, err := json.Marshal(p.Bulk)
		if err != nil {
			return fmt.Errorf("write what a run does: %w", err)
		}
		j := job.New(ws.ID, job.Seed{Kind: kindOf(p.Action), Subject: p.String()}, set.Number, now)
		j.Selection, j.Actor = string(selection), actor
		if j.Total = int64(found.People); found.More {
			j.Total = 0
		}
		if err := r.start(tx, ws, p, q.Item, j, now, &found); err != nil {
			return err
		}
		return once.Keep(tx, ws.ID, found)
	})
	if err != nil {
		return Found{}, fmt.Errorf("begin a run over subscriptions: %w", err)
	}
	return found, nil
}

// start publishes the item and adds the job.
func (r *Runner) start(tx *store.Tx, ws store.Workspace, p plan, item map[string]any, j job.Row, now time.Time, found *Found) error {
	found.Run, found.Item = job.Row{}, 0 // of an earlier try
	if p.Action != topic.ActMessage {
		open, is, err := tx.OpenBulk(ws.ID, j.Kind, j.Selection)
		if err != nil || is {
			found.Run = open
			return err
		}
	}
	if found.ByVerdict[topic.Changed] == 0 && !found.More {
		return nil
	}
	if item != nil {
		if err := r.publishItem(tx, ws.ID, p, item, now, found); err != nil {
			return err
		}
	}
	if p.Action != topic.ActMessage {
		added, err := tx.AddJobs(now, []job.Row{j})
		if err != nil {
			return err
		}
		found.Run = added[0]
	}
	detail, err := json.Marshal(map[string]any{"request": p.Bulk, "people": found.People, "by_outcome": found.ByVerdict, "more": found.More})
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return tx.Audit(ws.ID, now, store.Audit{At: now, Actor: j.Actor, Action: string(p.Action) + " many", Target: p.String(), Detail: detail})
}

// publishItem publishes the item of a run to the people of its topics.
func (r *Runner) publishItem(tx *store.Tx, ws subject.WorkspaceID, p plan, item map[string]any, now time.Time, found *Found) error {
	fields := maps.Clone(item)
	fields[topic.FieldTopics] = list(p.Topics)
	if len(p.Except) > 0 {
		fields[topic.FieldExcept] = list(p.Except)
	}
	id, created, err := r.publish(tx, ws, fields, now)
	if err != nil {
		return err
	}
	if !created {
		return ErrPublished
	}
	found.Item = id
	return nil
}

// ErrPublished means that the item of a request was published before.
var ErrPublished = errors.New("the item was published before")

func list(names []string) []any {
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = name
	}
	return values
}

func kindOf(a topic.Action) job.Kind {
	return map[topic.Action]job.Kind{topic.ActSubscribe: job.Subscribe, topic.ActMigrate: job.Migrate, topic.ActUnsubscribe: job.Unsubscribe, topic.ActUndo: job.Undo}[a]
}
