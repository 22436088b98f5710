// Package flow says how much a channel lets through: its rate (Rate, Pace), whether its provider is there at all
// (Breaker), and to whom (Allow).
//
//	        N failures in a row, or the provider's wish
//	closed ───────────────────────────────────────────▶ open ──▶ half open: one probe
//	  ▲                                                  ▲             │
//	  └──────────────── it is answered ──────────────────┼─────────────┤
//	                                                     └─ it is not ─┘ twice as long
//
// Everything here is arithmetic on values and instants: nothing waits, nothing is remembered. A Pace is kept in the
// database, for all processes; a Breaker in each process, for a network may part one of them from the provider only.
// Limits of persons are not here (package cadence): what waits for its channel is late, what waits for a limit is not.
package flow

import (
	"fmt"
	"strings"
)

// Allow lists the addresses that may be written to, as patterns in which * stands for anything. An empty list allows
// all. It keeps a trial from writing to real people.
type Allow []string

// Allows reports whether an address is on the list. Capitals do not matter.
func (a Allow) Allows(address string) bool {
	if len(a) == 0 {
		return true
	}
	address = strings.ToLower(strings.TrimSpace(address))
	for _, pattern := range a {
		if matches(strings.ToLower(pattern), address) {
			return true
		}
	}
	return false
}

// CheckPattern refuses a pattern that can match no address, or more than somebody would mean.
func CheckPattern(pattern string) error {
	switch {
	case strings.TrimSpace(pattern) != pattern || pattern == "":
		return fmt.Errorf("%q is not an address or a pattern such as *@example.org", pattern)
	case strings.Trim(pattern, "*") == "":
		return fmt.Errorf("%q allows everybody: leave the list out", pattern)
	}
	return nil
}

// matches compares a text with a pattern whose parts between the stars must come in order.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
