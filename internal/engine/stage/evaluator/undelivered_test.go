package evaluator

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/catalogtest"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// ids is a store that only gives ids.
type ids struct {
	Store
	next int64
}

func (s *ids) NewID(time.Time) int64 { s.next++; return s.next }

// A cooldown of an alert that reached nobody stops counting: at once if nobody was to be notified any more, later if nobody could be reached, and not
// if a person ended it. Others may be waiting for it if it is shared.
func TestRefunds(t *testing.T) {
	t.Parallel()
	ten := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	const rest = "when: record.morale < 50}]\naudience: [{to: record.owner}]\nchannel: inbox\nmessage: {inbox: {text: x}}\n---\n"
	known := catalogtest.Of(t, "workflow: own\ntype: alert\ntriggers: [{id: t, record: team, check: [change], cooldown: {length: 2h}, "+rest+
		"workflow: shared\ntype: alert\ntriggers: [{id: t, record: team, check: [change], cooldown: {length: 2h, per: [record.region]}, "+rest+
		"channel: inbox\nprovider: inbox\n---\nworkspace: default\ncadence: {max_per_day: 0}\n")
	for name, tt := range map[string]struct {
		workflow string
		why      []reason.Reason
		at       time.Time // zero: it keeps counting
	}{
		"the condition cleared":       {"own", []reason.Reason{reason.ConditionCleared}, ten},
		"nobody wants it":             {"own", []reason.Reason{reason.ConditionCleared, reason.Suppressed}, ten},
		"no recipient":                {"own", []reason.Reason{reason.NoRecipient}, ten.Add(plan.NobodyFor)},
		"it failed":                   {"own", []reason.Reason{reason.ConditionCleared, reason.PermanentError}, ten.Add(plan.FailedFor)},
		"a person cancelled it":       {"own", []reason.Reason{reason.CancelledByPerson, reason.PermanentError}, time.Time{}},
		"a shared one":                {"shared", []reason.Reason{reason.ConditionCleared}, ten},
		"its workflow is not defined": {"gone", []reason.Reason{reason.WorkflowInactive}, ten},
	} {
		r := refunds{Evaluator: &Evaluator{store: &ids{}, catalog: known}, now: ten}
		u := undelivered{
			Throttle: store.Throttle{
				ThrottleRef: store.ThrottleRef{Workspace: catalogtest.Workspace, Workflow: tt.workflow, Context: "t:x"}, Trigger: "t", Record: 7, FiredAt: ten.Add(-time.Hour),
			},
			RecordName: store.RecordName{RecordRef: subject.RecordRef{Type: "team", ExtID: "a"}, InForce: 1}, why: tt.why,
		}
		back, err := r.decide([]undelivered{u})
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.at.IsZero():
			if len(back) != 0 || len(r.entries) != 0 {
				t.Errorf("%s: %+v", name, back)
			}
		case len(back) != 1 || !back[0].At.Equal(tt.at) || back[0].Records[0] != 7 || back[0].Decision.Reason != reason.NobodyNotified || len(r.entries) != 1:
			t.Errorf("%s: %+v, want %s", name, back, tt.at)
		case back[0].shared != (tt.workflow == "shared"), back[0].shared && !back[0].until.Equal(ten.Add(time.Hour)):
			t.Errorf("%s: shared %t until %s", name, back[0].shared, back[0].until)
		}
	}
}
