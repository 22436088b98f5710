package sim

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// The actions of what is around the engine: channels, sinks, documents, definitions, and its own process.

func (p *parser) channel(n *portable.Node, key string) *channelAction {
	fields := p.actionFields(n, "behave", "times", "during")
	c := &channelAction{key: channelKey(key)}
	behave := fields["behave"]
	switch {
	case behave == nil:
		p.report(n.Pos, definition.CodeMissing, "nothing says how the channel behaves", "add behave: temporary")
		return c
	case behave.Text == "slow":
		p.notYet(behave, "behave")
		return c
	}
	word, _ := p.oneOf(behave, "behave", string(behaveOK), string(behaveTemporary), string(behavePermanent), string(behaveLoseReply), string(behaveDown), string(behaveBounce))
	c.behave = behaviour(word)
	c.times, c.during = p.bounds(fields)
	return c
}

func (p *parser) sink(n *portable.Node, name string) *sinkAction {
	fields := p.actionFields(n, "behave", "times", "during")
	s := &sinkAction{name: name}
	behave := fields["behave"]
	switch {
	case behave == nil:
		p.report(n.Pos, definition.CodeMissing, "nothing says how the sink behaves", "add behave: temporary")
		return s
	case behave.Text == "slow":
		p.notYet(behave, "behave")
		return s
	}
	word, _ := p.oneOf(behave, "behave", string(behaveOK), string(behaveTemporary), string(behavePermanent), string(behaveLoseReply), string(behaveDown), string(behaveGone))
	s.behave = behaviour(word)
	s.times, s.during = p.bounds(fields)
	return s
}

// bounds reads how long a configured behaviour lasts.
func (p *parser) bounds(fields map[string]*portable.Node) (times int, during civil.Duration) {
	if n := fields["times"]; n != nil {
		times, _ = p.number(n, 1)
	}
	if n := fields["during"]; n != nil {
		during, _ = p.duration(n)
	}
	return times, during
}

// http reads the answer of an address: a document, or a failure.
func (p *parser) http(n *portable.Node, url string) *httpAction {
	fields := p.actionFields(n, "body", "behave", "times", "during")
	h := &httpAction{url: url, behave: behaveOK}
	body, behave := fields["body"], fields["behave"]
	if body != nil {
		var b bytes.Buffer
		writeJSON(&b, body, "")
		h.body = b.Bytes()
	}
	switch {
	case body == nil && behave == nil:
		p.report(n.Pos, definition.CodeMissing, "nothing says what the address answers", "add body: {rate: 1.5}, or behave: temporary")
	case behave != nil && behave.Text == "slow":
		p.notYet(behave, "behave")
	case behave != nil:
		word, _ := p.oneOf(behave, "behave", string(behaveOK), string(behaveTemporary), string(behavePermanent), string(behaveDown))
		h.behave = behaviour(word)
	}
	h.times, h.during = p.bounds(fields)
	return h
}

func (p *parser) edit(n *portable.Node, target string) *editAction {
	fields := p.actionFields(n, "set")
	kind, name, ok := strings.Cut(target, "/")
	if !ok || kind == "" || name == "" {
		p.problem(n.Fields[0].Value.Pos, fmt.Sprintf("%q names no definition", target), "write KIND/NAME: workflow/csi-gr")
	}
	e := &editAction{kind: kind, name: name}
	set := fields["set"]
	switch {
	case set == nil:
		p.report(n.Pos, definition.CodeMissing, "nothing says what to change", "add set: {timing.at: \"07:00\"}")
	case set.Kind != portable.Map || len(set.Fields) == 0:
		if set.Kind != portable.Broken {
			p.problem(set.Pos, "set is a block of path: value", "such as timing.offset: 2d")
		}
	default:
		e.set = set.Fields
	}
	return e
}

func (p *parser) engine(n *portable.Node) *engineAction {
	e := &engineAction{}
	e.verb, _ = p.oneOf(n.Fields[0].Value, "engine", "start", "stop", "crash")
	if e.verb != "crash" {
		p.actionFields(n)
		return e
	}
	if at := p.actionFields(n, "point")["point"]; at != nil {
		word, _ := p.oneOf(at, "point", string(beforeIntent), string(afterIntent), string(beforeResult), string(afterTaken), string(afterChunk))
		e.point = point(word)
	}
	return e
}
