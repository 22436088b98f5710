package definition_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMistakesOfAudiences shows what is said of audiences that would reach nobody.
func TestMistakesOfAudiences(t *testing.T) {
	t.Parallel()
	class := "---\nrecord_type: kiosk\nfields: {name: text, owner: contact}\n"
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"children", onRecord("    when: record.name == \"x\"\n    audience: {to: record.children}\n") + class, []string{
			`7:27 not_supported_yet: "record.children" is not supported yet | give the type kiosk a field children that names them, of the type contact, list or record(TYPE)`,
		}},
		{"owner that is a field", onRecord("    when: record.name == \"x\"\n    audience: {to: record.owner}\n") + class, nil},
		{"children of an open type", onRecord("    when: record.name == \"x\"\n    audience: {to: record.children}\n"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, said(load(tc.text))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
