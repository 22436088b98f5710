package flow

import (
	"fmt"
	"slices"
)

// Priority says which messages go first when not all of those that are due can leave: in the order in which processes take them up, and at the rate of their
// channel. It does not change when a message is due, and limits of people apply to each of them.
type Priority int

// The priorities, the first one goes first. The zero Priority is what a message has whose definition says nothing.
const (
	Urgent        Priority = -1
	Transactional Priority = 0
	Immediate     Priority = 1
	Digest        Priority = 2
)

// Priorities returns all priorities, in the order in which messages go.
func Priorities() []Priority { return []Priority{Urgent, Transactional, Immediate, Digest} }

// numberOfPriorities is that of Priorities.
const numberOfPriorities = 4

// place is the place of a priority in Priorities.
func (p Priority) place() int { return int(min(max(p, Urgent), Digest) - Urgent) }

// String returns the priority as it is written in a definition.
func (p Priority) String() string {
	return [numberOfPriorities]string{"urgent", "transactional", "immediate", "digest"}[p.place()]
}

// PriorityOf returns the priority that is written in a definition.
func PriorityOf(s string) (Priority, error) {
	all := Priorities()
	if i := slices.IndexFunc(all, func(p Priority) bool { return p.String() == s }); i >= 0 {
		return all[i], nil
	}
	return 0, fmt.Errorf("%q is not a priority", s)
}
