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
