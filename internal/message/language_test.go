package message

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/reason"
)

// shop returns the values that the templates of these tests name.
func shop() map[string]any {
	return map[string]any{
		"price": json.Number("5.0"), "count": json.Number("3"), "huge": json.Number("12345678901234567890"), "name": "Ann", "note": nil, "space": " ",
		"tags": []any{"b", nil, "a"}, "mixed": []any{json.Number("1"), nil, false}, "empties": map[string]any{"list": []any{}, "object": map[string]any{}},
		"pets": []any{
			map[string]any{"name": "Rex", "age": json.Number("3"), "chip": true},
			map[string]any{"name": "ada", "age": nil},
			map[string]any{"name": "Bo", "age": json.Number("7"), "chip": false},
			map[string]any{"name": "Rex", "age": json.Number("1")},
		},
		"one": map[string]any{"a": []any{json.Number("1"), "x"}}, "same": map[string]any{"a": []any{json.Number("1.0"), "x"}},
		"page": "<p>Hi <b>you</b></p><script>alert(1 < 2)</script><!-- a > b --><style>p {}</style> 1 < 2",
	}
}

// TestLanguage shows the output of each tag and filter.
func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src, want string
		format          Format
	}{
		// numbers
		{name: "a decimal keeps its point", src: "{{ 5.0 }} {{ price }} {{ 5 }} {{ 0.0 }}", want: "5.0 5.0 5 0.0"},
		{name: "decimals are computed as decimals", src: "{{ 10.1 | minus: 2.2 }} {{ 0.1 | plus: 0.2 }} {{ 1.1 | times: 3 }} {{ 10.1 | modulo: 7.0 }}", want: "7.9 0.3 3.3 3.1"},
		{name: "a text of digits is a number", src: "{{ '10.1' | minus: '2.2' }} {{ '4' | plus: 1 }}", want: "7.9 5"},
		{name: "a decimal makes a decimal", src: "{{ 10 | plus: 2.0 }} {{ 10 | divided_by: 2.0 }} {{ 0 | divided_by: 1.1 }} {{ 10 | divided_by: 4 }}", want: "12.0 5.0 0.0 2"},
		{name: "division that does not end", src: "{{ 10 | divided_by: 3.0 }} {{ -7 | divided_by: 2.0 }} {{ -7.5 | modulo: 2 }}", want: "3.3333333333333335 -3.5 0.5"},
		{name: "round", src: "{{ 1.005 | round: 2 }} {{ 2.5 | round }} {{ -2.5 | round }} {{ 5.666 | round: '1' }} {{ 4 | round: 1 }}", want: "1.01 3 -3 5.7 4"},
		{name: "round before the point", src: "{{ 1234.5 | round: -2 }} {{ 15 | round: -1 }}", want: "1200 20"},
		{name: "ceil and floor", src: "{{ 1.2 | ceil }} {{ -1.2 | floor }} {{ '3.5' | floor }}", want: "2 -2 3"},
		{name: "sum of decimals", src: "{{ '0.1,0.2' | split: ',' | sum }}", want: "0.3"},
		{name: "whole numbers of any length", src: "{{ huge }}", want: "12345678901234567890"},
		{name: "a default for zero", src: "{{ 0.0 | default: 'x' }} {{ 0 | default: 'x' }}", want: "0.0 0"},

		// texts
		{name: "split at blanks", src: "{{ ' a  b\nc ' | split: ' ' | join: '-' }}", want: "a-b-c"},
		{name: "strip_html", src: "{{ page | strip_html }}", want: "Hi you 1 < 2"},
		{name: "escape_once", src: "{{ '&lt;p&gt; & <p> &#39; &x' | escape_once }}", want: "&lt;p&gt; &amp; &lt;p&gt; &#39; &amp;x"},
		{name: "escape_once in HTML", src: "{{ '1 &lt; 2 < 3' | escape_once }}", format: HTML, want: "1 &lt; 2 &lt; 3"},
		{name: "escape", src: "{{ '\"' | escape }}{{ \"'\" | escape }}", want: "&quot;&#39;"},
		{name: "url_decode", src: "{{ 'a+b%40c%21' | url_decode }} {{ 5 | url_decode }}", want: "a b@c! 5"},
		{name: "url_decode is escaped", src: "{{ '%3Cb%3E' | url_decode }}", format: HTML, want: "&lt;b&gt;"},
		{name: "base64", src: "{{ '_#/.?' | base64_encode }} {{ 'XyMvLj8=' | base64_decode }}", want: "XyMvLj8= _#/.?"},
		{name: "base64 for addresses", src: "{{ '>>>???' | base64_url_safe_encode }} {{ 'Pj4-Pz8_' | base64_url_safe_decode }}", want: "Pj4-Pz8_ >>>???"},
		{name: "base64 is escaped", src: "{{ 'PGI+' | base64_decode }}", format: HTML, want: "&lt;b&gt;"},
		{name: "replace_last", src: "{{ 'my hat, my coat' | replace_last: 'my', 'your' }} {{ 'x' | replace_last: 'y', 'z' }}", want: "my hat, your coat x"},
		{name: "remove_last", src: "{{ 'rain, train' | remove_last: 'rain' }} {{ 'x' | remove_last: 'y' }}", want: "rain, t x"},
		{name: "newline_to_br", src: "{{ \"a\nb\" | newline_to_br }}", want: "a<br />\nb"},
		{name: "slice by a text of digits", src: "{{ 'hello' | slice: '1', '3' }}", want: "ell"},
		{name: "default for false", src: "{{ false | default: 'x' }} {{ false | default: 'x', allow_false: true }} {{ nil | default: allow_false: true, 'x' }}", want: "x false x"},
		{name: "a blank is not missing", src: "[{{ space | default: 'x' }}]", want: "[ ]"},

		// lists
		{name: "has", src: "{{ tags | compact | has: 'b' }} {{ pets | has: 'name', 'Bo' }} {{ pets | has: 'age', 9 }} {{ pets | has: 'chip' }}", want: "true true false true"},
		{name: "find", src: "{% assign p = pets | find: 'name', 'Bo' %}{{ p.age }} [{{ pets | find: 'age', 9 }}]", want: "7 []"},
		{name: "find a part of a text", src: "{{ 'red,green' | split: ',' | find: 'ee' }}", want: "green"},
		{name: "find_index", src: "{{ pets | find_index: 'name', 'Bo' }} [{{ pets | find_index: 'age', 9 }}]", want: "2 []"},
		{name: "reject", src: "{{ pets | reject: 'chip' | map: 'name' | join }} / {{ pets | reject: 'name', 'Rex' | map: 'name' | join }}", want: "ada Bo Rex / ada Bo"},
		{name: "where", src: "{{ pets | where: 'chip' | map: 'name' | join }} / {{ pets | where: 'chip', false | map: 'name' | join }}", want: "Rex / Bo"},
		{name: "where with nothing", src: "{{ pets | where: 'age', nil | map: 'age' | join }}", want: "3 7 1"},
		{name: "sort_natural", src: "{{ 'b,C,a' | split: ',' | sort_natural | join }} {{ pets | sort_natural: 'name' | map: 'age' | join: ',' }}", want: "a b C ,7,3,1"},
		{name: "sort_natural puts nothing last", src: "{% assign x = tags | sort_natural %}{{ x[0] }}{{ x[1] }}[{{ x[2] }}]", want: "ab[]"},
		{name: "compact and uniq by a field", src: "{{ pets | compact: 'age' | size }} {{ pets | uniq: 'name' | map: 'age' | join: ',' }}", want: "3 3,,7"},
		{name: "uniq distinguishes a number from a text", src: "{{ mixed | concat: mixed | uniq | size }} {{ '1,1' | split: ',' | concat: mixed | uniq | size }}", want: "3 4"},
		{name: "a range is written with its ends", src: "{{ (1..3) }} {{ (1..3) | join: '' }} {% assign r = (2..4) %}{{ r.first }}{{ r.size }}", want: "1..3 123 23"},

		// conditions
		{name: "lists are equal by value", src: "{% assign x = 'a,b' | split: ',' %}{% assign y = 'a,b' | split: ',' %}{% if x == y %}=={% endif %}{% if x != y %}!={% endif %}", want: "=="},
		{name: "ranges are equal by value", src: "{% assign x = (1..3) %}{% if x == (1..3) %}a{% endif %}{% if x == (1..4) %}b{% endif %}", want: "a"},
		{name: "objects are equal by value", src: "{% if one == same %}a{% endif %}{% if one == pets[0] %}b{% endif %}", want: "a"},
		{name: "a list and a range are two things", src: "{% assign x = (1..1) %}{% if one.a == x %}a{% else %}b{% endif %}", want: "b"},
		{name: "contains never finds nothing or false", src: "{% if mixed contains nil %}a{% endif %}{% if mixed contains false %}b{% endif %}{% if mixed contains 1 %}c{% endif %}", want: "c"},
		{name: "contains looks into texts and lists", src: "{% if 12 contains 1 %}a{% endif %}{% if 'a1' contains 1 %}b{% endif %}{% if one contains 'a' %}c{% endif %}", want: "bc"},
		{name: "blank and empty", src: "{% if false == blank %}a{% endif %}{% if nil == blank %}b{% endif %}{% if nil == empty %}c{% endif %}{% if space == empty %}d{% endif %}" +
			"{% if space == blank %}e{% endif %}{% if empties.list == empty and empties.object == empty and empties.list == blank %}f{% endif %}{% if blank == empty %}g{% endif %}", want: "abef"},

		// tags
		{name: "each matching when", src: "{% case count %}{% when 3 %}a{% when 1, 3 or 3 %}b{% else %}c{% when 3 %}d{% endcase %}", want: "abbd"},
		{name: "else before when", src: "{% case count %}{% when 1 %}a{% else %}b{% when 3 %}c{% else %}d{% endcase %}", want: "bc"},
		{name: "case of a list", src: "{% assign x = 'a,b' | split: ',' %}{% assign y = 'a,b' | split: ',' %}{% case x %}{% when y %}a{% endcase %}", want: "a"},
		{name: "cycle is one row for equal values", src: "{% cycle 'a', 'b' %}{% cycle 'a', 'b' %}{% cycle 'a', 'b', 'c' %}{% cycle 'a', 'b' %}", want: "abaa"},
		{name: "cycle with a name", src: "{% cycle 'x': 1, 2, 3 %}{% cycle 'y': 1, 2, 3 %}{% cycle 'x': 7, 8, 9 %}{% cycle name: 1, 2 %}", want: "1181"},
		{name: "cycle past its end", src: "{% cycle 'x': 1, 2, 3 %}{% cycle 'x': 1, 2, 3 %}[{% cycle 'x': 1 %}]{% cycle 'x': 5, 6 %}", want: "12[]5"},
		{name: "echo", src: "{% echo name | upcase %}{% echo '<' %}", format: HTML, want: "ANN&lt;"},
		{name: "increment and decrement", src: "{% increment n %}{% increment n %}{{ n }} {% decrement n %}{{ n }} {% decrement m %}", want: "012 11 -1"},
		{name: "increment leaves what is assigned", src: "{% assign n = 5 %}{% increment n %}{% increment n %}{{ n }}", want: "015"},
		{name: "liquid", src: "{% liquid\n  # don't count this\n  for i in (1..3)\n    if i == 2\n      continue\n    endif\n    echo i | plus: count\n  endfor\n  comment\n    what's this\n  endcomment\n%}'", want: "46'"},
		{name: "liquid in liquid", src: "{%- liquid liquid echo 'a' -%}\n {%- liquid\n -%} b", want: "ab"},
		{name: "comment with an apostrophe", src: "{% # it's %}it's {% comment %} don't {% endcomment %}'", want: "it's '"},
		{name: "comment in comment", src: "a{% comment %}b{% comment %}c{% endcomment %}d{% endcomment %}e", want: "ae"},
		{name: "a block of blanks writes nothing", src: "[{% if count %} {% assign x = 1 %} {% endif %}{% unless note %}\n{% endunless %}{% for i in (1..3) %} {% capture y %} z {% endcapture %}{% endfor %}" +
			"{% case count %}{% when 3 %} {% endcase %}]{{ y }}", want: "[] z "},
		{name: "a block with an output keeps its blanks", src: "[{% if count %} {{ note }} {% endif %}{% if count %} {% else %}x{% endif %}{% if count %}{% raw %} {% endraw %}{% endif %}]", want: "[    ]"},
		{name: "commas between the options of for", src: "{% for i in (1..6), limit: '2', offset: 3 %}{{ i }}{% endfor %}", want: "45"},
		{name: "the loop around", src: "{% for i in (1..2) %}{% for j in (1..2) %}{{ forloop.parentloop.index }}{{ forloop.index }} {% endfor %}{% endfor %}", want: "11 12 21 22 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tpl, err := Parse(tt.src, tt.format)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tpl.Render(shop(), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("%s\ngot  %q\nwant %q", tt.src, got, tt.want)
			}
		})
	}
}

// TestRefused shows templates that are refused, because other tools would write another text.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ src, want string }{
		{"{% include 'x' %}", "the tag include of Liquid is not supported"},
		{"{% render 'x' %}", "the tag render of Liquid is not supported"},
		{"{% tablerow i in tags %}{% endtablerow %}", "the tag tablerow of Liquid is not supported"},
		{"{% ifchanged %}{% endifchanged %}", "the tag ifchanged of Liquid is not supported"},
		{"{% doc %}{% enddoc %}", "the tag doc of Liquid is not supported"},
		{"{% for i in tags offset: continue %}{% endfor %}", "offset: continue is not supported"},
		{"{% #a\nb %}", "each line of a remark begins with #"},
		{"{% liquid\n if name\n%}{% endif %}", "{% if %} is not closed"},
		{"{% if name %}{% liquid endif %}", "{% endif %} has no beginning"},
		{"{{ name | upcase: allow_false: true }}", `filter upcase takes no value named "allow_false"`},
		{"{{ name | slice: 1.5 }}", "filter slice: needs a whole number as index"},
		{"{{ name | slice: 1, 1.5 }}", "filter slice: needs a whole number as length"},
		{"{{ 5 | size }}", "filter size: needs a text, a list or an object, not a number"},
		{"{{ mixed | sort }}", "filter sort: cannot compare true or false with a number"},
		{"{{ pets | sort_natural | size }}", "filter sort_natural: needs a text, not an object"},
		{"{{ mixed | has: 'x' }}", "filter has: needs a list of texts, not of a number"},
		{"{{ 'x' | split: ',' | has: 'x', 'y' }}", "filter has: needs a list of objects, not of a text"},
		{"{{ '%zz' | url_decode }}", "filter url_decode: this text is not encoded for a URL"},
		{"{{ '%ff' | url_decode }}", "filter url_decode: what is encoded is no text"},
		{"{{ '!' | base64_decode }}", "filter base64_decode: this text is not base64"},
		{"{{ '/w==' | base64_decode }}", "filter base64_decode: what is encoded is no text"},
		{"{{ huge | plus: 1 }}", "filter plus: the number is too large"},
		{"{{ 9223372036854775807 | plus: 1 }}", "filter plus: the number is too large"},
		{"{{ 4611686018427387904 | times: 2 }}", "filter times: the number is too large"},
		{"{{ 'ten' | plus: 1 }}", "filter plus: needs a number, not a text"},
		{"{{ '1e3' | plus: 1 }}", "filter plus: needs a number, not a text"},
		{"{% increment name %}", "name is a variable of the message; count in one of another name"},
		{"{% for i in 'abc' %}{% endfor %}", "for needs a list, not a text"},
		{"{% for i in one %}{% endfor %}", "for needs a list, not an object"},
		{"{{ one }}", "an object cannot be written out"},
	} {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			tpl, err := Parse(tt.src, Plain)
			if err == nil {
				var out string
				if out, err = tpl.Render(shop(), Limits{}); err == nil {
					t.Fatalf("got %q, want the error %q", out, tt.want)
				}
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestBounds tests that the limits of a rendering hold for further tags and filters.
func TestBounds(t *testing.T) {
	t.Parallel()
	wide := make([]any, 2_000)
	for i := range wide {
		wide[i] = []any{json.Number("0.1"), "x"}
	}
	for _, tt := range []struct{ name, src string }{
		{"equal lists", "{% for i in (1..9000) %}{% if deep == deep %}{% endif %}x{% endfor %}"},
		{"contains", "{% for i in (1..9000) %}{% if deep contains wide %}{% endif %}x{% endfor %}"},
		{"when", "{% for i in (1..9000) %}{% case wide %}{% when wide, wide %}x{% endcase %}{% endfor %}"},
		{"find", "{% for i in (1..9000) %}{{ wide | map: 'x' }}{% endfor %}"},
		{"decimals", "{% for i in (1..9000) %}" + strings.Repeat("{% assign x = 0.1 | times: 0.3 %}", 2000) + "{% endfor %}"},
		{"cycle", "{% for i in (1..9000) %}" + strings.Repeat("{% cycle 'a': '', '' %}", 3000) + "{% endfor %}"},
		{"liquid", "{% for i in (1..9000) %}{% liquid\n" + strings.Repeat("if i\nendif\n", 2000) + "%}{% endfor %}"},
		{"base64", "{% assign s = 'x' %}{% for i in (1..90) %}{% assign s = s | base64_encode %}{% endfor %}"},
		{"replace_last", "{% assign s = 'x' %}{% for i in (1..90) %}{% assign s = s | replace_last: 'x', s | append: s %}{% endfor %}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tpl, err := Parse(tt.src, Plain)
			if err != nil {
				t.Fatal(err)
			}
			out, err := tpl.Render(map[string]any{"wide": wide, "deep": []any{wide}}, Limits{})
			var got *RenderError
			if !errors.As(err, &got) || got.Reason != reason.OutputTooLarge && tt.name != "find" {
				t.Errorf("got %d bytes and error %v, want %s", len(out), err, reason.OutputTooLarge)
			}
		})
	}
	if _, err := Parse("{% liquid "+strings.Repeat("liquid ", 100)+"echo 1 %}", Plain); err == nil {
		t.Error("a liquid tag nested a hundred times is accepted")
	}
}
