package message_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/message"
)

func TestStripMarkdown(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"": "", "plain": "plain",
		"# A *title*\n\nIt **says** `x_y` and\nmore.":     "A title\nIt says x_y and more.",
		"[test](https://x.test/a_b \"t\") ![logo](l.png)": "test (https://x.test/a_b) logo",
		"<https://x.test> https://y.test":                 "https://x.test https://y.test",
		"- one\n- two\n  - three\n\n1. four":              "- one\n- two\n- three\n- four",
		"> said\n\n***\n\nafter":                          "said\nafter",
		"```go\na := 1\n*b*\n```\nthen":                   "a := 1\n*b*\nthen",
		"a <b>c</b>\n\n<div>gone</div>\n\nd":              "a c\nd",
		"5 \\* 6 &lt; 7 &amp;amp; #1 \\\\":                "5 * 6 < 7 &amp; #1 \\",
		"line  \nbroken":                                  "line\nbroken",
	} {
		tmpl, err := message.Parse("{{ v | strip_markdown }}", message.Plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Render(map[string]any{"v": source}, message.Limits{})
		if err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", source, got, err, want)
		}
	}
}
