package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// An answer comes at the same time as a reminder or the expiry, another answer, and a cancel. One outcome wins, and what is written agrees with it: there
// is an event about a response exactly when there is a response.
//
// Shows: C31, C33, C34.
func TestAnAnswerAmongOthers(t *testing.T) {
	t.Parallel()
	const rounds = 8
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a, events: [delivery.sent, delivery.expired, response.completed]}\n"), noJitter)
		a.At(a.Now())
		for round := range rounds {
			if round > 0 {
				r := a.Post(visited(fmt.Sprint(round + 1)))
				a.link.Delivery = r.Instances[0].Deliveries[0].ID
				a.At(a.Now())
			}
			expires := round%2 == 1
			a.Clock.Set(a.Now().Add(24 * time.Hour)) // the reminder
			if expires {
				a.At(a.Now())
				a.Clock.Set(a.row().ExpiresAt.Add(time.Microsecond))
			}
			a.Provider.Sent()
			var errs [2]error
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = a.submit(good) })
			}
			all.Go(func() {
				if _, err := a.Tick(a.Context()); err != nil {
					t.Error(err)
				}
			})
			if round%4 > 1 {
				all.Go(func() {
					_, err := a.Operator().CancelDelivery(a.Context(), a.Workspace.ID, a.link.Delivery, "ann", a.Now())
					if over := (*operator.StateError)(nil); err != nil && !errors.As(err, &over) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			taken := 0
			for _, err := range errs {
				if err == nil {
					taken++
				} else if !errors.Is(err, answer.ErrAnswered) && !errors.Is(err, answer.ErrClosed) {
					t.Error(err)
				}
			}
			row := a.row()
			responses, err := s.Responses(t.Context(), a.Workspace.ID, store.ResponseFilter{Delivery: row.ID}, store.Page{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			events, err := s.OutboxEvents(t.Context(), a.Workspace.ID, store.OutboxFilter{Delivery: row.ID}, store.Page{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			types := map[string]int{}
			var last outbox.Event
			for i, e := range events {
				if types[e.Type]++; i == 0 {
					last = e
				}
			}
			agree := row.Status == delivery.Responded
			if n := len(responses); n != taken || n != types["response.completed"] || (n == 1) != agree || n > 1 {
				t.Errorf("round %d: %s, %d responses, %d were taken, events %v", round, row.Status, n, taken, types)
			}
			if (row.Status == delivery.Expired) != (types["delivery.expired"] == 1) {
				t.Errorf("round %d: %s, events %v", round, row.Status, types)
			}
			if sent := types["delivery.sent"]; !expires && sent != 1+len(a.Provider.Sent()) || expires && sent != 2 {
				t.Errorf("round %d: %s, events %v", round, row.Status, types)
			}
			if row.Status == delivery.Responded && last.Type == "delivery.expired" {
				t.Errorf("round %d: answered, and the last event is %s", round, last.Type)
			}
		}
	})
}

// beforeWrites is a store in which something happens before a transaction begins.
type beforeWrites struct {
	*store.Store
	what func()
}

func (b beforeWrites) Write(ctx context.Context, work func(*store.Tx) error) error {
	b.what()
	return b.Store.Write(ctx, work)
}

// A cancel that is committed after the survey was read and before the answer is written comes first: nothing is opened, kept or answered.
//
// Shows: C33.
func TestACancelComesBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, routed("  - {sink: a, events: [response.completed]}\n"), noJitter)
		for id, do := range map[string]func(*answer.Answers) error{
			"2": func(answers *answer.Answers) error {
				_, err := answers.Submit(a.Context(), a.link, answer.Submission{Answers: good}, a.Now(), nil)
				return err
			},
			"3": func(answers *answer.Answers) error { return answers.SaveDraft(a.Context(), a.link, good, a.Now()) },
			"4": func(answers *answer.Answers) error {
				changed, err := answers.Open(a.Context(), a.link, a.Now())
				if changed || err != nil {
					return err
				}
				return answer.ErrClosed
			},
		} {
			a.link.Delivery = a.Post(visited(id)).Instances[0].Deliveries[0].ID
			a.At(a.Now())
			cancel := sync.OnceFunc(func() { mark(t, s, a.row(), a.Now()) })
			answers := answer.New(beforeWrites{s, cancel}, catalog.New(s, enginetest.Options(nil)), func(journal.Entry) {})
			if err := do(answers); !errors.Is(err, answer.ErrClosed) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// A link that differs from a real one in any bit, and the public id of anything else, lead nowhere.
//
// Shows: C31.
func TestOtherIDsLeadNowhere(t *testing.T) {
	t.Parallel()
	a := ask(t, storetest.Memory(t), routed("  - {sink: a}\n"), nil)
	ids, ws := engine.PublicIDs(a.Workspace), int64(a.Workspace.ID)
	good := ids.Encode('d', ws, int64(a.link.Delivery))
	if l, err := a.Answers().Locate(t.Context(), good); err != nil || l != a.link {
		t.Fatalf("the link itself: %+v, %v", l, err)
	}
	others := []string{"", "d_", good + "0", good[:len(good)-1], ids.Encode('i', ws, int64(a.row().Instance)), ids.Encode('i', ws, int64(a.link.Delivery)), ids.Encode('d', ws+1, int64(a.link.Delivery))}
	for i := range len(good) {
		for bit := range 8 {
			other := []byte(good)
			other[i] ^= 1 << bit
			others = append(others, string(other))
		}
	}
	for _, other := range others {
		if l, err := a.Answers().Locate(t.Context(), other); !errors.Is(err, answer.ErrNotFound) {
			t.Errorf("%q leads to %+v, %v", other, l, err)
		}
	}
}
