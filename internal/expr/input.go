package expr

import (
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
)

// Scope lists the names that an expression can use at its place.
type Scope struct {
	Event     bool // event, and the aliases candidate, recipient and templateId (C5)
	Record    bool
	Contact   bool
	Item      bool
	Workspace bool
	Vars      bool
	Now       bool // now, and the functions that read it: age, today, date, days_until, days_since
	Answers   bool
	Metric    bool
	Issues    bool
	Period    bool
	Iteration bool

	// RecordPlaces: the places above those that the record names are read, so that within can be asked of its fields.
	RecordPlaces bool

	// RecordType declares the fields of record; nil: any field is allowed.
	RecordType *RecordType
}

// Input holds the values of one evaluation. Values are JSON values; numbers may be json.Number. A nil map is an empty one. An
// evaluation does not change its Input.
type Input struct {
	Event     map[string]any // the event as Event returns it
	Record    map[string]any
	Contact   map[string]any
	Item      map[string]any
	Workspace map[string]any
	Vars      map[string]any
	Answers   map[string]any
	Metric    map[string]any
	Period    map[string]any
	Issues    []string
	Iteration int

	// Home is the place of the contact and the places above it, the nearest first. Places returns the same of a place that the record names.
	Home   []string
	Places func(name string) []string

	// TemplateID is the workflow's ext_id; expressions read it as templateId.
	TemplateID string

	Now  time.Time
	Zone *time.Location // of dates and of today; nil is UTC

	// Meter counts the cost of several evaluations; nil: it is not counted.
	Meter *Meter

	watch   *watch // nil except in Watch and NextChange
	judged  bool   // a line is judged, and remarks explain it
	remarks []remark
	after   []Reading // what explains a line after its fields
	failed  bool      // a line that the result depends on could not be evaluated
}

// PageLimit bounds the steps of all evaluations of one transaction, which take between a tenth and a third of a second. Further
// evaluations belong to another transaction.
const PageLimit = 20 * CostLimit

// Meter counts the steps of several evaluations, each of which ends at CostLimit. Code that evaluates many expressions in one
// transaction stops when the meter is full. The quick form of a line is not counted, because its cost is bounded by the line.
type Meter struct {
	Steps uint64
	// Calls are the calls of functions of the transaction; nil: they are made at once.
	Calls *Calls
}

// Full reports whether a transaction has used up PageLimit. A nil meter is never full.
func (m *Meter) Full() bool { return m != nil && m.Steps > PageLimit }

// add counts an evaluation.
func (m *Meter) add(details *cel.EvalDetails) {
	switch {
	case m == nil:
	case details == nil || details.ActualCost() == nil:
		m.Steps += CostLimit
	default:
		m.Steps += *details.ActualCost()
	}
}

// Overlay returns fields together with own, whose names take precedence. All fields can also be read below the name under, so that a
// field that own hides is still readable: event.payload.kind, record.props.id. Neither argument is changed.
func Overlay(fields map[string]any, under string, own map[string]any) map[string]any {
	all := make(map[string]any, len(fields)+len(own)+1)
	for name, value := range fields {
		all[name] = value
	}
	for name, value := range own {
		all[name] = value
	}
	all[under] = fields
	return all
}

// names returns the top-level names of the scope, sorted.
func (s Scope) names() []string {
	var names []string
	for _, n := range []struct {
		in    bool
		names []string
	}{
		{s.Event, []string{"event", "candidate", "recipient", "templateId"}},
		{s.Record, []string{"record"}},
		{s.Contact, []string{"contact"}},
		{s.Item, []string{"item"}},
		{s.Workspace, []string{"workspace"}},
		{s.Vars, []string{"vars"}},
		{s.Now, []string{"now"}},
		{s.Answers, []string{"answers"}},
		{s.Metric, []string{"metric"}},
		{s.Issues, []string{"issues"}},
		{s.Period, []string{"period"}},
		{s.Iteration, []string{"iteration"}},
	} {
		if n.in {
			names = append(names, n.names...)
		}
	}
	slices.Sort(names)
	return names
}

// everything returns a scope with all names.
func everything() Scope {
	return Scope{
		Event: true, Record: true, Contact: true, Item: true, Workspace: true, Vars: true, Now: true, Answers: true, Metric: true, Issues: true,
		Period: true, Iteration: true,
	}
}

// objectNames are the names that have fields.
func objectNames() []string {
	return []string{"record", "event", "candidate", "recipient", "contact", "item", "workspace", "vars", "answers", "metric", "period"}
}

// variables declares every name once. The lowering checks which of them exist at a place.
func variables() []cel.EnvOption {
	open := cel.MapType(cel.StringType, cel.DynType)
	opts := []cel.EnvOption{
		cel.Variable("now", cel.TimestampType),
		cel.Variable("issues", cel.ListType(cel.StringType)),
		cel.Variable("iteration", cel.IntType),
		cel.Variable("templateId", cel.StringType),
		cel.Variable("record", cel.DynType),
		cel.Variable(inputName, cel.DynType),
	}
	for _, name := range objectNames() {
		if name == "record" {
			continue
		}
		opts = append(opts, cel.Variable(name, open))
	}
	return opts
}

// ResolveName implements CEL's activation.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case inputName:
		return inputRef{Input: in}, true
	case "record":
		return wrap(in.Record), true
	case "event":
		return wrap(in.Event), true
	case "now":
		if in.watch != nil {
			in.watch.now = in.instantNow()
			return in.watch.moving(movingTime{}), true
		}
		return instant(in.instantNow()), true
	case "contact":
		return wrap(in.Contact), true
	case "item":
		return wrap(in.Item), true
	case "workspace":
		return wrap(in.Workspace), true
	case "vars":
		return wrap(in.Vars), true
	case "answers":
		return wrap(in.Answers), true
	case "metric":
		return wrap(in.Metric), true
	case "period":
		return wrap(in.Period), true
	case "issues":
		return adapt(in.Issues), true
	case "iteration":
		return adapt(in.Iteration), true
	case "templateId":
		return adapt(in.TemplateID), true
	case "candidate":
		return adapt(in.Event["payload"]), true
	case "recipient":
		return wrapRecipient(in.Event["recipient"]), true
	}
	return nil, false
}

// Parent implements CEL's activation; an input has no parent.
func (in *Input) Parent() cel.Activation { return nil }

// lookup follows a path without evaluating anything; a missing step gives nil.
func (in *Input) lookup(p Path) any { return export(in.at(p)) }

// shown is lookup for an explanation: of several records it says which one has which value.
func (in *Input) shown(p Path) any {
	if s, ok := in.at(p).(several); ok {
		return s.shown()
	}
	return in.lookup(p)
}

func (in *Input) at(p Path) ref.Val {
	val, ok := in.ResolveName(p[0])
	if !ok {
		return absent{}
	}
	at := adapt(val)
	for _, step := range p[1:] {
		at = get(at, step)
	}
	return at
}

// Path is a name of the scope and the fields below it.
type Path []string

// String writes the path as an expression.
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		switch {
		case i == 0:
			b.WriteString(step)
		case isName(step):
			b.WriteByte('.')
			b.WriteString(step)
		default:
			b.WriteByte('[')
			b.WriteString(literal(step))
			b.WriteByte(']')
		}
	}
	return b.String()
}
