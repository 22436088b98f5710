// Package flow decides how many messages a channel may send (Rate, Pace), whether its provider is available (Breaker), and to which
// addresses it may send (Allow).
//
//	        N failures in a row, or the provider's wish
//	closed ───────────────────────────────────────────▶ open ──▶ half open: one probe
//	  ▲                                                  ▲             │
//	  └──────────────── it is answered ──────────────────┼─────────────┤
//	                                                     └─ it is not ─┘ for twice as long
//
// The package computes with values and instants. It does not wait and keeps no state. A Pace is stored in the database, for all processes.
// Each process has a Breaker of its own, because a network failure may separate only one of them from the provider. Limits of persons
// are the part of package cadence: a message that waits for its channel is late, a message that waits for a limit is not.
package flow

import (
	"fmt"
	"strings"
)

// Allow lists the addresses to which messages may be sent, as patterns in which * matches any text. An empty list allows all addresses. It
// prevents a trial from sending to real people.
type Allow []string

// Allows reports whether an address matches a pattern of the list, without regard to capital letters.
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

// CheckPattern returns an error for a pattern that matches no address, or more addresses than its author can mean.
func CheckPattern(pattern string) error {
	switch {
	case strings.TrimSpace(pattern) != pattern || pattern == "":
		return fmt.Errorf("%q is not an address or a pattern such as *@example.org", pattern)
	case strings.Trim(pattern, "*") == "":
		return fmt.Errorf("%q allows everybody: leave the list out", pattern)
	}
	return nil
}

// matches reports whether a text matches a pattern: the parts between the stars must occur in order.
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
