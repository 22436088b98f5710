package console

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
)

// Entries that say the same of many messages are one row; each message that was sent is a row of its own.
func TestEqualRowsAreGrouped(t *testing.T) {
	t.Parallel()
	at := func(m int) time.Time { return time.Date(2026, 5, 14, 18, m, 0, 0, time.UTC) }
	var entries []journal.Entry // the newest first
	for m := 59; m >= 40; m-- {
		entries = append(entries,
			journal.Entry{At: at(m), What: journal.Retried, Reason: reason.ChannelDown, Channel: "sms:default", Workflow: "w" + string('a'+rune(m%2)), Delivery: delivery.ID(m), Address: "+1"},
			journal.Entry{At: at(m), What: journal.Sent, Reason: reason.Delivered, Channel: "email:smtp", Delivery: delivery.ID(m)})
	}
	entries = append(entries, journal.Entry{At: at(30), What: journal.Skipped, Reason: reason.NoAddress, Channel: "sms:default"}, journal.Entry{At: at(20), What: journal.Skipped, Reason: reason.NoAddress, Channel: "sms:default"})
	all := grouped(entries, 1000)
	if len(all) != 1+20+2 || all[0].n != 20 || !all[0].since.Equal(at(40)) || all[1].n != 1 {
		t.Fatalf("%d rows, the first of %d since %s", len(all), all[0].n, all[0].since)
	}
	if got := grouped(entries, 5); len(got) != 5 || got[0].n != 20 {
		t.Errorf("%d rows of at most 5", len(got))
	}
	v := visit{scale: scale{now: at(59), zone: time.UTC}, ids: key.NewPublicIDs([]byte("secret"))}
	l := v.batchLine(all[0])
	if l.what != "20 × channel down, sms" || l.href != "/deliveries?channel=sms%3Adefault&reason=channel_down" || l.to != "" {
		t.Errorf("the row is %+v", l)
	}
	if want := reason.ChannelDown.Sentence() + " Since 18:40."; l.why != want {
		t.Errorf("got %q, want %q", l.why, want)
	}
	if before := v.batchLine(grouped(entries[2:], 1)[0]); before.id != l.id {
		t.Errorf("the row counts as another one when it grows: %q, %q", before.id, l.id)
	}
}

// An event of a kind that no workflow knows has neither a channel nor a workflow.
func TestBatchOfNowhere(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	v := visit{scale: scale{now: at, zone: time.UTC}, ids: key.NewPublicIDs([]byte("secret"))}
	e := journal.Entry{At: at, What: journal.NoMatch, Reason: reason.NoWorkflow}
	if l := v.batchLine(batch{e, 20, at}); l.what != "20 × no workflow" {
		t.Errorf("the row is called %q", l.what)
	}
}
