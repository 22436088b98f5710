package record

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// What the items of one call do to records that exist, by the mode of the call: the results, and the records that are written.
func TestWriting(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	const refused = "failed props: cannot be changed: what is stored of this record cannot be read"
	stored := map[subject.RecordRef]store.RecordRow{}
	for id, change := range map[string]func(*store.RecordRow){
		"good": func(*store.RecordRow) {}, "gone": func(r *store.RecordRow) { r.Deleted, r.Props = true, map[string]any{} },
		"bad": func(r *store.RecordRow) { r.Props, r.Unreadable = nil, errors.New("cut off") },
	} {
		row := store.RecordRow{Record: subject.Record{
			ID: 7, Type: "kiosk", ExtID: id, Rev: 3, CreatedAt: at.Add(-time.Hour), ModifiedBy: "ben", Props: map[string]any{"level": json.Number("1"), "name": "a"},
		}}
		change(&row)
		stored[row.Ref()] = row
	}
	for _, test := range []struct {
		name    string
		mode    upsert.Mode
		items   []string // id and props
		want    []string
		written []string // id and props
	}{
		{"merged", upsert.Merge, []string{`good {"level": 2}`, `new {"level": 1}`}, []string{"changed", "created"}, []string{`good {"level":2,"name":"a"}`, `new {"level":1}`}},
		{"replaced", upsert.Replace, []string{`good {"level": 2}`}, []string{"changed"}, []string{`good {"level":2}`}},
		{"a field is removed", upsert.Merge, []string{`good {"name": null}`}, []string{"changed"}, []string{`good {"level":1}`}},
		{"as it is", upsert.Merge, []string{`good {"level": 1}`}, []string{"unchanged"}, nil},
		{"one item undoes another", upsert.Merge, []string{`good {"level": 2}`, `good {"level": 1}`}, []string{"changed", "changed"}, nil},
		{"deleted", upsert.Delete, []string{`good {}`}, []string{"deleted"}, []string{`good {} deleted`}},
		{"made again", upsert.Merge, []string{`gone {"level": 2}`}, []string{"created"}, []string{`gone {"level":2}`}},
		{"change of what is missing", upsert.Change, []string{`good {"level": 2}`, `new {}`}, nil, nil},
		{"deletion of what is deleted", upsert.Delete, []string{`gone {}`}, nil, nil},
		// The rest of a record that cannot be read is unknown. The other records of the call are written.
		{"unreadable, in part", upsert.Merge, []string{`bad {"level": 2}`, `good {"level": 2}`}, []string{refused, "changed"}, []string{`good {"level":2,"name":"a"}`}},
		{"unreadable, whole", upsert.Replace, []string{`bad {"level": 1, "name": "a"}`}, []string{"changed"}, []string{`bad {"level":1,"name":"a"}`}},
		{"unreadable, deleted", upsert.Delete, []string{`bad {}`}, []string{"deleted"}, []string{`bad {} deleted`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var items []Item
			for _, text := range test.items {
				id, props, _ := strings.Cut(text, " ")
				items = append(items, Parse(json.RawMessage(`{"type": "kiosk", "id": "`+id+`", "props": `+props+`}`), "", ""))
			}
			w := &writing{&definition.Set{}, test.mode, "ann", at, stored, nil}
			results, changed, err := upsert.Apply(w, test.mode, stored, items)
			if test.want == nil {
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("error %v, want not found", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got, written []string
			for _, r := range results {
				what := string(r.Outcome)
				if r.Error != nil {
					what += " " + r.Error.Error()
				} else if rev := stored[r.Row.Ref()].Rev; r.Outcome != upsert.Unchanged && (r.Row.Rev != rev+1 || r.Row.ModifiedBy != "ann" || !r.Row.UpdatedAt.Equal(at)) {
					t.Errorf("after the call it is %+v", r.Row)
				}
				got = append(got, what)
			}
			writes := w.writes(changed).Records
			for _, r := range writes {
				text, err := store.RecordJSON(r.Props)
				if err != nil {
					t.Fatal(err)
				}
				if r.Deleted {
					text += " deleted"
				}
				if r.Rev != stored[r.Ref()].Rev {
					t.Errorf("%s is written over revision %d", r.ExtID, r.Rev)
				}
				written = append(written, r.ExtID+" "+text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("results (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(test.written, written); diff != "" {
				t.Errorf("written (-want +got)\n%s", diff)
			}
		})
	}
}
