//go:build sabotage

package store

import (
	"context"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
)

// sabotaged breaks the store on purpose, in the way that the environment variable CARILLON_SABOTAGE names. Tests that kill, freeze and race
// processes must fail with such a binary, or they prove nothing.
func sabotaged(text string) string {
	const (
		fence = " AND delivery.version = r.version\nRETURNING"
		again = " AND d.version = r.version\nORDER BY d.id, d.ws" // by which a result is decided a second time
		lock  = "ORDER BY c.contact_id, c.ws\n/*LOCK c*/"
		since = "d.slot >= r.since"
	)
	switch os.Getenv("CARILLON_SABOTAGE") {
	case "nofence": // a late result is written over a newer one
		return strings.NewReplacer(fence, "\nRETURNING", again, "\nORDER BY d.id, d.ws").Replace(text)
	case "nolock": // two transactions decide about the same person at the same time
		return strings.ReplaceAll(text, lock, "ORDER BY c.contact_id, c.ws")
	case "noslots": // existing slots do not count
		return strings.ReplaceAll(text, since, since+" * 2")
	}
	return text
}

// apart makes occasions a moment later, in a transaction of their own, where CARILLON_SABOTAGE is nonext: a process that dies in between loses them.
func (t *Tx) apart(lists []iter.Seq[instance.Row]) bool {
	if os.Getenv("CARILLON_SABOTAGE") != "nonext" {
		return false
	}
	s := t.s
	time.AfterFunc(100*time.Millisecond, func() {
		_ = s.Write(context.Background(), func(t *Tx) error {
			_, err := t.ensureOccasions(lists)
			return err
		})
	})
	return true
}
