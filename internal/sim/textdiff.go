package sim

import (
	"fmt"
	"strings"
	"unicode"
)

// maxDiff bounds the work of a line diff; longer texts are shown whole, one after the other.
const maxDiff = 1 << 20

// diffLines compares two texts line by line; every line of the answer begins with its sign: blank, - or +.
func diffLines(want, got string) []string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	if len(a)*len(b) > maxDiff {
		return append(signed("- ", a), signed("+ ", b)...)
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, "  "+a[i])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, "- "+visible(a[i]))
			i++
		default:
			lines = append(lines, "+ "+visible(b[j]))
			j++
		}
	}
	return lines
}

func signed(sign string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = sign + visible(line)
	}
	return out
}

// visible marks what an eye cannot see: blanks at the ends, tabs, and every character without a shape of its own.
func visible(line string) string {
	inner := strings.Trim(line, " ")
	lead := len(line) - len(strings.TrimLeft(line, " "))
	tail := len(line) - lead - len(inner)
	if inner == "" {
		lead, tail = 0, len(line)
	}
	var b strings.Builder
	b.WriteString(strings.Repeat("·", lead))
	for _, r := range inner {
		switch {
		case r == '\t':
			b.WriteString("→")
		case r == ' ', unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "‹U+%04X›", r)
		}
	}
	b.WriteString(strings.Repeat("·", tail))
	return b.String()
}
