package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// Three messages after a registration: at once, and at noon UTC of the third and the seventh day.
const threeMessages = `sequence: [{after: 0m, message: {inbox: {text: "hello {{ contact.name }}"}}}, {day: 3, at: "12:00"}, {day: 7, at: "12:00"}]`

// welcomes is a course after an event; keys are those of its timing, rest further keys of its workflow.
func welcomes(keys, rest string) string {
	return fmt.Sprintf(`
workflow: w
type: custom
triggers:
  - id: t
    event: registered
    dedup: [member]
timing:
  timezone: UTC
  %s
audience: {to: event.recipient}
channel: inbox
message: {inbox: {text: "message of round {{ iteration }}"}}
%s
---
persona: Member
---
channel: inbox
provider: inbox
`, keys, rest)
}

// registered is the event of a member; more are further fields.
func registered(member, more string) string {
	return fmt.Sprintf(`{"kind": "registered", "payload": {"member": %q}, "recipient": {"customer_ref": %q, "address": "%s@example.org"}%s}`, member, member, member, more)
}

// courseRows returns the instances after an event as "d17 17 12:00 status reason", in the order of their making.
func courseRows(b *enginetest.Bundle) (list []string) {
	b.Helper()
	rows, err := b.Store.Instances(b.Context(), b.Workspace.ID, store.InstanceFilter{}, store.Page{Limit: 100})
	if err != nil {
		b.Fatal(err)
	}
	slices.Reverse(rows)
	for _, r := range rows {
		_, k, _ := strings.Cut(r.Key, ":event:")
		_, k, _ = strings.Cut(k, ":")
		k = strings.Replace(k, "d2026-05-", "d", 1)
		line := strings.TrimSpace(k+" "+r.DueAt.Format("02 15:04")) + " " + string(r.Status)
		if r.Held() {
			line += " held"
		}
		list = append(list, strings.TrimSpace(line+" "+string(r.Reason)))
	}
	return list
}

// to lives until an instant: what is due is done at its instant. It returns the messages that were sent.
func to(b *enginetest.Bundle, until time.Time) (sent []string) {
	b.Helper()
	for range 10_000 {
		for (world{b}).tick() {
		}
		for _, out := range b.Provider.Sent() {
			sent = append(sent, b.Clock.Now().Format("02 15:04 ")+out.Address+" "+out.Text)
		}
		next, err := b.NextDue(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if next.IsZero() || next.After(until) {
			b.Clock.Set(until)
			return sent
		}
		b.Clock.Set(next)
	}
	b.Fatal("there is no end to it")
	return nil
}

func same(b *enginetest.Bundle, what string, got, want []string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("%s:\n%q, expected\n%q", what, got, want)
	}
}

// A member registers: the first message is in the answer, and the next one waits from then on. The same registration again is a duplicate,
// whatever has been sent of the course by then.
//
// Shows: D1, D15, D16, C8, C11, C12, P2.
func TestASeriesAfterAnEvent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
		first := b.Post(registered("ann", ""))
		if first.Outcome != ingest.Created || len(first.Instances) != 1 || len(first.Instances[0].Deliveries) != 1 {
			t.Fatalf("%+v", first)
		}
		same(b, "at once", courseRows(b), []string{"14 05:12 completed expanded", "d17 17 12:00 pending"})
		for _, until := range []time.Time{may(16, "00:00"), may(18, "00:00"), may(25, "00:00")} {
			sent := to(b, until)
			want := map[int][]string{
				16: {"14 05:12 ann@example.org hello "}, 18: {"17 12:00 ann@example.org message of round 1"}, 25: {"21 12:00 ann@example.org message of round 1"},
			}[until.Day()]
			same(b, until.String(), sent, want)
			again := b.Post(registered("ann", ""))
			if again.Outcome != ingest.Skipped || again.Reason != reason.Duplicate || again.Instances[0].ID != first.Instances[0].ID {
				t.Errorf("again on %s: %+v", until, again)
			}
		}
		same(b, "in the end", courseRows(b), []string{"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 completed expanded"})
	})
}

// The messages that are due while nothing runs are a backlog, as of any course; an event that comes late brings one with it.
//
// Shows: R3, D20.
func TestASeriesAfterAnEventThatIsLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		keys, occurred string
		down           time.Time // nothing runs until then
		outcome        reason.Reason
		sent, rows     []string
	}{
		"nothing runs": {
			keys: threeMessages, down: may(22, "08:00"),
			sent: []string{"22 08:00 ann@example.org message of round 1"}, // the first message is too late
			rows: []string{"14 05:12 completed expanded", "d17 17 12:00 skipped collapsed", "d21 21 12:00 completed expanded"},
		},
		"nothing runs, and all are sent": {
			keys: threeMessages + "\n  catch_up: forever\n  backlog: all", down: may(22, "08:00"),
			sent: []string{"22 08:00 ann@example.org hello ", "22 08:00 ann@example.org message of round 1", "22 08:00 ann@example.org message of round 1"},
			rows: []string{"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 completed expanded"},
		},
		"it came a day late": {
			keys: threeMessages, occurred: "2026-05-13T05:00:00Z",
			sent: []string{"14 05:12 ann@example.org hello ", "16 12:00 ann@example.org message of round 1", "20 12:00 ann@example.org message of round 1"},
			rows: []string{"13 05:00 completed expanded", "d16 16 12:00 completed expanded", "d20 20 12:00 completed expanded"},
		},
		"it came a week late": {
			keys: threeMessages, occurred: "2026-05-06T05:00:00Z", outcome: reason.Collapsed,
			sent: []string{"14 05:12 ann@example.org message of round 1"},
			rows: []string{"06 05:00 skipped collapsed", "d13 13 12:00 completed expanded"},
		},
		"it came a week late, and the first decides": {
			keys: threeMessages + "\n  catch_up: forever\n  backlog: first", occurred: "2026-05-06T05:00:00Z",
			sent: []string{"14 05:12 ann@example.org hello "},
			rows: []string{"06 05:00 completed expanded", "d09 09 12:00 skipped collapsed"},
		},
		"it came a month late": {
			keys: threeMessages, occurred: "2026-04-10T05:00:00Z", outcome: reason.Stale,
			rows: []string{"10 05:00 skipped stale"},
		},
		"it came after the end": {
			keys: "at: \"12:00\"\n  repeat: {every: 1d, until: 2026-05-01}", outcome: reason.CourseOver,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := enginetest.Setup(t, s, welcomes(tt.keys, ""), nil)
				more := ""
				if tt.occurred != "" {
					more = fmt.Sprintf(`, "occurred_at": %q`, tt.occurred)
				}
				result := b.Post(registered("ann", more))
				if len(result.Instances) > 0 && result.Instances[0].Reason != tt.outcome || len(result.Instances) == 0 && result.Reason != tt.outcome || result.Error != nil {
					t.Errorf("answered %+v", result)
				}
				if !tt.down.IsZero() {
					b.Clock.Set(tt.down)
				}
				same(b, "sent", to(b, may(28, "00:00")), tt.sent)
				same(b, "rows", courseRows(b), tt.rows)
			})
		})
	}
}

// What a person does with one message does not end the course.
func TestASeriesAfterAnEventAndAPerson(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
		b.Post(registered("ann", ""))
		to(b, may(15, "00:00"))
		waiting := func() instance.Row {
			t.Helper()
			rows, err := s.Instances(t.Context(), b.Workspace.ID, store.InstanceFilter{Status: instance.Pending}, store.Page{Limit: 10})
			if err != nil || len(rows) != 1 {
				t.Fatal(rows, err)
			}
			return rows[0]
		}
		middle := waiting()
		if _, err := b.Operator().CancelInstance(t.Context(), b.Workspace.ID, middle.ID, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		same(b, "cancelled", courseRows(b), []string{"14 05:12 completed expanded", "d17 17 12:00 cancelled cancelled_by_operator", "d21 21 12:00 pending"})
		if r, err := b.Operator().RetryInstance(t.Context(), b.Workspace.ID, middle.ID, "ann", b.Now()); err != nil || !strings.HasSuffix(r.NewKey, ":d2026-05-17:retry:1") {
			t.Fatal(r, err)
		}
		same(b, "the retry keeps its time", to(b, may(18, "00:00")), []string{"17 12:00 ann@example.org message of round 1"})
		same(b, "the last", to(b, may(28, "00:00")), []string{"21 12:00 ann@example.org message of round 1"})
		same(b, "in the end", courseRows(b), []string{
			"14 05:12 completed expanded", "d17 17 12:00 cancelled cancelled_by_operator", "d21 21 12:00 completed expanded", "d17:retry:1 17 12:00 completed expanded",
		})
	})
}

// A pinned course keeps the definition of its event. Another one follows the definition in force with each message.
//
// Shows: R17.
func TestASeriesAfterAnEventAndAnEdit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rest, sequence string
		sent, rows     []string
	}{
		"pinned": {"", `sequence: [{day: 0, at: "23:00"}]`, []string{"17 12:00 ann@example.org message of round 1", "21 12:00 ann@example.org message of round 1"}, []string{
			"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 completed expanded",
		}},
		"texts": {"pin: false", strings.Replace(threeMessages, `{day: 3, at: "12:00"}`, `{day: 3, at: "12:00", message: {inbox: {text: other}}}`, 1), []string{
			"17 12:00 ann@example.org other", "21 12:00 ann@example.org message of round 1",
		}, []string{"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 completed expanded"}},
		"later": {"pin: false", `sequence: [{after: 0m}, {day: 4, at: "12:00"}]`, []string{"18 12:00 ann@example.org message of round 1"}, []string{
			"14 05:12 completed expanded", "d17 17 12:00 deactivated rule_changed", "d18 18 12:00 completed expanded",
		}},
		"later than catch_up": {"pin: false", "sequence: [{after: 0m}, {day: 3, at: \"20:00\"}]\n  catch_up: 2h", []string{"17 20:00 ann@example.org message of round 1"}, []string{
			"14 05:12 completed expanded", "d17 17 12:00 completed expanded",
		}},
		"fewer":   {"pin: false", `sequence: [{day: 0, at: "23:00"}]`, nil, []string{"14 05:12 completed expanded", "d17 17 12:00 deactivated rule_changed"}},
		"none":    {"pin: false", "", nil, []string{"14 05:12 completed expanded", "d17 17 12:00 deactivated rule_changed"}},
		"removed": {"", "-", nil, []string{"14 05:12 completed expanded", "d17 17 12:00 deactivated workflow_inactive"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				b := enginetest.Setup(t, s, welcomes(threeMessages, tt.rest), nil)
				b.Post(registered("ann", ""))
				to(b, may(15, "00:00"))
				switch edited := welcomes(tt.sequence, tt.rest); tt.sequence {
				case "-":
					world{b}.delete(b.Workspace, definition.KindWorkflow, "w")
				case "":
					b.Apply(strings.NewReplacer("  timezone: UTC\n", "  catch_up: 4h\n", " of round {{ iteration }}", "").Replace(edited))
				default:
					if tt.rest == "" {
						edited = strings.Replace(edited, "message of", "other message of", 1)
					}
					b.Apply(edited)
				}
				same(b, "sent", to(b, may(28, "00:00")), tt.sent)
				same(b, "rows", courseRows(b), tt.rows)
			})
		})
	}
}

// A freed key begins the course again, under keys of its own, and ends what was still to come of the one before it.
//
// Shows: C10.
func TestASeriesAfterAnEventThatIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, welcomes(threeMessages, ""), nil)
		first := b.Post(registered("ann", ""))
		to(b, may(18, "00:00"))
		second, err := s.InstanceByKey(t.Context(), b.Workspace.ID, first.Instances[0].Key+":d2026-05-17")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Operator().RetryInstance(t.Context(), b.Workspace.ID, second.ID, "ann", b.Now()); err != nil { // takes e2:retry:1
			t.Fatal(err)
		}
		var refused *operator.StateError
		if _, err := b.Operator().Forget(t.Context(), b.Workspace.ID, second.Key, "ann", b.Now()); !errors.As(err, &refused) || !strings.HasSuffix(refused.Hint, first.Instances[0].Key) {
			t.Errorf("a later message was forgotten: %v", err)
		}
		to(b, may(18, "02:00"))
		if _, err := b.Operator().Forget(t.Context(), b.Workspace.ID, first.Instances[0].Key, "ann", b.Now()); err != nil {
			t.Fatal(err)
		}
		again := b.Post(registered("ann", ""))
		if again.Outcome != ingest.Created || again.Instances[0].Key != first.Instances[0].Key+":retry:1" {
			t.Fatalf("%+v", again)
		}
		same(b, "sent", to(b, may(30, "00:00")), []string{"18 02:00 ann@example.org hello ", "21 12:00 ann@example.org message of round 1", "25 12:00 ann@example.org message of round 1"})
		same(b, "rows", courseRows(b), []string{
			"14 05:12 completed expanded", "d17 17 12:00 completed expanded", "d21 21 12:00 cancelled forgotten", "d17:retry:1 18 00:00 completed retried_by_operator",
			"retry:1 18 02:00 completed expanded", "d21:retry:1 21 12:00 completed expanded", "d25:retry:1 25 12:00 completed expanded",
		})
	})
}

// A process that dies with the messages of a course loses none of them, and sends none twice.
func TestASeriesAfterAnEventAndADeath(t *testing.T) {
	t.Parallel()
	for point, rest := range map[string]string{fanout.AfterTaken: "retry: {lease: 1m}", fanout.AfterChunk: ""} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				dies := true
				b := enginetest.Setup(t, s, welcomes(threeMessages, rest), func(c *engine.Config) {
					c.Failpoint = func(at string) error {
						if at == point && dies {
							dies = false
							return errors.New("it dies")
						}
						return nil
					}
				})
				b.Post(registered("ann", ""))
				b.At(b.Clock.Now())
				b.Provider.Sent()
				b.Clock.Set(may(17, "12:00"))
				if _, err := b.Tick(t.Context()); err == nil {
					t.Fatal("it did not die")
				}
				same(b, "sent", to(b, may(28, "00:00")), map[string][]string{
					fanout.AfterTaken: {"17 12:01 ann@example.org message of round 1", "21 12:00 ann@example.org message of round 1"},
					fanout.AfterChunk: {"17 12:00 ann@example.org message of round 1", "21 12:00 ann@example.org message of round 1"},
				}[point])
			})
		})
	}
}
