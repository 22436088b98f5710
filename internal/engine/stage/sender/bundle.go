package sender

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// errMoved means that a message changed after the intent that folded it. The claims are released and read again.
var errMoved = errors.New("a message that was folded into another one has changed meanwhile")

// unfolded is a message that does not leave with its fold head after all.
type unfolded struct {
	store.Unfold
	entry journal.Entry
}

// bundle writes the texts of a job's fold members into it, in the order in which the messages were due. A member that cannot be written fails by
// itself and does not stop the others. A member that does not fit asks for a slot of its own.
func (s *Sender) bundle(ctx context.Context, ws catalog.Workspace, j *job, events map[store.EventRef]store.EventRow, now time.Time) ([]unfolded, error) {
	c := &j.claim
	type one struct {
		row  delivery.Row
		part message.Part
	}
	list := []one{{c.Row, message.Part{Subject: j.out.Subject, Text: j.out.Text, HTML: j.out.HTML}}}
	var out []unfolded
	for _, row := range c.Folded {
		as := row
		as.Channel, as.AttemptNo = c.Channel, 1 // by its own channel, or by its fallback
		if as.SendAt = c.Slot; as.SendAt.IsZero() {
			as.SendAt = c.Due()
		}
		rules, err := s.rulesNow(ctx, as)
		if err != nil {
			return nil, err
		}
		if rules.Trigger == nil || rules.Channel == nil { // its own claim will record the reason
			out = append(out, requeueFolded(*c, row, reason.WorkflowInactive, nil, now))
			continue
		}
		ev := events[store.EventRef{Workspace: row.Workspace, ID: row.Event}]
		if j.later != nil || len(messageOf(rules, ev.Kind).Data) > 0 { // after an edit: a message that reads data leaves by itself
			out = append(out, requeueFolded(*c, row, reason.CannotRead, nil, now))
			continue
		}
		text, err := s.write(ws, delivery.Claim{Row: as, Person: c.Person}, rules, ev, now, shownData{})
		switch {
		case err == nil:
			list = append(list, one{row, message.Part{Subject: text.Subject, Text: text.Text, HTML: text.HTML}})
		case row.Channel != c.Channel: // its own channel may have a text
			out = append(out, requeueFolded(*c, row, reason.CannotRender, err, now))
		default:
			out = append(out, s.failed(*c, row, rules, err, now))
		}
	}
	if len(list) == 1 {
		return out, nil
	}
	slices.SortStableFunc(list, func(a, b one) int {
		if first := a.row.ID == c.ID; j.digest != nil && first != (b.row.ID == c.ID) { // a digest is not an addition to what leaves with it
			return map[bool]int{true: -1, false: 1}[first]
		}
		return cmp.Or(a.row.NotBefore.Compare(b.row.NotBefore), cmp.Compare(a.row.ID, b.row.ID))
	})
	parts := make([]message.Part, len(list))
	keep := 0
	for i, o := range list {
		if parts[i] = o.part; o.row.ID == c.ID {
			keep = i
		}
	}
	var whole message.Part
	var left []int
	if email := admission.Kind(c.Channel) == "email"; j.digest != nil { // it comes first, and its page stays whole
		whole, left = message.Append(parts, email, message.Limits{})
	} else {
		whole, left = message.Bundle(parts, keep, email, message.Limits{})
	}
	for _, i := range left {
		out = append(out, requeueFolded(*c, list[i].row, reason.OutputTooLarge, nil, now))
	}
	j.out.Subject, j.out.Text, j.out.HTML = whole.Subject, whole.Text, whole.HTML
	return out, nil
}

// requeueFolded makes a message ask for a slot of its own. Nothing holds it back any more.
func requeueFolded(c delivery.Claim, row delivery.Row, why reason.Reason, cause error, now time.Time) unfolded {
	row.LeaveFold(now)
	e := admission.Describe(delivery.Claim{Row: row, Person: c.Person})
	e.At, e.What, e.Reason, e.Until = now, journal.Deferred, why, now
	if cause != nil {
		e.Error = clip(cause.Error())
	}
	return unfolded{store.Unfold{Row: row}, e}
}

// failed ends a message that cannot be written, and makes its fallback as for a message that leaves alone.
func (s *Sender) failed(c delivery.Claim, row delivery.Row, rules admission.Rules, cause error, now time.Time) unfolded {
	why := refusal(cause).Reason
	row.FailOutOfFold(why, now)
	own := delivery.Claim{Row: row, Person: c.Person}
	u := unfolded{entry: admission.Describe(own)}
	u.Row, u.Fallback = row, s.afterFailure(own, rules, now)
	u.Attempt = &delivery.Attempt{
		Workspace: row.Workspace, Delivery: row.ID, Step: row.Step + 1, Channel: row.Channel, IntentAt: now, SettledAt: now,
		Outcome: delivery.AttemptNone, Reason: why, Error: clip(cause.Error()),
	}
	u.entry.At, u.entry.What, u.entry.Reason, u.entry.Error = now, journal.Failed, why, u.Attempt.Error
	return u
}

// further reports whether any fold member of a job has a fallback channel left when the job's channel has failed for good. If this cannot be
// determined, each member asks for a slot of its own and finds out.
func (f *sendBatch) further(j *job, now time.Time) bool {
	return slices.ContainsFunc(j.claim.Folded, func(row delivery.Row) bool {
		rules, err := f.rulesNow(f.ctx, row)
		if err != nil {
			f.Log.Warn("the members of a failed fold are requeued by themselves", "error", err)
			return true
		}
		return rules.Trigger != nil && f.afterFailure(delivery.Claim{Row: row, Person: j.claim.Person}, rules, now) != nil
	})
}

// unfold writes the messages that do not leave with their fold head, before the head leaves.
func (s *Sender) unfold(ctx context.Context, list []unfolded, now time.Time) error {
	if len(list) == 0 {
		return nil
	}
	rows := make([]store.Unfold, len(list))
	for i, u := range list {
		rows[i] = u.Unfold
	}
	var unchanged int
	err := s.Store.Write(ctx, func(tx *store.Tx) (err error) {
		unchanged, err = tx.Unfold(now, rows)
		return err
	})
	if err != nil {
		return err
	}
	if unchanged < len(rows) {
		return errMoved
	}
	for _, u := range list {
		s.Journal.Write(u.entry)
		if u.Fallback != nil {
			s.Journal.Write(admission.Entry(*u.Fallback, u.entry.Contact, now))
		}
	}
	return nil
}

// refusal returns the failure of a message that cannot be written.
func refusal(err error) *channel.SendError {
	var known *channel.SendError
	if errors.As(err, &known) {
		return known
	}
	refused := &channel.SendError{Reason: reason.CannotRender, Err: err}
	var bad *message.RenderError
	if errors.As(err, &bad) {
		refused.Reason = bad.Reason
	}
	return refused
}
