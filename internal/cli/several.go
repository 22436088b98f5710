package cli

import (
	"fmt"

	"github.com/carillonhq/carillon/client"
)

// oneByOne does something with each of several things, one after the other. One that is refused keeps no other one from it. The
// JSON of one is its answer, that of several a list of those that were not refused.
func oneByOne[T any](s *session, r remote, asJSON bool, names []string, do func(*client.Client, string) (T, error), show func(T) error) error {
	return each(s, form{json: asJSON, list: len(names) != 1}, names, func(name string) (T, error) {
		return call(r, func(api *client.Client) (T, error) { return do(api, name) })
	}, show)
}

// form is how answers are printed: as JSON, and then as the list of them or as the only one.
type form struct{ json, list bool }

// each is oneByOne for commands that work on the database itself.
func each[T any](s *session, as form, names []string, do func(string) (T, error), show func(T) error) error {
	answers, status := make([]T, 0, len(names)), ExitOK
	for _, name := range names {
		answer, err := do(name)
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case err != nil && !as.list:
			return err
		case err != nil:
			fmt.Fprintf(s.Err, "%s: ", name)
			status = s.program.complain(s.Err, err)
			continue
		case !as.json:
			if err := show(answer); err != nil {
				return err
			}
		}
		answers = append(answers, answer)
	}
	switch {
	case as.json && !as.list:
		return printJSON(s.Out, answers[0])
	case as.json:
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
