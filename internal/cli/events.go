package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/reason"
)

type eventsCmd struct {
	List listEventsCmd `cmd:"" help:"List events, the newest first."`
	Post postEventsCmd `cmd:"" help:"Post events from a file or the standard input."`
	Show showEventCmd  `cmd:"" help:"Show an event and what each trigger made of it."`
}

type postEventsCmd struct {
	File string `arg:"" help:"A file with events; - is the standard input."`
	remote
	jsonOnly
}

// Help is the long help.
func (postEventsCmd) Help() string {
	return `The file holds JSON: one event, a list of events, {"events": […]}, or one event a line. They are sent in
requests of 1,000; one that is refused stops no other one.

  = existed already   + created   . concerns no workflow   ! refused

  echo '{"kind": "service-visit-closed", "payload": {"wip": "40956"}}' | carillon events post -

Exit status: 0 all were taken in · 1 at least one was refused.`
}

// Run posts events.
func (c *postEventsCmd) Run(s *session) error {
	events, err := c.read(s)
	if err != nil {
		return err
	}
	var all client.EventsAnswer
	for len(events) > 0 {
		n := min(len(events), client.MaxEvents)
		answer, err := call(c.remote, func(api *client.Client) (client.EventsAnswer, error) { return api.PostRawEvents(s.ctx, events[:n]) })
		if err != nil {
			if len(all.Items) > 0 {
				s.note("%s were taken in before:", count(len(all.Items), "event"))
			}
			return err
		}
		all.Created, all.Skipped, all.NoMatch, all.Failed = all.Created+answer.Created, all.Skipped+answer.Skipped, all.NoMatch+answer.NoMatch, all.Failed+answer.Failed
		all.Items = append(all.Items, answer.Items...)
		events = events[n:]
	}
	if c.JSON {
		if err := printJSON(s.Out, all); err != nil {
			return err
		}
	} else {
		s.printEvents(all)
	}
	if all.Failed > 0 {
		return exit(ExitFailed)
	}
	return nil
}

func (c *postEventsCmd) read(s *session) ([]json.RawMessage, error) {
	in, name := s.In, "the standard input"
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in, name = file, c.File
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var events []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var value json.RawMessage
		err := d.Decode(&value)
		switch {
		case errors.Is(err, io.EOF) && len(events) == 0:
			return nil, fmt.Errorf("%s holds no event", name)
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return nil, notJSON(name, text, err)
		}
		events = append(events, split(value)...)
	}
}

// notJSON says where text stops being JSON.
func notJSON(name string, text []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("%s: not valid JSON: it ends too early", name)
	}
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: not valid JSON: %w", name, line, column, syntax)
}

// split takes a list, or {"events": […]}, apart; anything else is one event and is judged by the server.
func split(value json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	switch trimmed := bytes.TrimSpace(value); {
	case trimmed[0] == '[' && json.Unmarshal(value, &list) == nil:
		return list
	case trimmed[0] == '{':
		var envelope map[string]json.RawMessage
		if json.Unmarshal(value, &envelope) == nil && len(envelope) == 1 && json.Unmarshal(envelope["events"], &list) == nil {
			return list
		}
	}
	return []json.RawMessage{value}
}

// printEvents prints a line for each occasion, and for each event without one.
func (s *session) printEvents(a client.EventsAnswer) {
	var rows [][]string
	for i, item := range a.Items {
		number := fmt.Sprintf("%s %d", sign(item.Outcome), i+1)
		if len(item.Instances) == 0 {
			rows = append(rows, []string{number, item.Outcome, "", item.Event, explanation(item)})
		}
		for _, one := range item.Instances {
			to := make([]string, len(one.Deliveries))
			for j, d := range one.Deliveries {
				to[j] = d.ID + " " + d.Channel + " " + d.Status
			}
			rows = append(rows, []string{number, one.Outcome, one.Workflow, one.ID, strings.Join(to, ", ")})
		}
		for _, warning := range item.Warnings {
			rows = append(rows, []string{"! " + fmt.Sprint(i+1), "warning", "", "", warning})
		}
	}
	s.rows(rows)
	s.note("%d created, %d skipped, %d no_match, %d failed", a.Created, a.Skipped, a.NoMatch, a.Failed)
}

func sign(outcome string) string {
	switch outcome {
	case "created":
		return "+"
	case "skipped":
		return "="
	case "failed":
		return "!"
	}
	return "."
}

func explanation(item client.EventResult) string {
	text := item.Message
	if item.Field != "" {
		text = item.Field + ": " + text
	}
	if item.Hint != "" {
		text += " (" + item.Hint + ")"
	}
	return text
}

type showEventCmd struct {
	IDs []string `arg:"" name:"id" help:"The event's id; several are shown one after the other."`
	remote
	output
}

// Run shows events.
func (c *showEventCmd) Run(s *session) error {
	return oneByOne(s, c.remote, c.JSON, c.IDs, func(api *client.Client, id string) (client.EventDetail, error) {
		return api.Event(s.ctx, id)
	}, parted(s, c.print))
}

func (c *showEventCmd) print(s *session, e client.EventDetail) error {
	var to client.Recipient
	if e.Recipient != nil {
		to = *e.Recipient
	}
	outcome := outcomes(e.Trace)
	if outcome == string(reason.NoWorkflow) {
		outcome = because(outcome, reason.NoWorkflow.Sentence())
	}
	s.fields("event", e.ID, "ext_id", e.ExtID, "kind", e.Kind, "occurred_at", c.at(e.OccurredAt), "received_at", c.at(e.ReceivedAt),
		"address", to.Address, "locale", to.Locale, "customer_ref", to.CustomerRef, "payload", string(e.Payload), "outcome", outcome)
	s.printTrace(e.Trace)
	return nil
}

// printTrace prints what was noted when it was decided.
func (s *session) printTrace(trace json.RawMessage) {
	if len(trace) == 0 {
		return
	}
	var text bytes.Buffer
	if json.Indent(&text, trace, "", "  ") != nil {
		return
	}
	s.title("trace")
	fmt.Fprintln(s.Out, text.String())
}
