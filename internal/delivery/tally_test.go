package delivery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// Every delivery is counted once, whatever its status is, and reasons are those of what was not sent.
func TestTally(t *testing.T) {
	t.Parallel()
	suppressed := delivery.Counted{Status: delivery.Skipped, Reason: reason.Suppressed, N: 4}
	limited := delivery.Counted{Status: delivery.Scheduled, Reason: reason.CadenceDaily, N: 7}
	refused := delivery.Counted{Status: delivery.Failed, Reason: reason.PermanentError, N: 1}
	stopped := delivery.Counted{Status: delivery.Cancelled, Reason: reason.CancelledByPerson, N: 4}
	got := delivery.TallyOf([]delivery.Counted{
		{Status: delivery.Sent, Left: true, N: 10},
		{Status: delivery.Responded, Left: true, N: 2},
		{Status: delivery.Cancelled, Reason: reason.CancelledByPerson, Left: true, N: 1}, // before its reminder
		{Status: delivery.Scheduled, N: 3},
		limited,
		{Status: delivery.Unknown, N: 1},
		refused, suppressed, stopped,
		{Status: delivery.Superseded, N: 1},
		{Status: delivery.Expired, N: 1},
	}, true)
	want := delivery.Tally{
		Deliveries: 35, Sent: 13, Waiting: 10, Unknown: 1, Failed: 1, LeftOut: 10, More: true,
		Reasons: []delivery.Counted{limited, stopped, suppressed, refused},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, status := range delivery.Statuses() {
		for _, left := range []bool{false, true} {
			one := delivery.TallyOf([]delivery.Counted{{Status: status, Left: left, N: 1}}, false)
			if sum := one.Sent + one.Waiting + one.Unknown + one.Failed + one.LeftOut; sum != 1 || one.Deliveries != 1 {
				t.Errorf("%s is counted %d times", status, sum)
			}
		}
	}
}
