package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
)

// verbs are the actions of this release; the first key of an action names it.
func verbs() []string {
	return []string{"event", "record", "contact", "load", "operator", "run", "channel", "sink", "http", "edit", "apply", "engine", "database", "open", "submit", "subscribe", "unsubscribe", "confirm", "publish", "reply", "receipt"}
}

// laterVerbs are the actions of the format that this release does not have.
func laterVerbs() []string {
	return []string{"clock_skew"}
}

func (p *parser) actions(list *portable.Node) []Action {
	if list == nil {
		return nil
	}
	var actions []Action
	for _, n := range p.items(list, "this") {
		if a, ok := p.action(n); ok {
			actions = append(actions, a)
		}
	}
	return actions
}

func (p *parser) action(n *portable.Node) (Action, bool) {
	a := Action{pos: n.Pos, node: n}
	if n.Kind == portable.Broken {
		return a, false
	}
	if n.Kind != portable.Map || len(n.Fields) == 0 {
		p.problem(n.Pos, "an action is a block of keys", "its first key is one of: "+strings.Join(verbs(), " "))
		return a, false
	}
	verb := n.Fields[0].Key
	if slices.Contains(laterVerbs(), verb.Text) {
		p.notYet(verb, "action")
		return a, false
	}
	if !slices.Contains(verbs(), verb.Text) {
		p.unknown(verb, "action", verbs())
		return a, false
	}
	before := len(p.problems)
	target, _ := p.scalar(n.Fields[0].Value, "a name")
	switch verb.Text {
	case "event":
		a.Event = p.event(n, target)
	case "record":
		a.Record = p.record(n, target)
	case "contact":
		a.Contact = p.contact(n, target)
	case "load":
		a.Load = p.load(n, target)
	case "operator":
		a.Operator = p.operator(n)
	case "run":
		a.Run = p.run(n, target)
	case "channel":
		a.Channel = p.channel(n, target)
	case "sink":
		a.Sink = p.sink(n, target)
	case "http":
		a.HTTP = p.http(n, target)
	case "edit":
		a.Edit = p.edit(n, target)
	case "apply":
		p.actionFields(n)
		a.Apply = &applyAction{file: target, pos: n.Fields[0].Value.Pos}
	case "engine":
		a.Engine = p.engine(n)
	case "database":
		a.Database = p.database(n)
	case "open":
		a.Open = p.open(n, target)
	case "submit":
		a.Submit = p.submit(n, target)
	case "subscribe":
		a.Subscribe = p.subscribe(n, target)
	case "unsubscribe":
		a.Subscribe = p.unsubscribe(n, target)
	case "confirm":
		a.Subscribe = p.confirm(n, target)
	case "publish":
		a.Publish = p.publish(n, target)
	case "reply":
		a.Reply = p.reply(n, target)
	case "receipt":
		a.Receipt = p.receipt(n, target)
	}
	p.repetition(&a, n)
	a.answer = p.answer(n.Get("answer"), verb.Text)
	return a, len(p.problems) == before
}

// actionFields checks the keys of an action: its verb, its own and those that every action may have.
func (p *parser) actionFields(n *portable.Node, own ...string) map[string]*portable.Node {
	known := slices.Concat([]string{n.Fields[0].Key.Text}, own, []string{"every", "until", "answer"})
	fields, _ := p.fields(n, "an action", known...)
	return fields
}

func (p *parser) event(n *portable.Node, kind string) *eventAction {
	fields := p.actionFields(n, "id", "occurred_at", "payload", "recipient")
	e := &eventAction{kind: kind}
	e.id, _ = p.optional(fields["id"], "a text")
	switch at := fields["occurred_at"]; {
	case at == nil:
	case at.Text == "now":
		e.occursNow = true
	default:
		e.occurredAt, _ = p.instant(at)
	}
	if payload := fields["payload"]; payload != nil {
		e.payload = p.object(payload, "the payload")
	}
	if recipient := fields["recipient"]; recipient != nil {
		if e.recipient = p.object(recipient, "the recipient"); n.Get("answer") == nil { // else it may be refused on purpose
			p.known(recipient, "key of a recipient", "address", "locale", "customer_ref")
		}
	}
	return e
}

// known reports the keys of a map that are not on the list.
func (p *parser) known(n *portable.Node, what string, known ...string) {
	for _, f := range n.Fields {
		if !slices.Contains(known, f.Key.Text) {
			p.unknown(f.Key, what, known)
		}
	}
}

func (p *parser) record(n *portable.Node, target string) *recordAction {
	fields := p.actionFields(n, "set", "replace", "delete", "owner", "parents")
	typ, id, ok := strings.Cut(target, "/")
	if !ok || typ == "" || id == "" {
		p.problem(n.Fields[0].Value.Pos, fmt.Sprintf("%q names no record", target), "write TYPE/ID: kiosk/123")
	}
	r := &recordAction{typ: typ, id: id, set: p.block(fields["set"], "set"), replace: p.block(fields["replace"], "replace"), owner: fields["owner"], parents: fields["parents"]}
	related := r.owner != nil || r.parents != nil
	if related && fields["set"] == nil && fields["replace"] == nil && fields["delete"] == nil {
		fields["set"] = &portable.Node{Kind: portable.Map, Pos: n.Pos}
		r.set = fields["set"]
	}
	if related && fields["delete"] != nil {
		p.problem(n.Pos, "a record that is deleted has neither owner nor parents", "leave them out")
	}
	said := 0
	for _, name := range []string{"set", "replace", "delete"} {
		if fields[name] != nil {
			said++
		}
	}
	if del := fields["delete"]; del != nil && !p.bool(del) {
		p.problem(del.Pos, "delete is only ever true", "leave it out")
	}
	switch said {
	case 0:
		p.report(n.Pos, definition.CodeMissing, "nothing says what becomes of the record", "add set: {battery_level: 15}, replace, owner, parents, or delete: true")
	case 1:
	default:
		p.problem(n.Pos, "set, replace and delete exclude each other", "write one action for each")
	}
	return r
}

func (p *parser) contact(n *portable.Node, id string) *contactAction {
	if erase := n.Get("erase"); erase != nil {
		p.notYet(erase, "erase")
		return nil
	}
	fields := p.actionFields(n, "set", "suppress")
	c := &contactAction{id: id, set: p.block(fields["set"], "set")}
	if c.set != nil {
		if groups := c.set.Get("groups"); groups != nil {
			p.problem(groups.Pos, "groups of a contact are not written: a group says by members or where who belongs to it", "name the contact in members of the group, or set what its where reads")
		}
	}
	c.suppress, _ = p.optional(fields["suppress"], "a reason")
	if fields["set"] == nil && c.suppress == "" {
		p.report(n.Pos, definition.CodeMissing, "nothing says what becomes of the contact", "add set: {email: ada@example.org}, or suppress: REASON")
	}
	return c
}

func (p *parser) object(n *portable.Node, what string) []byte {
	if p.block(n, what) == nil {
		return nil
	}
	var b bytes.Buffer
	writeJSON(&b, n, "")
	return b.Bytes()
}

// block is a node that must be a block of keys; nil when it is not there, or is none.
func (p *parser) block(n *portable.Node, what string) *portable.Node {
	if n == nil || n.Kind == portable.Map {
		return n
	}
	if n.Kind != portable.Broken {
		p.problem(n.Pos, what+" is a block of keys", "")
	}
	return nil
}

// writeJSON writes a node as JSON: keys in the order of the file, numbers as written. A bare now becomes the given text, unless that is
// empty.
func writeJSON(b *bytes.Buffer, n *portable.Node, now string) {
	switch n.Kind {
	case portable.Scalar:
		if now != "" && n.Text == "now" && n.Style == portable.Plain {
			writeString(b, now)
			return
		}
		if _, isBool := n.Bool(); isBool || n.IsNumber() || n.IsNull() {
			b.WriteString(n.Text)
			return
		}
		writeString(b, n.Text)
	case portable.List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, item, now)
		}
		b.WriteByte(']')
	case portable.Map:
		b.WriteByte('{')
		for i, f := range n.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, f.Key.Text)
			b.WriteByte(':')
			writeJSON(b, f.Value, now)
		}
		b.WriteByte('}')
	case portable.Broken:
		b.WriteString("null")
	}
}

func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	// A string always has a JSON form, and a buffer takes whatever is written.
	_ = encoder.Encode(s)
	b.Truncate(b.Len() - 1)
}

func (p *parser) load(n *portable.Node, file string) *loadAction {
	fields := p.actionFields(n, "as", "type", "map")
	l := &loadAction{file: file, pos: n.Fields[0].Value.Pos}
	as := fields["as"]
	switch {
	case as == nil:
		p.report(n.Pos, definition.CodeMissing, "load needs to know what the file holds", "add as: events, as: records or as: contacts")
		return l
	case as.Text == "items":
		p.notYet(as, "as")
		return l
	}
	l.as, _ = p.oneOf(as, "as", loadEvents, loadRecords, loadContacts)
	if !strings.HasSuffix(file, ".csv") && !strings.HasSuffix(file, ".ndjson") {
		p.problem(n.Fields[0].Value.Pos, fmt.Sprintf("%q is neither CSV nor NDJSON", file), "its name ends in .csv or .ndjson")
	}
	if typ := fields["type"]; typ != nil {
		if l.typ, _ = p.optional(typ, "a type of records"); l.as != loadRecords {
			p.problem(typ.Pos, "type is that of records", "add as: records, or leave type out")
			return l
		}
	}
	if rules := fields["map"]; rules != nil {
		for _, rule := range p.items(rules, "map") {
			text, _ := p.scalar(rule, "a rule")
			l.maps = append(l.maps, text)
		}
		if _, _, err := l.mapping(time.UTC); err != nil {
			p.problem(rules.Pos, err.Error(), "")
		}
	}
	return l
}

func (p *parser) repetition(a *Action, n *portable.Node) {
	every, until := n.Get("every"), n.Get("until")
	if every != nil {
		d, ok := p.duration(every)
		if ok && d.IsZero() {
			p.problem(every.Pos, "every needs a length", "such as every: 1m")
		}
		a.every = d
	}
	if until == nil {
		return
	}
	if every == nil {
		p.problem(until.Pos, "until has no effect without every", "add every: 1m, or leave until out")
		return
	}
	a.until, _ = p.instant(until)
}

// answerFields returns the fields that can be expected of an answer to an action.
func answerFields(verb string) []fieldSpec {
	switch verb {
	case "event", "publish", "reply", "receipt":
		return []fieldSpec{
			{"outcome", fieldName, "outcome"},
			{"reason", fieldName, "reason"},
			{"field", fieldName, "field"},
			{"error", fieldName, "error"},
			{"error_has", fieldHas, "error"},
		}
	case "contact", "record", "subscribe", "unsubscribe", "confirm":
		return []fieldSpec{
			{"outcome", fieldName, "outcome"},
			{"field", fieldName, "field"},
			{"error", fieldName, "error"},
			{"error_has", fieldHas, "error"},
		}
	case "open", "submit":
		return []fieldSpec{{"outcome", fieldName, "outcome"}, {"field", fieldName, "field"}, {"error", fieldName, "error"}, {"error_has", fieldHas, "error"}}
	case "run":
		return []fieldSpec{{"outcome", fieldName, "outcome"}, {"error", fieldName, "error"}, {"error_has", fieldHas, "error"}}
	case "operator", "edit", "apply", "database":
		return []fieldSpec{{"error", fieldName, "error"}, {"error_has", fieldHas, "error"}}
	}
	return nil
}

func (p *parser) answer(n *portable.Node, verb string) *answer {
	if n == nil || n.Kind == portable.Broken {
		return nil
	}
	specs := answerFields(verb)
	if len(specs) == 0 {
		p.problem(n.Pos, verb+" is not answered", "leave answer out")
		return nil
	}
	if n.Kind != portable.Map || len(n.Fields) == 0 {
		p.problem(n.Pos, "an answer is a block of keys", "such as answer: {"+specs[0].name+": VALUE}")
		return nil
	}
	a := &answer{pos: n.Pos}
	var known []string
	for _, s := range specs {
		known = append(known, s.name)
	}
	for _, f := range n.Fields {
		i := slices.IndexFunc(specs, func(s fieldSpec) bool { return s.name == f.Key.Text })
		switch {
		case i >= 0:
			if value, ok := p.field(specs[i], f.Value); ok {
				a.fields = append(a.fields, value)
			}
		case f.Key.Text == "status" || f.Key.Text == "links":
			p.notYet(f.Key, "field")
		default:
			p.unknown(f.Key, "field of answer", known)
		}
	}
	return a
}
