package datasource_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/engine/plumbing/datasource"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

var start = time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)

// types are the record types of the tests.
const types = `
---
record_type: class
fields: {name: text, booked: number, paid: number, day: date, centre: record(centre), by: contact}
---
record_type: centre
fields: {name: text}
`

// asked compiles the data of a message.
func asked(t *testing.T, data string) []*definition.Data {
	t.Helper()
	text := "workflow: w\ntype: report\ntriggers:\n  - schedule: {every: 1d, at: \"07:00\", period: 1d}\naudience: {everyone: true}\nchannel: sms\n" +
		"message:\n  data:\n    " + strings.ReplaceAll(strings.TrimSpace(data), "\n", "\n    ") +
		"\n  sms: {text: x}\n---\nchannel: sms\nprovider: memory" + types
	bundle, problems := loader.Load([]definition.File{{Name: "a.yaml", Text: []byte(text)}}, loader.Options{})
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	return bundle.Set.Workflow("w").Trigger[0].Message.Data
}

type world struct {
	*testing.T
	*datasource.Reader
	store     *store.Store
	ws        store.Workspace
	documents *documents
}

func newWorld(t *testing.T, s *store.Store) world {
	t.Helper()
	ws, err := s.EnsureWorkspace(t.Context(), "default", make([]byte, 32), start)
	if err != nil {
		t.Fatal(err)
	}
	d := &documents{}
	return world{t, datasource.New(s, d), s, ws, d}
}

// put writes records.
func (w world) put(typ string, all map[string]map[string]any) {
	w.Helper()
	var refs []subject.RecordRef
	for id := range all {
		refs = append(refs, subject.RecordRef{Type: typ, ExtID: id})
	}
	err := w.store.Write(w.Context(), func(tx *store.Tx) error {
		known, err := tx.LockRecords(w.ws.ID, refs)
		if err != nil {
			return err
		}
		var rows []store.RecordRow
		for _, ref := range refs {
			row := known[ref]
			row.Type, row.ExtID, row.Props = ref.Type, ref.ExtID, all[ref.ExtID]
			row.Deleted = row.Props == nil
			rows = append(rows, row)
		}
		return tx.WriteRecords(w.ws.ID, start, store.RecordWrites{Records: rows})
	})
	if err != nil {
		w.Fatal(err)
	}
}

// read reads the data for a contact and an occasion.
func (w world) read(data []*definition.Data, occasion string, c subject.Contact, now time.Time) (map[string]any, error) {
	return w.Read(w.Context(), now, datasource.Query{
		Workspace: w.ws.ID, Data: data, Occasion: occasion, Contact: c.ID,
		Input: expr.Input{Now: now, Contact: plan.ContactFields(c), Period: map[string]any{"start": start}},
	})
}

// documents returns a document and counts its readers.
type documents struct {
	mu    sync.Mutex
	asked int
	err   error
	wait  chan struct{}
	list  []any // what a document holds besides
}

func (d *documents) Document(ctx context.Context, url string) (any, error) {
	d.mu.Lock()
	d.asked++
	asked, err, wait := d.asked, d.err, d.wait
	d.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return map[string]any{"url": url, "n": asked, "list": d.list}, err
}

// Shows: B46.
func TestRecords(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s)
		w.put("centre", map[string]map[string]any{"n": {"name": "North"}, "s": {"name": "South"}})
		w.put("class", map[string]map[string]any{
			"1": {"name": "Yoga", "booked": 3, "paid": 0.1, "centre": "n", "day": "2026-06-03", "by": "ann"},
			"2": {"name": "Chess", "booked": 4, "paid": 0.2, "centre": "s", "day": "2026-06-01", "by": "bob"},
			"3": {"name": "Yoga", "booked": 5, "centre": "s", "day": "2026-06-02", "by": "ann"},
			"4": {"name": nil, "booked": 1, "centre": "gone"},
			"5": {"name": "Gone", "booked": 100},
		})
		w.put("class", map[string]map[string]any{"5": nil})
		type row = map[string]any
		ann := subject.Contact{ID: 1, ExtID: "ann"}
		for i, tc := range []struct {
			name, data string
			want       any
		}{
			{"groups", "a: {records: class, group_by: record.name, sum: record.booked, count: true}", []any{
				row{"group": nil, "sum": int64(1), "count": int64(1)}, row{"group": "Chess", "sum": int64(4), "count": int64(1)}, row{"group": "Yoga", "sum": int64(8), "count": int64(2)},
			}},
			{"by another record", "a: {records: class, group_by: record.centre.name, count: true, order_by: count desc, limit: 2}", []any{
				row{"group": "South", "count": int64(2)}, row{"group": nil, "count": int64(1)},
			}},
			{"a sum of decimals", "a: {records: class, sum: record.paid}", row{"sum": 0.3}},
			{"of none", "a: {records: class, where: record.name == \"x\", sum: record.booked, count: true}", row{"sum": int64(0), "count": int64(0)}},
			{"of no type", "a: {records: centre, where: record.name == \"x\", group_by: record.name, count: true}", []any{}},
			{"theirs", "a: {records: class, where: record.by == contact.id, count: true}", row{"count": int64(2)}},
			{"of the period", "a: {records: class, where: record.updated_at > period.start, count: true}", row{"count": int64(0)}},
			{"ordered by a sum", "a: {records: class, group_by: record.day, sum: record.booked, order_by: sum desc, limit: 1}", []any{row{"group": "2026-06-02", "sum": int64(5)}}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				got, err := w.read(asked(t, tc.data), fmt.Sprint(i), ann, start)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got["a"]); diff != "" {
					t.Error(diff)
				}
			})
		}
		theirs := asked(t, "a: {records: class, where: record.by == contact.id, count: true}\nb: {records: class, count: true}")
		for id, want := range map[string]int64{"ann": 2, "bob": 1} {
			got, err := w.read(theirs, "each", subject.Contact{ID: subject.ContactID(want), ExtID: id}, start)
			if err != nil || got["a"].(row)["count"] != want || got["b"].(row)["count"] != int64(4) {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		}
		got, err := w.read(asked(t, "a: {records: class, where: record.day != null, order_by: record.day desc, limit: 2}"), "list", ann, start)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, one := range got["a"].([]any) {
			ids = append(ids, fmt.Sprint(one.(row)["id"], " ", one.(row)["name"]))
		}
		if diff := cmp.Diff([]string{"1 Yoga", "3 Yoga"}, ids); diff != "" {
			t.Error(diff)
		}
	})
}

// Data that cannot be read completely is reported by an error that names it, and no part of it is returned.
func TestWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s)
		many := map[string]map[string]any{}
		for i := range definition.MaxDataRows + 1 {
			many[fmt.Sprintf("%04d", i)] = map[string]any{"name": fmt.Sprintf("n%04d", i), "booked": 1}
		}
		w.put("class", many)
		w.put("big", map[string]map[string]any{"1": {"a": strings.Repeat("x", 60<<10)}, "2": {"a": "x", "odd": []any{1}}})
		for i, tc := range []struct{ data, want string }{
			{"a: {records: class}", "data.a: record class/"},
			{"a: {records: class}", "there are more than 1000 rows: a limit says how many are shown"},
			{"a: {records: class, group_by: record.name, count: true}", "data.a: there are more than 1000 rows: a limit says how many are shown"},
			{"a: {records: big, sum: record.a}", "data.a: record big/1: sum: must be a number, and is a text"},
			{"a: {records: big, group_by: record.odd, count: true}", "data.a: record big/2: group_by: a list or an object is no group"},
			{"a: {records: big, where: record.a > 3, count: true}", "data.a: record big/1: where could not be evaluated"},
		} {
			_, err := w.read(asked(t, tc.data), fmt.Sprint(i), subject.Contact{}, start)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", tc.data, err, tc.want)
			}
		}
		got, err := w.read(asked(t, "a: {records: class, order_by: record.name desc, limit: 3}"), "limit", subject.Contact{}, start)
		if err != nil {
			t.Fatal(err)
		}
		if rows := got["a"].([]any); len(rows) != 3 || rows[0].(map[string]any)["name"] != "n1000" {
			t.Errorf("%d rows: %v", len(rows), rows)
		}
	})
}

// All contacts of one occasion get the same data, which is read once for concurrent readers. After a minute it is read again; after an error it is
// read again at once.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	d := &documents{}
	w := world{T: t, Reader: datasource.New(nil, d), documents: d}
	data := asked(t, "d: {http: https://example.org/x}")
	w.documents.wait = make(chan struct{})
	var all sync.WaitGroup
	var same atomic.Int64
	for range 20 {
		all.Go(func() {
			got, err := w.read(data, "o", subject.Contact{ID: 1}, start)
			if err == nil && got["d"].(map[string]any)["n"] == 1 {
				same.Add(1)
			}
		})
	}
	close(w.documents.wait)
	all.Wait()
	n := func(occasion string, now time.Time) any {
		got, err := w.read(data, occasion, subject.Contact{ID: 2}, now)
		if err != nil {
			return err.Error()
		}
		return got["d"].(map[string]any)["n"]
	}
	w.documents.err = errors.New("away")
	got := []any{
		same.Load(), n("o", start.Add(59*time.Second)), n("other", start), n("other", start),
	}
	w.documents.err = nil
	got = append(got, n("other", start), n("o", start.Add(time.Minute)))
	if diff := cmp.Diff([]any{int64(20), 1, "data.d: away", "data.d: away", 4, 5}, got); diff != "" {
		t.Error(diff)
	}
	for i := range 100 { // other results need room in the cache
		n(fmt.Sprint(i), start.Add(time.Minute+time.Duration(i+1)*time.Millisecond))
	}
	if again := n("o", start.Add(time.Minute+time.Second)); again != 106 {
		t.Errorf("after a hundred others: %v", again)
	}
}

// The cache is bounded by the number of values, and not by their size as JSON: it keeps few large documents.
func TestLargeDocumentsAreForgottenSooner(t *testing.T) {
	t.Parallel()
	d := &documents{list: make([]any, 40_000)}
	w := world{T: t, Reader: datasource.New(nil, d), documents: d}
	data := asked(t, "d: {http: https://example.org/x}")
	got := []any{}
	for i, occasion := range []string{"a", "b", "c", "b", "c", "a"} {
		value, err := w.read(data, occasion, subject.Contact{ID: 1}, start.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, value["d"].(map[string]any)["n"])
	}
	if diff := cmp.Diff([]any{1, 2, 3, 2, 3, 4}, got); diff != "" {
		t.Error(diff)
	}
}
