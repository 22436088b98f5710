package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"anchor", "audience", "at", "offset", "Größe"}
	tests := []struct{ name, written, want string }{
		{"a letter left out", "anchr", "anchor"},
		{"two swapped", "ofsfet", "offset"},
		{"two wrong", "audiance s", ""},
		{"another case", "ANCHOR", "anchor"},
		{"not ASCII", "grösse", "Größe"},
		{"short words forgive one", "ab", "at"},
		{"and not two", "xy", ""},
		{"nothing alike", "webhook", ""},
		{"empty", "", ""},
		{"endless", strings.Repeat("anchor", 1000), ""},
	}
	for _, test := range tests {
		if got := Nearest(test.written, names); got != test.want {
			t.Errorf("%s: %q is nearest to %q, want %q", test.name, test.written, got, test.want)
		}
	}
	if got, want := DidYouMean("anchr", names), "did you mean anchor?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := DidYouMean("webhook", names); got != "" {
		t.Errorf("got %q", got)
	}
}
