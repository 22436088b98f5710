package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Finder is what the search field reads.
type Finder interface {
	FindContacts(ctx context.Context, ws subject.WorkspaceID, w store.ContactQuery, limit int) ([]subject.ContactRow, error)
	RecordsNamed(ctx context.Context, ws subject.WorkspaceID, id string, limit int) ([]store.RecordRow, error)
}

// hit is one thing that a search has found.
type hit struct{ kind, name, more, href string }

type hits struct {
	q    string
	list []hit
	full bool // there may be more persons
}

// maxHits is how many persons, and how many records, a search shows.
const maxHits = 20

// find looks for what the field above every page asks for, and goes straight to the only hit.
func (c *console) find(ctx context.Context, v visit) (view, error) {
	found := hits{q: strings.TrimSpace(v.query.Get("q"))}
	if found.q != "" {
		for _, look := range []func(context.Context, visit, string) ([]hit, error){c.findByPublicID, c.findInstances, c.findPersons, c.findRecords, c.findDefinitions} {
			list, err := look(ctx, v, found.q)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return view{}, err
			}
			found.list = append(found.list, list...)
		}
	}
	if found.q != "" && len(found.list) == 0 {
		var err error
		if found.list, err = c.findNamed(ctx, v, found.q); err != nil {
			return view{}, err
		}
	}
	persons := 0
	for _, h := range found.list {
		if h.kind == "contact" {
			persons++
		}
	}
	found.full = persons == maxHits
	made := view{title: "Find", section: "/find", body: findPage(found)}
	if len(found.list) == 1 {
		made.redirect = found.list[0].href
	}
	return made, nil
}

// findByPublicID finds the row of an id such as d_…; one of another workspace is an id of nothing.
func (c *console) findByPublicID(ctx context.Context, v visit, q string) ([]hit, error) {
	kind, ws, id, ok := v.ids.Decode(q)
	if !ok || ws != int64(v.workspace.ID) {
		return nil, nil
	}
	switch kind {
	case key.KindDelivery:
		return []hit{{kind: "delivery", name: q, href: "/deliveries/" + q}}, nil
	case key.KindInstance:
		return []hit{{kind: "instance", name: q, href: "/instances/" + q}}, nil
	case key.KindEvent:
		return []hit{{kind: "event", name: q, href: "/events/" + q}}, nil
	case key.KindContact:
		p, ok, err := c.Store.ContactByID(ctx, v.workspace.ID, subject.ContactID(id))
		if err != nil || !ok {
			return nil, err
		}
		return []hit{{kind: "contact", name: p.ExtID, href: contactPath(p.ExtID)}}, nil
	case key.KindRecord:
		r, err := c.Store.RecordByID(ctx, v.workspace.ID, subject.RecordID(id))
		if err != nil {
			return nil, err
		}
		return []hit{{kind: "record", name: r.Type + "/" + r.ExtID, href: recordHref(r.Type, r.ExtID)}}, nil
	case key.KindRun, key.KindDecision, key.KindResponse, key.KindOutbox:
	case key.KindTopic, key.KindSubscription: // in cursors alone
	}
	return nil, nil
}

// findInstances finds the instance of a key, and the delivery of one: that begins with the instance's.
func (c *console) findInstances(ctx context.Context, v visit, q string) ([]hit, error) {
	of, _, isDelivery := strings.Cut(q, "|")
	if !strings.Contains(of, ":") {
		return nil, nil
	}
	rows, err := c.Store.Instances(ctx, v.workspace.ID, store.InstanceFilter{Key: of}, store.Page{Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if isDelivery {
		list, err := c.Store.Deliveries(ctx, v.workspace.ID, store.DeliveryFilter{Instance: rows[0].ID}, store.Page{Limit: 1_000})
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.Key == q {
				return []hit{{kind: "delivery", name: q, href: v.delivery(d.ID)}}, nil
			}
		}
	}
	return []hit{{kind: "instance", name: of, href: "/instances/" + v.public(key.KindInstance, int64(rows[0].ID))}}, nil
}

func (c *console) findPersons(ctx context.Context, v visit, q string) ([]hit, error) {
	rows, err := c.Store.FindContacts(ctx, v.workspace.ID, v.whom(q), maxHits)
	if err != nil {
		return nil, err
	}
	// An exact one is alone meant, as the id or the address of a person is.
	if len(rows) > 1 && (rows[0].ExtID == q || rows[0].Has(q)) {
		rows = rows[:1]
	}
	var list []hit
	for _, r := range rows {
		list = append(list, hit{kind: "contact", name: personName(r.Contact), more: strings.Join(slices.Compact([]string{r.Name, addressesOf(r)}), " "), href: contactPath(r.ExtID)})
	}
	return list, nil
}

// findRecords finds a record by type/id, or by its id alone.
func (c *console) findRecords(ctx context.Context, v visit, q string) ([]hit, error) {
	rows, err := c.Store.RecordsNamed(ctx, v.workspace.ID, q, maxHits)
	if err != nil {
		return nil, err
	}
	if typ, id, ok := strings.Cut(q, "/"); ok {
		one, err := c.Store.Record(ctx, v.workspace.ID, subject.RecordRef{Type: typ, ExtID: id})
		switch {
		case err == nil:
			rows = append(rows, one)
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	var list []hit
	for _, r := range rows {
		list = append(list, hit{kind: "record", name: r.Type + "/" + r.ExtID, href: recordHref(r.Type, r.ExtID)})
	}
	return list, nil
}

// findDefinitions finds a workflow or a channel by its whole name.
func (c *console) findDefinitions(ctx context.Context, v visit, q string) ([]hit, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return nil, err
	}
	var list []hit
	if set.Workflow(q) != nil {
		list = append(list, hit{kind: "workflow", name: q, href: workflowHref(q)})
	}
	if slices.ContainsFunc(set.Channels(), func(d *definition.Channel) bool { return d.Key == q }) {
		list = append(list, hit{kind: "channel", name: q, href: channelHref(q)})
	}
	return list, nil
}

// personName is what a contact is headed by: the id that the caller gave, and the address of one that was made for it.
func personName(c subject.Contact) string {
	if strings.HasPrefix(c.ExtID, subject.MadePrefix) && c.Address != "" {
		return c.Address
	}
	return c.ExtID
}

// listAt is the address of a list, narrowed by pairs of name and value.
func listAt(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
