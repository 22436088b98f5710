package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/reason"
)

// A record is quiet once nobody has written it for that long; of one that was never written again its creation counts, which updated_at is
// then. What decided is explained by the field with its value.
func TestQuiet(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	written := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	type world = map[string]any
	related := func(fields map[string]any) world {
		return world{"updated_at": written, "mother": Related{ID: "m1", Fields: fields}}
	}
	for name, tt := range map[string]struct {
		src    string
		record world
		now    time.Time
		why    reason.Reason
		field  string
		next   time.Time
	}{
		"before":                     {"quiet(record, days(30))", world{"updated_at": written}, written.AddDate(0, 0, 30).Add(-1000), reason.ConditionFalse, "record.updated_at", written.AddDate(0, 0, 30)},
		"at that instant":            {"quiet(record, days(30))", world{"updated_at": written}, written.AddDate(0, 0, 30), "", "record.updated_at", time.Time{}},
		"long after":                 {"quiet(record, days(30))", world{"updated_at": written}, written.AddDate(2, 0, 0), "", "record.updated_at", time.Time{}},
		"written later than now":     {"quiet(record, hours(1))", world{"updated_at": written}, written.Add(-time.Hour), reason.ConditionFalse, "record.updated_at", written.Add(time.Hour)},
		"not quiet":                  {"!quiet(record, hours(1))", world{"updated_at": written}, written, "", "record.updated_at", written.Add(time.Hour)},
		"one alternative":            {"record.n == 1 || quiet(record, hours(1))", world{"n": num("1"), "updated_at": written}, written, "", "record.n", time.Time{}},
		"a related record":           {"quiet(record.mother, hours(1))", related(world{"updated_at": written.Add(time.Hour)}), written.Add(2 * time.Hour), "", "record.mother.updated_at", time.Time{}},
		"a related one not yet":      {"quiet(record.mother, hours(1))", related(world{"updated_at": written.Add(time.Hour)}), written.Add(time.Hour), reason.ConditionFalse, "record.mother.updated_at", written.Add(2 * time.Hour)},
		"a related one that is gone": {"quiet(record.mother, hours(1))", related(nil), written.AddDate(1, 0, 0), reason.ValueMissing, "record.mother.updated_at", time.Time{}},
		"a length from the data":     {"quiet(record, days(record.n))", world{"n": num("2"), "updated_at": written}, written, reason.ConditionFalse, "record.updated_at", written.AddDate(0, 0, 2)},
		"no length":                  {"quiet(record, days(record.n))", world{"updated_at": written}, written, reason.ValueMissing, "record.n", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ := &RecordType{Name: "visit", Fields: map[string]Type{"mother": Any, "n": Number}, Declared: map[string]string{"mother": "record(person)", "n": "number"}, Related: map[string]*RecordType{
				"mother": {Name: "person", Fields: map[string]Type{}},
			}}
			line, err := c.Line(tt.src, Scope{Record: true, Now: true, RecordType: typ})
			if err != nil {
				t.Fatal(err)
			}
			in := Input{Record: tt.record, Now: tt.now}
			v := line.Judge(in)
			next, exact := line.NextChange(in)
			if v.Reason != tt.why || v.Met != (tt.why == "") || v.Clauses[0].Field != tt.field || !next.Equal(tt.next) || !exact {
				t.Errorf("got %+v, next %s %t", v, next, exact)
			}
			if line.Holds(in) != v.Met {
				t.Error("the quick form differs")
			}
		})
	}
}

func TestQuietMistakes(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	typ := &RecordType{Name: "visit", Fields: map[string]Type{"status": Text, "mother": Any}, Declared: map[string]string{"status": "text", "mother": "record(person)"}}
	for src, want := range map[string]string{
		`quiet(record)`:                      "quiet needs a record and a length of time",
		`quiet(record, 30)`:                  "quiet needs a length of time, and this is a number",
		`quiet(record, "30d")`:               "quiet needs a length of time, and this is a text",
		`quiet(record, 30d)`:                 "30d is no length of time in an expression",
		`quiet(record.status, days(1))`:      "quiet is asked of a record, and this is none",
		`quiet(event, days(1))`:              "quiet is asked of a record, and this is none",
		`quiet(record.updated_at, hours(1))`: "quiet is asked of a record, and this is none",
		`quiet("x", days(1))`:                "quiet is asked of a record, and this is none",
		`quiet(record, days(1)) == "yes"`:    "true or false is compared with a text",
		`quite(record, days(1))`:             "there is no function quite",
	} {
		_, err := c.Line(src, Scope{Record: true, Event: true, Now: true, RecordType: typ})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v", src, err)
		}
	}
	if _, err := c.Line("quiet(record, days(1))", Scope{Record: true}); err == nil {
		t.Error("it is allowed where there is no now")
	}
	if p, err := c.Line("quiet(record, days(1))", Scope{Record: true, Now: true}); err != nil || len(p.Paths()) != 1 || p.Paths()[0].String() != "record.updated_at" {
		t.Errorf("%v reads %v", err, p.Paths())
	}
}
