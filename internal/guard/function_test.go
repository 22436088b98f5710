package guard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/guard"
)

// A function of expressions that panics, errs or ends its goroutine makes the line false and says what it was; the process goes on.
func TestConditionFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		call func(ctx context.Context, args []any) (any, error)
		want string
	}{
		"an error": {func(context.Context, []any) (any, error) { return nil, errors.New("no table") }, "f: no table"},
		"a panic":  {func(context.Context, []any) (any, error) { panic("boom") }, "f: the function panicked at function_test.go:24: boom"},
		"a type assertion": {func(_ context.Context, args []any) (any, error) {
			return args[0].(bool), nil
		}, "f: the function panicked at function_test.go:26: interface conversion: interface {} is string, not bool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := expr.NewCompiler(guard.Condition("f", []expr.Type{expr.Text}, expr.Bool, tc.call))
			if err != nil {
				t.Fatal(err)
			}
			line, err := c.Line(`f("x")`, expr.Scope{})
			if err != nil {
				t.Fatal(err)
			}
			if v := line.Judge(expr.Input{}); v.Met || v.Reason != "expression_failed" || v.Clauses[0].Detail != tc.want {
				t.Errorf("%+v", v)
			}
		})
	}
}

// A function that does not return is left behind when its time is up, and is not called again while sixteen of its calls are left behind.
func TestConditionsTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int64
		f := guard.Condition("f", nil, expr.Bool, func(context.Context, []any) (any, error) {
			calls.Add(1)
			<-release
			return true, nil
		})
		for range 16 {
			began := time.Now()
			if _, err := f.Call(nil, nil); err == nil || err.Error() != "the function has not returned within 100ms" || time.Since(began) != guard.ConditionTime {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
		if _, err := f.Call(nil, nil); !errors.Is(err, guard.ErrBusy) || calls.Load() != 16 {
			t.Errorf("the seventeenth: %v after %d calls", err, calls.Load())
		}
		close(release)
		synctest.Wait()
		if got, err := f.Call(nil, nil); got != true || err != nil || calls.Load() != 17 {
			t.Errorf("after they have returned: %v, %v", got, err)
		}
	})
}

// A call ends at once when the process stops.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		f := guard.Audience("f", func(ctx context.Context, _ map[string]any) ([]expr.Recipient, error) {
			close(stop)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := time.Now()
		if _, err := f.Call([]any{map[string]any{}}, stop); err == nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestAudience(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gives []expr.Recipient
		want  string
	}{
		"nobody":           {nil, ""},
		"contacts":         {[]expr.Recipient{{ID: "ann"}, {ID: "bob"}}, ""},
		"an address":       {[]expr.Recipient{{Kind: "email", Address: "ann@example.org"}}, ""},
		"nothing":          {[]expr.Recipient{{}}, "recipient 1: has neither an id nor an address"},
		"both":             {[]expr.Recipient{{ID: "ann"}, {ID: "bob", Address: "b@example.org"}}, "recipient 2: has an id and an address: give one of them"},
		"without a kind":   {[]expr.Recipient{{Address: "ann@example.org"}}, "recipient 1: its address needs a kind: email, sms,"},
		"another kind":     {[]expr.Recipient{{Kind: "fax", Address: "ann@example.org"}}, "recipient 1: its address needs a kind: email, sms,"},
		"no address":       {[]expr.Recipient{{Kind: "email", Address: "ann"}}, "recipient 1: its address is not an e-mail address"},
		"a long address":   {[]expr.Recipient{{Kind: "inbox", Address: strings.Repeat("a", 257)}}, "recipient 1: its address is longer than 256 bytes"},
		"a control in ids": {[]expr.Recipient{{ID: "a\x00"}}, "recipient 1: its id holds a control or an invalid character"},
	} {
		f := guard.Audience("f", func(context.Context, map[string]any) ([]expr.Recipient, error) { return tc.gives, nil })
		_, err := f.Call([]any{map[string]any{}}, nil)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
