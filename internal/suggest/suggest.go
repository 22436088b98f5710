// Package suggest finds the word that somebody meant to write.
//
// It only compares letters; it knows no vocabulary and decides nothing: its answers are hints in errors.
package suggest

import "strings"

const (
	// most is how many letters may be wrong; in words shorter than short only one may be, or every word is near.
	most, short = 2, 4
	// longest is the longest word that is compared: no name is longer, and a hostile one costs nothing.
	longest = 64
)

// Nearest returns the one of names that differs from written by a typing mistake, the first of equals, and empty when
// there is none. Case does not count.
func Nearest(written string, names []string) string {
	best, least := "", most+1
	if len([]rune(written)) < short {
		least = most
	}
	for _, name := range names {
		if d := distance(strings.ToLower(written), strings.ToLower(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// DidYouMean is Nearest as a hint, or empty.
func DidYouMean(written string, names []string) string {
	if best := Nearest(written, names); best != "" {
		return "did you mean " + best + "?"
	}
	return ""
}

// distance counts the differences in typing: letters added, left out, replaced, or swapped with their neighbour.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	s, t := []rune(a), []rune(b)
	if len(s) > longest || len(t) > longest {
		return longest
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
