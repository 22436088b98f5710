package engine_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// paced limits contacts by everything that has to be counted.
const paced = `
workspace: default
timezone: Europe/Berlin
cadence: {max_per_day: 5, max_per_week: 35, max_per_month: 1000, cooldown: 1m, type_limits: {report: 3}}
---
workflow: news
type: alert
triggers: [{id: t, event: news, dedup: [id]}]
timing: {expire_after: 100y}
audience: [{to: event.recipient}]
channel: memory
message: {sms: {text: t}}
---
channel: memory
provider: memory
`

// copies inserts waiting copies of the latest delivery, five a day from tomorrow on.
const copies = `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO delivery (ws, id, key, instance_id, event_id, contact_id, workflow, workflow_version, definitions, type, trigger,
  channel, address, locale, customer_ref, status, not_before, send_at, slot, deferred_by, created_at)
SELECT d.ws, -n.i, d.key || n.i, -n.i, d.event_id, d.contact_id, d.workflow, d.workflow_version, d.definitions, d.type, d.trigger,
  d.channel, d.address, d.locale, d.customer_ref, 'scheduled', d.not_before, %[2]d + (n.i / 5) * 86400000000, %[2]d + (n.i / 5) * 86400000000,
  'daily', d.created_at
FROM (SELECT * FROM delivery ORDER BY id DESC LIMIT 1) AS d CROSS JOIN n`

// BenchmarkOnePerson ingests a thousand events for one contact, for whom none to many messages wait already. The figures of one line come from one
// run; x/0 is the time relative to a contact without waiting messages.
func BenchmarkOnePerson(b *testing.B) {
	for _, database := range storetest.Databases(b) {
		for _, size := range []int{1000, 100, 1} {
			b.Run(fmt.Sprintf("%s/%d a request", database, size), func(b *testing.B) {
				took := map[int]time.Duration{}
				for range b.N {
					for _, waiting := range []int{0, 1000, 7000, 50_000} {
						took[waiting] += onePerson(b, database, waiting, 1000, size)
					}
				}
				for waiting, t := range took {
					b.ReportMetric(t.Seconds()/float64(b.N), fmt.Sprintf("s@%d", waiting))
				}
				b.ReportMetric(took[7000].Seconds()/took[0].Seconds(), "x/0@7000")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func onePerson(b *testing.B, database string, waiting, events, size int) time.Duration {
	url := storetest.URL(b, database)
	w := enginetest.Setup(b, storetest.Open(b, url), paced, nil)
	event := func(n int) string {
		return fmt.Sprintf(`{"kind": "news", "id": "%d", "recipient": {"address": "ann", "customer_ref": "ann"}}`, n)
	}
	w.Post(event(-2))
	w.Post(event(-1)) // this one waits, and is copied
	if waiting > 0 {
		driver := map[string]string{"sqlite": "sqlite", "postgres": "pgx"}[database]
		db, err := sql.Open(driver, url)
		if err != nil {
			b.Fatal(err)
		}
		_, err = db.ExecContext(b.Context(), fmt.Sprintf(copies, waiting, enginetest.Start.Truncate(24*time.Hour).Add(22*time.Hour).UnixMicro()))
		if err := errors.Join(err, db.Close()); err != nil {
			b.Fatal(err)
		}
	}
	elapsed := clock.Monotonic()
	for n := 0; n < events; n += size {
		list := make([]string, size)
		for i := range list {
			list[i] = event(n + i)
		}
		w.PostAll(list...)
	}
	return elapsed()
}
