package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
)

// What left as one message says so, in both directions, while it waits and afterwards.
//
// Shows: R7.
func TestFolded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		folding := ""
		for _, name := range []string{"one", "two"} {
			folding += fmt.Sprintf("workflow: %s\ntype: alert\ntriggers:\n  - {id: t, event: %[1]s}\naudience:\n  - to: event.recipient\n"+
				"channel: inbox\nmessage:\n  inbox: {subject: s, text: %[1]s}\nlimits: {at_send: fold}\n---\n", name)
		}
		b.apply(definitions + "---\n" + folding + "workspace: default\ncadence: {cooldown: 1h}\n")
		post := func(kind string) string {
			b.clock.Set(b.clock.Now().Add(time.Minute))
			_, _, d := b.post(b.Client, client.Event{ID: b.clock.Now().String(), Kind: kind, Recipient: &client.Recipient{Address: "ann@example.org", CustomerRef: "ann"}})
			if _, err := b.Tick(ctx); err != nil {
				t.Fatal(err)
			}
			return d
		}
		post("one")
		head, member := post("one"), post("two")
		show := func(id string) client.DeliveryDetail {
			t.Helper()
			d, err := b.Delivery(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		check := func(headStatus, memberStatus string) {
			t.Helper()
			c, r := show(head), show(member)
			if c.Status != headStatus || c.FoldedInto != "" || c.FoldHead != nil || len(c.Folded) != 1 || c.Folded[0].ID != member || c.Folded[0].Status != memberStatus {
				t.Errorf("carries: %+v", c)
			}
			if r.Status != memberStatus || r.FoldedInto != head || r.FoldHead == nil || r.FoldHead.Workflow != "one" || r.FoldHead.Status != headStatus || r.Folded != nil {
				t.Errorf("rides: %+v", r)
			}
		}
		check("scheduled", "scheduled")
		if c, r := show(head), show(member); !c.SendAt.Equal(r.SendAt) {
			t.Errorf("they leave at %s and %s", c.SendAt, r.SendAt)
		}
		b.clock.Set(start.Add(61 * time.Minute))
		if _, err := b.Tick(ctx); err != nil {
			t.Fatal(err)
		}
		check("sent", "skipped")
		if c := show(head); len(c.Contents) != 1 || c.Contents[0].Text != "one\n\ntwo" || show(member).Reason != "folded_into" {
			t.Errorf("it said %+v", c.Contents)
		}
	})
}
