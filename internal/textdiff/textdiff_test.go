package textdiff_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/textdiff"
)

func TestUnified(t *testing.T) {
	t.Parallel()
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintln(&b, i+1)
		}
		return b.String()
	}
	for _, tc := range []struct{ name, before, after, want string }{
		{"equal", "a\nb\n", "a\nb\n", ""},
		{"equal but for the last line break", "a\nb", "a\nb\n", ""},
		{"one line of several", numbers(9), strings.Replace(numbers(9), "5\n", "five\n", 1), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		{"new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"gone", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"two that are near", numbers(12), strings.NewReplacer("4\n", "four\n", "9\n", "nine\n").Replace(numbers(12)), "@@ -1,12 +1,12 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n"},
		{"two that are far", numbers(20), strings.NewReplacer("\n2\n", "\ntwo\n", "19\n", "nineteen\n").Replace(numbers(20)), "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -16,5 +16,5 @@\n 16\n 17\n 18\n-19\n+nineteen\n 20\n"},
		{"put in", "a\nb\n", "a\nx\nb\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := textdiff.Unified("old", "new", tc.before, tc.after)
			if tc.want != "" {
				tc.want = "--- old\n+++ new\n" + tc.want
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestATextThatDoesNotExistHasNoName(t *testing.T) {
	t.Parallel()
	if got := textdiff.Unified("", "new", "", "a\n"); !strings.HasPrefix(got, "--- /dev/null\n+++ new\n") {
		t.Error(got)
	}
}

// Two texts without a line in common cost no more than their size.
func TestTextsWithNothingInCommon(t *testing.T) {
	t.Parallel()
	var a, b strings.Builder
	for i := range 20_000 {
		fmt.Fprintln(&a, "a", i)
		fmt.Fprintln(&b, "b", i)
	}
	if got := strings.Count(textdiff.Unified("a", "b", a.String(), b.String()), "\n"); got != 40_003 {
		t.Errorf("%d lines", got)
	}
}

// Whatever the texts: the hunks, applied to the former, make the latter, and their line numbers are true.
func TestTheDifferenceMakesTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 30), func(l []string) string {
			if len(l) == 0 {
				return ""
			}
			return strings.Join(l, "\n") + "\n"
		})
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		if got := applied(t, before, textdiff.Unified("x", "y", before, after)); got != after {
			t.Fatalf("%q made %q of %q, want %q", textdiff.Unified("x", "y", before, after), got, before, after)
		}
	})
}

func applied(t *rapid.T, before, diff string) string {
	old := strings.SplitAfter(before, "\n")
	var out strings.Builder
	at := 0 // lines of old that are done
	for i, line := range strings.SplitAfter(diff, "\n") {
		switch {
		case i < 2 || line == "":
		case strings.HasPrefix(line, "@@ -"):
			var start, count int
			if n, _ := fmt.Sscanf(line, "@@ -%d,%d", &start, &count); n < 2 {
				count = 1
			}
			if count > 0 {
				start--
			}
			for ; at < start; at++ {
				out.WriteString(old[at])
			}
		case line[0] == '+':
			out.WriteString(line[1:])
		default:
			if old[at] != line[1:] {
				t.Fatalf("line %d is %q, and the difference says %q", at+1, old[at], line[1:])
			}
			if at++; line[0] == ' ' {
				out.WriteString(line[1:])
			}
		}
	}
	for ; at < len(old); at++ {
		out.WriteString(old[at])
	}
	return out.String()
}
