package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/feedback"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// What is reported again and again of a message is one receipt, and the newest receipts are those that are shown.
func TestManyReceipts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		w := newWorld(t, s, fmt.Sprintf(alarms, "hold", "10/s"))
		w.ann()
		w.Provider.Next(channel.Temporary(errors.New("busy")))
		id := w.alarm("1")
		w.live("10:30")
		attempts := w.Attempts(id)
		if len(attempts) != 2 {
			t.Fatal(w.outcomes(id))
		}
		of := func(status feedback.Status, message, detail string) receipt.Report {
			return receipt.Report{Status: status, Delivery: id, Step: 1, Message: message, Detail: detail}
		}
		read := func() (list []string) {
			t.Helper()
			receipts, err := s.Receipts(t.Context(), w.Workspace.ID, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range receipts {
				list = append(list, strings.TrimSpace(fmt.Sprint(r.Attempt, " ", feedback.Name(feedback.Status(r.Status), r.Soft), " ", r.Detail)))
			}
			return list
		}
		sent := attempts[1].ProviderID
		again := []receipt.Report{
			of(feedback.Deferred, sent, "busy"), of(feedback.Deferred, sent, "busy"), of(feedback.Deferred, sent, "full"), of(feedback.Delivered, sent, ""), of(feedback.Delivered, sent, ""),
			of(feedback.Deferred, sent, "busy"), of(feedback.Delivered, sent, ""),
		}
		w.reports(again...)
		want := []string{"2 deferred busy", "2 deferred full", "2 delivered", "2 deferred busy", "2 delivered"}
		w.is("in one call", read(), want)
		for range 3 {
			w.reports(of(feedback.Delivered, sent, ""))
		}
		w.is("in further ones", read(), want)
		soft := of(feedback.Bounced, sent, "30003")
		soft.Soft = true
		w.reports(soft, of(feedback.Bounced, sent, "30003"), of(feedback.Bounced, sent, "30003"))
		w.reports(soft)
		w.is("a bounce after a soft one", read(), append(want, "2 soft bounce 30003", "2 bounced 30003", "2 soft bounce 30003"))
		want = nil
		var list []receipt.Report
		for n := range 120 {
			detail := fmt.Sprint(n)
			list = append(list, of(feedback.Deferred, sent, detail))
			want = append(want, "2 deferred "+detail)
		}
		w.reports(list...)
		w.reports(of(feedback.Read, sent, ""))
		w.is("the newest", read(), append(want[21:], "2 read"))
	})
}
