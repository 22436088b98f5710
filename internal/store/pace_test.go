package store_test

import (
	"slices"
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
			take := func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
				var refs []delivery.PaceRef
				for _, c := range claims {
					refs = append(refs, delivery.PaceRef{Workspace: c.Workspace, Channel: c.Channel})
				}
				w.Paces, err = tx.LockPaces(slices.Clone(refs))
				for _, ref := range refs {
					pace := w.Paces[ref]
					if pace.NextAt.IsZero() {
						pace.NextAt = now
					}
					for i := range pace.Tails {
						pace.Tails[i] = pace.NextAt.Add(time.Duration(i+1) * time.Minute)
					}
					pace.NextAt = pace.NextAt.Add(time.Second)
					w.Paces[ref] = pace
				}
				return w, err
			}
			race(t, 4, func(n int) error {
				for {
					claims, err := claimDue(t.Context(), stores[n%2], now, 7, take)
					if err != nil || len(claims) == 0 {
						return err
					}
				}
			})
			f.scheduled(2, func(i int, d *delivery.Row) { d.Channel = []string{"sms:a", "email:b"}[i%2] })
			_, err := claimDue(t.Context(), stores[0], now, 10, func(tx *store.Tx, claims []delivery.Claim) (w store.ClaimWrites, err error) {
				for _, c := range claims {
					ref := delivery.PaceRef{Workspace: c.Workspace, Channel: c.Channel}
					paces, err := tx.LockPaces([]delivery.PaceRef{ref})
					want := flow.Pace{NextAt: now.Add(deliveries / 2 * time.Second)}
					for i := range want.Tails {
						want.Tails[i] = now.Add((deliveries/2-1)*time.Second + time.Duration(i+1)*time.Minute)
					}
					if err != nil || paces[ref] != want {
						t.Errorf("%s: %+v %v, want %+v", c.Channel, paces[ref], err, want)
					}
				}
				return w, nil
			})
			f.must(err)
		})
	}
}
