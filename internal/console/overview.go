package console

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	// latest is how many entries of the journal the overview shows: one screen.
	latest = 24
	// soon is how many coming messages it shows.
	soon = 8
	// lastRuns is how many of the newest runs it looks at for those that go on: an apply seldom begins more.
	lastRuns = 8
	// maxLeaving bounds what is read to find the next message where a pause stops the first ones.
	maxLeaving = 100
)

// tile is a number that leads to its list.
type tile struct {
	badge badge
	n     int64
	href  string
	more  bool // n is so many or more
}

// line is one entry of the journal.
type line struct {
	id     string // distinguishes new lines from earlier ones
	at     time.Time
	badge  badge
	what   string // the workflow, or an event's kind
	to     string
	why    string
	href   string
	detail string
}

// coming is a message that will go out.
type coming struct {
	at       time.Time
	workflow string
	to       string
	step     string
	href     string
	instead  string // of the instant, which nobody can say
}

type overview struct {
	scale
	sentences []phrase
	attention []tile // what needs a person
	health    []sign
	runs      []runLine // that go on
	tiles     []tile
	lines     []line
	coming    []coming
	events    int64
	pending   int64 // occasions
}

func (c *console) overview(ctx context.Context, v visit) (view, error) {
	counts, err := c.count(ctx, v)
	if err != nil {
		return view{}, err
	}
	next, err := c.Store.Upcoming(ctx, v.workspace.ID, soon)
	if err != nil {
		return view{}, err
	}
	o := overview{scale: v.scale, events: counts.Events, pending: counts.InstancesByStatus[instance.Pending], tiles: tiles(counts), attention: attention(counts)}
	failed, err := c.Store.FailedRuns(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	if failed.N > 0 {
		o.attention = append(o.attention, tile{badge{bad, failedRuns(failed.N)}, failed.N, "/runs", failed.More})
	}
	pauses, err := c.Store.Pauses(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	sums, err := c.Store.Stopped(ctx, v.workspace.ID, pauses, v.now)
	if err != nil {
		return view{}, err
	}
	for _, p := range pauses {
		if sum := sums[p.Workflow]; p.ResumedAt.IsZero() {
			href := "/instances?" + url.Values{"workflow": {p.Workflow}, "held": {"true"}}.Encode()
			if sum.Deliveries > 0 {
				href = "/deliveries?" + url.Values{"workflow": {p.Workflow}, "reason": {string(reason.WorkflowPaused)}}.Encode()
			}
			o.attention = append(o.attention, tile{badge{hold, "stopped, " + atLeast(sum.Due, sum.More) + " due: " + p.Workflow + " " + pauseBadge(p).word}, sum.All(), href, sum.More})
		}
	}
	if o.health, err = c.health(ctx, v, pauses); err != nil {
		return view{}, err
	}
	runs, err := c.Store.Jobs(ctx, v.workspace.ID, store.Page{Limit: lastRuns})
	if err != nil {
		return view{}, err
	}
	for _, r := range runs {
		if r.Status == job.Running && r.Total > 0 {
			o.runs = append(o.runs, v.runLine(r))
		}
	}
	circumstances, err := c.Definitions.Circumstances(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	first, err := c.firstAhead(ctx, v, next, circumstances)
	if err != nil {
		return view{}, err
	}
	for _, d := range next {
		ahead, _ := admission.Ahead(d, circumstances(d))
		one := coming{ahead.At, d.Workflow, to(d), stepName(d.Step + 1), v.delivery(d.ID), ""}
		if stopped(ahead) {
			one.at, one.instead = time.Time{}, words(string(ahead.Reason))
		}
		o.coming = append(o.coming, one)
	}
	for _, b := range grouped(c.Feed.Recent(v.workspace.ID, FeedSize, Notable), latest) {
		o.lines = append(o.lines, v.batchLine(b))
	}
	o.sentences = summary(counts, first, len(next) > 0)
	return view{title: "Overview", section: "/", body: overviewPage(o), live: true}, nil
}

// firstAhead returns when the first message leaves or is tried. Messages whose instant is unknown, and those that a pause stops, are
// skipped.
func (c *console) firstAhead(ctx context.Context, v visit, next []delivery.Row, circumstances func(delivery.Row) admission.Circumstances) (admission.Outlook, error) {
	find := func(rows []delivery.Row) admission.Outlook {
		for _, d := range rows {
			if ahead, _ := admission.Ahead(d, circumstances(d)); !ahead.At.IsZero() {
				return ahead
			}
		}
		return admission.Outlook{}
	}
	first := find(next)
	if !first.At.IsZero() || len(next) < soon {
		return first, nil
	}
	more, err := c.Store.Leaving(ctx, v.workspace.ID, maxLeaving)
	return find(more), err
}

// summary describes the state of the workspace in sentences.
func summary(c store.Counts, first admission.Outlook, more bool) []phrase {
	said := []phrase{{text: plural(c.Events, "event", "events") + " taken in, " + plural(c.Sent, "delivery", "deliveries") + " sent."}}
	switch {
	case stopped(first) && !first.At.IsZero():
		return append(said, phrase{"The next message is tried at", first.At, " at the earliest: its provider is away."})
	case !first.At.IsZero():
		return append(said, phrase{"The next message goes out at", first.At, "."})
	case more:
		return append(said, phrase{text: "The next messages cannot leave as they are planned."})
	case !c.OldestDue.IsZero():
		return append(said, phrase{"The next occasion is due at", c.OldestDue, "."})
	}
	return append(said, phrase{text: "Nothing is waiting."})
}

func failedRuns(n int64) string {
	if n == 1 {
		return "failed run"
	}
	return "failed runs"
}

// attention lists what does not go on by itself.
func attention(c store.Counts) []tile {
	all := []tile{
		{badge{hold, "held"}, c.Held, "/instances?held=true", false},
		{badge{odd, "unknown"}, c.DeliveriesByStatus[delivery.Unknown], "/deliveries?status=unknown", false},
		{badge{bad, "without a channel"}, c.Delayed[reason.NoChannel], "/deliveries?reason=no_channel", false},
		{badge{hold, "wait for a provider"}, c.Delayed[reason.ChannelDown], "/deliveries?reason=channel_down", false},
		{badge{bad, "failed"}, c.DeliveriesByStatus[delivery.Failed] - c.FailedResent, "/deliveries?status=failed", false},
	}
	var out []tile
	for _, t := range all {
		if t.n > 0 {
			out = append(out, t)
		}
	}
	return out
}

// tiles counts deliveries by status: the common states always, the others when there are any.
func tiles(c store.Counts) []tile {
	var out []tile
	for _, s := range delivery.Statuses() {
		n := c.DeliveriesByStatus[s]
		if n > 0 || s == delivery.Scheduled || s == delivery.Sent {
			out = append(out, tile{badge{deliveryTone(s), string(s)}, n, "/deliveries?" + url.Values{"status": {string(s)}}.Encode(), false})
		}
	}
	if n := c.InstancesByStatus[instance.Pending]; n > 0 {
		out = append(out, tile{badge{wait, "pending occasions"}, n, "/instances?status=pending", false})
	}
	return out
}

// Notable reports whether an entry is shown. Entries that only repeat another one are not: a delivery that leaves at once is
// shown when it is sent.
func Notable(e journal.Entry) bool {
	switch e.What {
	case journal.Expanded:
		return false
	case journal.Throttled:
		return !e.Again
	case journal.Planned:
		return e.Until.After(e.At)
	case journal.Created:
		return e.Due.After(e.At)
	default:
		return true
	}
}

func (v visit) line(e journal.Entry) line {
	l := line{at: e.At, badge: badge{journalTone(e.What), words(string(e.What))}, what: cmp.Or(e.Workflow, e.Kind, "event"), to: cmp.Or(e.Address, e.Contact, e.Record), detail: e.Error}
	if e.Reason != "" && e.Reason != reason.Delivered {
		l.why = e.Reason.Sentence()
	}
	switch {
	case e.What == journal.Sent && e.Step > 1:
		l.why = strings.TrimSuffix(capital(stepName(e.Step))+": "+e.Subject, ": ")
	case e.What == journal.Sent:
		l.why = e.Subject
	case e.What == journal.Created:
		l.why = "Due at " + v.short(e.Due) + "."
	case e.What == journal.Planned:
		l.why = comes(e.Step) + " is planned for " + v.short(e.Until) + "."
	case e.Until.After(e.At):
		l.why += " Tried again at " + v.short(e.Until) + "."
	}
	switch {
	case e.Delivery != 0:
		l.href = v.delivery(e.Delivery)
	case e.Instance != 0:
		l.href = "/instances/" + v.public(key.KindInstance, int64(e.Instance))
	case e.Event != 0:
		l.href = "/events/" + v.public(key.KindEvent, int64(e.Event))
	case e.Record != "":
		typ, id, _ := strings.Cut(e.Record, "/")
		l.href = recordHref(typ, id)
	}
	l.id = strconv.FormatInt(e.At.UnixMicro(), 36) + string(e.What) + l.href + e.Workflow
	return l
}

func (v visit) delivery(id delivery.ID) string {
	return "/deliveries/" + v.public(key.KindDelivery, int64(id))
}
