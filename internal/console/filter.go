package console

import (
	"errors"
	"slices"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// field is one input of a filter.
type field struct{ name, label, hint, value string }

// filter is what narrows a list: chips with one choice each, and a form.
type filter struct {
	chips   []chip
	fields  []field // seen at once
	more    []field // behind "More"
	open    bool    // one of these is given
	keep    []field // of the query, which the form repeats
	refusal string  // why the list cannot be narrowed as asked
}

// filterOf makes the form of a list from the names of its fields; keep are those that chips set.
func (v visit) filterOf(shown, more, keep []string) filter {
	of := func(names []string) (list []field) {
		for _, name := range names {
			list = append(list, field{name, filterLabel(name), filterHint(name), v.query.Get(name)})
		}
		return list
	}
	f := filter{fields: of(shown), more: of(more)}
	for _, one := range f.more {
		f.open = f.open || one.value != ""
	}
	for _, one := range of(keep) {
		if one.value != "" {
			f.keep = append(f.keep, one)
		}
	}
	return f
}

func filterLabel(name string) string {
	switch name {
	case "to":
		return "address, id or name"
	case "since", "until":
		return "made " + name
	}
	return name
}

func filterHint(name string) string {
	switch name {
	case "to":
		return "to whom"
	case "since", "until":
		return name + ", such as 1d"
	}
	return name
}

// made reads the span of a list; what cannot be read is said in the filter.
func (v visit) made(f *filter) store.Span {
	var span store.Span
	var err error
	if span.Since, err = civil.ParseMoment(v.query.Get("since"), v.now, v.zone); err == nil {
		span.Until, err = civil.ParseMoment(v.query.Get("until"), v.now, v.zone)
	}
	if refused := (*civil.Error)(nil); errors.As(err, &refused) {
		f.refusal = refused.Message + ": " + refused.Hint + "."
	}
	return span
}

// asked reports whether a list shows less than all, by a field or a chip.
func (f filter) asked() bool { return f.narrowed() || len(f.keep) > 0 }

// narrowed reports whether something is asked for.
func (f filter) narrowed() bool {
	return f.open || slices.ContainsFunc(f.fields, func(one field) bool { return one.value != "" })
}

// whom is a person as people name them.
func (v visit) whom(text string) store.ContactQuery {
	if text == "" {
		return store.ContactQuery{}
	}
	return store.ContactQuery{Text: text, Hash: key.NewKeyed(v.workspace.Secret, key.PurposeAddress).Hash(subject.NormalizeAddress(text))}
}
