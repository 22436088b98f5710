package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Topics is what the pages about topics and items read.
type Topics interface {
	Topics(ctx context.Context, ws subject.WorkspaceID, f store.TopicFilter) ([]store.ListedTopic, error)
	Topic(ctx context.Context, ws subject.WorkspaceID, name string) (store.ListedTopic, error)
	Items(ctx context.Context, ws subject.WorkspaceID, f store.ItemFilter) ([]store.ReadItem, error)
	Item(ctx context.Context, ws subject.WorkspaceID, ref store.ItemRef) (store.ReadItem, error)
	RequestsOfContact(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) ([]store.ListedRequest, error)
	SubscriptionsOf(ctx context.Context, f store.SubscriptionFilter) ([]store.ListedSubscription, error)
	Subscribers(ctx context.Context, id subject.TopicID, after subject.ContactID, limit int) ([]store.ListedSubscription, error)
	DigestRun(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (store.DigestRun, error)
}

type topicLine struct {
	name, href, title, source string
	subscriptions             int64
	created                   time.Time
	removed                   bool
}

type topicList struct {
	scale
	chips         []chip
	rows          []topicLine
	newest, older string
}

type topicDetail struct {
	scale
	topicLine
	facts       []fact
	rules       string // as JSON; empty: it has none
	items       []itemLine
	allItems    string
	subscribers []subscriptionLine
	first, next string // pages of subscribers
}

type itemLine struct {
	id, version, href, title string
	topics                   string
	received                 time.Time
}

type itemList struct {
	scale
	chips         []chip
	topic         string // whose items these are; empty: all
	topicHref     string
	rows          []itemLine
	newest, older string
}

type itemDetail struct {
	scale
	itemLine
	facts  []fact
	topics []topicLine
	fields string
}

// subscriptionLine is a topic that somebody follows, or somebody who follows it.
type subscriptionLine struct {
	topic, topicHref, contact, contactHref, frequency, source string
	since                                                     time.Time
}

// nextDigestLine is what the next digest of a person holds so far.
type nextDigestLine struct {
	due      time.Time
	name     string
	sections []nextdigest.Section
}

const shownItems = 20 // of a topic, on its page

func topicPath(name string) string { return "/topics/" + url.PathEscape(name) }

func itemPath(id, version string) string {
	path := "/items/" + url.PathEscape(id)
	if version != "" {
		path += "?" + url.Values{"version": {version}}.Encode()
	}
	return path
}

func topicLineOf(r store.ListedTopic, locale string) topicLine {
	return topicLine{
		name: r.Name, href: topicPath(r.Name), title: titleOf(documentOf(r.TopicRow), locale), source: makerOf(r.Source), subscriptions: r.Subscriptions, created: r.CreatedAt,
		removed: !r.RemovedAt.IsZero(),
	}
}

// makerOf says who makes a topic.
func makerOf(source store.TopicSource) string {
	if source == store.TopicData {
		return "a program"
	}
	return "a definition"
}

// documentOf returns a topic's document: YAML of a definition, or the JSON of a program, which is YAML too; nil: it cannot be read.
func documentOf(r store.TopicRow) map[string]any {
	docs, problems := portable.Parse(r.Document)
	if len(problems) > 0 || len(docs) == 0 || docs[0].Root == nil {
		return nil
	}
	fields, _ := docs[0].Root.Value().(map[string]any)
	return fields
}

// titleOf returns the title of a topic: the only one, that of a locale, or else that of the first language.
func titleOf(document map[string]any, locale string) string {
	switch title := document["title"].(type) {
	case string:
		return title
	case map[string]any:
		if text, ok := title[locale].(string); ok {
			return text
		}
		for _, language := range slices.Sorted(maps.Keys(title)) {
			text, _ := title[language].(string)
			return text
		}
	}
	return ""
}

// topics is the page of all topics.
func (c *console) topics(ctx context.Context, v visit) (view, error) {
	rows, err := c.Store.Topics(ctx, v.workspace.ID, store.TopicFilter{Before: subject.TopicID(v.before()), Limit: pageSize + 1})
	if err != nil {
		return view{}, err
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	list := topicList{scale: v.scale, chips: contactChips("topics"), newest: v.newest("/topics")}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		list.older = v.older("/topics", int64(rows[len(rows)-1].ID))
	}
	for _, r := range rows {
		list.rows = append(list.rows, topicLineOf(r, set.Workspace.Locale))
	}
	return view{title: "Topics", section: "/contacts", body: topicsPage(list), live: v.before() == 0}, nil
}

// topic is the page of a topic: its rules, its newest items, and who follows it.
func (c *console) topic(ctx context.Context, v visit) (view, error) {
	row, err := c.Store.Topic(ctx, v.workspace.ID, v.id)
	if err != nil {
		return view{}, err
	}
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	page := topicDetail{scale: v.scale, topicLine: topicLineOf(row, set.Workspace.Locale)}
	page.facts = known([]fact{
		{name: "title", value: page.title},
		{name: "made by", value: makerOf(row.Source)},
		{name: "followers", value: number(row.Subscriptions)},
		{name: "created", at: row.CreatedAt},
		{name: "removed", at: row.RemovedAt},
	})
	page.rules = rulesOf(documentOf(row.TopicRow))
	items, err := c.Store.Items(ctx, v.workspace.ID, store.ItemFilter{Topic: row.ID, Limit: shownItems + 1})
	if err != nil {
		return view{}, err
	}
	if len(items) > shownItems {
		items, page.allItems = items[:shownItems], listAt("/items", "topic", row.Name)
	}
	page.items = itemLines(items)
	after, err := strconv.ParseInt(v.query.Get("after"), 10, 64)
	if err != nil || after < 0 {
		after = 0
	}
	followers, err := c.Store.Subscribers(ctx, row.ID, subject.ContactID(after), pageSize+1)
	if err != nil {
		return view{}, err
	}
	if after > 0 {
		page.first = page.href
	}
	if len(followers) > pageSize {
		followers = followers[:pageSize]
		page.next = listAt(page.href, "after", strconv.FormatInt(int64(followers[len(followers)-1].Contact), 10))
	}
	page.subscribers = subscriptionLines(followers)
	return view{title: "Topic " + row.Name, section: "/contacts", body: topicPage(page), live: after == 0}, nil
}

// rulesOf returns the rules in a topic's document; empty: it has none.
func rulesOf(document map[string]any) string {
	rules := document["match"]
	if rules == nil {
		return ""
	}
	text, err := valueOf(rules)
	if err != nil { // it came from a document
		return ""
	}
	return pretty(text)
}

// items is the page of all items, or of those of a topic.
func (c *console) items(ctx context.Context, v visit) (view, error) {
	list := itemList{scale: v.scale, chips: contactChips("items"), topic: v.query.Get("topic"), newest: v.newest("/items")}
	filter := store.ItemFilter{Before: v.before(), Limit: pageSize + 1}
	if list.topic != "" {
		row, err := c.Store.Topic(ctx, v.workspace.ID, list.topic)
		if err != nil {
			return view{}, err
		}
		filter.Topic, list.topicHref = row.ID, topicPath(row.Name)
	}
	rows, err := c.Store.Items(ctx, v.workspace.ID, filter)
	if err != nil {
		return view{}, err
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		last := rows[len(rows)-1]
		before := int64(last.ID)
		if filter.Topic != 0 {
			before = last.Seq
		}
		list.older = v.older("/items", before)
	}
	list.rows = itemLines(rows)
	return view{title: "Items", section: "/contacts", body: itemsPage(list), live: v.before() == 0}, nil
}

func itemLines(rows []store.ReadItem) []itemLine {
	lines := make([]itemLine, len(rows))
	for i, r := range rows {
		title, _ := r.Event.Payload["title"].(string)
		lines[i] = itemLine{id: r.ExtID, version: r.Version, href: itemPath(r.ExtID, r.Version), title: title, topics: strings.Join(r.Topics, ", "), received: r.Event.ReceivedAt}
		switch {
		case !r.MatchAt.IsZero():
			lines[i].topics = "being found"
		case len(r.Topics) == 0:
			lines[i].topics = "none"
		}
	}
	return lines
}

// item is the page of an item.
func (c *console) item(ctx context.Context, v visit) (view, error) {
	row, err := c.Store.Item(ctx, v.workspace.ID, store.ItemRef{ExtID: v.id, Version: v.query.Get("version")})
	if err != nil {
		return view{}, err
	}
	page := itemDetail{scale: v.scale, itemLine: itemLines([]store.ReadItem{row})[0]}
	page.facts = known([]fact{
		{name: "version", value: row.Version},
		{name: "received", at: row.Event.ReceivedAt},
		{name: "event", value: v.public(key.KindEvent, int64(row.ID)), href: "/events/" + v.public(key.KindEvent, int64(row.ID)), code: true},
	})
	for _, name := range row.Topics {
		page.topics = append(page.topics, topicLine{name: name, href: topicPath(name)})
	}
	page.fields = pretty(row.Event.PayloadJSON)
	return view{title: "Item " + row.ExtID, section: "/contacts", body: itemPage(page), live: true}, nil
}

// subscriptions lists what a contact is to confirm, and what they follow, the newest first.
func (c *console) subscriptions(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID) ([]subscriptionLine, error) {
	list, err := c.Store.SubscriptionsOf(ctx, store.SubscriptionFilter{Contact: contact, Limit: pageSize})
	if err != nil {
		return nil, fmt.Errorf("what contact %d follows: %w", contact, err)
	}
	waits, err := c.Store.RequestsOfContact(ctx, ws, contact)
	if err != nil {
		return nil, fmt.Errorf("what contact %d is to confirm: %w", contact, err)
	}
	lines := make([]subscriptionLine, len(waits))
	for i, q := range waits {
		lines[i] = subscriptionLine{topic: q.TopicName, topicHref: topicPath(q.TopicName), frequency: q.Frequency + ", to be confirmed", source: string(q.Source), since: q.RequestedAt}
	}
	return append(lines, subscriptionLines(list)...), nil
}

func subscriptionLines(list []store.ListedSubscription) []subscriptionLine {
	lines := make([]subscriptionLine, len(list))
	for i, s := range list {
		lines[i] = subscriptionLine{
			topic: s.TopicName, topicHref: topicPath(s.TopicName), contact: s.ContactExtID, contactHref: contactPath(s.ContactExtID), frequency: s.Frequency,
			source: string(s.Source), since: s.Since,
		}
	}
	return lines
}

// nextDigests says what the next digests of a contact hold so far.
func (c *console) nextDigests(ctx context.Context, v visit, contact subject.ContactID) (lines []nextDigestLine, err error) {
	list, err := c.Definitions.NextDigests(ctx, v.workspace.ID, contact)
	if err != nil {
		return nil, err
	}
	for _, next := range list {
		lines = append(lines, nextDigestLine{due: next.Due, name: next.Workflow + " " + next.Trigger, sections: next.Sections})
	}
	return lines, nil
}

// digestRun returns what is known of an instance that is a run of a digest; nothing for any other.
func (c *console) digestRun(ctx context.Context, in instance.Row) ([]fact, error) {
	run, err := c.Store.DigestRun(ctx, in.Workspace, in.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	words := map[store.RunStatus]string{
		store.RunExpanding: "its messages are being made", store.RunSending: "all its messages are made, and some wait", store.RunDone: "done",
	}
	return known([]fact{
		{name: "digest run", value: words[run.Status()]},
		{name: "items from", at: run.Window.From},
		{name: "items before", at: run.Window.End},
		{name: "all done", at: run.OverAt},
	}), nil
}
