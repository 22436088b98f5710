package loader_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/expr"
)

const functions = `workflow: w
type: alert
triggers:
  - id: t
    event: e
    when: eligible(event)
audience:
  - function: on-call
channel: sms
message: {sms: {text: x}}
---
channel: sms
provider: memory
`

// A binary knows its own functions. Another one says that it lacks them, which ones it has, and which page explains how it gets them; what is in
// force it compiles nevertheless, and the evaluation fails.
func TestFunctionsOfABinary(t *testing.T) {
	t.Parallel()
	named := func(names ...string) (all []*expr.Function) {
		for _, name := range names {
			all = append(all, &expr.Function{Name: name, Takes: []expr.Type{expr.Object}, Gives: expr.Bool})
		}
		return all
	}
	const page = "a function of your own is registered in a binary of your own (docs/how-to/own-binary.md); this program has "
	for name, tc := range map[string]struct {
		functions, audiences []*expr.Function
		want                 []string
	}{
		"both":    {named("eligible"), named("on-call"), nil},
		"neither": {nil, []*expr.Function{}, []string{"6:19 expression: there is no function eligible | in: eligible(event)\n" + page + "none", `8:15 reference: there is no audience function "on-call" | ` + page + "none"}},
		"others":  {named("score"), named("rota", "all-hands"), []string{"6:19 expression: there is no function eligible | in: eligible(event)\n" + page + "score", `8:15 reference: there is no audience function "on-call" | ` + page + "rota, all-hands"}},
		"similar": {named("eligable"), named("oncall"), []string{"6:19 expression: there is no function eligible | did you mean eligable?", `8:15 reference: there is no audience function "on-call" | did you mean oncall?`}},
		"unknown": {named("eligible"), nil, nil},
	} {
		bundle, problems := loader.Load([]definition.File{yaml(functions)}, loader.Options{Functions: tc.functions, Audiences: tc.audiences})
		if diff := cmp.Diff(tc.want, said(problems)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if name != "both" {
			continue
		}
		set, err := loader.Compile(1, merged(nil, bundle.Documents), loader.Options{Audiences: named()})
		if err != nil {
			t.Fatal(err)
		}
		trigger := set.Workflow("w").Trigger[0]
		verdict := trigger.When.Judge(expr.Input{Event: map[string]any{"a": "b"}})
		if verdict.Met || verdict.Clauses[0].Detail != "there is no function eligible in this program" {
			t.Errorf("%+v", verdict)
		}
		entry := slices.IndexFunc(trigger.Audience, func(a definition.Audience) bool { return a.Function != nil })
		_, err = trigger.Audience[entry].Function.Eval(expr.Input{})
		var failure *expr.Failure
		if !errors.As(err, &failure) || failure.Detail != "there is no such function in this program" {
			t.Error(err)
		}
	}
}
