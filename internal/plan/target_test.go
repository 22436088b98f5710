package plan_test

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/plan"
)

// A value of `address` that is no address of its kind names nobody, as a field of a record does with `to: record`.
//
// Shows: B34, R14.
func TestWhatIsNoAddressNamesNobody(t *testing.T) {
	t.Parallel()
	set := load(t, "workflow: w\ntype: custom\ntriggers:\n  - id: t\n    record: visit\n    when: record.level > 1\n"+
		"audience: {address: record.mail, kind: email}\nchannel: email\nmessage: {email: {subject: x, text: x}}\n"+
		"---\nchannel: email\nprovider: memory\n")
	entry := set.Workflow("w").Trigger[0].Audience[0]
	for _, c := range []struct {
		value any
		want  []string
	}{
		{"ann@example.org", []string{"ann@example.org"}},
		{" ann@example.org ", []string{"ann@example.org"}},
		{"none", nil},
		{"ann@", nil},
		{"", nil},
		{nil, nil},
		{int64(7), nil},
		{[]any{"none", "ann@example.org", "n/a", "bob@example.org"}, []string{"ann@example.org", "bob@example.org"}},
	} {
		targets, err := plan.Targets(entry, []string{"email"}, expr.Input{Record: map[string]any{"mail": c.value}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range targets {
			got = append(got, one.Address)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, not %q", c.value, got, c.want)
		}
	}
}
