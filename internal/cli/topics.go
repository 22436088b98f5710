package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type topicsCmd struct {
	List   listTopicsCmd   `cmd:"" help:"List topics, the newest first, and how many people subscribe to each."`
	Show   showTopicCmd    `cmd:"" help:"Show a topic."`
	Import importTopicsCmd `cmd:"" help:"Take in the lines of an NDJSON file as topics."`
	Find   findTopicCmd    `cmd:"" help:"Find the topic with the rules of a file, and make it if there is none."`
	Remove removeTopicCmd  `cmd:"" help:"Remove a topic that a program has made: no item belongs to it any more."`
}

type importTopicsCmd struct{ importing }

// Help is the long help.
func (importTopicsCmd) Help() string {
	return `Each line holds a topic as topics find takes it: {"title": "Tax", "match": [{"tags": {"policy": {"any": ["tax"]}}}]}. A topic whose
rules are known stays as it is, so the same file again changes nothing. An import that was interrupted goes on where it was
when the same command is given again. Refused lines go into FILE.rejected.ndjson with their reasons, and stop no others.

Exit status: 0 all were taken in · 1 lines were refused, or the file was not finished.`
}

// Run imports topics.
func (c *importTopicsCmd) Run(s *session) error { return c.run(s, importOfTopics(), "", nil) }

type listTopicsCmd struct {
	Source  string `enum:"definition,data," default:"" placeholder:"SOURCE" help:"Only those that are definitions, or data, which programs make."`
	Removed bool   `help:"Removed ones, too."`
	paging
	remote
	output
}

// Run lists topics.
func (c *listTopicsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Topic], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Topic], error) {
			return api.Topics(s.ctx, client.TopicQuery{Source: c.Source, Removed: c.Removed, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, t := range page.Items {
		rows[i] = []string{t.Topic, t.Source, fmt.Sprint(t.Subscriptions), c.at(t.CreatedAt), c.at(t.RemovedAt)}
	}
	s.table([]string{"topic", "source", "subscriptions", "created", "removed"}, rows)
	s.more(page.NextCursor)
	return nil
}

type showTopicCmd struct {
	Name string `arg:"" name:"topic" help:"The topic's name."`
	remote
	output
}

// Run shows a topic.
func (c *showTopicCmd) Run(s *session) error {
	t, err := call(c.remote, func(api *client.Client) (client.Topic, error) { return api.Topic(s.ctx, c.Name) })
	if err != nil {
		return err
	}
	return s.topic(c.output, t)
}

// topic prints a topic.
func (s *session) topic(o output, t client.Topic) error {
	if o.JSON {
		return printJSON(s.Out, t)
	}
	s.fields("topic", t.Topic, "source", t.Source, "subscriptions", fmt.Sprint(t.Subscriptions), "created", o.at(t.CreatedAt), "removed", o.at(t.RemovedAt), "document", string(t.Document))
	return nil
}

type findTopicCmd struct {
	File string `arg:"" name:"file" help:"A JSON file: {\"title\": …, \"match\": […]}; - is standard input."`
	remote
	output
}

// Help is the long help.
func (findTopicCmd) Help() string {
	return `A topic is found by its rules, whatever it is called: who asks twice for the same rules gets one topic.

  echo '{"title": "Tax", "match": [{"tags": {"policy": {"any": ["tax"]}}}]}' | carillon topics find -`
}

// Run finds a topic.
func (c *findTopicCmd) Run(s *session) error {
	raw, err := s.readFile(c.File)
	if err != nil {
		return err
	}
	if !json.Valid(raw) {
		return fmt.Errorf("%s is not JSON", c.File)
	}
	t, err := call(c.remote, func(api *client.Client) (client.Topic, error) { return api.FindRawTopic(s.ctx, raw) })
	if err != nil {
		return err
	}
	return s.topic(c.output, t)
}

type removeTopicCmd struct {
	Name string `arg:"" name:"topic" help:"The topic's name."`
	remote
	jsonOnly
}

// Run removes a topic.
func (c *removeTopicCmd) Run(s *session) error {
	t, err := call(c.remote, func(api *client.Client) (client.Topic, error) { return api.RemoveTopic(s.ctx, c.Name) })
	return s.wrote(c.JSON, t, nil, err, "removed", t.Topic)
}

type subscriptionsCmd struct {
	List   listSubscriptionsCmd   `cmd:"" help:"List subscriptions, the newest first: of all people, of one, or those to a topic."`
	Import importSubscriptionsCmd `cmd:"" help:"Take in the rows of a CSV or NDJSON file as subscriptions."`
	Begin  beginSubscriptionCmd   `cmd:"" help:"Have a person follow a topic, or change how often."`
	End    endSubscriptionCmd     `cmd:"" help:"End the subscription of a person to a topic."`
	Bulk   bulkSubscriptionsCmd   `cmd:"" help:"Change the subscriptions of many people, or send them a message."`
}

type listSubscriptionsCmd struct {
	Contact string `placeholder:"ID" xor:"whose" help:"Those of this person: your id of them, or one of their addresses."`
	Topic   string `placeholder:"NAME" xor:"whose" help:"Those to this topic, in the order of its people."`
	Ended   bool   `help:"Those that have ended, too."`
	Pending bool   `help:"With --contact: what they are to confirm, and nothing else."`
	paging
	remote
	output
}

// Validate refuses what would have no effect.
func (c *listSubscriptionsCmd) Validate() error {
	if c.Ended && c.Topic != "" {
		return errors.New("--ended does not go with --topic")
	}
	if c.Pending && (c.Contact == "" || c.Ended) {
		return errors.New("--pending goes with --contact alone")
	}
	return nil
}

// Run lists subscriptions.
func (c *listSubscriptionsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Subscription], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Subscription], error) {
			return api.Subscriptions(s.ctx, client.SubscriptionQuery{Contact: c.Contact, Topic: c.Topic, Ended: c.Ended, Pending: c.Pending, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	if c.Pending {
		for i, one := range page.Items {
			rows[i] = []string{one.Contact, one.Topic, one.Frequency, one.Status, c.at(one.RequestedAt), c.at(one.ExpiresAt)}
		}
		s.table([]string{"contact", "topic", "frequency", "status", "requested", "expires"}, rows)
		return c.none(s, len(rows))
	}
	for i, one := range page.Items {
		rows[i] = []string{one.Contact, one.Topic, one.Frequency, one.Status, c.at(one.StartedAt), c.at(one.EndedAt), one.EndReason}
	}
	s.table([]string{"contact", "topic", "frequency", "status", "started", "ended", "reason"}, rows)
	s.more(page.NextCursor)
	return c.none(s, len(rows))
}

// none says so if a list is empty because there is no such person.
func (c *listSubscriptionsCmd) none(s *session, rows int) error {
	if rows > 0 || c.Contact == "" {
		return nil
	}
	return s.noteUnknown(c.remote, c.Contact)
}

type importSubscriptionsCmd struct {
	importing
	Topic     string `name:"topic" placeholder:"NAME" help:"The topic of all rows."`
	Frequency string `name:"frequency" placeholder:"NAME" help:"The frequency of all rows: immediate, or one that a trigger serves."`
}

// Help is the long help.
func (importSubscriptionsCmd) Help() string {
	return `Every row has a contact, your id of them, who exists, or an address, for which a contact is made if nobody has it; a topic; and a frequency. Somebody who follows the topic gets the frequency
of the row. Their source is import.

  carillon subscriptions import people.csv --map contact=customer --topic tax --frequency daily

The same file again changes nothing. An import that was interrupted goes on where it was when the same command is
given again. Refused rows go into people.rejected.csv with their reasons, and stop no others.

Exit status: 0 all were taken in · 1 rows were refused, or the file was not finished.`
}

// Run imports subscriptions.
func (c *importSubscriptionsCmd) Run(s *session) error {
	constants := given("topic", c.Topic)
	for name, value := range given("frequency", c.Frequency) {
		if constants == nil {
			constants = map[string]string{}
		}
		constants[name] = value
	}
	return c.run(s, importOfSubscriptions(), "", constants)
}

type beginSubscriptionCmd struct {
	Contact   string `arg:"" name:"contact" help:"Your id of the person."`
	Topic     string `arg:"" name:"topic" help:"The topic's name."`
	Frequency string `arg:"" name:"frequency" help:"immediate, or a frequency that a trigger serves."`
	Address   bool   `help:"CONTACT is an address, such as ann@example.org: the contact who has it, else one that is made for it."`
	remote
	jsonOnly
}

// Run begins a subscription.
func (c *beginSubscriptionCmd) Run(s *session) error {
	answer, err := call(c.remote, func(api *client.Client) (client.SubscriptionsAnswer, error) {
		return api.Subscribe(s.ctx, subscriber(c.Contact, c.Address, client.SubscriptionInput{Topic: c.Topic, Frequency: c.Frequency}))
	})
	return s.subscribed(c.JSON, answer, err)
}

type endSubscriptionCmd struct {
	Contact string `arg:"" name:"contact" help:"Your id of the person."`
	Topic   string `arg:"" name:"topic" optional:"" help:"The topic's name."`
	All     bool   `help:"End all subscriptions of the person, and what they were to confirm."`
	Address bool   `help:"CONTACT is an address, such as ann@example.org."`
	remote
	jsonOnly
}

// Validate refuses a command that says neither what is to end, or both.
func (c *endSubscriptionCmd) Validate() error {
	switch {
	case c.Topic == "" && !c.All:
		return errors.New("name a topic, or write --all")
	case c.Topic != "" && c.All:
		return errors.New("--all ends the subscriptions to all topics; leave the topic out")
	}
	return nil
}

// Run ends a subscription.
func (c *endSubscriptionCmd) Run(s *session) error {
	answer, err := call(c.remote, func(api *client.Client) (client.SubscriptionsAnswer, error) {
		return api.Unsubscribe(s.ctx, subscriber(c.Contact, c.Address, client.SubscriptionInput{Topic: c.Topic, All: c.All}))
	})
	return s.subscribed(c.JSON, answer, err)
}

// subscriber says who subscribes, by id or by address.
func subscriber(who string, address bool, in client.SubscriptionInput) client.SubscriptionInput {
	if address {
		in.Address = who
	} else {
		in.Contact = who
	}
	return in
}

// subscribed prints what became of one subscription.
func (s *session) subscribed(asJSON bool, answer client.SubscriptionsAnswer, err error) error {
	if err != nil || len(answer.Items) == 0 {
		return err
	}
	item := answer.Items[0]
	if item.Outcome == "failed" {
		return &client.Problem{Detail: item.Message, Code: item.Reason, Field: item.Field, Hint: item.Hint}
	}
	return s.wrote(asJSON, answer, item.Warnings, nil, item.Outcome, strings.TrimSpace(item.Contact+" "+cmp.Or(item.Topic, strings.Join(item.Topics, ", "))))
}

type itemsCmd struct {
	Publish publishItemsCmd `cmd:"" help:"Publish an item, or those of a file."`
	List    listItemsCmd    `cmd:"" help:"List items, the newest first, and the topics that they belong to."`
	Show    showItemCmd     `cmd:"" help:"Show an item, and the topics that it belongs to."`
}

type publishItemsCmd struct {
	File string `arg:"" name:"file" help:"A JSON file with one item, or an NDJSON file with one on each line; - is standard input."`
	remote
	jsonOnly
}

// Help is the long help.
func (publishItemsCmd) Help() string {
	return `An item has an id, under which it is published once, and a version if it can be published again. Its other fields are your own; title, summary,
change_note, url, tags, links, fields, content_id, topics, urgent and published_at have a meaning.

  echo '{"id": "c1", "title": "Rates", "topics": ["tax"]}' | carillon items publish -`
}

// Run publishes items.
func (c *publishItemsCmd) Run(s *session) error {
	raw, err := s.readFile(c.File)
	if err != nil {
		return err
	}
	var items []any
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var one json.RawMessage
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return notJSON(c.File, raw, err)
		}
		items = append(items, one)
	}
	if len(items) == 0 {
		return fmt.Errorf("%s holds no item", c.File)
	}
	var all client.ItemsAnswer
	for from := 0; from < len(items); from += client.MaxItems {
		answer, err := call(c.remote, func(api *client.Client) (client.ItemsAnswer, error) {
			return api.Publish(s.ctx, items[from:min(from+client.MaxItems, len(items))]...)
		})
		if err != nil {
			return err
		}
		all.Created, all.Skipped, all.Failed = all.Created+answer.Created, all.Skipped+answer.Skipped, all.Failed+answer.Failed
		all.Items = append(all.Items, answer.Items...)
	}
	if c.JSON {
		if err := printJSON(s.Out, all); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.Out, "%d created, %d skipped, %d failed\n", all.Created, all.Skipped, all.Failed)
	}
	for i, item := range all.Items {
		if item.Outcome == "failed" {
			s.note("item %d %s: %s: %s", i+1, cell(item.ID), item.Field, cell(item.Message))
		}
	}
	if all.Failed > 0 {
		return exit(ExitFailed)
	}
	return nil
}

type listItemsCmd struct {
	Topic string `placeholder:"NAME" help:"Only those of this topic."`
	paging
	remote
	output
}

// Run lists items.
func (c *listItemsCmd) Run(s *session) error {
	page, err := collect(c.paging, func(limit int, cursor string) (client.Page[client.Item], error) {
		return call(c.remote, func(api *client.Client) (client.Page[client.Item], error) {
			return api.Items(s.ctx, client.ItemQuery{Topic: c.Topic, Limit: limit, Cursor: cursor})
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, page)
	}
	rows := make([][]string, len(page.Items))
	for i, one := range page.Items {
		title, _ := one.Fields["title"].(string)
		rows[i] = []string{one.ID, one.Version, title, topicsOf(one), c.at(one.ReceivedAt)}
	}
	s.table([]string{"item", "version", "title", "topics", "received"}, rows)
	s.more(page.NextCursor)
	return nil
}

// topicsOf says which topics an item belongs to.
func topicsOf(one client.Item) string {
	switch {
	case !one.Matched:
		return "being found"
	case len(one.Topics) == 0:
		return "none"
	}
	return strings.Join(one.Topics, ", ")
}

type showItemCmd struct {
	ID      string `arg:"" name:"item" help:"Your id of the item."`
	Version string `placeholder:"VERSION" help:"The version that you gave it. Default: the item without a version."`
	remote
	output
}

// Run shows an item.
func (c *showItemCmd) Run(s *session) error {
	one, err := call(c.remote, func(api *client.Client) (client.Item, error) { return api.Item(s.ctx, c.ID, c.Version) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.Out, one)
	}
	fields, err := json.Marshal(one.Fields)
	if err != nil {
		return err
	}
	s.fields("item", one.ID, "version", one.Version, "topics", topicsOf(one), "received", c.at(one.ReceivedAt), "event", one.Event, "fields", string(fields))
	return nil
}

// readFile reads a file; - is standard input.
func (s *session) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(s.In)
	}
	return os.ReadFile(name)
}
