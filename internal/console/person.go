package console

import (
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/trace"
)

// personMoment is one point of a person's timeline: a message that was sent, will be, or was not.
type personMoment struct {
	at       time.Time // zero: nobody can say
	badge    badge
	workflow string
	channel  string
	href     string
	text     string
}

// personLine is what a person got, will get and did not get: what comes, the next first, then what was, the latest first.
func personLine(rows []delivery.Row, outlook func(delivery.Row) (admission.Outlook, bool), href func(delivery.ID) string) (next, past []personMoment) {
	for _, d := range rows {
		of := func(at time.Time, b badge, text string) personMoment {
			return personMoment{at: at, badge: b, workflow: d.Workflow, channel: channelName(d.Channel), href: href(d.ID), text: text}
		}
		if !d.LastSentAt.IsZero() {
			past = append(past, of(d.LastSentAt, badge{good, "sent"}, sentText(d)))
		}
		if ahead, planned := outlook(d); planned {
			next = append(next, of(ahead.At, aheadBadge(ahead), aheadText(d, ahead)))
			continue
		}
		switch d.Status {
		case delivery.Skipped, delivery.Superseded, delivery.Cancelled, delivery.Failed, delivery.Expired:
			if d.Status == delivery.Expired && !d.LastSentAt.IsZero() {
				continue // it was sent, and nobody answered
			}
			past = append(past, of(d.CompletedAt, badge{deliveryTone(d.Status), "not sent"}, capital(string(d.Status))+". "+why(d)))
		case delivery.Unknown:
			past = append(past, of(d.UnknownSince, badge{odd, "unknown"}, why(d)))
		case delivery.Responded:
			past = append(past, of(d.CompletedAt, badge{good, "answered"}, ""))
		case delivery.Scheduled, delivery.Sent, delivery.Opened:
		}
	}
	slices.SortStableFunc(next, func(a, b personMoment) int {
		if a.at.IsZero() != b.at.IsZero() { // who can say when comes first
			if a.at.IsZero() {
				return 1
			}
			return -1
		}
		return a.at.Compare(b.at)
	})
	slices.SortStableFunc(past, func(a, b personMoment) int { return b.at.Compare(a.at) })
	return next, past
}

func sentText(d delivery.Row) string {
	if d.Step > 1 {
		return capital(stepName(d.Step)) + "."
	}
	return ""
}

func aheadBadge(o admission.Outlook) badge {
	switch {
	case o.Reason == "":
		return badge{wait, "will be sent"}
	case o.At.IsZero():
		return badge{hold, "waits"}
	}
	return badge{wait, "waits"}
}

func aheadText(d delivery.Row, o admission.Outlook) string {
	text := ""
	if d.Step > 0 {
		text = comes(d.Step+1) + ". "
	}
	switch {
	case trace.WaitsFor(d) != "" && trace.WaitsFor(d) == o.Reason:
		text += why(d) // the limit that moved it, and the one that it waits for in the end
	case o.Reason != "":
		text += o.Reason.Sentence()
	}
	return strings.TrimSpace(text + besides(o))
}

// unionOf joins lists of deliveries, each delivery once.
func unionOf(lists ...[]delivery.Row) (all []delivery.Row) {
	seen := map[delivery.ID]bool{}
	for _, list := range lists {
		for _, d := range list {
			if !seen[d.ID] {
				seen[d.ID] = true
				all = append(all, d)
			}
		}
	}
	return all
}
