package rowreader_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/rowreader"
)

// events is the shape that most tests map into.
func events() rowreader.Shape {
	return rowreader.Shape{
		Noun: "an event", Fields: []string{"id", "kind", "occurred_at", "recipient.address", "recipient.locale"},
		Types: map[string]rowreader.Type{"occurred_at": rowreader.Instant}, Groups: []string{"payload"}, Rest: "payload",
		Short: map[string]string{"phone": "recipient.address"},
	}
}

// row is what a test looks at of a row.
type row struct {
	Line  int
	Cells string
	Fault string
}

// read reads a whole file, and once more from each position on, which must give the same.
func read(t *testing.T, text string, o rowreader.Options) (rows []row, end string) {
	t.Helper()
	r, err := rowreader.New(strings.NewReader(text), o)
	if err != nil {
		return nil, err.Error()
	}
	head := r.Head()
	at := []rowreader.Position{r.Position()}
	all := func(r *rowreader.Reader, note bool) (rows []row, end string) {
		for {
			one, err := r.Next()
			if errors.Is(err, io.EOF) {
				return rows, ""
			}
			if err != nil {
				return rows, err.Error()
			}
			got := row{Line: one.Line}
			for i, c := range one.Cells {
				got.Cells += []string{"", "|"}[min(i, 1)] + c.Column + "=" + c.Text
			}
			if one.Fault != nil {
				got.Fault = one.Fault.Message
				if one.Fault.Line != one.Line {
					t.Errorf("the fault of line %d says line %d", one.Line, one.Fault.Line)
				}
			}
			rows = append(rows, got)
			if note {
				at = append(at, r.Position())
			}
		}
	}
	rows, end = all(r, true)
	for i, from := range at {
		again, stop := all(rowreader.Resume(strings.NewReader(text[from.Offset:]), o, head, from), false)
		if diff := cmp.Diff(rows[i:], again, cmp.Transformer("", func(r []row) []row { return append([]row{}, r...) })); diff != "" || stop != end {
			t.Errorf("from row %d on (-whole +resumed)\n%s\nends %q and %q", i, diff, end, stop)
		}
	}
	return rows, end
}

// Shows: C53.
func TestCSV(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		delimiter  rune
		want       []row
		end        string
	}{
		{"plain", "a,b\n1,2\n3,4\n", 0, []row{{2, "a=1|b=2", ""}, {3, "a=3|b=4", ""}}, ""},
		{"no line end at the end", "a\n1", 0, []row{{2, "a=1", ""}}, ""},
		{"mark and CRLF", "\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n", 0, []row{{2, "a=1|b=2", ""}, {4, "a=3|b=4", ""}}, ""},
		{"quotes over lines", "a,b\n\"x \"\"y\"\"\",\"one\ntwo\"\nz,1\n", 0, []row{{2, `a=x "y"|b=` + "one\ntwo", ""}, {4, "a=z|b=1", ""}}, ""},
		{"semicolons", "a;b\n1,5;2\n", ';', []row{{2, "a=1,5|b=2", ""}}, ""},
		{"rows of nothing", "a,b\n,\n , \n1,\n", 0, []row{{4, "a=1|b=", ""}}, ""},
		{"too few and too many cells", "a,b\n1\n1,2,3\n4,5\n", 0, []row{
			{2, "a=1", "the row has 1 cells and the head 2"}, {3, "a=1|b=2", "the row has 3 cells and the head 2"}, {4, "a=4|b=5", ""},
		}, ""},
		{"a bare quote stops one row", "a\nx\"y\n1\n", 0, []row{{2, "", "a quote stands where none may be"}, {3, "a=1", ""}}, ""},
		{"text behind a quote", "a\n\"x\"y\n1\n", 0, []row{{2, "", "a quoted cell is not closed, or goes on behind its closing quote"}, {3, "a=1", ""}}, ""},
		{"not UTF-8", "a\nx\xff\n1\n", 0, []row{{2, "a=x\uFFFD", "is not valid UTF-8"}, {3, "a=1", ""}}, ""},
		{"names with blanks", " a , b\n1,2\n", 0, []row{{2, "a=1|b=2", ""}}, ""},
		{"nothing", "", 0, nil, "line 1: the file is empty"},
		{"only a head", "a\n", 0, nil, ""},
		{"a name twice", "a,a\n", 0, nil, "line 1: a: two columns have this name"},
		{"no name", "a,\n", 0, nil, "line 1: a column has no name"},
		{"another delimiter", "a;b\n", 0, nil, "line 1: there is only one column"},
		{"UTF-16", "\xff\xfea\x00", 0, nil, "line 1: the file is UTF-16"},
		{"a quote that is never closed", "a\n1\n\"x" + strings.Repeat("y,\n", rowreader.MaxRow), 0, []row{{2, "a=1", ""}}, "line 3: a row is longer than 256 KiB"},
		{"a row without end", "a\n1\n" + strings.Repeat("y", 2*rowreader.MaxRow), 0, []row{{2, "a=1", ""}}, "line 3: a row is longer than 256 KiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, end := read(t, test.text, rowreader.Options{Format: rowreader.CSV, Delimiter: test.delimiter})
			if diff := cmp.Diff(test.want, got); diff != "" || end != test.end {
				t.Errorf("(-want +got)\n%s\nends %q, want %q", diff, end, test.end)
			}
		})
	}
}

// Shows: C53.
func TestNDJSON(t *testing.T) {
	t.Parallel()
	long := `{"a": "` + strings.Repeat("x", rowreader.MaxRow) + `"}`
	tests := []struct {
		name, text string
		want       []row
	}{
		{"plain", `{"a": 1, "b": "x"}` + "\n" + `{"a": null}`, []row{{1, `a=1|b="x"`, ""}, {2, "a=null", ""}}},
		{"mark, CRLF, blank lines", "\xef\xbb\xbf{\"a\": 1}\r\n\r\n  \n{\"a\": 2}\r\n", []row{{1, "a=1", ""}, {4, "a=2", ""}}},
		{"objects with members", `{"recipient": {"address": "x", "locale": "en"}, "payload": {"n": {"m": 1.50}}, "other": {"a": 1}}`, []row{
			{1, `recipient.address="x"|recipient.locale="en"|payload.n={"m": 1.50}|other={"a": 1}`, ""},
		}},
		{"what is no object stops one row", "[1]\n1\n{\"a\":1}x\n{\"a\"\n{\"a\": 2}\n", []row{
			{1, "", "is not a JSON object"}, {2, "", "is not a JSON object"}, {3, "", "is not valid JSON"}, {4, "", "is not valid JSON"}, {5, "a=2", ""},
		}},
		{"a key twice", `{"a": 1, "a": 2}` + "\n" + `{"payload": {"x": 1, "x": 2}}`, []row{{1, "", "is listed twice"}, {2, "", "is listed twice"}}},
		{"a long line", long + "\n{\"a\": 2}\n" + long, []row{{1, "", "the row is longer than 256 KiB"}, {2, "a=2", ""}, {3, "", "the row is longer than 256 KiB"}}},
		{"not UTF-8", "{\"a\": \"\xff\"}\n", []row{{1, "", "is not valid UTF-8"}}},
		{"nothing", "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, end := read(t, test.text, rowreader.Options{Format: rowreader.NDJSON, Objects: events().Objects()})
			if diff := cmp.Diff(test.want, got); diff != "" || end != "" {
				t.Errorf("(-want +got)\n%s\nends %q", diff, end)
			}
		})
	}
}

// object maps the first row of a file.
func object(t *testing.T, text string, format rowreader.Format, rules, skip []string, constants map[string]string) (string, error) {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	m, err := rowreader.NewMapping(events(), rules, skip, constants, berlin)
	if err != nil {
		return "", err
	}
	r, err := rowreader.New(strings.NewReader(text), rowreader.Options{Format: format, Objects: events().Objects()})
	if err != nil {
		t.Fatal(err)
	}
	if head := r.Head(); head != nil {
		if err := m.Check(head); err != nil {
			return "", err
		}
	}
	row, err := r.Next()
	if err != nil || row.Fault != nil {
		t.Fatal(err, row.Fault)
	}
	made, fault := m.Object(row)
	if fault != nil {
		return "", fault
	}
	raw, err := json.Marshal(made)
	return string(raw), err
}

// Shows: C53.
func TestMapping(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text        string
		format            rowreader.Format
		rules, skip       []string
		constants         map[string]string
		want, wantMistake string
	}{
		{
			name: "fields by name, the rest below", text: "id,kind,recipient.address,payload.a,b,c.d\n1,k,x,2,3,4\n",
			want: `{"id":"1","kind":"k","payload":{"a":"2","b":"3","c.d":"4"},"recipient":{"address":"x"}}`,
		},
		{name: "a short name", text: "phone\n1\n", want: `{"recipient":{"address":"1"}}`},
		{
			name: "rules", text: "tel,full name,n\n1,Ada,2\n", rules: []string{"recipient.address=tel", "payload.name=full name", "payload.again=full name"},
			want: `{"payload":{"again":"Ada","n":"2","name":"Ada"},"recipient":{"address":"1"}}`,
		},
		{
			name: "types", text: "n,b,d,t,x\n-1.50,Yes,2026-05-14,2026-05-14T08:12:34.5+03:00,007\n",
			rules: []string{"payload.n:number=n", "payload.b:bool=b", "payload.d:date=d", "payload.t:datetime=t", "payload.u:time=t", "payload.x:text=x"},
			want:  `{"payload":{"b":true,"d":"2026-05-14","n":-1.50,"t":"2026-05-14T08:12:34.5+03:00","u":"2026-05-14T08:12:34.5+03:00","x":"007"}}`,
		},
		{name: "empty is left out", text: "occurred_at,n,x\n,,y\n", rules: []string{"payload.n:number=n"}, want: `{"payload":{"x":"y"}}`},
		{name: "a local time", text: "occurred_at\n2026-07-01 08:30\n", want: `{"occurred_at":"2026-07-01T08:30:00+02:00"}`},
		{name: "a local time that does not exist", text: "occurred_at\n2026-03-29 02:30\n", want: `{"occurred_at":"2026-03-29T03:30:00+02:00"}`},
		{name: "a day", text: "occurred_at\n2026-07-01\n", want: `{"occurred_at":"2026-07-01T00:00:00+02:00"}`},
		{name: "one field for all rows", text: "kind,a\nx,1\n", constants: map[string]string{"kind": "k"}, want: `{"kind":"k","payload":{"a":"1","kind":"x"}}`},
		{name: "skipped", text: "a,b\n1,2\n", skip: []string{"b"}, want: `{"payload":{"a":"1"}}`},
		{name: "a report read again", text: "a,rejected_line,rejected_reason\n1,7,invalid_row\n", want: `{"payload":{"a":"1"}}`},
		{
			name: "JSON keeps its types", format: rowreader.NDJSON, text: `{"a": 1.50, "b": [true], "payload": {"c": {"d": null}}, "recipient": {"address": "x"}, "n": "12", "z": null}`,
			rules: []string{"payload.n:number=n"},
			want:  `{"payload":{"a":1.50,"b":[true],"c":{"d":null},"n":12},"recipient":{"address":"x"}}`,
		},
		{name: "a number as a text", format: rowreader.NDJSON, text: `{"id": 12, "kind": true}`, want: `{"id":"12","kind":"true"}`},

		{name: "not a number", text: "n\n007\n", rules: []string{"payload.n:number=n"}, wantMistake: "line 2: payload.n: is not a number"},
		{name: "words of JSON are no numbers", text: "n\ntrue\n", rules: []string{"payload.n:number=n"}, wantMistake: "line 2: payload.n: is not a number"},
		{name: "not a bool", text: "n\nmaybe\n", rules: []string{"payload.n:bool=n"}, wantMistake: "line 2: payload.n: is neither true nor false"},
		{name: "not a date", text: "n\n2026-02-30\n", rules: []string{"payload.n:date=n"}, wantMistake: "line 2: payload.n: is not a date"},
		{name: "not an instant", text: "occurred_at\n14.5.2026\n", wantMistake: "line 2: occurred_at: is not an instant"},
		{name: "an object in a field", format: rowreader.NDJSON, text: `{"id": {"a": 1}}`, wantMistake: "line 1: id: is not a single value"},
		{name: "two into one, found in the row", format: rowreader.NDJSON, text: `{"payload": {"a": 1}, "a": 2}`, wantMistake: "line 1: payload.a: two columns go into this field"},
		{name: "two into one, in the head", text: "phone,tel\n1,2\n", rules: []string{"recipient.address=tel"}, wantMistake: "two columns go into recipient.address: tel and phone; leave one out with --skip"},
		{name: "two rules for one", text: "a,b\n1,2\n", rules: []string{"id=a", "id=b"}, wantMistake: "two columns go into id: a and b"},
		{name: "a rule for what is given", text: "a\n1\n", rules: []string{"kind=a"}, constants: map[string]string{"kind": "k"}, wantMistake: "kind is given for all rows already"},
		{name: "no rule", text: "a\n1\n", rules: []string{"a"}, wantMistake: `"a" is not a rule; write FIELD=COLUMN, such as id=number`},
		{name: "no such field", text: "a\n1\n", rules: []string{"recipient.adress=a"}, wantMistake: `an event has no field "recipient.adress"; did you mean recipient.address?`},
		{name: "a field of one's own", text: "a\n1\n", rules: []string{"age:number=a"}, wantMistake: `an event has no field "age"; there are id, kind, occurred_at, recipient.address, recipient.locale, payload.NAME; did you mean payload.age?`},
		{name: "no such type", text: "a\n1\n", rules: []string{"payload.a:int=a"}, wantMistake: `"int" is not a type; there are text, number, bool, date, datetime`},
		{name: "a type of its own", text: "a\n1\n", rules: []string{"id:number=a"}, wantMistake: "id is always read as text; leave :number out"},
		{name: "no such column", text: "phone number\n1\n", rules: []string{"id=phone numbr"}, wantMistake: `the file has no column "phone numbr"; did you mean phone number?`},
		{name: "nothing to skip", text: "a\n1\n", skip: []string{"zz"}, wantMistake: `the file has no column "zz"; the columns are a`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.format == "" {
				test.format = rowreader.CSV
			}
			got, err := object(t, test.text, test.format, test.rules, test.skip, test.constants)
			mistake := ""
			if err != nil {
				mistake = err.Error()
			}
			if got != test.want || mistake != test.wantMistake {
				t.Errorf("got  %s\n     %s\nwant %s\n     %s", got, mistake, test.want, test.wantMistake)
			}
		})
	}
}

// The same file read twice gives the same identities, longer by a row too; equal rows are different ones.
func TestIdentity(t *testing.T) {
	t.Parallel()
	of := func(text string) (all [][32]byte) {
		r, err := rowreader.New(strings.NewReader(text), rowreader.Options{Format: rowreader.CSV})
		for err == nil {
			var row rowreader.Row
			if row, err = r.Next(); err == nil {
				all = append(all, row.Identity())
			}
		}
		return all
	}
	first, longer, other := of("a,b\n1,23\n1,23\n"), of("a,b\n1,23\n1,23\n4,5\n"), of("a,b\n12,3\n1,23\n")
	if len(first) != 2 || first[0] == first[1] || first[0] != longer[0] || first[1] != longer[1] || first[0] == other[0] || first[1] != other[1] {
		t.Errorf("%x\n%x\n%x", first, longer, other)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add("a,b\n1,\"2\n3\"\nx\"y\n\n4,5", ",")
	f.Add("\xef\xbb\xbfa;b\r\n1;2\r\n", ";")
	f.Add("a\n\"\"\"\n1\n", "\t")
	f.Fuzz(func(t *testing.T, text, delimiter string) {
		o := rowreader.Options{Format: rowreader.CSV, Delimiter: ','}
		if strings.ContainsAny(delimiter, ";\t|") {
			o.Delimiter = rune(delimiter[strings.IndexAny(delimiter, ";\t|")])
		}
		ascending(t, text, o)
	})
}

func FuzzNDJSON(f *testing.F) {
	f.Add("{\"a\": 1}\n\n{\"recipient\": {\"a\": {}}}\n[")
	f.Fuzz(func(t *testing.T, text string) {
		ascending(t, text, rowreader.Options{Format: rowreader.NDJSON, Objects: events().Objects()})
	})
}

// ascending demands what holds for every file: it is read to its end, lines ascend and exist, a position is between two
// rows, and mapping a row gives JSON or says why not.
func ascending(t *testing.T, text string, o rowreader.Options) {
	lines := strings.Count(text, "\n") + 1
	rows, _ := read(t, text, o)
	last := 0
	for _, r := range rows {
		if r.Line <= last || r.Line > lines {
			t.Fatalf("line %d behind %d of %d", r.Line, last, lines)
		}
		last = r.Line
	}
	m, err := rowreader.NewMapping(events(), []string{"payload.n:number=a"}, nil, nil, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rowreader.New(strings.NewReader(text), o)
	for err == nil {
		var one rowreader.Row
		if one, err = r.Next(); err != nil || one.Fault != nil {
			continue
		}
		made, fault := m.Object(one)
		if fault != nil {
			if fault.Message == "" || fault.Line != one.Line {
				t.Fatalf("a fault without words or line: %+v", fault)
			}
			continue
		}
		if _, err := json.Marshal(made); err != nil {
			t.Fatalf("line %d gives no JSON: %v", one.Line, err)
		}
	}
	var fault *rowreader.Fault
	if !errors.Is(err, io.EOF) && !errors.As(err, &fault) {
		t.Fatal(err)
	}
}
