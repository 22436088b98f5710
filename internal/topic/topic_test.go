package topic_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/topic"
)

type values = map[string]topic.Values

func anyOf(v ...string) topic.Values { return topic.Values{Any: v} }
func allOf(v ...string) topic.Values { return topic.Values{All: v} }

// Which items a rule fits.
func TestFits(t *testing.T) {
	t.Parallel()
	item := topic.Item{
		Tags: map[string][]string{"policy": {"tax", "pension"}, "format": {"guide"}}, Links: map[string][]string{"taxons": {"t-1", "t-100"}},
		Fields: map[string]string{"document_type": "guide"}, ContentID: "5f2b",
	}
	for name, tc := range map[string]struct {
		rule topic.Rule
		want bool
	}{
		"a rule without lines":          {topic.Rule{}, true},
		"one of any":                    {topic.Rule{Tags: values{"policy": anyOf("customs", "tax")}}, true},
		"none of any":                   {topic.Rule{Tags: values{"policy": anyOf("customs")}}, false},
		"a tag that it does not have":   {topic.Rule{Tags: values{"colour": anyOf("red")}}, false},
		"each of all":                   {topic.Rule{Tags: values{"policy": allOf("pension", "tax")}}, true},
		"not each of all":               {topic.Rule{Tags: values{"policy": allOf("pension", "customs")}}, false},
		"any and all":                   {topic.Rule{Tags: values{"policy": {Any: []string{"tax"}, All: []string{"pension"}}}}, true},
		"any, but not all":              {topic.Rule{Tags: values{"policy": {Any: []string{"tax"}, All: []string{"customs"}}}}, false},
		"several tags":                  {topic.Rule{Tags: values{"policy": anyOf("tax"), "format": anyOf("guide")}}, true},
		"several tags, one of which no": {topic.Rule{Tags: values{"policy": anyOf("tax"), "format": anyOf("form")}}, false},
		"a link":                        {topic.Rule{Links: values{"taxons": {Any: []string{"t-100"}, All: []string{"t-1"}}}}, true},
		"a link is no tag":              {topic.Rule{Tags: values{"taxons": anyOf("t-1")}}, false},
		"a field":                       {topic.Rule{Fields: map[string]string{"document_type": "guide"}}, true},
		"another field":                 {topic.Rule{Tags: values{"policy": anyOf("tax")}, Fields: map[string]string{"document_type": "form"}}, false},
		"a field that it does not have": {topic.Rule{Fields: map[string]string{"colour": ""}}, false},
		"its content id":                {topic.Rule{ContentID: "5f2b"}, true},
		"another content id":            {topic.Rule{ContentID: "5f2c"}, false},
	} {
		if got := tc.rule.Fits(item); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The order of keys and values does not matter to the text of a rule, and everything else does.
func TestText(t *testing.T) {
	t.Parallel()
	rule := topic.Rule{Tags: values{"policy": anyOf("tax", "customs", "tax"), "empty": {}}, Links: values{"people": allOf("b", "a")}}
	same := topic.Rule{Tags: values{"policy": anyOf("customs", "tax")}, Links: values{"people": allOf("a", "b")}}
	if rule.Text() != same.Text() {
		t.Errorf("%s is not %s", rule.Text(), same.Text())
	}
	others := []topic.Rule{
		{},
		{Tags: same.Tags},
		{Tags: same.Tags, Links: values{"people": anyOf("a", "b")}},
		{Tags: same.Links, Links: same.Tags},
		{Tags: values{"policy": anyOf("customs")}, Links: same.Links},
		{Tags: same.Tags, Links: same.Links, ContentID: "x"},
		{Tags: same.Tags, Links: same.Links, Fields: map[string]string{"a": "b"}},
	}
	for _, other := range others {
		if other.Text() == same.Text() {
			t.Errorf("another rule has the text %s", other.Text())
		}
	}
}

// An item that a rule fits has a term under which the rule is filed: the index leaves no topic out.
func TestIndexLeavesNothingOut(t *testing.T) {
	t.Parallel()
	names, words := rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"x", "y", "z"})
	lists := rapid.SliceOfNDistinct(words, 0, 3, func(s string) string { return s })
	some := rapid.MapOfN(names, rapid.Custom(func(t *rapid.T) topic.Values {
		return topic.Values{Any: lists.Draw(t, "any"), All: lists.Draw(t, "all")}
	}), 0, 2)
	has := rapid.MapOfN(names, lists, 0, 2)
	fields := rapid.MapOfN(names, words, 0, 2)
	ids := rapid.SampledFrom([]string{"", "x", "y"})
	rapid.Check(t, func(t *rapid.T) {
		rule := topic.Rule{Tags: some.Draw(t, "tags"), Links: some.Draw(t, "links"), Fields: fields.Draw(t, "fields"), ContentID: ids.Draw(t, "id")}
		item := topic.Item{Tags: has.Draw(t, "has tags"), Links: has.Draw(t, "has links"), Fields: fields.Draw(t, "has fields"), ContentID: ids.Draw(t, "has id")}
		filed, terms := topic.Filed([]topic.Rule{rule}), item.Terms()
		found := slices.ContainsFunc(filed, func(term string) bool { return slices.Contains(terms, term) })
		if rule.Fits(item) && !found {
			t.Fatalf("%s fits, and none of %q is a term of the item, %q", rule.Text(), filed, terms)
		}
		if normal := rule.Normal(); normal.Fits(item) != rule.Fits(item) || normal.Text() != rule.Text() {
			t.Fatalf("the normal form of %+v is another rule: %+v", rule, normal)
		}
	})
}

// What rules read of an item, and what is wrong with its fields.
func TestItemOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ fields, want string }{
		{`{}`, `{"Tags":null,"Links":null,"Fields":null,"ContentID":""} []`},
		{
			`{"tags":{"a":"x","b":["y",1,true]},"links":{"c":[]},"fields":{"d":2.50,"e":[1],"f":null},"content_id":"i","topics":["t","u"],"urgent":true,"published_at":"2026-05-14T08:00:00Z"}`,
			`{"Tags":{"a":["x"],"b":["y","1","true"]},"Links":{"c":[]},"Fields":{"d":"2.50"},"ContentID":"i"} [t u]`,
		},
		{`{"tags":[]}`, "tags is not an object"},
		{`{"tags":{"a":{}}}`, "tags.a is neither a text nor a number"},
		{`{"tags":{"a":["x",""]}}`, "tags.a[1] is empty"},
		{`{"links":{"":"x"}}`, "links. has a name that is empty"},
		{`{"fields":"x"}`, "fields is not an object"},
		{`{"content_id":[]}`, "content_id is neither a text nor a number"},
		{`{"topics":[null]}`, "topics[0] is neither a text nor a number"},
		{`{"urgent":"yes"}`, "urgent is neither true nor false"},
		{`{"published_at":"yesterday"}`, "published_at is not an instant"},
		{`{"tags":{"a":"x\u0007"}}`, "tags.a holds a control character"},
	} {
		var fields map[string]any
		d := json.NewDecoder(bytesOf(tc.fields))
		d.UseNumber()
		if err := d.Decode(&fields); err != nil {
			t.Fatal(err)
		}
		item, names, wrong := topic.ItemOf(fields)
		got := ""
		if wrong != nil {
			got = wrong.Path + " " + wrong.Message
		} else if text, err := json.Marshal(item); err == nil {
			got = fmt.Sprintf("%s %v", text, names)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.fields, got, tc.want)
		}
	}
}
