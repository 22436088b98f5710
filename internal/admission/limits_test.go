package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/trace"
)

const limits = `
persona: Manager
cadence: {cooldown: 2h, max_per_day: 5, type_limits: {alert: 1}}
---
workspace: default
timezone: Europe/Berlin
cadence: {max_per_day: 1, types: [alert]}
---
{channel: email, provider: memory}
---
{channel: sms, provider: memory}
`

func compiled(t *testing.T) *definition.Set {
	t.Helper()
	return compile(t, limits)
}

func compile(t *testing.T, limits string) *definition.Set {
	t.Helper()
	options := loader.Options{Providers: []definition.ProviderInfo{{Name: "memory"}}}
	bundle, problems := loader.Load([]definition.File{{Name: "limits.yaml", Text: []byte(limits)}}, options)
	if definition.HasErrors(problems) {
		t.Fatal(problems)
	}
	var docs []definition.Stored
	for _, d := range bundle.Documents {
		docs = append(docs, definition.Stored{Document: d, Version: 1})
	}
	set, err := loader.Compile(1, docs, options)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The origin of each limit, the kinds of channel that have it, and contacts whose persona is not defined.
//
// Shows: A30, A41, A42.
func TestLimitsOf(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	person := func(persona, own string) delivery.LimitUse {
		c := subject.Contact{ID: 1, Persona: persona, Cadence: own, Addresses: map[string]string{"email": "a@b"}}
		return delivery.LimitUse{Person: delivery.Person{Contact: c, Slots: []delivery.Slot{
			{At: now.Add(-time.Hour), Type: "alert", Channel: "email:default", N: 1}, {At: now.Add(-time.Hour), Type: "report", Channel: "push:x", N: 2},
		}}, Waiting: []delivery.Row{{ID: 7, Channel: "email:other"}}}
	}
	says := func(s delivery.LimitUse) (lines []string) {
		l := LimitsOf(set, s, &civil.Zones{}, now)
		if l.Lost {
			lines = append(lines, "lost")
		}
		for _, k := range l.Kinds {
			for _, u := range k.Limits {
				lines = append(lines, k.Kind+" "+string(u.From)+" "+u.Sentence(now, l.Zone))
			}
			if len(k.Waiting) > 0 {
				lines = append(lines, k.Kind+" waiting")
			}
		}
		return lines
	}
	for name, c := range map[string]struct {
		persona, own string
		want         []string
	}{
		"of the persona": {"Manager", "", []string{
			"email persona cooldown until 13:00", "email persona 1 of 1 alerts today, free again 2026-05-15 00:00", "email persona 1 of 5 today", "email waiting",
			"push persona cooldown until 13:00", "push persona 0 of 1 alerts today", "push persona 2 of 5 today",
		}},
		"their own before the persona's": {"Manager", `{"max_per_day": 2, "channels": {"push": {"cooldown": "5m"}}}`, []string{
			"email persona cooldown until 13:00", "email persona 1 of 1 alerts today, free again 2026-05-15 00:00", "email person 1 of 2 today", "email waiting",
			"push person no cooldown", "push persona 0 of 1 alerts today", "push persona 2 of 5 today",
		}},
		"of the workspace": {"", "", []string{
			"email workspace 1 of 1 today, free again 2026-05-15 00:00", "email waiting", "push workspace 0 of 1 today",
		}},
		"a persona that is lost": {"Boss", "", []string{
			"lost", "email workspace 1 of 1 today, free again 2026-05-15 00:00", "email waiting", "push workspace 0 of 1 today",
		}},
	} {
		if diff := cmp.Diff(c.want, says(person(c.persona, c.own))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// A trace is put into words, with the zone of its decision. It names the limit that the message waits for last, and describes limits that are over in
// the past tense.
//
// Shows: A36, A43.
func TestExplain(t *testing.T) {
	t.Parallel()
	set, now := compiled(t), time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	ask := SlotRequest{
		Set: set, Now: now, Until: now.AddDate(0, 1, 0), Channel: "email:default", Type: "alert", Limits: definition.Limits{SendWindow: civil.Span{From: 13 * 3600, To: 14 * 3600}},
		Person: delivery.Person{Contact: subject.Contact{ID: 1, Persona: "Manager"}, Slots: []delivery.Slot{{At: now.Add(-time.Hour), Type: "alert", Channel: "email:default", N: 1}}},
	}
	deferred := func(ask SlotRequest) delivery.Row {
		ledger := NewLedger(&civil.Zones{}, ask.Now)
		v := ledger.Try(ask)
		row := delivery.Row{NotBefore: now, Status: delivery.Scheduled, SendAt: v.At, Slot: v.At, DeferredBy: v.Reason}
		row.Trace = trace.Of(row, schedule.Timing{}, v.Reason, now, v.At, ledger.Trace(ask, v))
		return row
	}
	then := []string{
		"cooldown until 13:00 Europe/Berlin", "1 of 1 alerts today, free again 2026-05-15 00:00 Europe/Berlin", "outside of the send window until 13:00 Europe/Berlin",
	}
	past := append([]string{"had to wait at 2026-05-14 12:00 Europe/Berlin: " + then[0]}, then[1:]...)
	for _, c := range []struct {
		name   string
		change func(row *delivery.Row)
		waits  reason.Reason
		want   []string
	}{
		{"waits", func(*delivery.Row) {}, reason.SendWindow, append(then, "after that, other limits or what waits already keep it: waits for the send window until 2026-05-15 13:00 Europe/Berlin")},
		{"was sent", func(row *delivery.Row) {
			row.Status, row.SendAt, row.Reason = delivery.Sent, time.Time{}, reason.Delivered
		}, "", past},
		{"was sent, and a reminder follows", func(row *delivery.Row) {
			row.Status, row.SendAt, row.Reason = delivery.Sent, row.SendAt.Add(48*time.Hour), reason.Delivered
		}, "", past},
		{"failed for good", func(row *delivery.Row) {
			row.Status, row.SendAt, row.Reason = delivery.Failed, time.Time{}, reason.PermanentError
		}, "", past},
		{"is tried again later", func(row *delivery.Row) {
			row.SendAt, row.Reason, row.RetryCount = row.SendAt.Add(time.Minute), reason.TemporaryError, 1
		}, "", past},
		{"was left out for it", func(row *delivery.Row) {
			row.Status, row.SendAt, row.Reason = delivery.Skipped, time.Time{}, row.DeferredBy
		}, "", then},
		{"waits again, after a try", func(row *delivery.Row) { row.RetryCount = 1 }, reason.SendWindow, append(then, "after that, other limits or what waits already keep it: waits for the send window until 2026-05-15 13:00 Europe/Berlin")},
		{"leaves with another one", func(row *delivery.Row) {
			row.ID, row.Fold, row.FoldedInto = 2, delivery.FoldMember, 1
			row.SendAt = row.SendAt.Add(delivery.FoldMemberDelay)
		}, reason.CadenceCooldown, then},
	} {
		row := deferred(ask)
		c.change(&row)
		if got := trace.WaitsFor(row); got != c.waits {
			t.Errorf("%s: waits for %q, want %q", c.name, got, c.waits)
		}
		if diff := cmp.Diff(c.want, trace.Explain(row)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
	ask.Set, ask.Person.Persona, ask.Limits = compile(t, "{channel: email, provider: memory}"), "", definition.Limits{}
	want := []string{"1 of 1 today, free again 2026-05-15 00:00 UTC", "default limits: set cadence: in the workspace to replace them"}
	if diff := cmp.Diff(want, trace.Explain(deferred(ask))); diff != "" {
		t.Errorf("limits that nobody has set (-want +got)\n%s", diff)
	}
	late := delivery.Row{NotBefore: now.Add(-34 * time.Hour), Status: delivery.Skipped, Reason: reason.Stale}
	late.Trace = trace.Of(late, schedule.Timing{CatchUp: schedule.CatchUp{Within: 12 * time.Hour}}, reason.Stale, now, time.Time{}, trace.Limits{})
	if diff := cmp.Diff([]string{"34h late, catch_up is 12h"}, trace.Explain(late)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, nothing := range []string{"", "{", "{}", "[1]"} {
		if got := trace.Explain(delivery.Row{Trace: nothing}); got != nil {
			t.Errorf("%q: %q", nothing, got)
		}
	}
}
