package key_test

import (
	"testing"

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
					for message := range 3 {
						k := event.AfterEvent(iteration, message)
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
	if k := key.Event("custom", "w", key.Hash("a")).Retry(1).AfterEvent(2, 1); k != key.Event("custom", "w", key.Hash("a"))+":i2:e2:retry:1" {
		t.Errorf("got %s", k)
	}
}
