package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// answer writes an answer as its service does: it locks the deliveries of the instance and contact, and writes what follows.
func (f fixture) answer(of delivery.Row, at time.Time) error {
	f.Helper()
	return f.s.Write(f.Context(), func(tx *store.Tx) error {
		rows, err := tx.LockDeliveriesOfContact(f.ws, of.Instance, of.Contact)
		if err != nil {
			return err
		}
		if err := tx.WriteAnswered(at, rows, delivery.Answer(rows, of.ID, at)); err != nil {
			return err
		}
		if err := tx.DeleteDraft(f.ws, of.ID); err != nil {
			return err
		}
		return tx.AddResponse(delivery.Response{
			Workspace: f.ws, ID: f.s.NewID(at), Delivery: of.ID, Workflow: of.Workflow, Survey: "visit", Definitions: 3, Locale: "ar",
			Answers: map[string]any{"rate": "7", "why": "<ok> & \"fine\""}, AgentID: "anna", CreatedAt: at,
		})
	})
}

// Shows: C34.
func TestAnswers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		row := f.scheduled(2, nil)[0]
		f.must(s.Write(t.Context(), func(tx *store.Tx) error {
			if err := tx.SaveDraft(f.ws, row.ID, map[string]any{"rate": "6"}, now); err != nil {
				return err
			}
			return tx.SaveDraft(f.ws, row.ID, map[string]any{"rate": "7"}, now)
		}))
		draft, err := s.Draft(t.Context(), f.ws, row.ID)
		f.must(err)
		if diff := cmp.Diff(map[string]any{"rate": "7"}, draft); diff != "" {
			t.Error(diff)
		}
		f.must(f.answer(row, now))
		if draft, err = s.Draft(t.Context(), f.ws, row.ID); draft != nil || err != nil {
			t.Errorf("draft after the answer: %v, %v", draft, err)
		}
		if got := f.row(row.ID); got.Status != delivery.Responded || got.Version != row.Version+1 || !got.SendAt.IsZero() || !got.CompletedAt.Equal(now) {
			t.Errorf("answered: %+v", got)
		}
		got, err := s.ResponseTo(t.Context(), f.ws, row.ID)
		f.must(err)
		if got.Workflow != row.Workflow || got.Survey != "visit" || got.Definitions != 3 || got.Locale != "ar" || got.Address != row.Address || got.CustomerRef != row.CustomerRef || got.Address == "" || got.AgentID != "anna" ||
			got.Answers["why"] != "<ok> & \"fine\"" || !got.CreatedAt.Equal(now) {
			t.Errorf("response %+v", got)
		}
		if err := f.answer(row, now); !errors.Is(err, store.ErrAgain) { // the second one sees the answer when it runs again
			t.Errorf("a second answer: %v", err)
		}
		for name, test := range map[string]struct {
			filter store.ResponseFilter
			want   int
		}{
			"all":              {store.ResponseFilter{}, 1},
			"workflow":         {store.ResponseFilter{Workflow: row.Workflow}, 1},
			"another workflow": {store.ResponseFilter{Workflow: "x"}, 0},
			"survey":           {store.ResponseFilter{Survey: "visit"}, 1},
			"another survey":   {store.ResponseFilter{Survey: "x"}, 0},
			"later":            {store.ResponseFilter{Made: store.Span{Since: now.Add(time.Hour)}}, 0},
			"until then":       {store.ResponseFilter{Made: store.Span{Until: now.Add(time.Hour)}}, 1},
		} {
			if got, err := s.Responses(t.Context(), f.ws, test.filter, store.Page{}); len(got) != test.want || err != nil {
				t.Errorf("%s: %d responses, %v", name, len(got), err)
			}
		}
		if got, err := s.Responses(t.Context(), subject.WorkspaceID(f.ws+1), store.ResponseFilter{}, store.Page{}); len(got) != 0 || err != nil {
			t.Errorf("another workspace: %v, %v", got, err)
		}
		f.mustBe(func() error { _, err := s.ResponseTo(t.Context(), f.ws, row.ID+1); return err }(), store.ErrNotFound)
	})
}

// An answer while the message is in flight stays, whatever the result, and the attempt is logged.
func TestAnAnswerInFlight(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		c := f.claim(now.Add(time.Hour))[0]
		at := c.IntentAt.Add(time.Second)
		f.must(f.answer(c.Row, at))
		if got := f.row(c.ID); got.Status != delivery.Responded || got.Version != c.Version || !got.IntentAt.Equal(c.IntentAt) || !got.LeaseUntil.Equal(c.LeaseUntil) {
			t.Errorf("answered in flight: %+v", got)
		}
		if stale := f.settle(accepted(c)); len(stale) > 0 {
			t.Errorf("the result was refused")
		}
		got := f.row(c.ID)
		if got.Status != delivery.Responded || got.Reason != reason.Answered || !got.SendAt.IsZero() || !got.IntentAt.IsZero() || got.Step != 1 {
			t.Errorf("after the result: %+v", got)
		}
		if attempts, err := s.Attempts(t.Context(), f.ws, c.ID); len(attempts) != 1 || err != nil {
			t.Errorf("attempts %v, %v", attempts, err)
		}
		if more := f.claim(now.Add(1000 * time.Hour)); len(more) > 0 {
			t.Errorf("claimed again: %+v", more)
		}
	})
}
