package key_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/key"
)

// The round of a message of a course is found from its key; other keys have none to remove.
func TestRound(t *testing.T) {
	t.Parallel()
	for k, want := range map[key.Instance]key.Instance{
		"reminder:course:patient:p1:weekly:2026-10-19:0":                          "reminder:course:patient:p1:weekly:2026-10-19:0",
		"reminder:course:patient:p1:weekly:2026-10-19:0:e2":                       "reminder:course:patient:p1:weekly:2026-10-19:0",
		"reminder:course:patient:p1:weekly:2026-10-19:0:r1":                       "reminder:course:patient:p1:weekly:2026-10-19:0",
		"reminder:course:patient:p1:weekly:2026-10-19:-1:r12:e2:z:Asia/Baghdad":   "reminder:course:patient:p1:weekly:2026-10-19:-1",
		"alert:chain:patient:p1:visit:once:r1:e3:retry:2":                         "alert:chain:patient:p1:visit:once",
		"reminder:course:patient:p1:weekly:2026-10-19:0:r1:e2:c:bob:retry:1":      "reminder:course:patient:p1:weekly:2026-10-19:0",
		"alert:chain:patient:p1:visit:once:c:r1":                                  "alert:chain:patient:p1:visit:once",
		"alert:chain:patient:p1:visit:once:r1:d2026-10-21:e2:c:bob:retry:1":       "alert:chain:patient:p1:visit:once",
		"reminder:course:patient:p1:weekly:2026-10-19:0:d2026-10-21":              "reminder:course:patient:p1:weekly:2026-10-19:0",
		"alert:room:hall:h1:full:dense":                                           "alert:room:hall:h1:full:dense",
		"alert:chain:patient:once:c:once":                                         "alert:chain:patient:once:c:once",
		"alert:room:hall:h1:full:threshold:condition:any:FalseToTrue:e1":          "alert:room:hall:h1:full:threshold:condition:any:FalseToTrue:e1",
		"alert:room:hall:e2:full:once":                                            "alert:room:hall:e2:full:once",
		"survey:csi:event:6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538": "survey:csi:event:6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538",
	} {
		if got := k.Round(); got != want {
			t.Errorf("%s: got %s, want %s", k, got, want)
		}
	}
	if got := key.Instance("a:once").OfCourse(2, 1); got != "a:once:r2:e2" {
		t.Errorf("got %s", got)
	}
	if got := key.Instance("a:once").OfMessage(2, "2026-10-21", 3); got != "a:once:r2:d2026-10-21:e3" {
		t.Errorf("got %s", got)
	}
	if got := key.Instance("a:once").OfMessage(0, "", 1); got != "a:once" {
		t.Errorf("got %s", got)
	}
	if !key.Instance("reminder:course:patient:p1:weekly:2026-10-19:0:r1:e2").OfDate() {
		t.Error("the key of a message of a course has a date")
	}
}

// The messages of a course after an event have different keys, of which each says which event and which round it belongs to.
func TestAfterEvent(t *testing.T) {
	t.Parallel()
	seen := map[key.Instance]bool{}
	for _, hash := range []string{key.Hash("a"), key.Hash("b")} {
		for _, workflow := range []string{"w", "i2", "e2", "*"} {
			for n := range 3 {
				event := key.Event("custom", workflow, hash).Retry(n)
				for iteration := 1; iteration < 13; iteration++ {
					for message := range 6 {
						date := []string{"", "2026-10-21"}[message/3]
						k := event.AfterEvent(iteration, date, message%3+1)
						if first := iteration == 1 && message == 0; seen[k] || (k == event) != first {
							t.Errorf("%s is the key of two messages", k)
						}
						seen[k] = true
						if of, i := k.OfEvent(); of != event || i != iteration {
							t.Errorf("%s is of round %d of %s", k, i, of)
						}
						if i := k.Delivery("a:i7", "sms:x").Iteration(); i != iteration {
							t.Errorf("%s: a message of round %d", k, i)
						}
						if again := k.Retry(n + 1); again == k || !seen[k] {
							t.Errorf("%s is its own repetition", k)
						}
					}
				}
			}
		}
	}
	if k := key.Event("custom", "w", key.Hash("a")).Retry(1).AfterEvent(2, "2026-10-21", 2); k != key.Event("custom", "w", key.Hash("a"))+":i2:d2026-10-21:e2:retry:1" {
		t.Errorf("got %s", k)
	}
}

// The person of a key is read from a key of a person's own course, and from no other key, whatever its parts are named. So is how many times
// the course had begun again.
func TestPerson(t *testing.T) {
	t.Parallel()
	for k, want := range map[key.Instance]struct {
		person string
		resets int
	}{
		"reminder:course:patient:p1:weekly:2026-10-19:0":                       {"", 0},
		"reminder:course:patient:p1:weekly:2026-10-19:0:r2:e3":                 {"", 2},
		"reminder:course:patient:p1:weekly:2026-10-19:0:c:bob":                 {"bob", 0},
		"reminder:course:patient:p1:weekly:2026-10-19:-1:r12:e2:c:bob:retry:1": {"bob", 12},
		"alert:chain:patient:p1:visit:once:r3:c:a%3Ab%7Cc%25":                  {"a:b|c%", 3},
		"alert:chain:patient:p1:visit:once:c:r1":                               {"r1", 0},
		"alert:chain:patient:c:visit:once":                                     {"", 0},
		"alert:chain:patient:once:c:once":                                      {"", 0},
		"alert:chain:patient:r1:c:once:r4":                                     {"", 4},
		"reminder:course:patient:p1:c:2026-10-19:0":                            {"", 0},
		"alert:room:hall:h1:full:context:full:c:20260514T051234Z":              {"", 0},
		"alert:room:hall:h1:full:threshold:c:80:FalseToTrue:e1":                {"", 0},
		"report-subscription:w:c:scheduled:20260514T051234Z":                   {"", 0},
	} {
		if got := k.Person(); got != want.person {
			t.Errorf("%s: the person is %q, want %q", k, got, want.person)
		}
		if got := k.Resets(); got != want.resets {
			t.Errorf("%s: begun again %d times, want %d", k, got, want.resets)
		}
	}
}

// Different messages of different people have different keys, and the key names all of it.
//
// Shows: B17.
func TestKeysOfPeopleAreInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"c", "once", "e1", "r1", ":c:", ":z:UTC", "%3A", ":retry:1", "2026-10-19", "0"}), rapid.String())
		record, trigger, person := part.Draw(t, "record"), rapid.SampledFrom([]string{"c", "z", "e1", "r1", "2026-10-19"}).Draw(t, "trigger"), part.Draw(t, "person")
		reset, message, retry := rapid.IntRange(0, 2).Draw(t, "reset"), rapid.IntRange(0, 2).Draw(t, "message"), rapid.IntRange(0, 2).Draw(t, "retry")
		round := key.Once("alert", "w", "c", record, trigger)
		if rapid.Bool().Draw(t, "dated") {
			round = key.Date("alert", "w", "c", record, trigger, civil.Date{Year: 2026, Month: 10, Day: 19}, civil.Duration{})
		}
		date := rapid.SampledFrom([]string{"", "2026-10-19", "2026-10-21"}).Draw(t, "date")
		everybody := round.OfMessage(reset, date, message+1)
		if got := everybody.Retry(retry); got.Person() != "" || got.Resets() != reset || got.Round() != round {
			t.Fatalf("%s: person %q, %d resets, round %s", got, got.Person(), got.Resets(), got.Round())
		}
		if person == "" {
			return
		}
		own := everybody.OfPerson(person).Retry(retry)
		if got := own.Dated("2026-10-22", 2); got != round.OfMessage(reset, "2026-10-22", 2).OfPerson(person).Retry(retry) {
			t.Fatalf("%s has the date in %s", own, got)
		}
		if got := own.AtPlace(message); got != round.OfCourse(reset, message).OfPerson(person).Retry(retry) {
			t.Fatalf("%s has the place in %s", own, got)
		}
		if own.Person() != person || own.Resets() != reset || own.Round() != round {
			t.Fatalf("%s: person %q, %d resets, round %s", own, own.Person(), own.Resets(), own.Round())
		}
		if own.Everywhere() != own || own.Zone() != "" {
			t.Fatalf("%s has the zone %s", own, own.Zone())
		}
	})
}
