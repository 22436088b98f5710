package key

import (
	"strconv"
	"strings"

	"github.com/carillonhq/carillon/internal/civil"
)

// The texts before the number of a course, before the date of a message, before its number on that date, and before the person whose own course
// it is. They follow what the occasion is about, in this order.
const (
	resetMark   = ":r"
	dayMark     = ":d"
	messageMark = ":e"
	personMark  = ":c:"
)

// The text before the number of a round, in the keys of what follows an event.
const iterationMark = ":i"

// OfMessage returns the key of one message of a course, from the key of its round: reset is how many times the course has begun again, date the
// date of the message, empty if that is the day on which the round begins, and number the number of the message on that date, from 1. The first
// message of the first day of a course that has never begun again has the key of a message without a course. The place of a message in the list of
// its round is not part of the key: an edit of the list changes it.
func (k Instance) OfMessage(reset int, date string, number int) Instance {
	return k.OfCourse(reset, 0).onDate(date, number)
}

func (k Instance) onDate(date string, number int) Instance {
	if date != "" {
		k += Instance(dayMark + date)
	}
	return k.OfCourse(0, number-1)
}

// Dated returns the key of a message with its date, also where its key has none because that is the day on which the round begins.
func (k Instance) Dated(date string, number int) Instance {
	return k.remade(func(course Instance) Instance { return course.onDate(date, number) })
}

// AtPlace returns the key that a message had when keys said the place of a message in its round, from 0, and not its date.
func (k Instance) AtPlace(message int) Instance {
	return k.remade(func(course Instance) Instance { return course.OfCourse(0, message) })
}

// remade returns the key of a message with another end that says which message of the round it is.
func (k Instance) remade(end func(course Instance) Instance) Instance {
	base, n := k.Base()
	course, _ := base.person()
	return (end(course.withoutMessage()) + base[len(course):]).Retry(n) // what follows is the person
}

// OfCourse returns the key that one message of a course had when keys said its place in the round: reset is how many times the course has begun
// again, and message the number of the message in its round, from 0. Zero is not written.
func (k Instance) OfCourse(reset, message int) Instance {
	if reset > 0 {
		k += Instance(resetMark + strconv.Itoa(reset))
	}
	if message > 0 {
		k += Instance(messageMark + strconv.Itoa(message+1))
	}
	return k
}

// OfPerson returns the key of a message of one person's own course, from the key of the same message of the course of everybody. The record
// stays part of it, because one person may have a course of each of several records. The id is that of the contact.
func (k Instance) OfPerson(id string) Instance { return k + Instance(personMark+escape(id, ":")) }

// Person returns the id of the contact whose own course the occasion belongs to; empty: it is of everybody.
func (k Instance) Person() string {
	base, _ := k.Everywhere().Base()
	_, person := base.person()
	return unescape(person)
}

// Resets returns how many times the course of a message had begun again.
func (k Instance) Resets() int {
	base, _ := k.Everywhere().Base()
	base, _ = base.person()
	base = base.withoutMessage()
	round := base.without(resetMark)
	n, err := strconv.Atoi(strings.TrimPrefix(string(base[len(round):]), resetMark))
	if err != nil || !round.ofCourse() {
		return 0
	}
	return n
}

// person splits the key of a message of one person's own course. Other keys may have the same text: a trigger may be named c, and a
// context may end with c and an instant. So the part before it must be the key of a message of a course.
func (k Instance) person() (course Instance, person string) {
	at := strings.LastIndex(string(k), personMark)
	if at < 0 {
		return k, ""
	}
	course, person = k[:at], string(k[at+len(personMark):])
	if strings.Contains(person, ":") || !course.withoutMessage().without(resetMark).ofCourse() {
		return k, ""
	}
	return course, person
}

// ofCourse reports whether a key can be that of a round: kind, workflow, type and id of the record, trigger, and then once or a date
// with its offset.
func (k Instance) ofCourse() bool {
	const once, dated = 6, 7 // parts
	parts := strings.Split(string(k), ":")
	switch len(parts) {
	case once:
		return parts[once-1] == "once"
	case dated:
		_, err := civil.ParseDate(parts[dated-2])
		return err == nil
	}
	return false
}

// Round returns the key of the round of a course to which the occasion belongs; for any other occasion it is k without zone and retry.
func (k Instance) Round() Instance {
	base, _ := k.Everywhere().Base()
	if strings.Contains(string(base), thresholdMark) { // it ends with the number of a crossing
		return base
	}
	base, _ = base.person()
	return base.withoutMessage().without(resetMark)
}

// RoundDate returns the date of the round, as text; empty: the key has none.
func (k Instance) RoundDate() string {
	parts := strings.Split(string(k.Round()), ":")
	if len(parts) < 2 {
		return ""
	}
	return parts[len(parts)-2]
}

// withoutMessage removes what says which message of a round it is.
func (k Instance) withoutMessage() Instance {
	k = k.without(messageMark)
	at := strings.LastIndex(string(k), dayMark)
	if at < 0 {
		return k
	}
	if _, err := civil.ParseDate(string(k[at+len(dayMark):])); err != nil {
		return k
	}
	return k[:at]
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
// 1, and date and number are as for OfMessage (C8). A retry stays the same retry, so that the messages of an event whose key was freed have keys of
// their own (product decision 64).
func (k Instance) AfterEvent(iteration int, date string, number int) Instance {
	base, n := k.Base()
	if iteration > 1 {
		base += Instance(iterationMark + strconv.Itoa(iteration))
	}
	return base.onDate(date, number).Retry(n)
}

// OfEvent returns the key of the event to which a message of a course belongs, of the same retry, and the number of its round, from 1. For
// the key of an event they are the key itself and 1.
func (k Instance) OfEvent() (event Instance, iteration int) {
	base, n := k.Base()
	round := base.withoutMessage()
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
