package loader_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
)

// A record that another one names can be asked about and filtered, but there is no text of it: found at check, not at the send.
func TestAWholeRecordIsNoText(t *testing.T) {
	t.Parallel()
	types := "---\nrecord_type: kiosk\nfields: {open: bool, centre: record(centre)}\n---\nrecord_type: centre\nfields: {area: record(area)}\n---\nrecord_type: area\nfields: {name: text}\n"
	for text, want := range map[string][]string{
		"{{ record.centre }}":                                     {"12:15 template: record.centre is a whole record, of type centre | write one of its fields, such as record.centre.id"},
		"{{ record.centre.area }}":                                {"12:15 template: record.centre.area is a whole record, of type area | write one of its fields, such as record.centre.area.id"},
		"{{ record.centre.area.name }}{{ record.centre.id }}":     nil,
		"{% if record.centre %}x{% endif %}":                      nil,
		"{% assign c = record.centre %}{{ c.id }}{{ record.id }}": nil,
	} {
		workflow := strings.Replace(onRecord("    when: record.open\n"), "Hello", `"`+text+`"`, 1)
		_, problems := loader.Load([]definition.File{yaml(workflow + types)}, loader.Options{})
		if diff := cmp.Diff(want, said(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
