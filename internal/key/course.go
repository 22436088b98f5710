package key

import (
	"strconv"
	"strings"
)

// The texts before the number of a course and before that of a message. Both follow what the occasion is about, in this order.
const (
	resetMark   = ":r"
	messageMark = ":e"
)

// The text before the number of a round, in the keys of what follows an event.
const iterationMark = ":i"

// OfCourse returns the key of one message of a course, from the key of its round: reset is how many times the course has begun again, and
// message the number of the message in its round, from 0. Zero is not written: the first message of a course that has never begun again has
// the key of a message without a course.
func (k Instance) OfCourse(reset, message int) Instance {
	if reset > 0 {
		k += Instance(resetMark + strconv.Itoa(reset))
	}
	if message > 0 {
		k += Instance(messageMark + strconv.Itoa(message+1))
	}
	return k
}

// Round returns the key of the round of a course to which the occasion belongs; for any other occasion it is k without zone and retry.
func (k Instance) Round() Instance {
	base, _ := k.Everywhere().Base()
	if strings.Contains(string(base), thresholdMark) { // it ends with the number of a crossing
		return base
	}
	return base.without(messageMark).without(resetMark)
}

// RoundDate returns the date of the round, as text; empty: the key has none.
func (k Instance) RoundDate() string {
	parts := strings.Split(string(k.Round()), ":")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// without removes a mark and its number from the end of a key.
func (k Instance) without(mark string) Instance {
	at := strings.LastIndex(string(k), mark)
	if at < 0 {
		return k
	}
	number := string(k[at+len(mark):])
	if n, err := strconv.Atoi(number); err != nil || n < 1 || strconv.Itoa(n) != number {
		return k
	}
	return k[:at]
}

// AfterEvent returns the key of one message of the course that an event began, from the event's key: iteration is the number of its round, from
// 1, and message its number in the round, from 0 (C8). The numbers of the first message are not written. A retry stays the same retry, so
// that the messages of an event whose key was freed have keys of their own (product decision 64).
func (k Instance) AfterEvent(iteration, message int) Instance {
	base, n := k.Base()
	if iteration > 1 {
		base += Instance(iterationMark + strconv.Itoa(iteration))
	}
	return base.OfCourse(0, message).Retry(n)
}

// OfEvent returns the key of the event to which a message of a course belongs, of the same retry, and the number of its round, from 1. For
// the key of an event they are the key itself and 1.
func (k Instance) OfEvent() (event Instance, iteration int) {
	base, n := k.Base()
	round := base.without(messageMark)
	event = round.without(iterationMark)
	if iteration = 1; event != round {
		iteration, _ = strconv.Atoi(string(round[len(event)+len(iterationMark):])) // without has read it
	}
	return event.Retry(n), iteration
}

// Iteration returns the number of the round of a course after an event, from 1.
func (d Delivery) Iteration() int {
	of, _, _ := strings.Cut(string(d), "|")
	_, iteration := Instance(of).OfEvent()
	return iteration
}
