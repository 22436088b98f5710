package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/store"
)

type recipientsDetail struct {
	workflow, back string
	why            string // there is no answer
	count          int
	braked         string // a run is held before it has taken up everybody
	facts          []fact
	scale
	rows      []recipientLine
	addressed bool // the audience names some of them by an address
	more      int
}

type recipientLine struct {
	id, href, address, zone string
	stopped                 bool
}

// recipients is the page that says whom a run of a workflow would concern now, before anything leaves.
func (c *console) recipients(ctx context.Context, v visit) (view, error) {
	const sample = 50
	page := recipientsDetail{workflow: v.id, back: workflowHref(v.id), scale: v.scale}
	shown := func() (view, error) {
		return view{title: "Audience of " + v.id, section: "/workflows", body: recipientsPage(page)}, nil
	}
	answer, err := c.Definitions.CountRecipients(ctx, v.workspace.ID, v.id, sample)
	var manual *recipients.NotManualError
	var failure *expr.Failure
	switch {
	case errors.Is(err, recipients.ErrNotFound):
		return view{}, store.ErrNotFound
	case errors.As(err, &manual):
		page.why = fmt.Sprintf("It is known when a message is due: %s.", manual.Why)
		return shown()
	case errors.As(err, &failure):
		page.why = fmt.Sprintf("It cannot be computed: %s.", err)
		return shown()
	case err != nil:
		return view{}, err
	}
	page.count, page.more = answer.Count, answer.Count-len(answer.Sample)
	page.facts = []fact{{name: "people", value: number(int64(answer.Count))}}
	if answer.New > 0 {
		page.facts = append(page.facts, fact{name: "without a contact yet", value: number(int64(answer.New))})
	}
	if answer.Suppressed > 0 {
		page.facts = append(page.facts, fact{name: "suppressed", value: number(int64(answer.Suppressed))})
	}
	if answer.Most > 0 {
		page.facts = append(page.facts, fact{name: "at most", value: number(int64(answer.Most)) + " (max_recipients_per_run)"})
	}
	if answer.Most > 0 && answer.Count > answer.Most {
		page.braked = fmt.Sprintf("A run is held after %s of them, until a person releases it.", number(int64(answer.Most)))
	}
	for _, r := range answer.Sample {
		line := recipientLine{id: r.ID, address: r.Address, zone: r.Timezone, stopped: r.Suppressed}
		if r.ID != "" {
			line.href = contactPath(r.ID)
		}
		page.addressed = page.addressed || line.address != ""
		page.rows = append(page.rows, line)
	}
	return shown()
}
