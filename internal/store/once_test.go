package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// asked is a request of that key which adds its own number to the audit log.
func (f fixture) asked(key, request string, at time.Time) *store.Idempotent[string] {
	return &store.Idempotent[string]{
		AnswerKey: store.AnswerKey{Key: key, Request: request}, At: at,
		Answer: func(action string) (store.Answer, error) {
			return store.Answer{Status: 200, Body: "did " + action}, nil
		},
	}
}

// do adds an action to the audit log, once.
func (f fixture) do(ctx context.Context, action string, once *store.Idempotent[string]) error {
	return f.doing(ctx, action, once, func() error { return nil })
}

// doing is do that calls work in its transaction.
func (f fixture) doing(ctx context.Context, action string, once *store.Idempotent[string], work func() error) error {
	return f.s.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, f.ws); err != nil {
			return err
		}
		if err := tx.Audit(f.ws, now, store.Audit{Action: action}); err != nil {
			return err
		}
		if err := work(); err != nil {
			return err
		}
		return once.Keep(tx, f.ws, action)
	})
}

func (f fixture) audited() int {
	f.Helper()
	log, err := f.s.AuditLog(f.Context(), f.ws, store.Page{Limit: 100})
	f.must(err)
	return len(log)
}

func (f fixture) pending(key string) instance.ID {
	f.Helper()
	in := f.instance(key, instance.Pending)
	f.ingest(ingestRequest{}, func(ingestState) (store.OccasionWrites, error) {
		return store.OccasionWrites{Instances: []instance.Row{in}}, nil
	})
	return in.ID
}

// The same request again is answered as the first time and does nothing, for a day.
func TestOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ctx := t.Context()
		key := fmt.Sprintf("%064x", 1)
		f.must(f.do(ctx, "first", f.asked(key, "body", now)))
		for _, at := range []time.Time{now, now.Add(store.AnswersFor - time.Microsecond)} {
			var again *store.Replay
			if err := f.do(ctx, "second", f.asked(key, "body", at)); !errors.As(err, &again) || again.Body != "did first" || again.Status != 200 {
				t.Errorf("at %v: %v, %+v", at, err, again)
			}
			if err := s.Answered(ctx, f.ws, at, store.AnswerKey{Key: key, Request: "body"}); !errors.As(err, &again) || again.Body != "did first" {
				t.Errorf("looked up at %v: %v", at, err)
			}
		}
		f.mustBe(f.do(ctx, "other", f.asked(key, "other body", now)), store.ErrKeyReused)
		f.must(f.do(ctx, "other key", f.asked(fmt.Sprintf("%064x", 2), "body", now)))
		if got := f.audited(); got != 2 {
			t.Errorf("%d changes, want 2", got)
		}
		later := now.Add(store.AnswersFor)
		f.must(f.do(ctx, "a day later", f.asked(key, "other body", later)))
		f.mustBe(f.do(ctx, "again", f.asked(key, "body", later)), store.ErrKeyReused)
		if got := f.audited(); got != 3 {
			t.Errorf("%d changes, want 3", got)
		}
		for _, step := range []struct {
			at   time.Time
			want int
		}{{now, 0}, {later, 1}, {later.Add(time.Hour), 0}, {later.Add(store.AnswersFor), 1}} {
			if n, err := s.PruneAnswers(ctx, step.at, 10); n != step.want || err != nil {
				t.Errorf("at %v: %d pruned, want %d, %v", step.at, n, step.want, err)
			}
		}
	})
}

// An answer is kept with its effect or not at all: what failed may be sent again.
func TestOnceKeepsNothingOfWhatFailed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ctx := t.Context()
		broken := errors.New("broken")
		once := f.asked(fmt.Sprintf("%064x", 1), "body", now)
		good := once.Answer
		once.Answer = func(string) (store.Answer, error) { return store.Answer{}, broken }
		f.mustBe(f.do(ctx, "no answer", once), broken)
		once.Answer = good
		f.mustBe(f.doing(ctx, "it", once, func() error { return broken }), broken)
		if got := f.audited(); got != 0 {
			t.Fatalf("%d changes of requests that failed", got)
		}
		f.must(f.do(ctx, "at last", once))
	})
}

// Of requests with one key that come at once, one is carried out and the others have its answer.
func TestOnceConcurrently(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		var running sync.WaitGroup
		var done, replayed atomic.Int64
		for range 12 {
			running.Go(func() {
				err := f.do(t.Context(), "it", f.asked(fmt.Sprintf("%064x", 1), "body", now))
				var again *store.Replay
				switch {
				case err == nil:
					done.Add(1)
				case errors.As(err, &again):
					replayed.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		running.Wait()
		if done.Load() != 1 || replayed.Load() != 11 || f.audited() != 1 {
			t.Errorf("%d done, %d replayed, %d changes", done.Load(), replayed.Load(), f.audited())
		}
	})
}

// A transaction that waits too long for another one with the same key fails with an error that says so.
func TestOnceBusy(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	s.SetBusyAfter(20 * time.Millisecond)
	f := setup(t, s)
	ctx := t.Context()
	once := f.asked(fmt.Sprintf("%064x", 1), "body", now)
	f.must(f.doing(ctx, "slow", once, func() error {
		storetest.Beside(func() { f.mustBe(f.do(ctx, "meanwhile", once), store.ErrBusy) })
		return nil
	}))
	var again *store.Replay
	if err := f.do(ctx, "later", once); !errors.As(err, &again) || again.Body != "did slow" {
		t.Errorf("got %v", err)
	}
}
