package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/reason"
)

// registered returns a compiler with functions, and what they were called with.
func registered(t *testing.T, got *[][]any) *Compiler {
	t.Helper()
	function := func(name string, gives Type, result func(args []any) (any, error), takes ...Type) *Function {
		return &Function{Name: name, Takes: takes, Gives: gives, Call: func(args []any, _ <-chan struct{}) (any, error) {
			*got = append(*got, args)
			return result(args)
		}}
	}
	c, err := NewCompiler(
		function("eligible", Bool, func(args []any) (any, error) { return args[0].(map[string]any)["name"] == "Gate", nil }, Object),
		function("score", Number, func(args []any) (any, error) { return args[0].(float64) * 2, nil }, Number),
		function("label", Text, func(args []any) (any, error) { return strings.TrimSpace(fmt.Sprintln(args...)), nil }, Any, Any),
		function("day", Time, func(args []any) (any, error) { return args[0], nil }, Time),
		function("rest", List, func(args []any) (any, error) { return args[0].([]any)[1:], nil }, List),
		function("open", Bool, func([]any) (any, error) { return true, nil }),
		function("broken", Bool, func([]any) (any, error) { return nil, errors.New("the table is not loaded") }),
		function("wrong", Bool, func([]any) (any, error) { return "yes", nil }),
		function("odd", Any, func([]any) (any, error) { return struct{}{}, nil }),
		function("none", Number, func([]any) (any, error) { return nil, nil }),
		function("zero", Text, func([]any) (any, error) { return "a\x00", nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	const failed = reason.ExpressionFailed
	for src, want := range map[string]struct {
		why   reason.Reason
		field string
		value any
		about string // part of the detail
	}{
		`eligible(record)`:                                    {"", "eligible(record)", true, ""},
		`!eligible(record)`:                                   {reason.ConditionFalse, "eligible(record)", true, ""},
		`eligible(record) && record.n == 12`:                  {"", "eligible(record)", true, ""},
		`eligible({"name": "Door"})`:                          {reason.ConditionFalse, "eligible(…)", false, ""},
		`score(record.n) == 24`:                               {"", "score(record.n)", float64(24), ""},
		`score(record.n + 1) > 30`:                            {reason.ConditionFalse, "score(…)", float64(26), ""},
		`score(record.absent) > 5`:                            {reason.ValueMissing, "record.absent", nil, ""},
		`score(record.name) > 5`:                              {failed, "record.name", "Gate", "value 1 of score must be a number, and is a text"},
		`score(record.big) > 1`:                               {"", "score(record.big)", float64(2 * 9007199254740992), ""},
		`label(record.absent, record.date) != ""`:             {"", "label(record.absent, record.date)", "<nil> 2026-05-11", ""},
		`label(record.tags, record.ok) == "[a b] true"`:       {"", "label(record.tags, record.ok)", "[a b] true", ""},
		`label(days(1), now) == "86400 2026-05-14T10:00:00Z"`: {"", "label(…, now)", "86400 2026-05-14T10:00:00Z", ""},
		`label(date("2026-05-01"), issues) != null`:           {"", "label(…, issues)", "2026-05-01 [OFFLINE]", ""},
		`day(record.date) == date("2026-05-11")`:              {"", "day(record.date)", civil.Date{Year: 2026, Month: 5, Day: 11}, ""},
		`day(record.name) == today()`:                         {failed, "record.name", "Gate", "value 1 of day must be a time"},
		`rest(record.tags) == ["b"]`:                          {"", "rest(record.tags)", []any{"b"}, ""},
		`open()`:                                              {"", "open()", true, ""},
		`record.tags.all(t, open())`:                          {"", "open()", true, ""},
		`record.tags.exists(t, label(t, 1) == "b 1")`:         {"", "label(t, …)", "a 1", ""},
		`open() ? record.n == 12 : false`:                     {"", "open()", true, ""},
		`broken()`:                                            {failed, "", nil, "broken: the table is not loaded"},
		`broken() || record.n == 12`:                          {"", "record.n", int64(12), ""},
		`wrong()`:                                             {failed, "", nil, "wrong must give true or false, and gave a text"},
		`odd() == 1`:                                          {failed, "", nil, "odd gave a value that is no JSON value"},
		`none() > 5`:                                          {reason.ValueMissing, "", nil, ""},
		`zero() == ""`:                                        {failed, "", nil, "zero gave a value that is no JSON value"},
		`[` + strings.Repeat("1,", 48) + `1].all(x, open())`:  {"", "open()", true, ""},
		`[` + strings.Repeat("1,", 59) + `1].all(x, open())`:  {reason.CostExceeded, "open()", true, "steps"},
		`label(record, record) == label(event, contact)`:      {reason.ConditionFalse, "", nil, ""},
	} {
		t.Run(src, func(t *testing.T) {
			t.Parallel()
			var got [][]any
			line, err := registered(t, &got).Line(src, everywhere())
			if err != nil {
				t.Fatal(err)
			}
			v := line.Judge(world())
			clause := v.Clauses[0]
			if v.Reason != want.why || v.Met != (want.why == "") || !strings.Contains(clause.Detail, want.about) {
				t.Errorf("%q %q %s", v.Reason, clause.Field, clause.Detail)
			}
			if src != `label(record, record) == label(event, contact)` && (clause.Field != want.field || cmp.Diff(want.value, clause.Value) != "") {
				t.Errorf("explained by %q, %#v", clause.Field, clause.Value)
			}
			if line.Holds(world()) != v.Met {
				t.Error("Holds differs")
			}
			if line, bound := line.TimeBound(); bound != strings.Contains(src, "now)") {
				t.Errorf("%q needs an interval", line)
			}
		})
	}
}

// A function gets values of its own: what it does to them changes nothing.
func TestAFunctionGetsCopies(t *testing.T) {
	t.Parallel()
	var got [][]any
	in := Input{Record: map[string]any{"name": "Gate", "n": num("1"), "list": []any{map[string]any{"a": "b"}}, "at": time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "mother": Related{ID: "m1", Fields: map[string]any{"age": num("40")}}}}
	c := registered(t, &got)
	line, err := c.Line("eligible(record) && eligible(record.mother) || true", everywhere())
	if err != nil {
		t.Fatal(err)
	}
	if !line.Holds(in) {
		t.Error("it does not hold")
	}
	want := [][]any{
		{map[string]any{"name": "Gate", "n": 1.0, "list": []any{map[string]any{"a": "b"}}, "at": "2026-05-01T00:00:00Z", "mother": "m1"}},
		{map[string]any{"age": 40.0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got[0][0].(map[string]any)["list"].([]any)[0].(map[string]any)["a"] = "changed"
	if in.Record["list"].([]any)[0].(map[string]any)["a"] != "b" {
		t.Error("the record has changed")
	}
	in.Record["mother"] = Related{ID: "m1"}
	got = nil
	if line, err = c.Line("eligible(record.mother)", everywhere()); err != nil {
		t.Fatal(err)
	}
	if v := line.Judge(in); v.Reason != reason.ValueMissing || v.Field != "record.mother" || len(got) != 0 {
		t.Errorf("a record that does not exist: %+v", v)
	}
}

func TestFunctionMistakes(t *testing.T) {
	t.Parallel()
	var got [][]any
	c := registered(t, &got)
	for src, want := range map[string]string{
		`eligible()`:                  "eligible takes 1 value, and gets 0",
		`label(1)`:                    "label takes 2 values, and gets 1",
		`score("x") > 1`:              "value 1 of score must be a number, and is a text",
		`eligible(1)`:                 "value 1 of eligible must be an object, and is a number",
		`score(eligible(record)) > 1`: "value 1 of score must be a number, and is true or false",
		`score(record.n)`:             "this must be true or false, and is a number",
		`score(record.n) && true`:     "this must be true or false, and is a number",
		`score(record.n) == "x"`:      "a number is compared with a text",
		`record.eligible()`:           "there is no function eligible",
		`eligable(record)`:            "there is no function eligable | did you mean eligible?",
		`allowed(record)`:             "there is no function allowed | in: allowed(record)\na function of your own is registered in a binary of your own (docs/how-to/own-binary.md); this program has broken, day, eligible,",
	} {
		_, err := c.Line(src, everywhere())
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Message+" | "+e.Hint, want) {
			t.Errorf("%s: %+v", src, e)
		}
	}
	if len(got) != 0 {
		t.Error("a function was called")
	}
	_, err := compiler(t).Line("eligible(record)", everywhere())
	var e *Error
	if !errors.As(err, &e) || !strings.HasSuffix(e.Hint, "(docs/how-to/own-binary.md); this program has none") {
		t.Errorf("%+v", e)
	}
	for name, want := range map[string]string{
		"":       `"" cannot be the name of a function of expressions`,
		"a-b":    `"a-b" cannot be the name of a function of expressions`,
		"while":  `"while" cannot be the name of a function of expressions`,
		"age":    "age is a name of expressions already",
		"quiet":  "quiet is a name of expressions already",
		"within": "within is a name of expressions already",
		"record": "record is a name of expressions already",
		"exists": "exists is a name of expressions already",
	} {
		if _, err := NewCompiler(&Function{Name: name}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := NewCompiler(&Function{Name: "a"}, &Function{Name: "a"}); err == nil {
		t.Error("two of one name")
	}
	if _, err := NewCompiler(&Function{Name: "a", Takes: make([]Type, MaxArguments+1)}); err == nil {
		t.Error("too many values")
	}
}

// What is in force compiles by a binary that lacks a function, or whose function takes other values now: it fails when it is evaluated.
func TestFunctionsInForce(t *testing.T) {
	t.Parallel()
	var got [][]any
	c := registered(t, &got).InForce()
	for src, want := range map[string]string{
		`allowed(record)`:              "there is no function allowed in this program",
		`allowed(record) && record.ok`: "there is no function allowed in this program",
		`eligible(record, 5)`:          "eligible takes 1 value, and gets 2",
		`score("x") > 1`:               "value 1 of score must be a number, and is a text",
		`label(1, 2)`:                  "must be true or false, and is a text",
	} {
		line, err := c.Line(src, everywhere())
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if v := line.Judge(world()); v.Reason != reason.ExpressionFailed || !strings.Contains(v.Clauses[0].Detail, want) {
			t.Errorf("%s: %+v", src, v)
		}
	}
	if _, err := c.Line(`lower(1)`, everywhere()); err == nil {
		t.Error("a mistake of another kind is taken")
	}
}

// An evaluation that counts the calls of a transaction makes none of them: it notes them, each once, and takes their results when they are made.
func TestCallsAreMadeBetweenTransactions(t *testing.T) {
	t.Parallel()
	var got [][]any
	c := registered(t, &got)
	line, err := c.Line("score(record.n) == 24 && score(score(record.n)) == 48 && score(record.n) > 0", everywhere())
	if err != nil {
		t.Fatal(err)
	}
	calls := &Calls{}
	evaluate := func() (Verdict, *WantedError) {
		in := world()
		in.Meter = &Meter{Calls: calls}
		v := line.Judge(in)
		var wanted *WantedError
		errors.As(calls.Wanted(), &wanted)
		return v, wanted
	}
	for round, n := range []int{1, 1} {
		v, wanted := evaluate()
		if v.Met || wanted == nil || len(wanted.Calls) != n || len(got) != round {
			t.Fatalf("round %d: %+v, %+v, %d calls", round, v, wanted, len(got))
		}
		for _, call := range wanted.Calls {
			call.Make(nil)
		}
	}
	if v, wanted := evaluate(); !v.Met || wanted != nil || len(got) != 2 {
		t.Errorf("%+v, %+v, %d calls", v, wanted, len(got))
	}
	failing, err := c.Line("broken()", everywhere())
	if err != nil {
		t.Fatal(err)
	}
	in := world()
	in.Meter = &Meter{Calls: calls}
	failing.Holds(in)
	var wanted *WantedError
	if !errors.As(calls.Wanted(), &wanted) {
		t.Fatal("the call is not wanted")
	}
	wanted.Calls[0].Make(nil)
	if v := failing.Judge(in); v.Reason != reason.ExpressionFailed || calls.Wanted() != nil {
		t.Errorf("an error is asked for again: %+v", v)
	}
	if (*Calls)(nil).Wanted() != nil {
		t.Error("nothing wants something")
	}
}

// After some rounds the rest is called at once, so that a transaction whose values change with every try comes to its end.
func TestRoundsEnd(t *testing.T) {
	t.Parallel()
	var got [][]any
	line, err := registered(t, &got).Line("score(record.n) > 0", everywhere())
	if err != nil {
		t.Fatal(err)
	}
	calls := &Calls{}
	for i := range maxRounds + 1 {
		in := Input{Record: map[string]any{"n": num(fmt.Sprint(i + 1))}, Meter: &Meter{Calls: calls}}
		met, wanted := line.Holds(in), calls.Wanted()
		if last := i == maxRounds; met != last || (wanted == nil) != last {
			t.Fatalf("round %d: %t, %v", i, met, wanted)
		}
	}
}

func TestAudienceFunction(t *testing.T) {
	t.Parallel()
	var got any
	var result any
	p := Audience(&Function{Name: "oncall", Takes: []Type{Object}, Call: func(args []any, _ <-chan struct{}) (any, error) {
		got = args[0]
		return result, nil
	}}, "nightly")
	in := Input{Record: map[string]any{"id": "k1"}, Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Issues: []string{"OFFLINE"}, Iteration: 2}
	result = []Recipient{{ID: "ann"}, {Kind: "sms", Address: "+49"}}
	list, err := p.EvalRelated(in)
	if diff := cmp.Diff(any([]any{Recipient{ID: "ann"}, Recipient{Kind: "sms", Address: "+49"}}), list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	want := map[string]any{"workflow": "nightly", "now": "2026-05-01T00:00:00Z", "record": map[string]any{"id": "k1"}, "issues": []any{"OFFLINE"}, "iteration": 2.0}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Error(diff)
	}
	if result = make([]Recipient, MaxRecipients+1); p.Source() != "oncall" {
		t.Error(p.Source())
	}
	if _, err := p.Eval(in); err == nil || !strings.Contains(err.Error(), "10001 recipients") {
		t.Error(err)
	}
	in.Meter = &Meter{Calls: &Calls{}}
	if _, err := p.Eval(in); err == nil || in.Meter.Calls.Wanted() == nil {
		t.Error("it is called within a transaction")
	}
}
