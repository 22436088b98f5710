package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Rows of files are read as imports read them, and each has the instant that it holds.
func TestReadRows(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		load       loadAction
		file, text string
		want       string
	}{
		"events": {
			loadAction{as: loadEvents},
			"f.csv", "kind,occurred_at,payload.n,recipient.address,note\na,2026-06-01 10:00,1,x,hello\nb,,,,\n",
			`2 10:00 {"kind":"a","occurred_at":"2026-06-01T10:00:00+02:00","payload":{"n":"1","note":"hello"},"recipient":{"address":"x"}} | 3 - {"kind":"b"}`,
		},
		"events of lines": {
			loadAction{as: loadEvents},
			"f.ndjson", "{\"kind\":\"a\",\"occurred_at\":\"2026-06-01T08:00:00Z\",\"payload\":{\"n\":1}}\n\n  {\"kind\":\"b\"}",
			`1 10:00 {"kind":"a","occurred_at":"2026-06-01T08:00:00Z","payload":{"n":1}} | 3 - {"kind":"b"}`,
		},
		"an event has no at": {loadAction{as: loadEvents}, "f.csv", "kind,at\na,noon\n", `2 - {"kind":"a","payload":{"at":"noon"}}`},
		"records": {
			loadAction{as: loadRecords, typ: "place"},
			"f.csv", "id,type,parent,at\nmill,clinic,valley,2026-06-01 10:00\nvalley,,,\n",
			`2 10:00 {"id":"mill","props":{"parent":"valley","type":"clinic"},"type":"place"} | 3 - {"id":"valley","type":"place"}`,
		},
		"records with relations": {
			loadAction{as: loadRecords},
			"f.csv", "id,type,owner,parents.home,closed\nc1,child,contact/ann,home/h1,no\n",
			`2 - {"closed":false,"id":"c1","owner":"contact/ann","parents":{"home":"home/h1"},"type":"child"}`,
		},
		"records with a type of a field": {
			loadAction{as: loadRecords, typ: "kiosk", maps: []string{"id=serial", "props.battery:number=battery", "props.at=seen"}},
			"f.csv", "serial,battery,seen,at\n1,15,noon,2026-06-01T08:00:00Z\n",
			`2 10:00 {"id":"1","props":{"at":"noon","battery":15},"type":"kiosk"}`,
		},
		"records of lines": {
			loadAction{as: loadRecords},
			"f.ndjson", `{"id":"1","type":"kiosk","at":"2026-06-01 10:00","props":{"battery":15,"at":"noon"}}`,
			`1 10:00 {"id":"1","props":{"at":"noon","battery":15},"type":"kiosk"}`,
		},
		"contacts": {
			loadAction{as: loadContacts},
			"f.csv", "id,sms,place,cadence.max_per_day,age\nann,+4930000001,mill,3,40\n",
			`2 - {"addresses":{"sms":"+4930000001"},"attributes":{"age":"40"},"cadence":{"max_per_day":3},"id":"ann","place":"mill"}`,
		},

		"a bad line":            {loadAction{as: loadEvents}, "f.ndjson", "{}\n{", "line 2: is not valid JSON: each line is one JSON object"},
		"a row that is short":   {loadAction{as: loadContacts}, "f.csv", "id,name\na\n", "line 2: the row has 1 cells and the head 2: put a cell that holds the delimiter into quotes"},
		"an instant that is no": {loadAction{as: loadContacts}, "f.csv", "id,at\nann,noon\n", "line 2: at is not an instant; write it like 2026-05-14T08:12:34+03:00, or 2026-05-14 08:12 with --timezone"},
		"a number as instant":   {loadAction{as: loadContacts}, "f.ndjson", `{"id":"a","at":5}`, "line 1: at is not an instant; write it like 2026-05-14T08:12:34+03:00, or 2026-05-14 08:12 with --timezone"},
		"a limit that is none":  {loadAction{as: loadContacts}, "f.csv", "id,cadence.max_per_day\nann,many\n", "line 2: cadence.max_per_day: is not a number: write it like 1234.5; digits that are no number, such as 007, are a text"},
		"no such column":        {loadAction{as: loadContacts, maps: []string{"id=serial"}}, "f.csv", "id\nann\n", `the file has no column "serial"; the columns are id`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows, err := test.load.read(test.file, []byte(test.text), berlin)
			var all []string
			for _, r := range rows {
				at := "-"
				if !r.at.IsZero() {
					at = r.at.In(berlin).Format("15:04")
				}
				all = append(all, fmt.Sprintf("%d %s %s", r.line, at, r.object))
			}
			got := strings.Join(all, " | ")
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// A row that is refused is a difference, which names its line; so is the first row of those that come while the engine is stopped.
func TestRefusedRows(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"contacts.csv": "id,place\nann,mill\nbob,mill\n,mill\n",
		"records.csv":  "id,owner\n1,contact/ann\n2,anybody\n",
		"events.csv":   "id\n1\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := `scenario: Rows
start: 2026-06-01 09:00
define:
  - channel: sms
    provider: memory
steps:
  - at: "10:00"
    do:
      - {load: contacts.csv, as: contacts}
      - {load: records.csv, as: records, type: visit}
      - {load: events.csv, as: events}
  - at: "11:00"
    do:
      - engine: stop
      - {load: contacts.csv, as: contacts}
`
	s, problems := Parse(filepath.Join(folder, "s.yaml"), []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r, err := Run(t.Context(), s[0], Options{Providers: providers()})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	printer{w: &b, all: true}.failure("s.yaml", r)
	for _, want := range []string{"line 4 of contacts.csv", "line 3 of records.csv", "line 2 of events.csv", "line 2 of contacts.csv", "the engine is stopped"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nothing is said of %s in\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "line 3 of contacts.csv") || r.Held() {
		t.Errorf("a row that was taken is named, or it held:\n%s", &b)
	}
}
