package record_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

// bundle is an engine with helpers for records.
type bundle struct{ *enginetest.Bundle }

func each(t *testing.T, f func(t *testing.T, b bundle)) {
	t.Helper()
	storetest.All(t, func(t *testing.T, s *store.Store) {
		f(t, bundle{enginetest.Setup(t, s, "{channel: \"memory:default\", provider: memory}\n", nil)})
	})
}

func (b bundle) write(mode upsert.Mode, records ...string) []record.Result {
	b.Helper()
	items := make([]record.Item, len(records))
	for i, raw := range records {
		items[i] = record.Parse(json.RawMessage(raw), "", "")
	}
	results, err := b.Records().Write(b.Context(), b.Workspace, mode, items, "ann", b.Now(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return results
}

func outcomes(results []record.Result) string {
	var all []string
	for _, r := range results {
		text := string(r.Outcome)
		if r.Error != nil {
			text += " " + r.Error.Error()
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (b bundle) row(typ, id string) store.RecordRow {
	b.Helper()
	row, err := b.Store.Record(b.Context(), b.Workspace.ID, subject.RecordRef{Type: typ, ExtID: id})
	if err != nil {
		b.Fatal(err)
	}
	return row
}

func TestWrite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		kiosk := `{"type": "kiosk", "id": "123/a b%2F", "props": {"name": "Hall <3>", "battery_level": 15.0, "charging": false, "tags": ["x", null], "gone": null}}`
		if got := outcomes(b.write(upsert.Merge, kiosk, `{"type": "kiosk", "id": 456}`, kiosk, `{"type": "kiosk", "id": "456", "closed": true}`,
			`{"type": "kiosk", "id": "x", "prop": {}}`, `{"type": "hub", "id": "456"}`)); got !=
			"created, created, unchanged, changed, failed prop: unknown key, created" {
			t.Errorf("got %s", got)
		}
		want := store.RecordRow{
			Record: subject.Record{
				Type: "kiosk", ExtID: "123/a b%2F", Rev: 1, ModifiedBy: "ann", CreatedAt: b.Now(), UpdatedAt: b.Now(),
				Props: map[string]any{"name": "Hall <3>", "battery_level": json.Number("15.0"), "charging": false, "tags": []any{"x", nil}},
			},
			ChangedAt: b.Now(), EvaluateAt: b.Now(),
		}
		got := b.row("kiosk", want.ExtID)
		want.ID = got.ID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if row := b.row("kiosk", "456"); !row.Closed || row.Rev != 1 {
			t.Errorf("what was said twice: %+v", row)
		}

		b.Clock.Set(enginetest.Start.Add(time.Hour))
		if got := outcomes(b.write(upsert.Change, `{"type": "kiosk", "id": "123/a b%2F", "props": {"battery_level": 15.0, "gone": null}}`)); got != "unchanged" {
			t.Errorf("what says nothing new is %s", got)
		}
		if diff := cmp.Diff(want, b.row("kiosk", want.ExtID)); diff != "" {
			t.Errorf("unchanged (-want +got)\n%s", diff)
		}
		b.write(upsert.Change, `{"type": "kiosk", "id": "123/a b%2F", "props": {"charging": null, "battery_level": 80}}`)
		want.Rev, want.UpdatedAt = 2, b.Now()
		want.Props = map[string]any{"name": "Hall <3>", "battery_level": json.Number("80"), "tags": []any{"x", nil}}
		if diff := cmp.Diff(want, b.row("kiosk", want.ExtID)); diff != "" {
			t.Errorf("changed (-want +got)\n%s", diff)
		}
		b.write(upsert.Replace, `{"type": "kiosk", "id": "123/a b%2F", "props": {"mode": "night"}}`)
		want.Rev, want.Props = 3, map[string]any{"mode": "night"}
		if diff := cmp.Diff(want, b.row("kiosk", want.ExtID)); diff != "" {
			t.Errorf("replaced (-want +got)\n%s", diff)
		}
		for _, mode := range []upsert.Mode{upsert.Change, upsert.Delete} {
			_, err := b.Records().Write(t.Context(), b.Workspace, mode, []record.Item{{Type: "kiosk", ID: "none"}}, "ann", b.Now(), nil)
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s of none: %v", mode, err)
			}
		}
	})
}

// A record that is made again under its id is the same one: its row, its revisions and the state of its triggers stay.
// Shows: R10.
func TestDeleteAndMakeAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		b.write(upsert.Merge, `{"type": "kiosk", "id": "1", "props": {"a": 1}, "closed": true}`)
		first := b.row("kiosk", "1")
		if got := outcomes(b.write(upsert.Delete, `{"type": "kiosk", "id": "1"}`)); got != "deleted" {
			t.Errorf("got %s", got)
		}
		if _, err := b.Store.Record(t.Context(), b.Workspace.ID, first.Ref()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a deleted one is read: %v", err)
		}
		if rows, err := b.Store.Records(t.Context(), b.Workspace.ID, "kiosk", store.Page{}); err != nil || len(rows) > 0 {
			t.Errorf("a deleted one is listed: %v %v", rows, err)
		}
		if types, err := b.Store.RecordTypes(t.Context(), b.Workspace.ID); err != nil || len(types) > 0 {
			t.Errorf("its type is listed: %v %v", types, err)
		}
		kept, err := b.Store.RecordByID(t.Context(), b.Workspace.ID, first.ID)
		if err != nil || !kept.Deleted || len(kept.Props) > 0 || kept.Rev != 2 {
			t.Errorf("its row is %+v, %v", kept, err)
		}
		_, err = b.Records().Write(t.Context(), b.Workspace, upsert.Delete, []record.Item{{Type: "kiosk", ID: "1"}}, "ann", b.Now(), nil)
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		if got := outcomes(b.write(upsert.Merge, `{"type": "kiosk", "id": "1", "props": {"b": 2}}`)); got != "created" {
			t.Errorf("made again: %s", got)
		}
		again := b.row("kiosk", "1")
		if again.ID != first.ID || again.Rev != 3 || again.Closed || len(again.Props) != 1 || !again.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("made again it is %+v", again)
		}
	})
}

// Two writers of one record do not undo each other.
func TestWritersOfOneRecord(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		const writers, fields = 4, 5
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for f := range fields {
					b.write(upsert.Merge, fmt.Sprintf(`{"type": "kiosk", "id": "1", "props": {"w%d_%d": %d, "last": "%d_%d"}}`, w, f, f, w, f),
						fmt.Sprintf(`{"type": "kiosk", "id": "%d"}`, w+2))
				}
			})
		}
		group.Wait()
		if row := b.row("kiosk", "1"); len(row.Props) != writers*fields+1 || row.Rev != writers*fields {
			t.Errorf("%d fields and revision %d, want %d and %d", len(row.Props), row.Rev, writers*fields+1, writers*fields)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, record.MaxDepth-2) + `{}` + strings.Repeat(`}`, record.MaxDepth-2)
	for text, want := range map[string]string{
		`[]`:                                    "a record is a JSON object",
		`null`:                                  "a record is a JSON object",
		`{`:                                     "it is not valid JSON",
		`{} x`:                                  "there is more text after the JSON value",
		`{}`:                                    "type: the type of the record is missing",
		`{"type": "kiosk"}`:                     "id: the id of the record is missing",
		`{"type": "a b", "id": "1"}`:            `type: "a b" is not a name: letters, digits, - _ and . only`,
		`{"type": "once", "id": "1"}`:           `type: "once" is a word of the engine's own keys; take another name`,
		`{"type": "kiosk", "id": " "}`:          "id: is blank",
		`{"type": "kiosk", "id": true}`:         "id: is not a text",
		`{"type": "kiosk", "id": "a\u0007"}`:    "id: holds a control or an invalid character",
		`{"type": "kiosk", "id": "a\u0000"}`:    "id: holds the character U+0000",
		`{"type": "kiosk", "id": "."}`:          "id: cannot stand in a URL",
		`{"type": "kiosk", "id": ".."}`:         "id: cannot stand in a URL",
		`{"type": "kiosk", "id": "a\udc00"}`:    "id: holds half of a surrogate pair",
		`{"type": "kiosk", "id": "1", "id": 2}`: "id: duplicate key",
		`{"type": "kiosk", "id": "1", "x": 1}`:  "x: unknown key",
		`{"type": "kiosk", "id": "1", "closed": "yes"}`:                                                        "closed: is neither true nor false",
		`{"type": "kiosk", "id": "1", "props": []}`:                                                            "props: is not an object",
		`{"type": "kiosk", "id": "1", "props": {"a": {"b": 1, "b": 2}}}`:                                       "props.a.b: duplicate key",
		`{"type": "kiosk", "id": "1", "props": {"": 1}}`:                                                       "props: the name of a field is blank",
		`{"type": "kiosk", "id": "1", "props": {"a": "` + "\xff" + `"}}`:                                       "the text is not valid UTF-8",
		`{"type": "kiosk", "id": "1", "props": {"a": ` + deep + `}}`:                                           "it is nested deeper than 32 levels",
		`{"type": "kiosk", "id": "` + strings.Repeat("é", 129) + `"}`:                                          "id: is longer than 256 bytes",
		`{"type": "` + strings.Repeat("x", 101) + `", "id": "1"}`:                                              "type: the name is longer than 100 characters",
		`{"type": "kiosk", "id": 7, "props": {"a": 1e400}}`:                                                    "",
		`{"type": "kiosk", "id": "1", "props": ` + deep + `}`:                                                  "",
		`{"type": "kiosk", "id": "../%2e/ü?#", "props": {"x y.z": null}}`:                                      "",
		`{"type": "kiosk", "id": "1", "owner": {"contact": "a", "group": "b"}}`:                                "owner: is not one contact, group or place",
		`{"type": "kiosk", "id": "1", "owner": "ann"}`:                                                         "owner: is not one contact, group or place",
		`{"type": "kiosk", "id": "1", "owner": {"user": "ann"}}`:                                               "owner.user: is not a kind of owner",
		`{"type": "kiosk", "id": "1", "owner": {"contact": ""}}`:                                               "owner.contact: is blank",
		`{"type": "kiosk", "id": "1", "owner": {"group": "a b"}}`:                                              `owner.group: "a b" is not a name: letters, digits, - _ and . only`,
		`{"type": "kiosk", "id": "1", "parents": []}`:                                                          "parents: is not an object",
		`{"type": "kiosk", "id": "1", "parents": {"a b": null}}`:                                               `parents: "a b" cannot be the name of a parent`,
		`{"type": "kiosk", "id": "1", "parents": {"owner": null}}`:                                             `parents: "owner" is a name that every record has`,
		`{"type": "kiosk", "id": "1", "parents": {"a": {"type": "kiosk", "id": "1"}}}`:                         "parents.a: is the record itself",
		`{"type": "kiosk", "id": "1", "parents": {"a": {"type": "kiosk"}}}`:                                    "parents.a.id: the id of the parent is missing",
		`{"type": "kiosk", "id": "1", "parents": {"a": {"type": "k", "id": "2", "x": 1}}}`:                     "parents.a.x: unknown key",
		`{"type": "kiosk", "id": "1", "parents": {"a": 7}}`:                                                    "parents.a: is not a record",
		`{"type": "kiosk", "id": "1", "parents": {"a": [` + strings.Repeat(`"k/2",`, 10_000) + `"k/2"]}}`:      "parents: are more than 100",
		`{"type": "kiosk", "id": "1", "owner": null, "parents": {"a": "k/2", "b": ["k/3", "k/4"], "c": null}}`: "",
	} {
		item := record.Parse(json.RawMessage(text), "", "")
		got := ""
		if item.Err != nil {
			got = item.Err.Error()
		}
		if got != want {
			t.Errorf("%.80s: got %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{`{"id": "b"}`, `{"type": "b"}`} {
		if item := record.Parse(json.RawMessage(text), "a", "a"); item.Err == nil {
			t.Errorf("%s was taken for another one", text)
		}
	}
}

// A record that would become too large is refused, and stops no other one.
func TestLarge(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		half := strings.Repeat("x", record.MaxFields/2)
		if got := outcomes(b.write(upsert.Merge, `{"type": "t", "id": "1", "props": {"a": "`+half+`"}}`, `{"type": "t", "id": "1", "props": {"b": "`+half+`"}}`,
			`{"type": "t", "id": "1", "props": {"c": 1}}`)); got != "created, failed props: are larger than 64 KiB, changed" {
			t.Errorf("got %s", got)
		}
		many := make([]record.Item, record.MaxBatch+1)
		if _, err := b.Records().Write(t.Context(), b.Workspace, upsert.Merge, many, "ann", b.Now(), nil); err == nil {
			t.Error("a batch that is too long was taken")
		}
	})
}

// A value that does not fit its declared type is refused with the expected form, and never with the value.
func TestTyped(t *testing.T) {
	t.Parallel()
	typ := &expr.RecordType{Name: "kiosk", Declared: map[string]string{
		"t": "text", "n": "number", "b": "bool", "d": "date", "dt": "datetime", "tod": "time", "c": "contact", "p": "place",
		"r": "record(centre)", "l": "list", "o": "object", "battery_level": "number",
	}}
	for text, want := range map[string]string{
		`{"t": "", "n": -1.5e3, "b": false, "d": "2028-02-29", "dt": "2026-05-14T08:12:34.5+03:00", "tod": "23:59", "c": "ann", "p": "x", "r": "akl", "l": [], "o": {}}`: "",
		`{"dt": "2026-05-14T08:12"}`:            "",
		`{"dt": "9999-12-31T23:59:59Z"}`:        "", // absurd, but conditions decide that
		`{"batery_level": null, "n": null}`:     "",
		`{"batery_level": 1}`:                   "props.batery_level: the type kiosk has no such field (did you mean battery_level?)",
		`{"battery_level": "secret"}`:           "props.battery_level: is a text, and the type kiosk says number (write it without quotes, like 15 or 0.5)",
		`{"n": 1e400}`:                          "props.n: is a number, and the type kiosk says number (no larger than 1.8e308)",
		`{"n": true}`:                           "props.n: is true or false, and the type kiosk says number (write it without quotes, like 15 or 0.5)",
		`{"t": 5}`:                              "props.t: is a number, and the type kiosk says text (put it in quotes)",
		`{"b": "true"}`:                         "props.b: is a text, and the type kiosk says bool (write true or false, without quotes)",
		`{"d": "2026-02-29"}`:                   `props.d: is a text that names no day, and the type kiosk says date (write it like "2026-05-14")`,
		`{"d": "2026-05-14T08:12:34Z"}`:         `props.d: is a text that names no day, and the type kiosk says date (write it like "2026-05-14")`,
		`{"dt": "2026-05-14"}`:                  `props.dt: is a date, and the type kiosk says datetime (write it like "2026-05-14T08:12:34Z")`,
		`{"dt": 1747210354}`:                    `props.dt: is a number, and the type kiosk says datetime (write it like "2026-05-14T08:12:34Z")`,
		`{"tod": "25:00"}`:                      `props.tod: is a text that names no time of day, and the type kiosk says time (write it like "09:30")`,
		`{"c": ["ann"]}`:                        "props.c: is a list, and the type kiosk says contact (write its id in quotes)",
		`{"r": {"type": "centre", "id": "a"}}`:  "props.r: is an object, and the type kiosk says record(centre) (write its id in quotes)",
		`{"l": {}}`:                             "props.l: is an object, and the type kiosk says list (write [ … ])",
		`{"o": []}`:                             "props.o: is a list, and the type kiosk says object (write { … })",
		`{"something_else": 1, "b": "x"}`:       "props.b: is a text, and the type kiosk says bool (write true or false, without quotes)",
		`{"something_else": 1, "zz": 1, "n":2}`: "props.something_else: the type kiosk has no such field (the type kiosk has b, battery_level, c, d, dt, l, n, o, p, r, t, tod)",
	} {
		item := record.Parse(json.RawMessage(`{"type": "kiosk", "id": "1", "props": `+text+`}`), "", "")
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		got := ""
		if err := record.Fits(typ, item.Props); err != nil {
			got = err.Error() + " (" + err.Hint + ")"
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
	if err := record.Fits(nil, map[string]any{"x": 1}); err != nil {
		t.Errorf("an open one: %v", err)
	}
}

// Only texts in fields of the type contact are ids of contacts, and an empty one is none.
func TestWarnings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bundle) {
		b.Apply("{channel: \"memory:default\", provider: memory}\n---\nrecord_type: visit\nfields: {who: contact, guard: contact, team: record(visit), note: text}\n")
		texts := func(r record.Result) (texts []string) {
			for _, w := range r.Warnings {
				texts = append(texts, w.String())
			}
			return texts
		}
		const bob = "props.who: no contact has the id bob; make the contact, or correct the field"
		results := b.write(upsert.Merge,
			`{"type": "visit", "id": "1", "props": {"who": "bob", "guard": "", "team": "red", "note": "bob"}}`,
			`{"type": "visit", "id": "1", "props": {"note": "x"}}`,
			`{"type": "visit", "id": "1", "props": {"note": "x"}}`,
			`{"type": "visit", "id": "1", "props": {"note": 1}}`,
			`{"type": "visit", "id": "2", "props": {"guard": "`+strings.Repeat("é", 200)+`"}}`,
			`{"type": "open", "id": "1", "props": {"who": "bob"}}`,
			`{"type": "visit", "id": "1", "props": {"who": null}}`,
		)
		long := "props.guard: no contact has the id " + strings.Repeat("é", 128) + "…; make the contact, or correct the field"
		want := [][]string{{bob}, {bob}, {bob}, nil, {long}, nil, nil}
		for i, r := range results {
			if diff := cmp.Diff(want[i], texts(r)); diff != "" {
				t.Errorf("item %d, %s: %s", i, r.Outcome, diff)
			}
		}
		var kept []string
		once := &store.Idempotent[[]record.Result]{
			AnswerKey: store.AnswerKey{Key: "k", Request: "r"}, At: b.Now(),
			Answer: func(results []record.Result) (store.Answer, error) {
				kept = texts(results[0])
				return store.Answer{}, nil
			},
		}
		again := []record.Item{{Type: "visit", ID: "1", Props: map[string]any{"who": "bob"}}}
		if _, err := b.Records().Write(t.Context(), b.Workspace, upsert.Replace, again, "ann", b.Now(), once); err != nil || !cmp.Equal(kept, []string{bob}) {
			t.Errorf("the answer that is kept for the same request: %v, %v", kept, err)
		}
		if r := b.write(upsert.Delete, `{"type": "visit", "id": "2"}`)[0]; len(r.Warnings) > 0 {
			t.Errorf("taken away: %v", r.Warnings)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"type": "kiosk", "id": "a", "props": {"x": [1, null, {"y": "2026-05-14"}]}, "closed": true}`)
	typ := &expr.RecordType{Name: "t", Declared: map[string]string{"x": "datetime", "y": "record(t)", "z": "time"}}
	f.Fuzz(func(t *testing.T, text string) {
		item := record.Parse(json.RawMessage(text), "", "")
		if item.Err != nil {
			if item.Err.Message == "" || item.Err.Reason != reason.InvalidRecord {
				t.Fatalf("refused without words: %+v", item.Err)
			}
			return
		}
		if !json.Valid([]byte(text)) || item.Type == "" || item.ID == "" || len(item.ID) > 256 {
			t.Fatalf("taken: %q", text)
		}
		if err := record.Fits(typ, item.Props); err != nil && err.Message == "" {
			t.Fatalf("refused without words: %+v", err)
		}
		kept, err := store.RecordJSON(item.Props)
		if err != nil {
			t.Fatal(err)
		}
		again := record.Parse(json.RawMessage(`{"type": "t", "id": "1", "props": `+kept+`}`), "", "")
		if diff := cmp.Diff(item.Props, again.Props); item.Props != nil && (again.Err != nil || diff != "") {
			t.Fatalf("%v\n%s", again.Err, diff)
		}
	})
}
