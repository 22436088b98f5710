// Package textdiff compares two texts line by line and writes the difference in the unified form that diff -u and git print.
//
// It finds the shortest difference (Myers) up to a bound of changed lines; beyond it the whole of what differs is shown as
// replaced, so that two texts that have nothing in common cost no more than their size.
package textdiff

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// context is how many equal lines stand around a change, as diff -u has it.
	context = 3
	// maxChanges bounds the search: it takes time and memory in the square of the changed lines.
	maxChanges = 1000
)

// change is a line of both texts, of the former alone or of the latter alone.
type change struct {
	sign byte // ' ', '-' or '+'
	line string
}

// Unified writes how after differs from before; empty: it does not. An empty name stands for a text that does not exist, which is
// written /dev/null.
func Unified(beforeName, afterName, before, after string) string {
	a, b := lines(before), lines(after)
	all := compare(a, b)
	if !slices.ContainsFunc(all, func(c change) bool { return c.sign != ' ' }) {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name(beforeName), name(afterName))
	for from := 0; from < len(all); {
		first := from
		for first < len(all) && all[first].sign == ' ' {
			first++
		}
		if first == len(all) {
			break
		}
		begin, end := max(from, first-context), first
		for equal := 0; end < len(all) && equal <= 2*context; end++ { // two changes that are near stand in one hunk
			if equal++; all[end].sign != ' ' {
				equal = 0
			}
		}
		for end > first && all[end-1].sign == ' ' {
			end--
		}
		end = min(end+context, len(all))
		hunk(&out, all, begin, end)
		from = end
	}
	return out.String()
}

func name(s string) string {
	if s == "" {
		return "/dev/null"
	}
	return s
}

// hunk writes the changes [begin, end) under their line numbers.
func hunk(out *strings.Builder, all []change, begin, end int) {
	count := func(list []change, without byte) (n int) {
		for _, c := range list {
			if c.sign != without {
				n++
			}
		}
		return n
	}
	span := func(without byte) string {
		start, n := count(all[:begin], without), count(all[begin:end], without)
		if n > 0 {
			start++ // an empty span stands behind the line that it names
		}
		if n == 1 {
			return fmt.Sprint(start)
		}
		return fmt.Sprintf("%d,%d", start, n)
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span('+'), span('-'))
	for _, c := range all[begin:end] {
		out.WriteByte(c.sign)
		out.WriteString(c.line)
		out.WriteByte('\n')
	}
}

// lines parts a text; a line break at its end makes no empty line.
func lines(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// compare gives the lines of both texts in their order.
func compare(a, b []string) []change {
	var head, tail []change
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head, a, b = append(head, change{' ', a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail, a, b = append(tail, change{' ', a[len(a)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, shortest(a, b), tail)
}

// shortest follows the furthest-reaching paths of Myers' algorithm and walks back along the one that arrives first.
func shortest(a, b []string) []change {
	reach := map[int]int{1: 0} // diagonal → how far into a
	var trace []map[int]int
	for d := 0; d <= min(len(a)+len(b), maxChanges); d++ {
		before := make(map[int]int, len(reach))
		for k, x := range reach {
			before[k] = x
		}
		trace = append(trace, before)
		for k := -d; k <= d; k += 2 {
			x := reach[k-1] + 1
			if k == -d || k != d && reach[k-1] < reach[k+1] {
				x = reach[k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			if reach[k] = x; x >= len(a) && x-k >= len(b) {
				return walkBack(a, b, trace)
			}
		}
	}
	all := make([]change, 0, len(a)+len(b))
	for _, line := range a {
		all = append(all, change{'-', line})
	}
	for _, line := range b {
		all = append(all, change{'+', line})
	}
	return all
}

func walkBack(a, b []string, trace []map[int]int) []change {
	var all []change
	x, y := len(a), len(b)
	for d := len(trace) - 1; d >= 0; d-- {
		reach, k := trace[d], x-y
		before := k - 1
		if k == -d || k != d && reach[k-1] < reach[k+1] {
			before = k + 1
		}
		fromX := reach[before]
		fromY := fromX - before
		for x > fromX && y > fromY && x > 0 && y > 0 {
			x, y = x-1, y-1
			all = append(all, change{' ', a[x]})
		}
		if d == 0 {
			break
		}
		if x == fromX {
			y--
			all = append(all, change{'+', b[y]})
		} else {
			x--
			all = append(all, change{'-', a[x]})
		}
	}
	slices.Reverse(all)
	return all
}
