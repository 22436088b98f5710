package sim

import (
	"strings"
	"testing"
	"time"
)

// A row that is added beside others says nothing about a field that it does not have.
func TestAnAddedRowHasNoEmptyField(t *testing.T) {
	t.Parallel()
	like := &expectedRow{fields: []field{{fieldSpec: fieldSpec{name: "to", of: "to"}}, {fieldSpec: fieldSpec{name: "subject", of: "subject"}}}}
	sms := row{cells: map[string]cell{"to": textCell("ann"), "subject": textCell(""), "text": textCell("Hello")}}
	got := strings.Join((&updater{zone: time.UTC}).cells(&Step{}, listSpec{}, sms, like, true, 0), ", ")
	if got != "to: ann" {
		t.Errorf("%q", got)
	}
}
