package message

import (
	"encoding/json"
	"testing"
)

// A list is written item by item, and each item is escaped as a single value is. So are lists in lists, and the results of filters.
//
// Shows: reliability 39.
func TestItemsOfAListAreEscaped(t *testing.T) {
	t.Parallel()
	const evil, escaped = `<img src=x onerror="a()">&'`, `&lt;img src=x onerror=&quot;a()&quot;&gt;&amp;&#39;`
	var vars map[string]any
	if err := json.Unmarshal([]byte(`{"list": ["<b>", ["<i>", ["</i>"]], null, true]}`), &vars); err != nil {
		t.Fatal(err)
	}
	vars["evil"], vars["texts"] = []any{evil}, []string{evil}
	for _, tt := range []struct{ src, html, plain string }{
		{"{{ evil }}", escaped, evil},
		{"{{ texts }}", escaped, evil},
		{"{{ list }}", "&lt;b&gt;&lt;i&gt;&lt;/i&gt;true", "<b><i></i>true"},
		{"{{ list | slice: 0, 2 }}", "&lt;b&gt;&lt;i&gt;&lt;/i&gt;", "<b><i></i>"},
		{"{{ evil | concat: texts }}", escaped + escaped, evil + evil},
		{"{{ evil | join: '<' }}{{ evil | first }}{{ evil | last }}", escaped + escaped + escaped, evil + evil + evil},
		{"{{ evil | concat: texts | join: '<' }}", escaped + "&lt;" + escaped, evil + "<" + evil},
		{"{% for x in list %}{{ x }}{% endfor %}", "&lt;b&gt;&lt;i&gt;&lt;/i&gt;true", "<b><i></i>true"},
		{"{% assign copy = evil | reverse %}{{ copy }}", escaped, evil},
		{"{% capture c %}{{ evil }}{% endcapture %}{{ c }}", escaped, evil},
		{"{{ 'a<b' | split: '' }}", "a&lt;b", "a<b"},
	} {
		for format, want := range map[Format]string{HTML: tt.html, Plain: tt.plain} {
			tpl, err := Parse(tt.src, format)
			if err != nil {
				t.Fatalf("%s: %v", tt.src, err)
			}
			if got, err := tpl.Render(vars, Limits{}); err != nil || got != want {
				t.Errorf("%s in format %v: got %q, %v; want %q", tt.src, format, got, err, want)
			}
		}
	}
}
