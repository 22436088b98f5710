package carillon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/guard"
)

// Kind is a kind of value of expressions, as a function takes and gives it.
type Kind string

// The kinds, with the Go values that a function gets for them.
const (
	Bool   Kind = "bool"   // bool
	Number Kind = "number" // float64
	Text   Kind = "text"   // string
	Time   Kind = "time"   // string: an instant as RFC 3339 has it, in UTC, or a date, 2026-06-01
	List   Kind = "list"   // []any
	Object Kind = "object" // map[string]any: record, record.FIELD of a type record(TYPE), event or contact, with all their fields
	Any    Kind = "any"    // any of them, or nil for a value that is missing
)

// Function is a function that expressions call by its name: when: eligible(record).
//
//   - It is pure: the same values give the same result. It reads no clock and asks nobody; what it needs is among its values. Conditions are
//     evaluated again whenever a record is written and when a decision is explained, and one result may serve several evaluations.
//   - It is called from several goroutines at once, and not within a transaction that writes.
//   - It returns within 100 milliseconds. One that does not is left behind, and with sixteen calls left behind it is not called again before one
//     of them has returned.
//   - An error, a panic and a call that is left behind make the line false with the reason expression_failed, and people read the text: no
//     secrets. A missing value of another kind than Any makes the line false with the reason value_missing; the function is not called.
type Function struct {
	// Takes are the kinds of its values, in their order; at most 8.
	Takes []Kind
	// Gives is the kind of its result.
	Gives Kind
	// Call computes the result: nil (null), bool, int, int64, float64, string, time.Time, []any or []string. The values are JSON values that
	// belong to it, one for each of Takes: within objects and lists numbers are float64, times are texts, a length of time is its seconds, and a record
	// that another one names is its id.
	Call func(ctx context.Context, args []any) (any, error)
}

// Audience is a function that names whom an occasion concerns: an entry of an audience with function: NAME.
//
//   - It is called when the occasion is due, from several goroutines at once, and not within a transaction that writes. After an error, and when its
//     process is lost, it is called again for the same occasion.
//   - It returns within 10 seconds. One that does not is left behind, and with sixteen calls left behind it is not called again before one of
//     them has returned.
//   - An error, a panic and a call that is left behind are a failure: the occasion is tried again as the workflow's retry says, with the
//     reason audience_failed, and people read the text: no secrets.
//   - Nobody is no error: the occasion ends with the reason no_recipient.
type Audience func(ctx context.Context, o Occasion) ([]Recipient, error)

// Occasion is what an audience is computed for. Values are JSON values as those of Function are, and belong to the function.
type Occasion struct {
	// Workflow is the name of the workflow.
	Workflow string
	// Now is when the audience is computed.
	Now time.Time
	// Record is the record with its fields and what every record has, such as id, type, owner and updated_at; nil if it is about none.
	Record map[string]any
	// Event is the event with the fields of its payload, kind, occurred_at and recipient; nil if there is none.
	Event map[string]any
	// Period is the span on which a schedule reports; nil if there is none.
	Period map[string]any
	// Vars are the constants of the workflow.
	Vars map[string]any
	// Issues are the names of the issues that hold.
	Issues []string
	// Iteration is the number of the round of a course; 0 outside of a course.
	Iteration int
}

// Recipient is somebody who gets the message: a contact by its ID, or an address. Somebody who is named twice gets one message.
type Recipient struct {
	// ID is the id of a contact. An id that no contact has is left out.
	ID string
	// Kind and Address are an address in place of an ID: email, sms, whatsapp, push, inbox or webhook, and where that is. It serves on channels
	// of that kind, and makes a contact if there is none with that address.
	Kind, Address string
}

// functions are what expressions may call.
func (o Options) functions() ([]*expr.Function, error) {
	var all []*expr.Function
	for _, name := range slices.Sorted(maps.Keys(o.Functions)) {
		f := o.Functions[name]
		if f.Call == nil {
			return nil, fmt.Errorf("the function %s has no Call", name)
		}
		takes := make([]expr.Type, len(f.Takes))
		for i, kind := range append(slices.Clone(f.Takes), f.Gives) {
			if !slices.Contains([]Kind{Bool, Number, Text, Time, List, Object, Any}, kind) {
				return nil, fmt.Errorf("the function %s takes or gives the kind %q, which does not exist", name, kind)
			}
			if i < len(takes) {
				takes[i] = expr.Type(kind)
			}
		}
		if f.Gives == Object {
			return nil, fmt.Errorf("the function %s gives an object, which expressions cannot take", name)
		}
		all = append(all, guard.Condition(name, takes, expr.Type(f.Gives), f.Call))
	}
	return all, nil
}

// audiences are what audiences may name.
func (o Options) audiences() ([]*expr.Function, error) {
	var all []*expr.Function
	for _, name := range slices.Sorted(maps.Keys(o.Audiences)) {
		call := o.Audiences[name]
		if call == nil {
			return nil, fmt.Errorf("the audience function %q is nil", name)
		}
		all = append(all, guard.Audience(name, func(ctx context.Context, occasion map[string]any) ([]expr.Recipient, error) {
			found, err := call(ctx, occasionOf(occasion))
			list := make([]expr.Recipient, len(found))
			for i, r := range found {
				list[i] = expr.Recipient(r)
			}
			return list, err
		}))
	}
	return all, nil
}

func occasionOf(given map[string]any) (o Occasion) {
	o.Workflow, _ = given["workflow"].(string)
	now, _ := given["now"].(string)
	o.Now, _ = time.Parse(time.RFC3339Nano, now)
	o.Record, _ = given["record"].(map[string]any)
	o.Event, _ = given["event"].(map[string]any)
	o.Period, _ = given["period"].(map[string]any)
	o.Vars, _ = given["vars"].(map[string]any)
	issues, _ := given["issues"].([]any)
	for _, issue := range issues {
		name, _ := issue.(string)
		o.Issues = append(o.Issues, name)
	}
	iteration, _ := given["iteration"].(float64)
	o.Iteration = int(iteration)
	return o
}
