package cli

import (
	"fmt"

	"github.com/carillonhq/carillon/client"
)

// oneByOne does something with each of several things, one after the other. One that is refused keeps no other one from it. The
// JSON of one is its answer, that of several a list of those that were not refused.
func oneByOne[T any](s *session, r remote, asJSON bool, names []string, do func(*client.Client, string) (T, error), show func(T) error) error {
	return each(s, asJSON, names, func(name string) (T, error) {
		return call(r, func(api *client.Client) (T, error) { return do(api, name) })
	}, show)
}

// each is oneByOne for commands that work on the database itself.
func each[T any](s *session, asJSON bool, names []string, do func(string) (T, error), show func(T) error) error {
	answers, status := make([]T, 0, len(names)), ExitOK
	for _, name := range names {
		answer, err := do(name)
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil && len(names) == 1:
			return err
		case err != nil:
			fmt.Fprintf(s.Err, "%s: ", name)
			status = report(s.Err, err)
			continue
		case !asJSON:
			if err := show(answer); err != nil {
				return err
			}
		}
		answers = append(answers, answer)
	}
	switch {
	case asJSON && len(names) == 1:
		return printJSON(s.Out, answers[0])
	case asJSON:
		if err := printJSON(s.Out, map[string]any{"items": answers}); err != nil {
			return err
		}
	}
	if status != ExitOK {
		return exit(status)
	}
	return nil
}

// parted shows one thing below the other, with an empty line between them.
func parted[T any](s *session, show func(*session, T) error) func(T) error {
	first := true
	return func(one T) error {
		if !first {
			fmt.Fprintln(s.Out)
		}
		first = false
		return show(s, one)
	}
}
