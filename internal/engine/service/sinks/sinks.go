// Package sinks carries out what people do with sinks: pause and enable one, and redrive what is dead.
package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// The ways in which an action is refused; nothing has changed.
var (
	ErrNotFound = errors.New("there is no such sink or outbox event")
	ErrNotDead  = errors.New("the event is not dead at this sink")
)

// page is how many rows a transaction of RedriveAll changes.
const page = 500

// Store is what the service needs of the store.
type Store interface {
	Dispatches(ctx context.Context, ws subject.WorkspaceID, events []int64) (map[int64][]outbox.Row, error)
	Write(ctx context.Context, work func(*store.Tx) error) error
}

// Sinks is the service.
type Sinks struct {
	store   Store
	catalog *catalog.Catalog
}

// New makes the service.
func New(s Store, c *catalog.Catalog) *Sinks { return &Sinks{store: s, catalog: c} }

// Pause stops a sink's events until it is enabled; they stay pending. Changed is false if it sends nothing already.
func (s *Sinks) Pause(ctx context.Context, ref store.SinkRef, actor string, now time.Time) (h outbox.Health, changed bool, err error) {
	return s.change(ctx, ref, "pause_sink", actor, now, outbox.Health.Pause)
}

// Enable lets a sink's events leave again, whether it was paused or disabled. Changed is false if it sends already.
func (s *Sinks) Enable(ctx context.Context, ref store.SinkRef, actor string, now time.Time) (h outbox.Health, changed bool, err error) {
	return s.change(ctx, ref, "enable_sink", actor, now, outbox.Health.Enable)
}

// change changes a sink that is defined or has events.
func (s *Sinks) change(ctx context.Context, ref store.SinkRef, action, actor string, now time.Time, decide func(outbox.Health) (outbox.Health, bool)) (h outbox.Health, changed bool, err error) {
	set, err := s.catalog.Current(ctx, ref.Workspace)
	if err != nil {
		return h, false, err
	}
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		if set.Sink(ref.Name) != nil {
			if err := tx.EnsureSink(ref); err != nil {
				return err
			}
		}
		was, err := tx.LockSink(ref)
		if err != nil {
			return err
		}
		if h, changed = decide(was); !changed {
			return nil
		}
		if err := tx.WriteSink(ref, h); err != nil {
			return err
		}
		tx.WakeAt(store.WorkDispatches, now)
		return tx.Audit(ref.Workspace, now, store.Audit{Actor: actor, Action: action, Target: ref.Name, Detail: json.RawMessage("{}")})
	})
	if errors.Is(err, store.ErrNotFound) {
		return h, false, ErrNotFound
	}
	if err != nil {
		return h, false, fmt.Errorf("%s %s: %w", action, ref.Name, err)
	}
	return h, changed, nil
}

// Redrive makes an event pending again at the sinks at which it is dead, or at one of them, with all its tries. A sink that rests is tried
// at once. It returns these sinks. ErrNotDead: it is dead at none.
func (s *Sinks) Redrive(ctx context.Context, ws subject.WorkspaceID, event int64, sink, actor string, now time.Time) (at []string, err error) {
	return s.RedriveOnce(ctx, ws, event, sink, actor, now, nil)
}

// RedriveOnce is Redrive for a request that may come again. The error is a *store.Replay if it took effect before.
func (s *Sinks) RedriveOnce(ctx context.Context, ws subject.WorkspaceID, event int64, sink, actor string, now time.Time, once *store.Idempotent[[]string]) (at []string, err error) {
	workspace, err := s.catalog.Known(ctx, ws)
	if err != nil {
		return nil, err
	}
	found, err := s.store.Dispatches(ctx, ws, []int64{event}) // an event has the same sinks as long as there is one
	if err != nil {
		return nil, fmt.Errorf("redrive an outbox event: %w", err)
	}
	others := func(r outbox.Row) bool { return sink != "" && r.Sink != sink }
	sinks := slices.DeleteFunc(found[event], others) // by name
	err = s.store.Write(ctx, func(tx *store.Tx) error {
		at = nil
		if err := once.Begin(tx, ws); err != nil {
			return err
		}
		healths := make(map[string]outbox.Health, len(sinks))
		for _, r := range sinks {
			health, err := tx.LockSink(store.SinkRef{Workspace: ws, Name: r.Sink})
			if err != nil {
				return err
			}
			healths[r.Sink] = health
		}
		rows, err := tx.LockDispatchesOf(ws, event)
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, others)
		if len(rows) == 0 {
			return ErrNotFound
		}
		changes := redriven(rows, now)
		if len(changes) == 0 {
			return ErrNotDead
		}
		for _, c := range changes {
			at = append(at, c.Is.Sink)
			if err := endRest(tx, store.SinkRef{Workspace: ws, Name: c.Is.Sink}, healths[c.Is.Sink], now); err != nil {
				return err
			}
		}
		if _, err := tx.WriteDispatches(changes); err != nil { // they are locked, so all are written
			return err
		}
		if err := audit(tx, ws, now, actor, workspace.IDs.Encode(key.KindOutbox, int64(ws), event), map[string]any{"sinks": at}); err != nil {
			return err
		}
		return once.Keep(tx, ws, at)
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotDead) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("redrive an outbox event: %w", err)
	}
	return at, nil
}

// RedriveAll makes all events pending again that are dead at a sink at now, and returns how many. If it rests, it is tried at once. An error
// may come after some were.
func (s *Sinks) RedriveAll(ctx context.Context, ref store.SinkRef, actor string, now time.Time) (n int, err error) {
	return s.RedriveAllOnce(ctx, ref, actor, now, nil)
}

// RedriveAllOnce is RedriveAll for a request that may come again. The error is a *store.Replay if it took effect before. The answer is kept with
// the last page: a repeat of a request that was cut off before does the rest.
func (s *Sinks) RedriveAllOnce(ctx context.Context, ref store.SinkRef, actor string, now time.Time, once *store.Idempotent[int]) (n int, err error) {
	for {
		done := 0
		err := s.store.Write(ctx, func(tx *store.Tx) error {
			if err := once.Begin(tx, ref.Workspace); err != nil {
				return err
			}
			var err error
			if done, err = redrivePage(tx, ref, actor, now, n == 0); err != nil || done == page {
				return err
			}
			return once.Keep(tx, ref.Workspace, n+done)
		})
		if err != nil {
			return n, fmt.Errorf("redrive what is dead at %s: %w", ref.Name, err)
		}
		if n += done; done < page {
			return n, nil
		}
	}
}

// redrivePage makes some events pending again that are dead at a sink at now, and returns how many.
func redrivePage(tx *store.Tx, ref store.SinkRef, actor string, now time.Time, first bool) (n int, err error) {
	health, err := tx.LockSink(ref)
	if errors.Is(err, store.ErrNotFound) { // it was never routed an event
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	rows, err := tx.LockDead(ref, now, page)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if first { // it may have failed, and rest, since the first page
		if err := endRest(tx, ref, health, now); err != nil {
			return 0, err
		}
	}
	if _, err := tx.WriteDispatches(redriven(rows, now)); err != nil { // they are locked, so all are written
		return 0, err
	}
	return len(rows), audit(tx, ref.Workspace, now, actor, ref.Name, map[string]any{"events": len(rows)})
}

// endRest has a locked sink tried at once whose events were redriven.
func endRest(tx *store.Tx, ref store.SinkRef, was outbox.Health, now time.Time) error {
	is, changed := was.Redriven(now)
	if !changed {
		return nil
	}
	return tx.WriteSink(ref, is)
}

func redriven(rows []outbox.Row, now time.Time) (changes []store.DispatchChange) {
	for _, r := range rows {
		if p, ok := outbox.Redrive(r, now); ok {
			is := r.With(p)
			is.EndedAt = time.Time{}
			changes = append(changes, store.DispatchChange{Was: r, Is: is})
		}
	}
	return changes
}

func audit(tx *store.Tx, ws subject.WorkspaceID, now time.Time, actor, target string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("write the audit entry: %w", err)
	}
	return tx.Audit(ws, now, store.Audit{Actor: actor, Action: "redrive", Target: target, Detail: text})
}
