package admission

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/reason"
)

// Where the fold members of a claim go that does not leave.
func TestRefold(t *testing.T) {
	t.Parallel()
	head := delivery.Row{Workspace: 1, ID: 1, Fold: delivery.FoldHead, FoldedInto: 1, Status: delivery.Scheduled}
	change := func(f func(*delivery.Row)) delivery.Row { row := head; f(&row); return row }
	ended := func(row *delivery.Row) { row.Status, row.Reason = delivery.Cancelled, reason.Suppressed }
	for name, test := range map[string]struct {
		was  delivery.Row
		v    Verdict
		into delivery.ID
		ok   bool
	}{
		"sent":         {was: head, v: Verdict{Row: head, Send: true, Changed: true}},
		"waits":        {was: head, v: Verdict{Row: head, Changed: true}},
		"not a head":   {was: delivery.Row{ID: 1}, v: Verdict{Row: change(ended), Changed: true}},
		"ended":        {was: head, v: Verdict{Row: change(ended), Changed: true}, ok: true},
		"a fallback":   {was: head, v: Verdict{Row: change(ended), Changed: true, Fallback: &delivery.Row{ID: 7}}, into: 7, ok: true},
		"folded":       {was: head, v: Verdict{Row: change(func(r *delivery.Row) { r.SetFold(delivery.FoldMember, 4) }), Changed: true}, into: 4, ok: true},
		"maybe at its": {was: head, v: Verdict{Row: change(func(r *delivery.Row) { ended(r); r.UnknownSince = time.Unix(1, 0) }), Changed: true}},
	} {
		if to, ok := refold(test.was, test.v); ok != test.ok || ok && to.Into != test.into {
			t.Errorf("%s: into %d, %t", name, to.Into, ok)
		}
	}
}
