package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
)

// What the end of a session, and an answer on a page, leave of the deliveries of its instance and contact.
func TestEndSession(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	rows := []Row{
		{ID: 1, Channel: "sms:default", Status: Sent, Step: 1, SendAt: later, Asks: "fever"},                                                        // began it
		{ID: 2, Channel: "sms:default", Status: Sent, Step: 1, SendAt: later, Turn: 1, Says: SaysQuestion, Asks: "pain"},                            // will be repeated
		{ID: 3, Channel: "sms:default", Status: Scheduled, SendAt: now, Turn: 2, Says: SaysInvalid, Asks: "pain"},                                   // has not left
		{ID: 4, Channel: "sms:default", Status: Scheduled, SendAt: now, Turn: 3, Says: SaysClosing},                                                 // its last words
		{ID: 5, Channel: "sms:default", Status: Sent, Step: 1, CompletedAt: now, Turn: 4, Says: SaysInvalid, Asks: "pain"},                          // has left
		{ID: 6, Channel: "sms:default", Status: Scheduled, SendAt: now, IntentAt: now, LeaseUntil: later, Turn: 5, Says: SaysInvalid, Asks: "pain"}, // is leaving
		{ID: 7, Channel: "sms:default", Status: Unknown, UnknownSince: now, Turn: 6, Says: SaysQuestion, Asks: "pain"},                              // may have arrived, which its session does not know
		{ID: 8, Channel: "whatsapp:default", Status: Sent, Step: 1, SendAt: later},                                                                  // began another one
		{ID: 9, Channel: "whatsapp:default", Status: Scheduled, SendAt: now, Turn: 1, Says: SaysQuestion, Asks: "pain"},                             // of the other one
	}
	show := func(changed []Row) (list []string) {
		for _, r := range changed {
			planned := ""
			if !r.SendAt.IsZero() {
				planned = " planned"
			}
			list = append(list, fmt.Sprint(r.ID, " ", r.Status, " ", r.Reason, " ", r.StopReason, planned))
		}
		return list
	}
	for _, c := range []struct {
		what string
		of   func() []Row
		want []string
	}{
		{"answered", func() []Row { _, changed := EndSession(rows, 1, true, reason.Partial, now); return changed }, []string{
			"1 responded partial ", "2 sent answered ", "3 cancelled answered ", "6 scheduled  answered planned", "8 cancelled answered_elsewhere ", "9 cancelled answered ",
		}},
		{"its time is over", func() []Row { _, changed := EndSession(rows, 1, false, reason.NoResponse, now); return changed }, []string{
			"1 expired no_response ", "2 sent answered ", "3 cancelled answered ", "6 scheduled  answered planned",
		}},
		{"stopped", func() []Row { _, changed := EndSession(rows, 1, false, reason.OptedOut, now); return changed }, []string{
			"1 sent opted_out ", "2 sent answered ", "3 cancelled answered ", "6 scheduled  answered planned",
		}},
		{"nobody's", func() []Row { _, changed := EndSession(rows, 99, true, reason.Answered, now); return changed }, nil},
		{"answered on its page", func() []Row { return Answer(rows, 1, now) }, []string{
			"1 responded answered ", "2 sent answered ", "3 cancelled answered ", "4 cancelled answered ", "6 scheduled  answered planned", "7 sent  ", "8 cancelled answered_elsewhere ", "9 cancelled answered ",
		}},
	} {
		if diff := cmp.Diff(c.want, show(c.of())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// Who replies to the first question has begun to answer: nothing more of it is sent, and it waits for the end.
func TestHeard(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what string
		row  Row
		want string
	}{
		{"a reminder waits", Row{Status: Sent, SendAt: now, RemindersRemaining: 2, Slot: now}, "opened   0 true"},
		{"nothing is planned", Row{Status: Sent}, "opened   0 true"},
		{"its outcome is not known", Row{Status: Unknown, UnknownSince: now}, "opened   0 true"},
		{"it is being sent", Row{Status: Scheduled, IntentAt: now, LeaseUntil: now.Add(time.Minute), RemindersRemaining: 1}, "scheduled  answered 1 true"},
		{"it is being sent, and stopped", Row{Status: Scheduled, IntentAt: now, LeaseUntil: now.Add(time.Minute), StopReason: reason.OptedOut}, "scheduled  opted_out 0 false"},
		{"it has ended", Row{Status: Cancelled, Reason: reason.OptedOut}, "cancelled opted_out  0 false"},
	} {
		row, changed := c.row.Heard(now)
		if got := fmt.Sprint(row.Status, " ", row.Reason, " ", row.StopReason, " ", row.RemindersRemaining, " ", changed); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if changed && row.StopReason == "" && (!row.SendAt.IsZero() || !row.CompletedAt.IsZero()) {
			t.Errorf("%s: planned for %s, completed at %s", c.what, row.SendAt, row.CompletedAt)
		}
	}
}

// What was written in the second in which a question was asked may answer it.
func TestHears(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 5, 14, 10, 0, 0, 700_000_000, time.UTC)
	second := asked.Truncate(time.Second)
	for _, c := range []struct {
		status         SessionStatus
		asked, written time.Time
		want           reason.Reason
	}{
		{SessionOpen, asked, asked.Add(time.Minute), ""},
		{SessionOpen, asked, asked, ""},
		{SessionOpen, asked, second, ""},
		{SessionOpen, asked, second.Add(-time.Microsecond), reason.AlreadyAnswered},
		{SessionOpen, time.Time{}, asked, reason.AlreadyAnswered},
		{SessionWaiting, time.Time{}, asked, reason.NoSession},
		{SessionWaiting, asked, asked, reason.NoSession},
	} {
		if got := (&Session{Status: c.status, AskedAt: c.asked}).Hears(c.written); got != c.want {
			t.Errorf("%s, asked at %s, written at %s: %q", c.status, c.asked, c.written, got)
		}
	}
}

// A question is not asked while nothing of its message may have arrived. One that is repeated was asked before.
func TestUnasked(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what string
		row  Row
		want bool
	}{
		{"the first question", Row{Asks: "fever"}, true},
		{"a further question", Row{Asks: "fever", Turn: 1, Says: SaysQuestion}, true},
		{"the question again", Row{Asks: "fever", Turn: 1, Says: SaysInvalid}, false},
		{"the closing", Row{Turn: 1, Says: SaysClosing}, false},
		{"sent", Row{Asks: "fever", LastSentAt: at}, false},
		{"unknown", Row{Asks: "fever", UnknownSince: at}, false},
		{"in flight", Row{Asks: "fever", IntentAt: at}, false},
	} {
		if got := c.row.Unasked(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
