package topic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// What an item chooses is an algebra of sets of topics.
func TestChoice(t *testing.T) {
	t.Parallel()
	rules := map[string][]Rule{
		"both":  {{Tags: map[string]Values{"format": {Any: []string{"a", "b"}}}}},
		"a":     {{Tags: map[string]Values{"format": {Any: []string{"a"}}}}},
		"all-b": {{Tags: map[string]Values{"format": {All: []string{"b", "c"}}}}},
		"link":  {{ContentID: "x"}, {Links: map[string]Values{"format": {Any: []string{"a"}}}}},
		"every": {{}},
	}
	byTerm, byName := map[string][]string{}, map[string]string{}
	for name, list := range rules {
		byName[name] = name
		for _, term := range Named(list) {
			byTerm[term] = append(byTerm[term], name)
		}
	}
	for _, row := range [][2]string{
		{`{"tag": "format", "value": "a"}`, "a both"},
		{`{"tag": "format", "value": "c"}`, "all-b"},
		{`{"tag": "format", "value": "x"}`, ""},
		{`{"tag": "other", "value": "a"}`, ""},
		{`{"link": "format", "value": "a"}`, "link"},
		{`{"topic": "every"}`, "every"},
		{`{"topic": "nowhere"}`, ""},
		{`{"any_of": [{"tag": "format", "value": "c"}, {"topic": "link"}]}`, "all-b link"},
		{`{"all_of": [{"tag": "format", "value": "a"}, {"tag": "format", "value": "b"}]}`, "both"},
		{`{"all_of": [{"any_of": [{"topic": "a"}, {"topic": "every"}]}, {"tag": "format", "value": "a"}]}`, "a"},
		{`{"all_of": [{"topic": "a"}, {"topic": "every"}]}`, ""},
		{`{"any_of": [{"all_of": [{"topic": "a"}, {"tag": "format", "value": "a"}]}, {"link": "format", "value": "a"}]}`, "a link"},
	} {
		text, want := row[0], row[1]
		item, _, wrong := ItemOf(map[string]any{FieldTo: decoded(t, text), FieldTags: map[string]any{"format": "a"}})
		if wrong != nil || len(item.Terms()) > 0 {
			t.Errorf("%s: %+v, and it is matched by %q", text, wrong, item.Terms())
			continue
		}
		if got := strings.Join(slices.Sorted(maps.Keys(Chosen(*item.To, byTerm, byName))), " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A choice that cannot be read is refused with its place.
func TestMistakesOfChoices(t *testing.T) {
	t.Parallel()
	const rest = ", and chooses by any_of, all_of, tag and value, link and value, or topic alone"
	for text, want := range map[string]string{
		`"tax"`:                                    "to is not an object",
		`{}`:                                       "to is empty" + rest,
		`{"none_of": [{"topic": "a"}]}`:            "to has none_of" + rest,
		`{"tag": "format"}`:                        "to has tag" + rest,
		`{"any_of": [], "all_of": []}`:             "to has all_of, any_of" + rest,
		`{"any_of": []}`:                           "to.any_of is no list of choices",
		`{"all_of": {"topic": "a"}}`:               "to.all_of is no list of choices",
		`{"any_of": [{"topic": "a"}, 1]}`:          "to.any_of[1] is not an object",
		`{"all_of": [{"any_of": [{"topic": 1}]}]}`: "",
		`{"topic": ["a"]}`:                         "to.topic is neither a text nor a number",
		`{"tag": "", "value": "a"}`:                "to.tag is empty",
		`{"link": "a", "value": null}`:             "to.value is neither a text nor a number",
		`{"any_of": [` + strings.Repeat(`{"topic": "a"}, `, 199) + `{"topic": "b"}]}`: "to.any_of[199] has more than 200 parts",
	} {
		_, _, wrong := ItemOf(map[string]any{FieldTo: decoded(t, text)})
		got := ""
		if wrong != nil {
			got = wrong.Path + " " + wrong.Message
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q", text, got, want)
		}
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
