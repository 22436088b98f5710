package engine_test

import (
	"context"
	"testing"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// crowd makes an instance with a delivery to each of two contacts, by their names. Both are sent, and a reminder is planned.
func crowd(t *testing.T, s *store.Store) (w world, of map[string]delivery.Row) {
	t.Helper()
	w = newWorld(t, s, `
persona: Manager
---
channel: inbox
provider: inbox
---
workflow: a
type: alert
triggers: [{id: t, event: up}]
timing: {reminders: [1d]}
audience: [{persona: Manager}]
channel: inbox
message: {inbox: {text: hello}}
`, "alice", "bob")
	w.Post(`{"kind": "up", "id": "1"}`)
	w.live("10:01")
	of = map[string]delivery.Row{}
	for _, d := range w.rows() {
		of[d.CustomerRef] = d
	}
	if len(of) != 2 {
		t.Fatalf("deliveries: %+v", of)
	}
	return w, of
}

// A cancel and a retry of one delivery wait for no transaction that holds other contacts' deliveries of the instance: it may have very many.
func TestOneDeliveryLocksNoOthers(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		if database == "sqlite" {
			continue // one writer
		}
		url := storetest.URL(t, database)
		w, of := crowd(t, storetest.Open(t, url))
		other, err := behind(t, database, url).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = other.Rollback() }()
		var id int64
		if err := other.QueryRowContext(t.Context(), "SELECT id FROM delivery WHERE id = $1 FOR UPDATE", int64(of["bob"].ID)).Scan(&id); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := w.operator().CancelDelivery(ctx, w.Workspace.ID, of["alice"].ID, "ann", w.Clock.Now()); err != nil {
			t.Errorf("cancel: %v", err)
		}
		if _, err := w.operator().RetryDelivery(ctx, w.Workspace.ID, of["alice"].ID, "ann", w.Clock.Now()); err != nil {
			t.Errorf("retry: %v", err)
		}
	}
}

// stale is a store in which a delivery is read, once, as it was before its contact was merged into another one.
type stale struct {
	operator.Store
	before map[delivery.ID]subject.ContactID
}

func (s *stale) DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error) {
	row, err := s.Store.DeliveryByID(ctx, ws, id)
	if contact := s.before[id]; contact != 0 {
		row.Contact = contact
		delete(s.before, id)
	}
	return row, err
}

// A delivery whose contact is merged between being found and being locked is found again.
func TestADeliveryMovesBeforeItIsCancelled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w, of := crowd(t, s)
		behind := &stale{s, map[delivery.ID]subject.ContactID{of["alice"].ID: of["bob"].Contact}}
		op := operator.New(behind, catalog.New(s, enginetest.Options(nil)), nil)
		result, err := op.CancelDelivery(t.Context(), w.Workspace.ID, of["alice"].ID, "ann", w.Clock.Now())
		if err != nil || !result.Changed || len(behind.before) > 0 {
			t.Errorf("%+v, %v", result, err)
		}
		if got := w.Delivery(of["bob"].ID); got.Status != delivery.Sent {
			t.Errorf("the other contact's: %+v", got)
		}
	})
}
