package console

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// What is ahead stands in the order in which it comes, with what nobody can date at its end; what was, the latest first.
func TestPersonLine(t *testing.T) {
	t.Parallel()
	at := func(h int) time.Time { return time.Date(2026, 5, 14, h, 0, 0, 0, time.UTC) }
	rows := []delivery.Row{
		{ID: 1, Status: delivery.Scheduled, SendAt: at(20)},
		{ID: 2, Status: delivery.Scheduled, SendAt: at(18)},
		{ID: 3, Status: delivery.Scheduled, Hold: delivery.HoldNoChannel, Reason: reason.NoChannel},
		{ID: 4, Status: delivery.Sent, Step: 1, LastSentAt: at(9), SendAt: at(19), Reason: reason.Delivered},
		{ID: 5, Status: delivery.Skipped, CompletedAt: at(10), Reason: reason.NoAddress},
		{ID: 6, Status: delivery.Expired, Step: 1, LastSentAt: at(5), CompletedAt: at(11)},
		{ID: 7, Status: delivery.Responded, Step: 1, LastSentAt: at(6), CompletedAt: at(7), Reason: reason.Delivered},
		{ID: 8, Status: delivery.Unknown, UnknownSince: at(8)},
	}
	outlook := func(d delivery.Row) (admission.Outlook, bool) { return admission.Ahead(d, admission.Circumstances{}) }
	next, past := personLine(rows, outlook, func(id delivery.ID) string { return string('0' + rune(id)) })
	said := func(list []personMoment) (text string) {
		for _, m := range list {
			text += m.href + " " + m.badge.word + "; "
		}
		return text
	}
	if got, want := said(next), "2 will be sent; 4 will be sent; 1 will be sent; 3 waits; "; got != want {
		t.Errorf("next: got %s, want %s", got, want)
	}
	if got, want := said(past), "5 not sent; 4 sent; 8 unknown; 7 answered; 7 sent; 6 sent; "; got != want {
		t.Errorf("past: got %s, want %s", got, want)
	}
	if got := unionOf(rows[:3], rows[2:]); len(got) != len(rows) {
		t.Errorf("%d deliveries of two lists, want %d", len(got), len(rows))
	}
}

// The head of a person's page names the kinds on which nothing is sent; with no other one left, nothing reaches them.
func TestStoppedState(t *testing.T) {
	t.Parallel()
	sms := store.StoppedKind{Kind: "sms", Stop: store.Stop{Reason: reason.OptedOut}}
	email := store.StoppedKind{Kind: "email", Stop: store.Stop{Reason: reason.AddressStopped}}
	reached := []admission.LimitStatus{{Kind: "sms"}, {Kind: "email"}}
	state, story := stoppedState(reached, []store.StoppedKind{sms})
	if state != (badge{hold, "no sms"}) || story != "No sms is sent: "+reason.OptedOut.Sentence() {
		t.Errorf("%v %s", state, story)
	}
	state, story = stoppedState(reached, []store.StoppedKind{sms, email})
	if state != (badge{hold, "not reachable"}) || story != "No sms is sent: "+reason.OptedOut.Sentence()+" No email is sent: "+reason.AddressStopped.Sentence() {
		t.Errorf("%v %s", state, story)
	}
}
