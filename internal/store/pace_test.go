package store_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Two processes take instants of two channels out of the same batch of claims: none is given out twice, none is lost.
func TestPacesAreSharedByAllProcesses(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const deliveries = 60
			url := storetest.URL(t, database)
			stores := [2]*store.Store{storetest.Open(t, url), storetest.Open(t, url)}
			f := setup(t, stores[0])
			f.scheduled(deliveries, func(i int, d *delivery.Row) { d.Channel = []string{"sms:a", "email:b"}[i%2] })
			second := func(claims []store.Claim, again bool) ([]store.IntentVerdict, error) {
				verdicts := make([]store.IntentVerdict, len(claims))
				paces := map[string]flow.Pace{}
				for i, c := range claims {
					if !again {
						verdicts[i].NeedPace = true
						continue
					}
					pace, ok := paces[c.Channel]
					if !ok {
						pace = *c.Pace
					}
					if pace.NextAt.IsZero() {
						pace.NextAt = now
					}
					pace.NextAt, pace.TailAt = pace.NextAt.Add(time.Second), pace.NextAt.Add(time.Minute)
					paces[c.Channel], verdicts[i].Pace = pace, &pace
				}
				return verdicts, nil
			}
			race(t, 4, func(n int) error {
				for {
					claims, err := stores[n%2].CommitIntents(t.Context(), now, now.Add(30*time.Second), 7, nil, second)
					if err != nil || len(claims) == 0 {
						return err
					}
				}
			})
			f.scheduled(2, func(i int, d *delivery.Row) { d.Channel = []string{"sms:a", "email:b"}[i%2] })
			_, err := stores[0].CommitIntents(t.Context(), now, now.Add(30*time.Second), 10, nil, func(claims []store.Claim, again bool) ([]store.IntentVerdict, error) {
				for _, c := range claims {
					want := flow.Pace{NextAt: now.Add(deliveries / 2 * time.Second), TailAt: now.Add((deliveries/2-1)*time.Second + time.Minute)}
					if again && *c.Pace != want {
						t.Errorf("%s: %+v, want %+v", c.Channel, *c.Pace, want)
					}
				}
				return second(claims, again)
			})
			f.must(err)
		})
	}
}

// A verdict that asks for the same lock again is a mistake, and nothing of it is written.
func TestAPaceIsAskedForOnce(t *testing.T) {
	t.Parallel()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		f.scheduled(1, nil)
		_, err := s.CommitIntents(t.Context(), now, now.Add(time.Minute), 10, nil, func(claims []store.Claim, _ bool) ([]store.IntentVerdict, error) {
			return []store.IntentVerdict{{NeedPace: true}}, nil
		})
		f.mustBe(err, store.ErrInvalid)
	})
}
