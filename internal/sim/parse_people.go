package sim

import (
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// The actions of people: operators, and those who answer a survey.

func (p *parser) operator(n *portable.Node) *operatorAction {
	verb := n.Fields[0].Value
	switch verb.Text {
	case "accept_restore":
		p.notYet(verb, "operator")
		return nil
	case "redrive":
		return p.redrive(n)
	}
	o := &operatorAction{}
	o.verb, _ = p.oneOf(verb, "operator", "cancel", "cancel_run", "retry", "release", "redrive", "pause", "resume")
	fields := p.actionFields(n, "workflow", "on_record", "to")
	o.workflow, _ = p.optional(fields["workflow"], "a workflow")
	if at := fields["workflow"]; at != nil {
		o.workflowAt = at.Pos
	}
	o.to, _ = p.optional(fields["to"], "an address or a contact")
	o.record, _ = p.optional(fields["on_record"], "a record")
	if typ, id, ok := strings.Cut(o.record, "/"); o.record != "" && (!ok || typ == "" || id == "") {
		p.problem(fields["on_record"].Pos, fmt.Sprintf("%q names no record", o.record), "write TYPE/ID: kiosk/123")
	}
	switch {
	case o.verb == "pause" || o.verb == "resume":
		if o.workflow == "" || o.to != "" || o.record != "" {
			p.report(n.Pos, definition.CodeMissing, o.verb+" is about a workflow", "name it by workflow, without on_record and to")
		}
	case o.verb == "cancel_run" && o.to != "":
		p.problem(fields["to"].Pos, "what is under way is about no single person", "name its workflow or its record; operator: cancel stops what waits for a person")
	case o.verb == "cancel_run" && o.workflow == "" && o.record == "":
		p.report(n.Pos, definition.CodeMissing, "nothing says what to cancel", "add workflow, on_record or both")
	case o.workflow == "" && o.to == "" && o.record == "":
		p.report(n.Pos, definition.CodeMissing, "nothing says what to "+o.verb, "add workflow, on_record or to")
	}
	return o
}

// redrive reads that a person redrives what is dead at a sink.
func (p *parser) redrive(n *portable.Node) *operatorAction {
	fields := p.actionFields(n, "sink")
	o := &operatorAction{verb: "redrive"}
	if o.sink, _ = p.optional(fields["sink"], "a sink"); o.sink == "" {
		p.report(n.Pos, definition.CodeMissing, "nothing says what to redrive", "name the sink: its dead events are tried again")
	}
	return o
}

func (p *parser) run(n *portable.Node, workflow string) *runAction {
	fields := p.actionFields(n, "run_id")
	r := &runAction{workflow: workflow}
	r.id, _ = p.optional(fields["run_id"], "a text")
	if fields["run_id"] == nil {
		p.report(n.Pos, definition.CodeMissing, "nothing says which run it is", "add run_id: 2026-19")
	}
	return r
}

// open reads that somebody opens a survey: a person, or a program that fetches links before a person does.
func (p *parser) open(n *portable.Node, who string) *openAction {
	fields := p.actionFields(n, "workflow", "via")
	o := &openAction{to: who}
	o.workflow, _ = p.optional(fields["workflow"], "a workflow")
	if via := fields["via"]; via != nil {
		word, _ := p.oneOf(via, "via", "person", "prefetch")
		o.prefetch = word == "prefetch"
	}
	return o
}

// submit reads that somebody answers a survey.
func (p *parser) submit(n *portable.Node, who string) *submitAction {
	fields := p.actionFields(n, "workflow", "answers")
	s := &submitAction{to: who}
	s.workflow, _ = p.optional(fields["workflow"], "a workflow")
	if answers := fields["answers"]; answers != nil {
		s.answers = p.object(answers, "the answers")
	} else {
		p.report(n.Pos, definition.CodeMissing, "nothing says what is answered", "add answers: {rate: 7}")
	}
	return s
}
