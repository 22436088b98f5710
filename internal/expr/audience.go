package expr

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// MaxRecipients bounds whom a function names in one call, because they are read in one transaction.
const MaxRecipients = 10_000

// Recipient is somebody whom an audience function names: a contact or a record by its id, or an address with its kind.
type Recipient struct {
	ID      string
	Kind    string // of the address, such as sms
	Address string
}

// Audience returns the program that calls an audience function for a workflow. Its result is a list of Recipient. The function gets one argument,
// the occasion: workflow, now, vars and, where there is one, record, event, issues, period and iteration. It gives a []Recipient.
func Audience(f *Function, workflow string) *Program {
	return &Program{source: f.Name, want: List, audience: f, workflow: workflow}
}

// recipients calls the audience function.
func (p *Program) recipients(in *Input) ([]any, error) {
	occasion := map[string]any{"workflow": p.workflow, "now": in.Now.UTC().Format(time.RFC3339Nano)}
	for name, fields := range map[string]map[string]any{"record": in.Record, "event": in.Event, "vars": in.Vars, "period": in.Period} {
		if fields != nil {
			occasion[name] = jsonOf(fields)
		}
	}
	if in.Issues != nil {
		occasion["issues"] = jsonOf(in.Issues)
	}
	if in.Iteration != 0 {
		occasion["iteration"] = float64(in.Iteration)
	}
	out, err := in.call(p.audience, []any{occasion})
	if err != nil {
		return nil, &Failure{Reason: reason.ExpressionFailed, Detail: err.Error()}
	}
	found, ok := out.([]Recipient)
	if !ok {
		return nil, errors.New("the function gave no recipients")
	}
	if len(found) > MaxRecipients {
		return nil, fmt.Errorf("the function names %d recipients, and at most %d are possible", len(found), MaxRecipients)
	}
	list := make([]any, len(found))
	for i, r := range found {
		list[i] = r
	}
	return list, nil
}
