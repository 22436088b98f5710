package sender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// job is one claim with its rendered message, ready for its channel.
type job struct {
	claim   delivery.Claim
	rules   admission.Rules
	channel *channelpool.Channel // nil: refused
	at      time.Time            // when it may leave at the earliest; zero: at once
	signal  flow.Signal          // what its request showed about the provider
	out     channel.Outgoing
	verify  bool               // an earlier try may have arrived: the provider is asked first
	absent  bool               // the provider was asked and does not have it
	refused *channel.SendError // it could not be written or has no open channel: the attempt fails without a request
	// unwritten reports that the message could not be written. Its fold members do not fail with it.
	unwritten bool
	draws     key.Keyed
	sections  []journal.Section // of a digest, for the journal
	digest    *digest.Contents  // that it tells; nil: it is no digest
	probe     chan struct{}     // closed when the probe that it is has ended; nil: it is none
	// later reads the message's data, which takes a while, and then writes the message; nil: it is written.
	later func(ctx context.Context) (channel.Outgoing, error)
}

// render writes the messages of all claims. A message that cannot be written fails its own attempt only. Claims whose workflow or channel was removed
// since admission are returned as removed: the next claim of each records what becomes of it.
func (s *Sender) render(ctx context.Context, claims []delivery.Claim, contents map[delivery.ID]digest.Contents, now time.Time) (jobs []*job, removed []delivery.Claim, err error) {
	var refs []store.EventRef
	for _, c := range claims {
		if c.Event != 0 {
			refs = append(refs, store.EventRef{Workspace: c.Workspace, ID: c.Event})
		}
		for _, row := range c.Folded {
			if row.Event != 0 {
				refs = append(refs, store.EventRef{Workspace: row.Workspace, ID: row.Event})
			}
		}
	}
	events, err := s.Store.EventsByID(ctx, refs)
	if err != nil {
		return nil, nil, fmt.Errorf("read events: %w", err)
	}
	digests, err := s.readShown(ctx, claims, contents)
	if err != nil {
		return nil, nil, err
	}
	jobs = make([]*job, 0, len(claims))
	var out []unfolded
	for _, c := range claims {
		j := &job{claim: c}
		ws, err := s.Catalog.Workspace(c.Workspace)
		if err != nil {
			return nil, nil, err
		}
		if j.rules, err = s.rulesNow(ctx, c.Row); err != nil {
			return nil, nil, err
		}
		if j.rules.Trigger == nil || j.rules.Channel == nil {
			removed = append(removed, c)
			continue
		}
		j.draws = ws.Jitter
		if contents, ok := contents[c.ID]; ok {
			j.digest, j.sections = &contents, digests.sections(c)
		}
		j.verify = c.OutcomeUnknown() && j.rules.Channel.OnUnknown == definition.OnUnknownVerify
		ev := events[store.EventRef{Workspace: c.Workspace, ID: c.Event}]
		if data := messageOf(j.rules, ev.Kind).Data; len(data) > 0 {
			j.out, j.later = s.blank(ws, c, j.rules, ev), s.reading(ws, c, j.rules, ev, now, digests)
		} else {
			j.out, err = s.write(ws, c, j.rules, ev, now, shownData{digests: digests})
		}
		if err != nil {
			j.refused, j.unwritten = refusal(err), true
		} else if j.channel, err = s.Channels.Get(c.Workspace, j.rules.Channel); err != nil {
			if !errors.As(err, &j.refused) {
				j.refused = channel.Temporary(err)
			}
		}
		if len(c.Folded) > 0 && j.refused == nil {
			left, err := s.bundle(ctx, ws, j, events, now)
			if err != nil {
				return nil, nil, err
			}
			out = append(out, left...)
		}
		jobs = append(jobs, j)
	}
	return jobs, removed, s.unfold(ctx, out, now)
}

// rulesNow is rulesOf outside of a transaction: it loads definitions that came into force, or were evicted, since admission.
func (s *Sender) rulesNow(ctx context.Context, row delivery.Row) (admission.Rules, error) {
	for try := 1; ; try++ {
		var r admission.Rules
		live, err := s.Catalog.Loaded(row.Workspace, 0)
		if err == nil {
			r, err = s.rulesOf(row, live)
		}
		if err == nil || try == loads {
			return r, err
		}
		if loaded, loadErr := s.Catalog.Load(ctx, err); loadErr != nil {
			return r, loadErr
		} else if !loaded {
			return r, err
		}
	}
}

// blank returns the message of one claim without its texts.
func (s *Sender) blank(ws catalog.Workspace, c delivery.Claim, r admission.Rules, ev store.EventRow) channel.Outgoing {
	step := c.Step + 1
	out := channel.Outgoing{
		Workspace: ws.Name, DeliveryID: ws.IDs.Encode(key.KindDelivery, int64(c.Workspace), int64(c.ID)),
		Workflow: c.Workflow, Channel: c.Channel, IdempotencyKey: key.Delivery(c.Key).IdempotencyIn(int64(c.Workspace), step), Address: c.Address,
		Step: step, Attempt: c.AttemptNo, Turn: c.Turn, Event: []byte(ev.PayloadJSON),
	}
	if r.Trigger != nil && messageOf(r, ev.Kind).Survey != "" && !r.Converses() {
		out.Link = link(r.Set.Workspace.BaseURL, s.PublicURL, out.DeliveryID)
	}
	return out
}

// maxMetadataValue bounds a value of metadata, in characters.
const maxMetadataValue = 500

// shownData is what was read for messages besides their occasions.
type shownData struct {
	data    map[string]any // of the message; nil: it reads none
	digests shown
}

// write renders the message of one claim.
func (s *Sender) write(ws catalog.Workspace, c delivery.Claim, r admission.Rules, ev store.EventRow, now time.Time, read shownData) (channel.Outgoing, error) {
	out := s.blank(ws, c, r, ev)
	locales := []string{c.Locale, c.Person.Locale, r.Workflow.Locale, r.Set.Workspace.Locale}
	texts, options, err := textsOf(r, c.Row, ev.Kind, cmp.Or(locales...))
	if err != nil {
		return out, err
	}
	vars := s.readingOf(c, r, ev, now).Variables()
	vars["step"], vars["attempt"] = out.Step, out.Attempt
	vars["survey"] = map[string]any{"link": link(r.Set.Workspace.BaseURL, s.PublicURL, out.DeliveryID)}
	if read.data != nil {
		vars["data"] = read.data
	}
	reader := message.Reader{Zone: admission.Zone(&s.Catalog.Zones, r.Set, c.Person)}
	link, err := s.subscriberVariables(vars, c, r, ev, now, read.digests, locales)
	if err != nil {
		return out, err
	}
	fill := func(text message.Text, into *string) error {
		template, locale, ok := text.Pick(locales...)
		if !ok {
			return nil
		}
		reader.Locale, reader.Language = locale, cmp.Or(locale, r.Workflow.Locale, r.Set.Workspace.Locale)
		if *into, err = template.RenderFor(reader, vars, message.Limits{}); err != nil {
			return fmt.Errorf("render: %w", err)
		}
		if out.Locale == "" {
			out.Locale = locale
		}
		return nil
	}
	for _, part := range []struct {
		text message.Text
		into *string
	}{
		{texts.Subject, &out.Subject},
		{texts.Text, &out.Text},
		{texts.HTML, &out.HTML},
		{texts.From, &out.From},
		{texts.ReplyTo, &out.ReplyTo},
	} {
		if err := fill(part.text, part.into); err != nil {
			return out, err
		}
	}
	choices := make([]string, len(options))
	for i, o := range options {
		if err := fill(o, &choices[i]); err != nil {
			return out, err
		}
	}
	out.Text = numbered(out.Text, choices)
	for _, name := range slices.Sorted(maps.Keys(texts.Headers)) {
		value := ""
		if err := fill(texts.Headers[name], &value); err != nil {
			return out, err
		}
		if value == "" {
			continue
		}
		if out.Headers == nil {
			out.Headers = make(map[string]string, len(texts.Headers))
		}
		out.Headers[name] = value
	}
	subscriberHeaders(&out, c, link)
	metadata := messageOf(r, ev.Kind).Metadata
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		value := ""
		if err := fill(metadata[name], &value); err != nil {
			return out, err
		}
		switch {
		case value == "":
			continue
		case utf8.RuneCountInString(value) > maxMetadataValue:
			return out, &message.RenderError{Reason: reason.CannotRender, Detail: fmt.Sprintf("the metadata %s is longer than %d signs", name, maxMetadataValue)}
		case out.Metadata == nil:
			out.Metadata = make(map[string]string, len(metadata))
		}
		out.Metadata[name] = value
	}
	if out.Text == "" && out.HTML == "" && out.Subject == "" {
		return out, &message.RenderError{Reason: reason.CannotRender, Detail: "the message has no text for channel " + c.Channel}
	}
	return out, nil
}

// messageOf returns the message definition for an event of this kind.
func messageOf(r admission.Rules, kind string) definition.Message {
	if resolved := r.Trigger.ResolvedMessage(); kind == subject.ConditionCleared && resolved != nil {
		return *resolved
	}
	return r.Trigger.Message
}

// link returns the public address of a delivery.
func link(workspace, server, id string) string {
	base := workspace
	if base == "" {
		base = server
	}
	if base == "" {
		return ""
	}
	return strings.TrimSuffix(base, "/") + "/s/" + id
}

// readingOf returns what the message of a claim may read.
func (s *Sender) readingOf(c delivery.Claim, r admission.Rules, ev store.EventRow, now time.Time) plan.Reading {
	return plan.Reading{
		Set: r.Set, Workflow: r.Workflow, Delivery: c.Row, Contact: c.Person.Contact, Event: ev.Event, Now: now, Zones: &s.Catalog.Zones,
	}
}

// outcome is the result of an attempt and what follows from it, unless the delivery was stopped or answered meanwhile.
type outcome struct {
	claim    delivery.Claim
	change   delivery.Change
	attempt  delivery.Attempt
	content  *store.Content
	said     *store.SessionMessage // in a conversation
	digest   *digest.Contents      // that it told; nil: it is no digest
	fallback *delivery.Row         // made if the delivery has failed
	unfold   bool                  // its fold members take slots of their own
	entry    journal.Entry
}

// settle decides what follows from the result of an attempt.
func (j *job) settle(result delivery.Result, receipt channel.Receipt, cause error, now time.Time) *outcome {
	c := j.claim
	row := c.Row
	if j.absent {
		row.UnknownSince = time.Time{}
	}
	change := delivery.After(row, j.rules.Policy, result, now, func(limit uint64) uint64 {
		return j.draws.Uniform(limit, admission.RetryDraw(c)...)
	})
	o := &outcome{
		claim: c, change: change, digest: j.digest, unfold: j.unwritten && change.Status == delivery.Failed,
		attempt: delivery.Attempt{
			Workspace: c.Workspace, Delivery: c.ID, Number: c.AttemptNo, Step: c.Step + 1, Channel: c.Channel,
			IdempotencyKey: j.out.IdempotencyKey, IntentAt: c.IntentAt, SettledAt: now, Outcome: result.Outcome,
			Reason: result.Reason, ProviderID: clip(receipt.ProviderID),
		},
	}
	if cause != nil {
		o.attempt.Error = clip(cause.Error())
	}
	if j.channel != nil && j.channel.KeepContent && change.Accepted {
		o.content = &store.Content{
			Workspace: c.Workspace, Delivery: c.ID, Step: c.Step + 1, At: now, Channel: c.Channel, Address: c.Address,
			Locale: j.out.Locale, Subject: j.out.Subject, Text: j.out.Text, HTML: j.out.HTML,
		}
	}
	if _, ok := row.Spoken(); ok && change.Accepted {
		o.said = &store.SessionMessage{Workspace: c.Workspace, Delivery: c.ID, Step: c.Step + 1, At: now, Text: j.out.Text}
	}
	o.entry = journal.Entry{At: now, What: what(result, change), Reason: change.Reason, Until: change.SendAt, ProviderID: receipt.ProviderID, Error: o.attempt.Error}
	j.describe(&o.entry)
	o.entry.Remaining = change.Remaining
	if !change.DueAt.IsZero() { // the row has the reason why it waits
		o.entry.Reason = result.Reason
	}
	return o
}

// over applies an outcome to its row as it is now.
func (o *outcome) over(row delivery.Row, now time.Time) store.Settlement {
	next, release := delivery.Settled(row, o.change, now)
	if next.Reported() { // while the request was in flight
		next, release = next.Settling(now), false
	}
	s := store.Settlement{Row: next, Was: row.Status, Release: release, Attempt: o.attempt, Content: o.content, Said: o.said}
	if next.Status == delivery.Failed {
		s.Fallback = o.fallback
	}
	if o.change.Retried && o.change.HeldBackTo.IsZero() && !next.Slot.IsZero() && !next.SendAt.IsZero() {
		s.Together = admission.Kind(row.Channel)
	}
	refold := delivery.Refold{Workspace: row.Workspace, From: row.ID}
	switch {
	case !o.claim.IsFoldHead():
	case s.Fallback != nil:
		refold.Into = s.Fallback.ID
		s.Refold = &refold
	case o.unfold, next.Status == delivery.Cancelled && o.change.UnknownSince.IsZero() && !o.change.Accepted:
		s.Refold = &refold
	}
	return s
}

func what(result delivery.Result, change delivery.Change) journal.What {
	switch {
	case change.Accepted:
		return journal.Sent
	case result.Outcome == delivery.AttemptUnknown && !change.Retried:
		return journal.Unknown
	case change.Retried:
		return journal.Retried
	}
	return journal.Failed
}

// describe fills an entry from the claim and the rendered message.
func (j *job) describe(e *journal.Entry) {
	d := admission.Describe(j.claim)
	d.At, d.What, d.Reason, d.Until, d.ProviderID, d.Error = e.At, e.What, e.Reason, e.Until, e.ProviderID, e.Error
	d.Subject, d.Text, d.HTML, d.Headers, d.Sections = j.out.Subject, j.out.Text, j.out.HTML, j.out.Headers, j.sections
	if j.out.Locale != "" {
		d.Locale = j.out.Locale
	}
	*e = d
}

// clip shortens an error's text for a row and removes bytes that the database refuses: whatever text a channel returns, its result and those beside
// it are written.
func clip(s string) string {
	const most = 500
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
