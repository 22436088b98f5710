package api

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What passes the strict reading means the same to every reader: reading and writing it again changes nothing.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`{"key":"x"}`, `{"key":"x","key":"y"}`, `{"key":1}{}`, `{"a":[1,{"b":null}]}`, `"\u0000"`, "\xff", ``, `[`, `{"a":{"a":1}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if unmarshal(data, &value) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("took %q", data)
		}
		again, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := unmarshal(again, &value); err != nil {
			t.Errorf("%q became %q: %v", data, again, err)
		}
		if bytes.Contains(again, []byte(`\u0000`)) && !bytes.Contains(again, []byte(`\\u0000`)) {
			t.Errorf("took U+0000: %q", data)
		}
	})
}

// A body falls apart into events that hold every byte of it between the commas, or is refused with a problem.
func FuzzSplitEvents(f *testing.F) {
	for _, text := range []string{`{"events":[{"kind":"x"},1]}`, `{"kind":"x"}`, `{"events":{}}`, `{"events":[],"x":1}`, `[]`, `{}`, `{"Events":[]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		events, _, err := splitEvents(data)
		if err != nil {
			return
		}
		var envelope map[string]json.RawMessage
		if json.Unmarshal(data, &envelope) != nil {
			t.Fatalf("took %q, which is no object", data)
		}
		if len(envelope) != 1 || envelope["events"] == nil {
			if len(events) != 1 || !bytes.Equal(events[0], data) {
				t.Errorf("%q was taken apart", data)
			}
			return
		}
		var want []json.RawMessage
		if err := json.Unmarshal(envelope["events"], &want); err != nil || len(want) != len(events) {
			t.Fatalf("%q: got %d events, want %d", data, len(events), len(want))
		}
		for i := range want {
			if !bytes.Equal(want[i], events[i]) {
				t.Errorf("event %d is %q, want %q", i, events[i], want[i])
			}
		}
	})
}
