package store_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/store"
)

// Each field of a row has exactly one column: a field that was forgotten would be lost without a word.
func TestEachFieldHasOneColumn(t *testing.T) {
	for aggregate, fields := range store.FieldsOfColumns() {
		for field, columns := range fields {
			if len(columns) != 1 {
				t.Errorf("%s: field %s has the columns %v, want one", aggregate, field, columns)
			}
		}
	}
}
