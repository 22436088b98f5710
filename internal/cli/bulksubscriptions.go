package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
)

type bulkSubscriptionsCmd struct {
	Action    string   `arg:"" name:"action" enum:"subscribe,migrate,unsubscribe,message" help:"subscribe: they follow --to as well. migrate: they follow --to instead. unsubscribe: they follow the topics no more. message: they get the item of --item, and nothing changes."`
	Topic     []string `name:"topic" placeholder:"NAME" help:"A topic of the people who are meant, given once or several times."`
	Contacts  string   `name:"contacts" placeholder:"FILE" help:"Of subscribe, instead of --topic: a file with an id or an address a line; - is standard input."`
	To        string   `name:"to" placeholder:"NAME" help:"Of subscribe and migrate: the topic that they follow then."`
	Frequency string   `name:"frequency" placeholder:"NAME" help:"How often they hear of it. Default: as often as of their topic."`
	Except    string   `name:"except" placeholder:"FILE" help:"Leave people as they are, without a message: a file with an id or an address a line."`
	Item      string   `name:"item" placeholder:"FILE" help:"Publish an item to the topics first: a JSON file with an id of its own."`
	Confirmed bool     `name:"confirmed" help:"Of subscribe: the people are known to want it. A topic that has confirm demands it."`
	DryRun    bool     `name:"dry-run" help:"Count and show what would be done, and do nothing."`
	Wait      bool     `name:"wait" help:"Wait until the run has ended."`
	remote
	output
}

// Help is the long help.
func (bulkSubscriptionsCmd) Help() string {
	return `A run goes over the people in pages. carillon runs list shows how far it is, runs cancel ends it where it is, and runs undo takes it back.

  carillon subscriptions bulk migrate --topic tax --to money --dry-run
  carillon subscriptions bulk unsubscribe --topic tax --item closed.json --wait

Who has left a topic themselves is not made to follow it again. What was published to a topic before the run ended a subscription
to it still reaches them.`
}

// Run changes the subscriptions of many people.
func (c *bulkSubscriptionsCmd) Run(s *session) error {
	b := client.BulkSubscriptions{Action: c.Action, Topics: c.Topic, To: c.To, Frequency: c.Frequency, Confirmed: c.Confirmed, DryRun: c.DryRun}
	for _, list := range []struct {
		file string
		to   *[]string
	}{{c.Contacts, &b.Contacts}, {c.Except, &b.Except}} {
		names, err := s.lines(list.file)
		if err != nil {
			return err
		}
		*list.to = names
	}
	if c.Item != "" {
		raw, err := s.readFile(c.Item)
		if err != nil {
			return err
		}
		if !json.Valid(raw) {
			return fmt.Errorf("%s is not JSON", c.Item)
		}
		b.Item = raw
	}
	answer, err := call(c.remote, func(api *client.Client) (client.BulkSubscriptionsAnswer, error) {
		return api.ChangeSubscriptions(s.ctx, b)
	})
	if err != nil {
		return err
	}
	if c.Wait && answer.Run != nil {
		if *answer.Run, err = s.waitFor(c.remote, *answer.Run); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(s.Out, answer)
	}
	s.printChange(answer, c.Action)
	return nil
}

// lines reads the lines of a file that are not empty; none: there is no file.
func (s *session) lines(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	raw, err := s.readFile(file)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s is empty: write an id or an address a line", file)
	}
	return lines, nil
}

// printChange says whom a change of many is about, and what does it.
func (s *session) printChange(a client.BulkSubscriptionsAnswer, action string) {
	change := a.ByOutcome["changed"]
	text := fmt.Sprintf("%s of %d people", atLeast(change, a.More), a.People)
	done := map[string]string{"subscribe": "subscribed", "migrate": "moved", "unsubscribe": "ended", "message": "sent to"}[action]
	switch {
	case a.DryRun:
		fmt.Fprintf(s.Out, "would be %s: %s\n", done, text)
	case a.Run != nil:
		fmt.Fprintf(s.Out, "run %s, %s: %s\n", a.Run.ID, a.Run.Status, howFar(*a.Run))
	case change == 0:
		fmt.Fprintf(s.Out, "nothing to do: nobody of %d people would be %s\n", a.People, done)
	default:
		fmt.Fprintf(s.Out, "%s: %s\n", done, text)
	}
	var rows [][]string
	for _, outcome := range slices.Sorted(maps.Keys(a.ByOutcome)) {
		if outcome != "changed" {
			rows = append(rows, []string{outcome, fmt.Sprint(a.ByOutcome[outcome]), leftAlone()[outcome]})
		}
	}
	if len(rows) > 0 {
		s.rows(append([][]string{{"left as they are", "people", "why"}}, rows...))
	}
	if a.DryRun && len(a.Samples) > 0 {
		rows = nil
		for _, one := range a.Samples {
			rows = append(rows, []string{one.Contact, followed(one.Ends), followed(one.Begins)})
		}
		s.table([]string{"contact", "ends", "begins"}, rows)
		if more := change - len(a.Samples); more > 0 {
			s.note("… and %d more", more)
		}
	}
}

func atLeast(n int, more bool) string {
	if more {
		return fmt.Sprintf("at least %d", n)
	}
	return fmt.Sprint(n)
}

// leftAlone says why a run leaves people as they are.
func leftAlone() map[string]string {
	return map[string]string{
		"already":     "nothing would change",
		"left_before": "they have left the topic themselves",
		"not_offered": "the topic does not offer the frequency that they have",
		"excepted":    "they are left out",
		"unknown":     "there is no such contact",
	}
}

func followed(list []client.FollowedTopic) string {
	parts := make([]string, len(list))
	for i, f := range list {
		parts[i] = f.Topic + " " + f.Frequency
	}
	return strings.Join(parts, ", ")
}
