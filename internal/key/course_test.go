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
