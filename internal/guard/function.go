package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// ConditionTime is how long a function of expressions may take. It computes, and asks nobody.
	ConditionTime = 100 * time.Millisecond
	// AudienceTime is how long a function of audiences may take, which may ask another system.
	AudienceTime = 10 * time.Second
)

// Condition returns a function of expressions that calls f within ConditionTime. The function gets JSON values that belong to it.
func Condition(name string, takes []expr.Type, gives expr.Type, f func(ctx context.Context, args []any) (any, error)) *expr.Function {
	return Within(ConditionTime, name, takes, gives, f)
}

// Within is Condition with another time.
func Within(limit time.Duration, name string, takes []expr.Type, gives expr.Type, f func(ctx context.Context, args []any) (any, error)) *expr.Function {
	return &expr.Function{Name: name, Takes: takes, Gives: gives, Call: bounded(limit, f)}
}

// Audience returns a function of audiences that calls f within AudienceTime with what the occasion is about (expr.Audience).
func Audience(name string, f func(ctx context.Context, occasion map[string]any) ([]expr.Recipient, error)) *expr.Function {
	return &expr.Function{Name: name, Takes: []expr.Type{expr.Object}, Gives: expr.List, Call: bounded(AudienceTime, func(ctx context.Context, args []any) (any, error) {
		occasion, _ := args[0].(map[string]any)
		found, err := f(ctx, occasion)
		if err != nil {
			return nil, err
		}
		for i, r := range found {
			if err := check(r); err != nil {
				return nil, fmt.Errorf("recipient %d: %w", i+1, err)
			}
		}
		return found, nil
	})}
}

// check refuses a recipient that cannot be read or written. Its error repeats no address.
func check(r expr.Recipient) error {
	switch {
	case r.ID == "" && r.Address == "":
		return errors.New("has neither an id nor an address")
	case r.ID != "" && (r.Address != "" || r.Kind != ""):
		return errors.New("has an id and an address: give one of them")
	case r.ID != "":
		if problem, _ := subject.CheckName(r.ID); problem != "" {
			return errors.New("its id " + problem)
		}
		return nil
	case !slices.Contains(subject.AddressKinds(), r.Kind):
		return fmt.Errorf("its address needs a kind: %s", strings.Join(subject.AddressKinds(), ", "))
	case len(r.Address) > subject.MaxName:
		return fmt.Errorf("its address is longer than %d bytes", subject.MaxName)
	}
	if err := subject.CheckAddress(r.Kind, r.Address); err != nil {
		return fmt.Errorf("its address %w", err)
	}
	return nil
}

// bounded calls f within a time, or until stop is closed.
func bounded(limit time.Duration, f func(ctx context.Context, args []any) (any, error)) func(args []any, stop <-chan struct{}) (any, error) {
	var guard Guard
	return func(args []any, stop <-chan struct{}) (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if stop != nil {
			go func() {
				select {
				case <-stop:
					cancel()
				case <-ctx.Done():
				}
			}()
		}
		out, err := Call(ctx, &guard, func(ctx context.Context) (any, error) { return f(ctx, args) })
		if IsLost(err) {
			return nil, fmt.Errorf("the function has not returned within %s", limit)
		}
		return out, err
	}
}
