package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// Release lets an instance on hold go on, and its retries begin from the first wait. An instance that is on hold because its key came with other
// inputs goes on with the present inputs (B23): a waiting message is sent when it is due, a withdrawn or failed one is planned again, and one that is
// done or was cancelled only loses the flag.
func (o *Operator) Release(ctx context.Context, ws subject.WorkspaceID, id instance.ID, actor string, now time.Time) (Result, error) {
	result, err := o.onInstance(ctx, ws, id, "release", actor, now, func(a *action, s state) (change, error) {
		in := s.Instance
		if in.Parked() {
			return change{}, paused("release")
		}
		if !in.Held() {
			return change{}, &StateError{Action: "release", Status: string(in.Status) + ", not held", Hint: "retry tries what waits at once, and does what has ended again"}
		}
		if err := o.settleInputs(a, s, &in); err != nil {
			return change{}, err
		}
		in.Release(now)
		a.record(journal.Released, in, reason.ReleasedByPerson)
		return change{Instance: &in}, nil
	})
	var refused *StateError
	if errors.As(err, &refused) {
		return result, o.heldZones(ctx, ws, id, refused)
	}
	return result, err
}

// heldZones has the refusal to release an occasion name its rows for single time zones that are held: each is released by itself.
func (o *Operator) heldZones(ctx context.Context, ws subject.WorkspaceID, id instance.ID, refused *StateError) error {
	const named = 5
	zones, err := o.store.ZonesOf(ctx, []instance.ID{id})
	if err != nil {
		return fmt.Errorf("find the zones of an instance: %w", err)
	}
	var held []string
	for _, z := range zones[id] {
		if z.Workspace == ws && z.Held() && !z.Parked() {
			held = append(held, z.Key)
		}
	}
	if len(held) == 0 {
		return refused
	}
	more := ""
	if len(held) > named {
		held, more = held[:named], " and others, which instances list --held --zones has"
	}
	return &StateError{Action: refused.Action, Status: refused.Status, Hint: "of its zones these are held, and each is released by its own key: " + strings.Join(held, ", ") + more}
}

// settleInputs settles a conflict of inputs by a person's decision: those of the definitions in force count from now on, so that neither an evaluation
// nor the due instant finds the same conflict again. A trigger that is not defined any more has no inputs. The caller ends the hold.
func (o *Operator) settleInputs(a *action, s state, in *instance.Row) error {
	if in.Hold != instance.HoldConflict {
		return nil
	}
	m, err := o.inForce(s)
	if err != nil {
		return err
	}
	if m.Trigger != nil && in.InputHash != m.Trigger.Inputs() {
		a.detail["inputs_before"], a.detail["inputs"] = in.InputHash, m.Trigger.Inputs()
		in.InputHash = m.Trigger.Inputs()
	}
	return nil
}

// inForce returns the trigger of an instance as it is defined now; none if it is not defined any more.
func (o *Operator) inForce(s state) (m definition.Match, err error) {
	set, err := o.catalog.Loaded(s.Instance.Workspace, s.InForce)
	if err != nil {
		return m, err
	}
	if m.Workflow = set.Workflow(s.Instance.Workflow); m.Workflow != nil {
		m.Trigger = m.Workflow.TriggerOf(s.Instance.Trigger, s.Instance.Message)
	}
	return m, nil
}
