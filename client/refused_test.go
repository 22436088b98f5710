package client_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon/client"
)

// An answer names what was refused, by its place in the request.
func TestAnswerErr(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer interface{ Err() error }
		want   string
		places []int
	}{
		{"every event taken", client.EventsAnswer{Created: 1, Skipped: 1, NoMatch: 1, Items: []client.EventResult{
			{Outcome: "created"}, {Outcome: "skipped"}, {Outcome: "no_match", Reason: "no_workflow"},
		}}, "", nil},
		{"two events refused", client.EventsAnswer{Created: 1, Failed: 2, Items: []client.EventResult{
			{Outcome: "failed", Reason: "invalid_event", Field: "recipient.address", Message: "is not a text", Hint: "put it in quotes"},
			{Outcome: "created"},
			{Outcome: "failed", Reason: "request_too_large", Message: "the event is larger than 256 KiB"},
		}}, "item 0: recipient.address: is not a text (put it in quotes)\nitem 2: the event is larger than 256 KiB", []int{0, 2}},
		{"a reason without words", client.EventsAnswer{Failed: 1, Items: []client.EventResult{{Outcome: "failed", Reason: "dedup_missing"}}}, "item 0: dedup_missing", []int{0}},
		{"every contact taken", client.ContactsAnswer{Unchanged: 1, Items: []client.ContactResult{{ID: "c", Outcome: "unchanged"}}}, "", nil},
		{"a contact refused", client.ContactsAnswer{Changed: 1, Failed: 1, Items: []client.ContactResult{
			{ID: "c-1", Outcome: "changed"}, {ID: "c-2", Outcome: "failed", Reason: "invalid_contact", Field: "timezone", Message: "is no zone"},
		}}, "item 1 (c-2): timezone: is no zone", []int{1}},
		{"every record taken", client.RecordsAnswer{}, "", nil},
		{"a record refused", client.RecordsAnswer{Failed: 1, Items: []client.RecordResult{
			{Type: "kiosk", ID: "7", Outcome: "failed", Reason: "invalid_record", Field: "props", Message: "is not an object"},
		}}, "item 0 (kiosk/7): props: is not an object", []int{0}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.answer.Err()
			if len(test.places) == 0 {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || err.Error() != test.want {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			var first *client.ItemError
			if !errors.As(err, &first) || first.Index != test.places[0] || first.Reason == "" {
				t.Errorf("the first is %+v", first)
			}
			joined, _ := err.(interface{ Unwrap() []error })
			var places []int
			for _, one := range joined.Unwrap() {
				var item *client.ItemError
				if errors.As(one, &item) {
					places = append(places, item.Index)
				}
			}
			if len(places) != len(test.places) || places[len(places)-1] != test.places[len(places)-1] {
				t.Errorf("places %v, want %v", places, test.places)
			}
		})
	}
}
