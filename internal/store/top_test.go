package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The contacts with the most messages are counted by channel, without deliveries that were not sent or were made earlier.
func TestTop(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		f := setup(t, s)
		ada, bob := f.contact("ada"), f.contact("bob")
		var sent []delivery.Row
		for i := range 7 {
			in := f.instance(fmt.Sprint("top:", i), instance.Completed)
			d := f.delivery(in, ada)
			if i < 2 {
				d.Contact = bob
			}
			if i == 3 {
				d.Channel = "email:smtp"
			}
			if i == 6 {
				d.CreatedAt = now.Add(-time.Hour) // made before
			}
			f.add(store.OccasionWrites{Instances: []instance.Row{in}})
			if i != 5 { // the other one waits
				d.LastSentAt, d.Step, d.AttemptNo = now, 1, 1
			}
			sent = append(sent, d)
		}
		f.must(s.InsertTried(t.Context(), sent))
		top, err := s.Top(t.Context(), f.ws, now, 10)
		f.must(err)
		got := ""
		for _, one := range top {
			got += fmt.Sprint(one.Contact.ExtID, " ", one.N, " ", one.Channels, "; ")
		}
		if want := "ada 3 map[email:smtp:1 sms:twilio:2]; bob 2 map[sms:twilio:2]; "; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if top, err = s.Top(t.Context(), f.ws, now, 1); err != nil || len(top) != 1 || top[0].Contact.ID != ada {
			t.Errorf("the first: %+v, %v", top, err)
		}
	})
}
