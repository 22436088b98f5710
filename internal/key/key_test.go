package key

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyText draws texts in which the separators of keys are frequent.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z:|%,]{0,6}`), rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 4), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"", "retry", ":retry:1", "event", "%3A", "a|b", "a:b", "\x1f", ":z:UTC", "*"}),
	)
}

type occasion struct {
	Type, Workflow, Hash string
	Retry                int
	Contact, Channel     string
	Step                 int
}

func drawOccasion(t *rapid.T) occasion {
	return occasion{
		Type:     rapid.SampledFrom([]string{"survey", "alert", "report", "custom"}).Draw(t, "type"),
		Workflow: anyText().Draw(t, "workflow"),
		Hash:     anyText().Draw(t, "hash"),
		Retry:    rapid.IntRange(0, 3).Draw(t, "retry"),
		Contact:  anyText().Draw(t, "contact"),
		Channel:  rapid.OneOf(rapid.SampledFrom([]string{"email:default", "sms:twilio"}), anyText()).Draw(t, "channel"),
		Step:     rapid.IntRange(1, 12).Draw(t, "step"),
	}
}

func (o occasion) instance() Instance {
	k := Event(o.Type, o.Workflow, o.Hash)
	if o.Retry > 0 {
		k = k.Retry(o.Retry)
	}
	return k
}

// Shows: B17.
func TestDifferentOccasionsNeverShareAKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOccasion(t), drawOccasion(t)
		if rapid.Bool().Draw(t, "alike") { // they differ in one field at most, so that near misses are common
			b = a
			switch rapid.IntRange(0, 5).Draw(t, "field") {
			case 0:
				b.Workflow = anyText().Draw(t, "other workflow")
			case 1:
				b.Hash = anyText().Draw(t, "other hash")
			case 2:
				b.Contact = anyText().Draw(t, "other contact")
			case 3:
				b.Retry = rapid.IntRange(0, 3).Draw(t, "other retry")
			case 4:
				b.Channel = anyText().Draw(t, "other channel")
			}
		}
		same := a.Type == b.Type && a.Workflow == b.Workflow && a.Hash == b.Hash && a.Retry == b.Retry
		if got := a.instance() == b.instance(); got != same {
			t.Fatalf("%+v and %+v: equal keys %t, want %t (%q, %q)", a, b, got, same, a.instance(), b.instance())
		}
		da, db := a.instance().Delivery(a.Contact, a.Channel), b.instance().Delivery(b.Contact, b.Channel)
		same = same && a.Contact == b.Contact && a.Channel == b.Channel
		if got := da == db; got != same {
			t.Fatalf("%+v and %+v: equal delivery keys %t, want %t", a, b, got, same)
		}
		same = same && a.Step == b.Step
		if got := da.Idempotency(a.Step) == db.Idempotency(b.Step); got != same {
			t.Fatalf("%+v and %+v: equal idempotency keys %t, want %t", a, b, got, same)
		}
		ofA, ofB := rapid.Int64Range(1, 12).Draw(t, "workspace"), rapid.Int64Range(1, 12).Draw(t, "other workspace")
		if got := da.IdempotencyIn(ofA, a.Step) == db.IdempotencyIn(ofB, b.Step); got != (same && ofA == ofB) {
			t.Fatalf("%+v in %d and %+v in %d: equal idempotency keys %t", a, ofA, b, ofB, got)
		}
		if da.IdempotencyIn(1, a.Step) != da.Idempotency(a.Step) {
			t.Fatal("the first workspace has other keys than its corpus")
		}
	})
}

// occasionOfACondition identifies one firing of a condition on a record. Its parts are texts, because values with the same text are
// equal.
type occasionOfACondition struct {
	workflow, recordType, record, trigger string
	parts                                 [][]string // a list of one item is the item itself
	at                                    time.Time
	resolved                              bool
	retry                                 int
}

func drawCondition(t *rapid.T) occasionOfACondition {
	slugs := rapid.SampledFrom([]string{"a", "b", "z", "resolved", "20260514T051234Z"})
	return occasionOfACondition{
		workflow: slugs.Draw(t, "workflow"), recordType: slugs.Draw(t, "type"), record: anyText().Draw(t, "record"), trigger: slugs.Draw(t, "trigger"),
		parts:    rapid.SliceOfN(rapid.SliceOfN(anyText(), 1, 3), 0, 3).Draw(t, "parts"),
		at:       time.UnixMicro(rapid.SampledFrom([]int64{1778735554000000, 1778735554123456, 1778735554000001, 1778735555000000}).Draw(t, "at")),
		resolved: rapid.Bool().Draw(t, "resolved"), retry: rapid.IntRange(0, 2).Draw(t, "retry"),
	}
}

func (o occasionOfACondition) key(t *rapid.T) Instance {
	parts := make([]any, len(o.parts))
	for i, p := range o.parts {
		parts[i] = p
	}
	text, err := ContextText(o.trigger, parts)
	if err != nil {
		t.Fatal(err)
	}
	return Context("alert", o.workflow, o.recordType, o.record, o.trigger, text, o.at, o.resolved).Retry(o.retry)
}

// Shows: A15, B17.
func TestDifferentFiringsNeverShareAKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawCondition(t)
		b := a
		switch rapid.IntRange(0, 6).Draw(t, "field") {
		case 0:
			b = drawCondition(t)
		case 1:
			b.parts = drawCondition(t).parts
		case 2:
			b.record = anyText().Draw(t, "other record")
		case 3:
			b.at = drawCondition(t).at
		case 4:
			b.resolved = !a.resolved
		case 5:
			b.retry = drawCondition(t).retry
		}
		same := a.workflow == b.workflow && a.recordType == b.recordType && a.record == b.record && a.trigger == b.trigger &&
			slices.EqualFunc(a.parts, b.parts, slices.Equal[[]string]) && a.at.Equal(b.at) && a.resolved == b.resolved && a.retry == b.retry
		ka, kb := a.key(t), b.key(t)
		if (ka == kb) != same {
			t.Fatalf("%+v and %+v: equal keys %t, want %t (%q, %q)", a, b, ka == kb, same, ka, kb)
		}
		if base, n := ka.Base(); n != a.retry || base.Delivery("c", "email") == ka.Delivery("c", "email") != (n == 0) {
			t.Fatalf("%q is retry %d of %q, want %d", ka, n, base, a.retry)
		}
		if event := Event("alert", a.workflow, a.recordType); event == ka || strings.HasPrefix(string(event), string(ka)) {
			t.Fatalf("%q is the key of an event too", ka)
		}
	})
}

// Shows: A15, A16, A17.
func TestContextsAsTheyRead(t *testing.T) {
	t.Parallel()
	day, err := time.Parse(time.DateOnly, "2026-05-14")
	if err != nil {
		t.Fatal(err)
	}
	for want, parts := range map[string][]any{
		"t":                       nil,
		"t:123:45:A,B":            {"123", json.Number("45"), []any{"A", "B"}},
		"t:80:80:1e%2C0%3A":       {json.Number("80.0"), 80.0, "1e,0:"},
		"t:20260514T000000Z:true": {day, true},
		"t:1h30m0s:":              {90 * time.Minute, nil},
		"t::x":                    {[]any{}, []string{"x"}},
	} {
		if got, err := ContextText("t", parts); got != want || err != nil {
			t.Errorf("%v: got %q (%v), want %q", parts, got, err, want)
		}
	}
	if got, err := ContextText("t", []any{make(chan int)}); err == nil {
		t.Errorf("a channel is written %q", got)
	}
}

func TestRetriesDoNotStack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOccasion(t)
		o.Retry = 0
		first := o.instance()
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		again := first.Retry(rapid.IntRange(0, 9).Draw(t, "before")).Retry(n)
		if base, got := again.Base(); base != first || got != n {
			t.Fatalf("%q is retry %d of %q, want %d of %q", again, got, base, n, first)
		}
		if n == 0 && again != first || n > 0 && string(again) != fmt.Sprintf("%s:retry:%d", first, n) {
			t.Fatalf("retry %d of %q is %q", n, first, again)
		}
	})
}

func TestBase(t *testing.T) {
	t.Parallel()
	tests := []struct {
		key, base Instance
		retry     int
	}{
		{"survey:csi-gr:event:abc", "survey:csi-gr:event:abc", 0},
		{"survey:csi-gr:event:abc:retry:12", "survey:csi-gr:event:abc", 12},
		{"survey:csi-gr:event:retry", "survey:csi-gr:event:retry", 0},
		{"survey:csi-gr:event:retry:retry:1", "survey:csi-gr:event:retry", 1},
		{"reminder:visit:case:retry:2026-05-14:30", "reminder:visit:case:retry:2026-05-14:30", 0}, // a record called retry
		{"survey:csi-gr:event:abc:retry:0", "survey:csi-gr:event:abc:retry:0", 0},
		{"survey:csi-gr:event:abc:retry:01", "survey:csi-gr:event:abc:retry:01", 0},
		{"survey:csi-gr:event:abc:retry:99999999999999999999", "survey:csi-gr:event:abc:retry:99999999999999999999", 0},
	}
	for _, test := range tests {
		if base, n := test.key.Base(); base != test.base || n != test.retry {
			t.Errorf("%s: got %s, %d; want %s, %d", test.key, base, n, test.base, test.retry)
		}
	}
}

func TestKeysAsTheyRead(t *testing.T) {
	t.Parallel()
	const hash = "6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538f1d4564efa"
	tests := []struct{ name, got, want string }{
		{"event", string(Event("survey", "csi-gr", hash)), "survey:csi-gr:event:" + hash},
		{"report", string(Event("report", "weekly", hash)), "report-subscription:weekly:event:" + hash},
		{"notice", string(Event("notice", "order-shipped", hash)), "notice:order-shipped:event:" + hash},
		{"bytes as given", string(Event("survey", "CSI", "Cafe\u0301\xff")), "survey:CSI:event:Cafe\u0301\xff"},
		{"whole workspace", string(Event("survey", AnyWorkflow, hash)), "survey:*:event:" + hash},
		{"escapes", string(Event("survey", "50% a:b|c,d\x00\x7fé", "h")), "survey:50%25 a%3Ab%7Cc,d%00%7Fé:event:h"},
		{"delivery", string(Event("survey", "csi-gr", "h").Delivery("addr:00ff", "sms:twilio")), "survey:csi-gr:event:h|addr%3A00ff|sms:twilio"},
		{"delivery of a retry", string(Event("survey", "csi-gr", "h").Retry(2).Delivery("c|1", "email")), "survey:csi-gr:event:h:retry:2|c%7C1|email"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.got != test.want {
				t.Errorf("got %q, want %q", test.got, test.want)
			}
		})
	}
}

func TestADeliveryHasNoZone(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, key, want Instance }{
		{"zone", "broadcast:news:contact:7:once:z:Europe/Berlin", "broadcast:news:contact:7:once"},
		{"zone and retry", "broadcast:news:once:z:Etc/GMT+5:retry:2", "broadcast:news:once:retry:2"},
		{"a trigger called z", "digest:news:z:2026-05-14", "digest:news:z:2026-05-14"},
		{"a trigger called z, once", "alert:door:z:once", "alert:door:z:once"},
		{"a record called z", "reminder:visit:case:z:2026-05-14:30", "reminder:visit:case:z:2026-05-14:30"},
		{"a context called z", "alert:kiosk:context:z:20260514T051234Z", "alert:kiosk:context:z:20260514T051234Z"},
		{"z and a retry", "manual:news:manual:z:retry:1", "manual:news:manual:z:retry:1"},
		{"nothing behind it", "survey:csi-gr:event:h:z:", "survey:csi-gr:event:h:z:"},
	}
	for _, test := range tests {
		t.Run(string(test.name), func(t *testing.T) {
			t.Parallel()
			if got, want := test.key.Delivery("c|d", "email").On("sms:a|b"), test.key.Delivery("c|d", "sms:a|b"); got != want {
				t.Errorf("on another channel: got %q, want %q", got, want)
			}
			if got, want := test.key.Delivery("c", "email"), Delivery(test.want+"|c|email"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"csi-gr", "a", "A.b_c-9", "events"} {
		if err := Slug(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "once", "event", "context", "threshold", "scheduled", "manual", "retry", "*", "a b", "a\x00", "a:b", "ä", "a|b", strings.Repeat("x", 101)} {
		if err := Slug(bad); err == nil {
			t.Errorf("%q was taken as a name", bad)
		}
	}
}

func BenchmarkNames(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		k := Event("survey", "csi-gr", "6383108901bdd1b187b55f88d5c3ddce0670dfe24a066f34655538f1d4564efa")
		k.Delivery("cust-123", "sms:twilio").Idempotency(1)
	}
}
