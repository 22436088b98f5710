package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/delivery"
	answers "github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/store"
)

// openSurvey opens the survey of a contact, as the public page does.
func (w *world) openSurvey(ctx context.Context, a *Action) error {
	o := a.Open
	return w.onSurvey(ctx, a, "open "+o.to, o.to, o.workflow, func(to answers.Link) (string, error) {
		on, now := w.engine.Answers(), w.clock.Now()
		if o.prefetch {
			_, err := on.Survey(ctx, to, now)
			return "read", err
		}
		if changed, err := on.Open(ctx, to, now); !changed {
			return "unchanged", err
		}
		return "opened", nil
	})
}

// submitSurvey answers the survey of a contact, as the public page does.
func (w *world) submitSurvey(ctx context.Context, a *Action) error {
	s := a.Submit
	given := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(s.answers))
	d.UseNumber()
	if err := d.Decode(&given); err != nil {
		return err
	}
	return w.onSurvey(ctx, a, "submit "+s.to, s.to, s.workflow, func(to answers.Link) (string, error) {
		_, err := w.engine.Answers().Submit(ctx, to, answers.Submission{Answers: given}, w.clock.Now(), nil)
		return "responded", err
	})
}

// onSurvey does something with the latest delivery of a contact, and compares what is answered.
func (w *world) onSurvey(ctx context.Context, a *Action, what, to, workflow string, do func(answers.Link) (string, error)) error {
	if w.engine == nil {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("the engine is stopped")})
		return nil
	}
	rows, err := w.deliveries(ctx, store.DeliveryFilter{Workflow: workflow, To: store.ContactQuery{Text: to}})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		w.answered(a, what, map[string]cell{"outcome": textCell("failed"), "error": textCell("there is no delivery to " + to)})
		return nil
	}
	outcome, err := do(answers.Link{Workspace: w.workspace.ID, Delivery: latest(rows).ID})
	cells := map[string]cell{"outcome": textCell(outcome)}
	var refused *answers.Invalid
	switch {
	case errors.As(err, &refused):
		cells = map[string]cell{"outcome": textCell("failed"), "field": textCell(refused.Problems[0].Question), "error": textCell(refusals(refused))}
	case errors.Is(err, answers.ErrAnswered), errors.Is(err, answers.ErrClosed), errors.Is(err, answers.ErrNotFound):
		cells = map[string]cell{"outcome": textCell("failed"), "error": textCell(err.Error())}
	case err != nil:
		return err
	}
	w.answered(a, what, cells)
	return nil
}

// refusals says of each answer that was refused why.
func refusals(refused *answers.Invalid) string {
	texts := make([]string, len(refused.Problems))
	for i, p := range refused.Problems {
		texts[i] = fmt.Sprintf("question %s: %s", p.Question, p)
	}
	return strings.Join(texts, "; ")
}

// latest returns the last row that waits for an answer, else the last row; rows are not empty.
func latest(rows []delivery.Row) delivery.Row {
	for i := len(rows) - 1; i >= 0; i-- {
		if !rows[i].Status.Final() {
			return rows[i]
		}
	}
	return rows[len(rows)-1]
}
