package console

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/trace"
)

// holding is what is known of a held instance, and how a person lets it go on. The console changes nothing: it shows the commands.
type holding struct {
	scale
	row      instance.Row
	why      string
	failures []trace.Failure
	inputs   *plan.InputConflict // nil: it is held for something else
	commands []command
}

// command is something to copy into a shell, and what it does.
type command struct {
	text string
	does string
}

// holdOf is that of an instance; nil: it is not held.
func (c *console) holdOf(ctx context.Context, v visit, in instance.Row) (*holding, error) {
	if !in.Held() {
		return nil, nil
	}
	h := &holding{scale: v.scale, row: in, why: in.Hold.Reason().Sentence(), failures: trace.Failures(in.Trace)}
	id := v.public(key.KindInstance, int64(in.ID))
	h.commands = []command{
		{"carillon instances release " + id, "lets it go on, with all its retries again"},
		{"carillon instances cancel " + id, "stops it for good"},
	}
	switch {
	case in.Hold == instance.HoldMany:
		h.commands[0].does = "has it take up all the others too"
	case in.Parked():
		h.commands = []command{{"carillon workflows resume " + in.Workflow, "lets everything go on that the pause has parked"}}
	case in.Hold == instance.HoldConflict:
		conflict, err := c.Definitions.InputConflict(ctx, v.workspace.ID, in)
		if err != nil {
			return nil, fmt.Errorf("compare its inputs: %w", err)
		}
		h.inputs = &conflict
		h.commands[0].does = "accepts the new inputs, and it goes on"
		if in.Status == instance.Completed || in.Status == instance.Skipped || in.Status == instance.Cancelled {
			h.commands = []command{
				{h.commands[0].text, "accepts the new inputs; it has ended and is not sent again"},
				{"carillon instances retry " + id, "has it done again, as a new instance"},
			}
		}
	}
	return h, nil
}

// side is one side of a field; where it is empty, why.
func (h *holding) side(known bool, text, otherwise string) string {
	switch {
	case !known:
		return otherwise
	case text == "":
		return "none"
	}
	return text
}

// byHand is the command that has the workflow of an instance run now; empty: it cannot be run by hand.
func (c *console) byHand(ctx context.Context, v visit, in instance.Row) (string, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return "", err
	}
	w := set.Workflow(in.Workflow)
	if w == nil || !w.Enabled {
		return "", nil
	}
	if t, _ := set.ByHand(w); t == nil {
		return "", nil
	}
	return "carillon run " + w.Name + " --run-id ID", nil
}
