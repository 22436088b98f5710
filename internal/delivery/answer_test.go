package delivery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/reason"
)

// Shows: C32, C33 and product decision 44.
func TestAnswering(t *testing.T) {
	t.Parallel()
	answered := Row{ID: 2, Status: Responded}
	tests := []struct {
		name string
		row  Row
		also []Row
		late bool
		want Answering
	}{
		{"C32 before the first send", Row{Status: Scheduled}, nil, false, TakesAnswer},
		{"C32 sent", Row{Status: Sent}, nil, false, TakesAnswer},
		{"opened", Row{Status: Opened}, nil, false, TakesAnswer},
		{"its outcome is unknown", Row{Status: Unknown}, nil, false, TakesAnswer},
		{"failed: the link may have arrived another way", Row{Status: Failed}, nil, false, TakesAnswer},
		{"skipped", Row{Status: Skipped}, nil, false, Closed},
		{"superseded", Row{Status: Superseded}, nil, false, Closed},
		{"cancelled", Row{Status: Cancelled}, nil, true, Closed},
		{"decision 44: expired", Row{Status: Expired}, nil, false, Closed},
		{"decision 44: accept_late", Row{Status: Expired}, nil, true, TakesAnswer},
		{"decision 44: a second time", Row{Status: Responded}, nil, true, Answered},
		{"answered on another channel", Row{Status: Cancelled}, []Row{answered}, false, Answered},
		{"failed, and answered on another channel", Row{Status: Failed}, []Row{answered}, false, Answered},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.row.Answering(append(test.also, test.row), test.late); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Shows: C31.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, status := range Statuses() {
		row := Row{Status: status, SendAt: now}
		if next, changed := row.Open(); changed != (status == Sent) || changed && (next.Status != Opened || next.SendAt != now) {
			t.Errorf("%s: got %+v, %t", status, next, changed)
		}
	}
	inFlight := Row{Status: Scheduled, IntentAt: now, LeaseUntil: now.Add(time.Minute)}
	if next, changed := inFlight.Open(); !changed || next.Status != Opened {
		t.Errorf("in flight: got %+v, %t", next, changed)
	}
}

// An answer ends what waits of the same occasion and contact, on every channel.
func TestAnswer(t *testing.T) {
	t.Parallel()
	sent := Row{ID: 1, Status: Sent, Step: 1, SendAt: now.Add(day), LastSentAt: created, Slot: created, EligibleAt: now}
	waits := Row{ID: 2, Status: Scheduled, SendAt: now.Add(day), Slot: now.Add(day), Hold: HoldPaused}
	flies := Row{ID: 3, Status: Scheduled, SendAt: now, Slot: now, IntentAt: now, LeaseUntil: now.Add(time.Minute)}
	done := Row{ID: 4, Status: Sent, Step: 1, LastSentAt: created, CompletedAt: created}
	failed := Row{ID: 5, Status: Failed, CompletedAt: created}
	awaits := Row{ID: 6, Status: Opened, Step: 1, LastSentAt: created, ExpiresAt: now.Add(day)}
	got := Answer([]Row{sent, waits, flies, done, failed, awaits}, 1, now)

	sent.Status, sent.Reason, sent.SendAt, sent.CompletedAt = Responded, reason.Answered, time.Time{}, now
	waits.Status, waits.Reason, waits.SendAt, waits.Slot, waits.Hold, waits.CompletedAt = Cancelled, reason.AnsweredElsewhere, time.Time{}, time.Time{}, "", now
	flies.StopReason = reason.AnsweredElsewhere
	awaits.Status, awaits.Reason, awaits.ExpiresAt, awaits.CompletedAt = Cancelled, reason.AnsweredElsewhere, time.Time{}, now
	if diff := cmp.Diff([]Row{sent, waits, flies, awaits}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever the result of a message that was in flight when its survey was answered: the answer stays, and nothing more is sent.
func TestAnAnswerOutlivesTheResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		row := Row{
			ID: 1, Status: rapid.SampledFrom([]Status{Scheduled, Sent, Opened}).Draw(t, "status"), NotBefore: created, SendAt: created, CreatedAt: created,
			RemindersRemaining: rapid.IntRange(0, 2).Draw(t, "reminders"), IntentAt: now, LeaseUntil: now.Add(time.Minute), Slot: created,
			AttemptNo: 1, RetryCount: rapid.IntRange(0, 3).Draw(t, "retries"),
		}
		if row.Status != Scheduled {
			row.Step, row.LastSentAt = 1, created
		}
		if rapid.Bool().Draw(t, "stopped") {
			row.StopReason = reason.CancelledByPerson
		}
		policy := Policy{Awaits: rapid.Bool().Draw(t, "awaits"), Backoff: ladder, HoldUnknown: rapid.Bool().Draw(t, "hold")}
		result := Result{
			Outcome: rapid.SampledFrom([]Outcome{AttemptDelivered, AttemptFailed, AttemptUnknown, AttemptNone}).Draw(t, "outcome"),
			Reason:  reason.Delivered, Retry: rapid.Bool().Draw(t, "retry"),
		}
		answered := Answer([]Row{row}, 1, now)[0]
		if answered.IntentAt.IsZero() || answered.LeaseUntil != row.LeaseUntil {
			t.Fatal("an answer took the claim from the worker")
		}
		got, _ := Settled(answered, After(answered, policy, result, now.Add(time.Second), nil), now.Add(time.Second))
		if got.Status != Responded || !got.SendAt.IsZero() || !got.ExpiresAt.IsZero() || got.CompletedAt != now {
			t.Fatalf("got %+v", got)
		}
	})
}
