package loader

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/schedule"
)

// typeDigest is the type of workflows whose schedules make digests.
const typeDigest = "digest"

// mostItems bounds the items of one message: providers refuse mails of more than one or two megabytes.
const mostItems = 1000

// digest reads how digests are put together; missing keys have their defaults. nil: the workflow makes none.
func (r *reader) digest(n *portable.Node, typ string) *digest.Rules {
	rules := &digest.Rules{
		Bundle: digest.BundleContact, Duplicates: digest.DuplicatesOnce, CatchUp: digest.CatchUpMerge, MaxItems: digest.DefaultMaxItems,
	}
	if n == nil {
		if typ != typeDigest {
			return nil
		}
		return rules
	}
	if typ != "" && typ != typeDigest {
		r.invalid(n.Pos, fmt.Sprintf("digest goes with type: digest, and the type is %s", typ), "write type: digest, or remove digest")
		return nil
	}
	f, ok := r.fields(n, "digest")
	if !ok {
		return rules
	}
	rules.Bundle = digest.Bundle(r.word(f.get("bundle"), "bundle", string(rules.Bundle), []string{string(digest.BundleContact), string(digest.BundleSubscription)}))
	rules.Duplicates = digest.Duplicates(r.word(f.get("duplicates"), "duplicates", string(rules.Duplicates), []string{string(digest.DuplicatesOnce), string(digest.DuplicatesEach)}))
	rules.CatchUp = digest.CatchUp(r.word(f.get("catch_up"), "catch_up", string(rules.CatchUp), []string{string(digest.CatchUpMerge), string(digest.CatchUpSkip), string(digest.CatchUpSend)}))
	if most := f.get("max_items"); most != nil {
		rules.MaxItems = r.countTo(most, mostItems)
	}
	if rules.Bundle == digest.BundleSubscription && f.get("duplicates") != nil {
		r.invalid(f.get("duplicates").Pos, "each message is about one topic, so none of its items stands in another section", "remove duplicates, or write bundle: contact")
	}
	return rules
}

// digestTrigger makes the runs of a schedule digests, if the workflow is of that type.
func (r *reader) digestTrigger(t *definition.Trigger, w *definition.Workflow, item, timing *portable.Node) {
	s := t.OnSchedule()
	if s == nil || w.Digest == nil {
		return
	}
	t.Digest = w.Digest
	at := item.Get("schedule")
	switch {
	case at == nil || item.Partial:
	case slices.ContainsFunc(t.Audience, func(a definition.Audience) bool { return a.Topics == "" }):
		r.invalid(at.Pos, fmt.Sprintf("trigger %s: a digest goes to those who subscribe to topics, and its audience has others", t.ID), "write topics: all, with the frequency that it serves, or another type such as broadcast")
	case !oneFrequency(t.Audience):
		r.invalid(at.Pos, fmt.Sprintf("trigger %s: a digest serves one frequency, and its audience has none or several", t.ID), "write one in each entry, such as frequency: daily")
	case t.Limits.AtSend == definition.LimitFold:
		r.invalid(item.Pos, fmt.Sprintf("trigger %s: a digest does not leave as part of another message", t.ID), "write at_send: defer in its limits")
	case len(t.Timing.Reminders) > 0:
		r.invalid(item.Pos, fmt.Sprintf("trigger %s: a digest has no reminders", t.ID), "remove reminders from its timing")
	case s.ByContact:
		r.invalid(at.Get("timezone").Pos, fmt.Sprintf("trigger %s: a digest is about one period, and so in one zone", t.ID), "write a zone")
	case s.Calendar.Period.Length.IsZero():
		r.report(definition.CodeMissing, at.Pos, fmt.Sprintf("trigger %s: a digest needs the period whose items it holds", t.ID), "such as period: 1d, with period_end: \"08:00\"")
	}
	if timing != nil && timing.Get("backlog") != nil {
		n := timing.Get("backlog")
		r.invalid(n.Pos, "a digest says by catch_up what becomes of a missed run", "write digest: {catch_up: send} for each of them")
	}
	if w.Digest.CatchUp == digest.CatchUpSend {
		s.Backlog = schedule.BacklogAll
	}
}

func oneFrequency(audience []definition.Audience) bool {
	return !slices.ContainsFunc(audience, func(a definition.Audience) bool { return a.Frequency == "" || a.Frequency != audience[0].Frequency })
}
