package expr

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// A transaction calls no function of a binary of one's own: a call may take long, and SQLite's only write lock is held meanwhile. An
// evaluation within a transaction therefore only looks for the result of a call. A result that is not there is noted in Calls, the transaction
// rolls back, the calls are made, and the transaction runs again with their results. The functions are pure, so that nothing is lost by that:
// the same values give the same result.

// maxRounds bounds how often calls are made for one piece of work before the rest of them is made within the transaction. Each round makes the calls
// whose values follow from the round before, so that ordinary work needs one or two.
const maxRounds = 10

// Calls are the calls of functions of one piece of work: a transaction that runs until it has the results that it needs. It is for one goroutine at a
// time. A nil value makes calls at once.
type Calls struct {
	made   map[[sha256.Size]byte]*Call
	wanted []*Call
	rounds int
}

// Call is one call of a function.
type Call struct {
	of     *Function
	args   []any
	result any
	err    error
	ready  bool
}

// Make makes the call. When stop is closed, it returns at once.
func (c *Call) Make(stop <-chan struct{}) {
	c.result, c.err = c.of.Call(c.args, stop)
	c.ready = true
}

// WantedError means that a transaction lacks results of calls: it is rolled back, and runs again when they are made.
type WantedError struct{ Calls []*Call }

func (e *WantedError) Error() string {
	return fmt.Sprintf("%d calls of functions are to be made", len(e.Calls))
}

// Wanted returns a *WantedError with the calls whose results the evaluations lacked since it was asked last; nil: none. The evaluations since then have
// no meaning if it is not nil.
func (c *Calls) Wanted() error {
	if c == nil || len(c.wanted) == 0 {
		return nil
	}
	wanted := c.wanted
	c.wanted = nil
	c.rounds++
	return &WantedError{wanted}
}

// errWanted is the error of an evaluation whose transaction will be rolled back.
var errWanted = errors.New("the function is called after this")

// call returns the result of a call.
func (in *Input) call(f *Function, args []any) (any, error) {
	var calls *Calls
	if in.Meter != nil {
		calls = in.Meter.Calls
	}
	if calls == nil {
		return f.Call(args, nil)
	}
	text, err := json.Marshal([]any{f.Name, args}) // sorts the names of fields
	if err != nil {
		return nil, fmt.Errorf("its values have no form as JSON: %w", err)
	}
	id := sha256.Sum256(text)
	c, known := calls.made[id]
	switch {
	case known && c.ready:
		return c.result, c.err
	case known:
		return nil, errWanted
	}
	c = &Call{of: f, args: args}
	if calls.made == nil {
		calls.made = map[[sha256.Size]byte]*Call{}
	}
	calls.made[id] = c
	if calls.rounds >= maxRounds {
		c.Make(nil)
		return c.result, c.err
	}
	calls.wanted = append(calls.wanted, c)
	return nil, errWanted
}
