package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A suppression waits for an intent that is being committed: when it returns, every intent is before it. SQLite has one
// writer at a time.
// Shows: P5.
func TestSuppressWaitsForTheIntent(t *testing.T) {
	t.Parallel()
	if !slices.Contains(storetest.Databases(t), "postgres") {
		t.Skip("PostgreSQL is not selected")
	}
	url := storetest.URL(t, "postgres")
	f := setup(t, storetest.Open(t, url))
	db := raw(t, url)
	d := f.scheduled(1, nil)[0]
	who, _, err := f.s.ContactByID(t.Context(), f.ws, d.Contact)
	f.must(err)
	suppress := func() error {
		return f.s.Suppress(t.Context(), f.ws, now, who.ExtID, func(store.ContactRow) []string { return nil },
			func(s store.SuppressState) (change store.SuppressChange, err error) {
				s.Contact.Suppressed = true
				change.Contacts = []store.ContactRow{s.Contact}
				for _, d := range s.Deliveries {
					d.StopReason = reason.Suppressed
					change.Deliveries = append(change.Deliveries, d)
				}
				return change, nil
			}, nil)
	}
	done := make(chan error, 1)
	claims, err := f.s.CommitIntents(t.Context(), now, now.Add(30*time.Second), 10, nil, func(claims []store.Claim, _ bool) ([]store.IntentVerdict, error) {
		go func() { done <- suppress() }()
		waits := func() bool {
			return column(t, db, `SELECT CAST(count(*) AS text) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)[0] != "0"
		}
		for !waits() {
			select {
			case err := <-done:
				t.Errorf("it did not wait: %v", err)
				done <- err
				return make([]store.IntentVerdict, len(claims)), nil
			case <-t.Context().Done():
				return nil, t.Context().Err()
			default:
			}
		}
		return make([]store.IntentVerdict, len(claims)), nil
	})
	f.must(err)
	f.must(<-done)
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	if row := f.row(d.ID); row.StopReason != reason.Suppressed || row.Status != delivery.Scheduled {
		t.Errorf("what is being sent is %s, stop %q", row.Status, row.StopReason)
	}
	if again := f.claim(now.Add(time.Hour)); len(again) != 1 || !again[0].Person.Suppressed {
		t.Errorf("the next intent does not see it: %+v", again)
	}
}
