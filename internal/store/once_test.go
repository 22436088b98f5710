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
func (f fixture) asked(key, request string, at time.Time) *store.Idempotent[store.OperatorChange] {
	return &store.Idempotent[store.OperatorChange]{
		AnswerKey: store.AnswerKey{Key: key, Request: request}, At: at,
		Answer: func(c store.OperatorChange) (store.Answer, error) {
			return store.Answer{Status: 200, Body: "did " + c.Audit.Action}, nil
		},
	}
}

func (f fixture) hold(ctx context.Context, id instance.ID, action string, once *store.Idempotent[store.OperatorChange]) error {
	return f.s.Operate(ctx, f.ws, now, id, func(s store.OperatorState) (store.OperatorChange, error) {
		in := s.Instance
		return store.OperatorChange{Instance: &in, Audit: store.Audit{Action: action}}, nil
	}, once)
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
	f.ingest(ingestRequest{}, func(ingestState) (store.IngestWrites, error) {
		return store.IngestWrites{Instances: []instance.Row{in}}, nil
	})
	return in.ID
}

// The same request again is answered as the first time and does nothing, for a day.
func TestOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ctx, id := t.Context(), f.pending("k")
		key := fmt.Sprintf("%064x", 1)
		f.must(f.hold(ctx, id, "first", f.asked(key, "body", now)))
		for _, at := range []time.Time{now, now.Add(store.AnswersFor - time.Microsecond)} {
			var again *store.Replay
			if err := f.hold(ctx, id, "second", f.asked(key, "body", at)); !errors.As(err, &again) || again.Body != "did first" || again.Status != 200 {
				t.Errorf("at %v: %v, %+v", at, err, again)
			}
			if err := s.Answered(ctx, f.ws, at, store.AnswerKey{Key: key, Request: "body"}); !errors.As(err, &again) || again.Body != "did first" {
				t.Errorf("looked up at %v: %v", at, err)
			}
		}
		f.mustBe(f.hold(ctx, id, "other", f.asked(key, "other body", now)), store.ErrKeyReused)
		f.must(f.hold(ctx, id, "other key", f.asked(fmt.Sprintf("%064x", 2), "body", now)))
		if got := f.audited(); got != 2 {
			t.Errorf("%d changes, want 2", got)
		}
		later := now.Add(store.AnswersFor)
		f.must(f.hold(ctx, id, "a day later", f.asked(key, "other body", later)))
		f.mustBe(f.hold(ctx, id, "again", f.asked(key, "body", later)), store.ErrKeyReused)
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
		ctx, id := t.Context(), f.pending("k")
		broken := errors.New("broken")
		once := f.asked(fmt.Sprintf("%064x", 1), "body", now)
		good := once.Answer
		once.Answer = func(store.OperatorChange) (store.Answer, error) { return store.Answer{}, broken }
		f.mustBe(f.hold(ctx, id, "no answer", once), broken)
		once.Answer = good
		f.mustBe(s.Operate(ctx, f.ws, now, id, func(store.OperatorState) (store.OperatorChange, error) {
			return store.OperatorChange{}, broken
		}, once), broken)
		if got := f.audited(); got != 0 {
			t.Fatalf("%d changes of requests that failed", got)
		}
		f.must(f.hold(ctx, id, "at last", once))
	})
}

// Of requests with one key that come at once, one is carried out and the others have its answer.
func TestOnceConcurrently(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		id := f.pending("k")
		var running sync.WaitGroup
		var done, replayed atomic.Int64
		for range 12 {
			running.Go(func() {
				err := f.hold(t.Context(), id, "it", f.asked(fmt.Sprintf("%064x", 1), "body", now))
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

// Who waits too long for the same key is told so.
func TestOnceBusy(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	s.SetBusyAfter(20 * time.Millisecond)
	f := setup(t, s)
	ctx, id := t.Context(), f.pending("k")
	once := f.asked(fmt.Sprintf("%064x", 1), "body", now)
	f.must(s.Operate(ctx, f.ws, now, id, func(st store.OperatorState) (store.OperatorChange, error) {
		storetest.Beside(func() { f.mustBe(f.hold(ctx, id, "meanwhile", once), store.ErrBusy) })
		in := st.Instance
		return store.OperatorChange{Instance: &in, Audit: store.Audit{Action: "slow"}}, nil
	}, once))
	var again *store.Replay
	if err := f.hold(ctx, id, "later", once); !errors.As(err, &again) || again.Body != "did slow" {
		t.Errorf("got %v", err)
	}
}
