package console

import (
	"context"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// cardsAPage is how many messages of the inbox a page shows.
const cardsAPage = 30

// card is one message that people read here.
type card struct {
	id       string
	at       instantOf
	workflow string
	to       string
	step     string
	channel  string
	locale   string
	subject  string
	text     string
	html     string
	state    badge
	why      string
	href     string
}

type inbox struct {
	scale
	cards  []card
	newest string
	older  string
}

// inbox lists what was rendered and kept: the messages of the inbox channel, and of every other whose provider keeps
// its contents.
func (c *console) inbox(ctx context.Context, v visit) (view, error) {
	contents, err := c.Store.Contents(ctx, v.workspace.ID, 0, store.Page{Before: v.before(), Limit: cardsAPage + 1})
	if err != nil {
		return view{}, err
	}
	page := inbox{scale: v.scale, newest: v.newest("/inbox")}
	if len(contents) > cardsAPage {
		contents = contents[:cardsAPage]
		page.older = v.older("/inbox", contents[len(contents)-1].ID)
	}
	ids := make([]delivery.ID, len(contents))
	for i, content := range contents {
		ids[i] = content.Delivery
	}
	rows, err := c.Store.DeliveriesByID(ctx, v.workspace.ID, ids)
	if err != nil {
		return view{}, err
	}
	for _, content := range contents {
		d := rows[content.Delivery]
		page.cards = append(page.cards, v.card(content, d))
	}
	return view{title: "Inbox", section: "/inbox", body: inboxPage(page), live: v.before() == 0}, nil
}

func (v visit) card(content store.Content, d delivery.Row) card {
	href := v.delivery(content.Delivery)
	ahead, _ := admission.Ahead(d, admission.Circumstances{}) // it was rendered: a pause shows in the row
	made := card{
		id: href + stepName(content.Step), at: instantOf{v.scale, content.At}, workflow: d.Workflow, to: content.Address,
		step: stepName(content.Step), channel: content.Channel, locale: content.Locale, subject: content.Subject,
		text: content.Text, html: content.HTML, state: deliveryBadge(d, ahead, v.now), href: href,
	}
	if d.Reason != reason.Delivered {
		made.why = why(d)
	}
	return made
}
