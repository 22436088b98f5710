package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// waits measures what it takes to take up what is due among rows that wait, few and many (T8). The tables are filled once;
// the two databases take turns.
func waits(ctx context.Context, s settings, r *round) (err error) {
	sides := map[string]*side{}
	names := []string{claimFew, claimMany}
	for i, waiting := range []int{fewWait, s.pending} {
		made, drop, err := newSide(ctx, r, waiting)
		defer func() { err = errors.Join(err, drop()) }()
		if err != nil {
			return err
		}
		sides[names[i]] = made
	}
	for n := range s.rounds {
		r.n = n + 1
		whole := map[string][]time.Duration{}
		for k := range dueCycles {
			for i := range names {
				name := names[(i+n+k)%len(names)]
				took, err := sides[name].due(ctx, dueRows)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				whole[name] = append(whole[name], took)
			}
		}
		for _, name := range names {
			found := sides[name].claims.take()
			if n == 0 { // those of filling are no part of it
				for what := range found {
					found[what] = found[what][len(found[what])-dueCycles:]
				}
			}
			err := errors.Join(r.lateness(name, whole[name]), r.lateness(name+" "+ofInstances, found[ofInstances]), r.lateness(name+" "+ofDeliveries, found[ofDeliveries]))
			if err != nil {
				return err
			}
		}
	}
	return nil
}
