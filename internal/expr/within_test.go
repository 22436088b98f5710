package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

// within reads the places above the one that is named, which were read with the contact or the record. Nothing is within a place that is null or does
// not exist. The places above explain the line.
func TestWithin(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	paths := map[string][]string{"boston": {"boston", "ma", "usa"}, "usa": {"usa"}}
	type world = map[string]any
	home := &RecordType{Name: "home", Fields: map[string]Type{"site": Any}, Declared: map[string]string{"site": "place"}}
	typ := &RecordType{
		Name: "visit", Fields: map[string]Type{"place": Text, "clinic": Any, "home": Any, "region": Text, "in": Text},
		Declared: map[string]string{"place": "text", "clinic": "record(place)", "home": "record(home)", "region": "text"}, Related: map[string]*RecordType{"home": home},
	}
	for name, tt := range map[string]struct {
		src   string
		in    Input
		why   reason.Reason
		also  []Reading
		value any
	}{
		"itself":             {`within(contact.place, "boston")`, Input{Contact: world{"place": "boston"}, Home: paths["boston"]}, "", []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"above":              {`within(contact, "usa")`, Input{Contact: world{"place": "boston"}, Home: paths["boston"]}, "", []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"elsewhere":          {`within(contact.place, "nh")`, Input{Contact: world{"place": "boston"}, Home: paths["boston"]}, reason.ConditionFalse, []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"nowhere":            {`within(contact.place, "usa")`, Input{Contact: world{"place": ""}}, reason.ConditionFalse, nil, ""},
		"null":               {`within(record.place, "usa")`, Input{}, reason.ConditionFalse, nil, nil},
		"no such place":      {`within(contact.place, "salem")`, Input{Contact: world{"place": "salem"}}, reason.ConditionFalse, []Reading{{"places above salem", "there is no such place"}}, "salem"},
		"of a record":        {`within(record, "usa")`, Input{Record: world{"place": "boston"}}, "", []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"a related record":   {`within(record.clinic, "usa")`, Input{Record: world{"clinic": Related{ID: "usa"}}}, "", []Reading{{"places above usa", nil}}, "usa"},
		"of a related one":   {`within(record.home.site, "ma")`, Input{Record: world{"home": Related{ID: "h", Fields: world{"site": "boston"}}}}, "", []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"negated":            {`!within(record.place, "nh")`, Input{Record: world{"place": "boston"}}, "", []Reading{{"places above boston", "ma, usa"}}, "boston"},
		"a name in the data": {`within(record.place, record.region)`, Input{Record: world{"place": "boston", "region": "ma"}}, "", []Reading{{"record.region", "ma"}, {"places above boston", "ma, usa"}}, "boston"},
		"a reserved word":    {`within(record.place, record["in"])`, Input{Record: world{"place": "boston", "in": "ma"}}, "", []Reading{{`record["in"]`, "ma"}, {"places above boston", "ma, usa"}}, "boston"},
		"no name":            {`within(record.place, record.region)`, Input{Record: world{"place": "boston"}}, reason.ValueMissing, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, err := c.Line(tt.src, Scope{Record: true, RecordPlaces: true, Contact: true, RecordType: typ})
			if err != nil {
				t.Fatal(err)
			}
			tt.in.Places = func(name string) []string { return paths[name] }
			v := line.Judge(tt.in)
			if clause := v.Clauses[0]; clause.Reason != tt.why || clause.Value != tt.value {
				t.Errorf("%s: %+v", tt.src, clause)
			} else if diff := cmp.Diff(tt.also, clause.Also); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.src, diff)
			}
			if line.Holds(tt.in) != (tt.why == "") || !line.AsksWithin() {
				t.Errorf("%s holds %t", tt.src, line.Holds(tt.in))
			}
			if wantPlaces := strings.Contains(tt.src, "within(record"); (len(line.Places()) > 0) != wantPlaces {
				t.Errorf("%s has the places %v", tt.src, line.Places())
			}
		})
	}
}

// What within cannot be asked of is refused, with what to write.
func TestWithinMistakes(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	records := Scope{Record: true, RecordPlaces: true, Contact: true, Event: true, Vars: true}
	for src, want := range map[string]string{
		`within(contact.place)`:                        "within needs a place and the name of a place",
		`within(event.place, "a")`:                     "within is asked of contact.place, or of a field of a record that names a place",
		`within(contact.attributes.at, "a")`:           "within is asked of contact.place, or of a field of a record that names a place",
		`within("boston", "a")`:                        "within is asked of contact.place, or of a field of a record that names a place",
		`within(record.props.x, "a")`:                  "within is asked of contact.place, or of a field of a record that names a place",
		`record.all.exists(x, within(x, "a"))`:         "within is asked of contact.place, or of a field of a record that names a place",
		`record.all.exists(x, within(x.place, "a"))`:   "within is asked of contact.place, or of a field of a record that names a place",
		`within(lower(contact.place), vars.of["all"])`: "within is asked of contact.place, or of a field of a record that names a place",
	} {
		if _, err := c.Line(src, records); refusal(err) != want {
			t.Errorf("%s: %v", src, err)
		}
	}
	records.RecordPlaces = false
	if _, err := c.Line(`within(record.place, "a")`, records); !strings.Contains(refusal(err), "in when, issues and stop_when") {
		t.Errorf("%v", err)
	}
	if _, err := c.Line(`within(contact.place, "a")`, Scope{Event: true}); !strings.Contains(refusal(err), "undefined name 'contact'") {
		t.Errorf("%v", err)
	}
}

// refusal is what the error of an expression says; empty: it is none.
func refusal(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Message
}
