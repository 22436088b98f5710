package store_test

import (
	"regexp"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What a merge changes is found by the contact or the address: the time that it takes does not grow with the deliveries, contacts or addresses of the
// workspace.
func TestAMergeFindsItsRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for text, args := range store.Merged() {
			plans, err := s.Plans(t.Context(), text, args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, plan := range plans[:1] { // a prepared plan of PostgreSQL is of empty tables
				if regexp.MustCompile(`\(ws=\?\)|(SCAN|Seq Scan on) (delivery|past_slot|cadence|address|contact|course_member|[adcpx])($|\n)`).MatchString(plan) {
					t.Errorf("%s\n%s", text, plan)
				}
			}
		}
	})
}
