package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The messages follow the person: a zone that changes meanwhile counts for what is planned from then on.
func TestASeriesAfterAnEventInTheZoneOfItsRecipient(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, strings.Replace(welcomes(threeMessages, ""), "timezone: UTC", "timezone: [contact.timezone, Asia/Tokyo]", 1), nil)
		w := world{b}
		w.person("ann", `"timezone": "Europe/Berlin"`)
		b.Post(registered("ann", ""))
		b.Post(registered("bob", ""))
		same(b, "at once", courseRows(b), []string{"14 05:12 completed expanded", "d17 17 10:00 pending", "14 05:12 completed expanded", "d17 17 03:00 pending"})
		to(b, may(15, "00:00"))
		w.person("ann", `"timezone": "America/New_York"`)
		sent := to(b, may(28, "00:00"))
		same(b, "sent", sent, []string{
			"17 03:00 bob@example.org message of round 1", "17 10:00 ann@example.org message of round 1",
			"21 03:00 bob@example.org message of round 1", "21 16:00 ann@example.org message of round 1",
		})
	})
}

// An event is kept as long as a message of its course waits, and a duplicate is one for ever.
func TestASeriesAfterAnEventAndRetention(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes("at: \"12:00\"\n  repeat: {every: 1mo, times: 12}", ""), func(c *engine.Config) { c.Retention = keepAll(40 * 24 * time.Hour) })
		first := b.Post(registered("ann", ""))
		n := 0
		for at := may(14, "12:00"); at.Before(may(14, "12:00").AddDate(1, 1, 0)); at = at.AddDate(0, 0, 5) {
			n += len(to(b, at))
			for range 6 {
				b.At(at)
			}
		}
		if n != 12 {
			t.Errorf("%d messages were sent", n)
		}
		if again := b.Post(registered("ann", "")); again.Reason != reason.Duplicate || again.Instances[0].ID != first.Instances[0].ID {
			t.Errorf("again: %+v", again)
		}
		if rows := courseRows(b); len(rows) > 3 {
			t.Errorf("%q are kept", rows)
		}
	})
}

// A message goes to those who are in its audience by then, and to the recipient of the event; an event without one is refused if any message needs it.
func TestASeriesAfterAnEventForOthersToo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, strings.Replace(welcomes(`sequence: [{after: 0m, audience: {persona: Member}}, {day: 1, at: "12:00"}, {day: 2, at: "12:00", audience: [{to: event.recipient}, {persona: Member}]}]`, ""),
			"round {{ iteration }}", "{{ contact.id }}", 1), nil)
		w := world{b}
		w.person("mia", `"persona": "Member"`)
		if r := b.Post(`{"kind": "registered", "payload": {"member": "bob"}}`); r.Outcome != ingest.Failed || r.Reason != reason.NoRecipient {
			t.Errorf("without a recipient: %+v", r)
		}
		b.Post(registered("ann", ""))
		same(b, "the first", to(b, may(15, "00:00")), []string{"14 05:12 mia message of mia"})
		w.person("noa", `"persona": "Member"`)
		same(b, "the others", to(b, may(18, "00:00")), []string{
			"15 12:00 ann@example.org message of ann", "16 12:00 ann@example.org message of ann", "16 12:00 mia message of mia", "16 12:00 noa message of noa",
		})
	})
}

// While its workflow is paused, one message of a course is parked; the resume sends the latest. While the workflow is switched off, messages
// wait and are too late in the end.
//
// Shows: R3.
func TestASeriesAfterAnEventThatIsStopped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stop, start func(b *enginetest.Bundle)
		sent, rows  []string
	}{
		"paused": {
			func(b *enginetest.Bundle) { pause(b, "w") }, func(b *enginetest.Bundle) { resume(b, "w") },
			[]string{"22 00:00 ann@example.org message of round 1"},
			[]string{"14 05:12 completed expanded", "d17 17 12:00 skipped collapsed", "d21 21 12:00 completed expanded"},
		},
		"switched off": {
			func(b *enginetest.Bundle) { b.Apply(welcomes(threeMessages, "enabled: false")) },
			func(b *enginetest.Bundle) { b.Apply(welcomes(threeMessages, "")) },
			[]string{"22 00:00 ann@example.org message of round 1"},
			[]string{"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 completed expanded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
				b.Post(registered("ann", ""))
				to(b, may(15, "00:00"))
				tt.stop(b)
				same(b, "meanwhile", to(b, may(22, "00:00")), nil)
				tt.start(b)
				same(b, "afterwards", to(b, may(28, "00:00")), tt.sent)
				same(b, "rows", courseRows(b), tt.rows)
			})
		})
	}
}

// A copy gives up what was due by then, and the course goes on.
func TestASeriesAfterAnEventInACopy(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, database)
			s := storetest.Open(t, url)
			b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
			b.Post(registered("ann", ""))
			to(b, may(15, "00:00"))
			acceptCopy(t, s, database, url, may(17, "13:00"))
			b.Clock.Set(may(17, "13:01"))
			same(b, "sent", to(b, may(28, "00:00")), []string{"21 12:00 ann@example.org message of round 1"})
		})
	}
}

// Two workspaces have courses of the same events.
func TestASeriesAfterAnEventInTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(strings.Replace(threeMessages, "day: 3", "day: 2", 1), ""), nil)
		b.Post(registered("ann", ""))
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("fedcba9876543210fedcba9876543210"), b.Now())
		if err != nil {
			t.Fatal(err)
		}
		first := b.Workspace
		b.Workspace = other
		b.Apply(welcomes(threeMessages, ""))
		b.Post(registered("ann", ""))
		same(b, "sent", to(b, may(20, "00:00")), []string{
			"14 05:12 ann@example.org hello ", "14 05:12 ann@example.org hello ", "16 12:00 ann@example.org message of round 1", "17 12:00 ann@example.org message of round 1",
		})
		same(b, "the other", courseRows(b), []string{"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 pending"})
		b.Workspace = first
		same(b, "the first", courseRows(b), []string{"14 05:12 completed expanded", "d16 16 12:00 completed expanded", "d21 21 12:00 pending"})
	})
}

// A message that cannot be made is put on hold, and the next one waits beside it.
func TestASeriesAfterAnEventWithAHeldMessage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(`sequence: [{after: 0m}, {day: 1, at: "12:00", audience: {to: "1 / event.n == 1 ? 'ann' : 'ann'"}}, {day: 2, at: "12:00"}]`, "retry: {backoff: [5m], jitter: none}"), nil)
		b.Post(strings.Replace(registered("ann", ""), `"member"`, `"n": 0, "member"`, 1))
		same(b, "sent", to(b, may(18, "00:00")), []string{"14 05:12 ann@example.org message of round 1", "16 12:00 ann@example.org message of round 1"})
		same(b, "rows", courseRows(b), []string{"14 05:12 completed expanded", "d15 15 12:00 pending held retries_used_up", "d16 16 12:00 completed expanded"})
	})
}

// A person sends the message again that an event which came too late has skipped: it goes to the event's recipient.
func TestASeriesAfterAnEventThatWasSkipped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
		r := b.Post(registered("ann", `, "occurred_at": "2026-04-10T05:00:00Z"`))
		to(b, may(15, "00:00"))
		if _, err := b.Operator().RetryInstance(t.Context(), b.Workspace.ID, r.Instances[0].ID, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		same(b, "sent", to(b, may(16, "00:00")), []string{"15 00:00 ann@example.org hello "})
		same(b, "rows", courseRows(b), []string{"10 05:00 skipped stale", "retry:1 15 00:00 completed expanded"})
	})
}

// Courses that began half a century ago have thousands of messages that are overdue: one transaction counts those of a few events, and refuses the
// others by themselves.
func TestASeriesAfterAnEventOfLongAgo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes("anchor: event.since\n  at: \"12:00\"\n  repeat: {every: 1d}", ""), nil)
		events := make([]string, 30)
		for i := range events {
			events[i] = strings.Replace(registered(fmt.Sprint("m", i), ""), `"member"`, `"since": "1970-01-01", "member"`, 1)
		}
		results := b.PostAll(events...)
		if first := results[0]; first.Outcome != ingest.Created || first.Instances[0].Reason != reason.Collapsed {
			t.Errorf("%+v", first)
		}
		if last := results[len(results)-1]; last.Outcome != ingest.Failed || last.Reason != reason.CostExceeded {
			t.Errorf("%+v", last)
		}
		b.At(b.Now())
		if rows := courseRows(b); !slices.Contains(rows, "i20587 13 12:00 completed expanded") {
			t.Errorf("%q", rows)
		}
	})
}

// The next message is planned with the first page of a large audience, and not with the last one, which may fail.
func TestASeriesAfterAnEventForMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(`sequence: [{after: 0m}, {day: 1, at: "12:00", audience: {persona: Member}}, {day: 2, at: "12:00"}]`, ""), nil)
		members := make([]contact.Item, store.MemberPage+10)
		for n := range members {
			members[n] = contact.Parse([]byte(`{"persona": "Member"}`), fmt.Sprint("m", n))
		}
		if _, err := b.Contacts().Write(t.Context(), b.Workspace, upsert.Replace, members, b.Now(), nil); err != nil {
			t.Fatal(err)
		}
		b.Post(registered("ann", ""))
		to(b, may(15, "00:00"))
		b.Clock.Set(may(15, "12:00"))
		b.At(b.Now())
		same(b, "after a page", courseRows(b), []string{"14 05:12 completed expanded", "d15 15 12:00 pending", "d16 16 12:00 pending"})
		if n := len(to(b, may(16, "00:00"))); n != len(members) {
			t.Errorf("%d messages were sent", n)
		}
		same(b, "the last", to(b, may(17, "00:00")), []string{"16 12:00 ann@example.org message of round 1"})
	})
}
