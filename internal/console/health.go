package console

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Health is what the strip of the overview and the pages of workflows and channels read.
type Health interface {
	Recent(ctx context.Context, ws subject.WorkspaceID, since time.Time) (store.RecentCounts, error)
	WaitingCounts(ctx context.Context, ws subject.WorkspaceID, now time.Time) (store.WaitingCounts, error)
	DefinitionsNumber(ctx context.Context, ws subject.WorkspaceID) (int64, error)
	DefinitionSet(ctx context.Context, ws subject.WorkspaceID, number int64) ([]store.Definition, error)
}

// recentFor is how far back deliveries are counted.
const recentFor = 24 * time.Hour

func (c *console) recent(ctx context.Context, v visit) (store.RecentCounts, error) {
	return c.lately.of(v, func() (store.RecentCounts, error) { return c.Store.Recent(ctx, v.workspace.ID, v.now.Add(-recentFor)) })
}

// fewChannels is how many channels that are open for messages are named in the strip; more are counted.
const fewChannels = 3

// sign is one thing that the strip of health says.
type sign struct {
	name    string
	href    string
	badge   badge
	of      string    // what is at that time
	at      time.Time // zero: none
	command string    // what a person can do about it
}

// channelBadge says whether messages pass through a channel.
func channelBadge(s channelpool.State) badge {
	switch s.Breaker {
	case flow.Open:
		return badge{bad, "provider away"}
	case flow.HalfOpen:
		return badge{hold, "being tried"}
	case flow.Closed:
	}
	return badge{good, "open for messages"}
}

func channelHref(key string) string   { return "/channels/" + url.PathEscape(key) }
func workflowHref(name string) string { return "/workflows/" + url.PathEscape(name) }

// health is the strip of the overview.
func (c *console) health(ctx context.Context, v visit, pauses []store.Pause) ([]sign, error) {
	defs, states, err := c.Definitions.ChannelStates(ctx, v.workspace.ID)
	if err != nil {
		return nil, err
	}
	lines, err := c.Store.WaitingCounts(ctx, v.workspace.ID, v.now)
	if err != nil {
		return nil, err
	}
	recent, err := c.recent(ctx, v)
	if err != nil {
		return nil, err
	}
	var signs []sign
	var open []sign
	for i, def := range defs {
		one := sign{name: channelName(def.Key), href: channelHref(def.Key), badge: channelBadge(states[i]), of: "tried again at", at: states[i].OpenUntil}
		if states[i].Breaker == flow.Closed {
			open = append(open, one)
			continue
		}
		signs = append(signs, one)
	}
	if len(open) > fewChannels {
		open = []sign{{name: "channels", href: "/channels", badge: badge{good, number(int64(len(open))) + " open for messages"}}}
	}
	signs = append(signs, open...)
	if len(lines.Counts) > 0 {
		n, oldest := int64(0), lines.Counts[0]
		for _, l := range lines.Counts {
			n += l.N
		}
		word := plural(n, "waits", "wait")
		if lines.More {
			word = atLeast(n, true) + " wait"
		}
		signs = append(signs, sign{name: "oldest waiting", href: channelHref(oldest.Channel), badge: badge{hold, word}, of: "since", at: oldest.Oldest})
	}
	signs = append(signs, failures(recent)...)
	for _, p := range pauses {
		if p.ResumedAt.IsZero() {
			signs = append(signs, sign{name: p.Workflow, href: workflowHref(p.Workflow), badge: pauseBadge(p), of: "since", at: p.PausedAt, command: "carillon workflows resume " + p.Workflow})
		}
	}
	sinks, err := c.leaving.of(v, func() ([]store.SinkState, error) { return c.Store.SinksOf(ctx, v.workspace.ID) })
	return append(signs, sinkSigns(sinks)...), err
}

// sinkSigns are the sinks that fail or are not active, and those that have dead events, with the command that acts on it.
func sinkSigns(sinks []store.SinkState) (signs []sign) {
	for _, k := range sinks {
		one := sign{name: "sink " + k.Name, href: "/sinks", badge: sinkBadge(k.Health)}
		switch {
		case !k.Sends():
			one.of, one.at, one.command = "failing since", k.FailingSince, enableSink(k.Name)
			signs = append(signs, one)
		case !k.FailingSince.IsZero():
			one.badge.word, one.of, one.at = "failing", "since", k.FailingSince
			signs = append(signs, one)
		}
		if k.Dead > 0 {
			signs = append(signs, sign{
				name: "dead at sink " + k.Name, href: listAt("/outbox", "sink", k.Name, "status", string(outbox.Dead)), badge: badge{bad, sinkCount(k.Dead)}, command: redriveSink(k.Name),
			})
		}
	}
	return signs
}

// failures are the deliveries that have failed and that nobody has sent again, by channel and reason, with the command that does.
func failures(recent store.RecentCounts) (signs []sign) {
	for _, f := range store.FailuresOf(recent.Counts) {
		one := sign{
			name: "failed in a day, " + channelName(f.Channel) + ", " + words(string(f.Reason)), badge: badge{bad, atLeast(f.N, recent.More)},
			href: listAt("/deliveries", "status", "failed", "channel", f.Channel, "reason", string(f.Reason), "since", "1d"),
		}
		if !f.Final() {
			one.command = retryFailed(f.Channel, f.Reason)
		}
		signs = append(signs, one)
	}
	return signs
}

// retryFailed is the command that tries again what has failed on a channel for a reason, in the time that the pages count.
func retryFailed(channel string, why reason.Reason) string {
	return "carillon deliveries retry --status failed --channel " + channel + " --reason " + string(why) + " --since 1d"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// countLine is a number of deliveries with their state and reason.
type countLine struct {
	badge badge
	why   string
	n     string
	href  string
}

// waitLine is what waits in line.
type waitLine struct {
	other string // the channel on a workflow's page, the workflow on a channel's
	why   string
	n     string
	at    time.Time
}

// part is a workflow or a channel as a page shows it.
type part struct {
	scale
	kind, name, back string
	state            badge
	story            []phrase
	facts            []fact
	counts           []countLine
	countNote        string // empty: all are counted
	waits            []waitLine
	waitNote         string // empty: all are counted
	commands         []command
	text             string
	all              string
	audience         string // the page of whom it would concern now; empty: there is none
}

type partRow struct {
	name, href string
	state      badge
	at         time.Time
	more       string
	n          int64 // deliveries of a day
	failed     int64
	waits      int64
	oldest     time.Time
}

type partList struct {
	scale
	chips []chip // the lists beside this one
	title string
	kind  string
	rows  []partRow

	moreMade, moreWaits bool // numbers of these are lower bounds
}

// tally adds up the deliveries of a day and what waits, by the name that of and lineOf give.
func tally(recent store.RecentCounts, lines store.WaitingCounts, of func(store.RecentCount) string, lineOf func(store.WaitingCount) string) map[string]partRow {
	out := map[string]partRow{}
	for _, r := range recent.Counts {
		row := out[of(r)]
		row.n += r.N
		if r.Status == delivery.Failed {
			row.failed += r.N - r.Resent
		}
		out[of(r)] = row
	}
	for _, l := range lines.Counts { // the oldest first
		row := out[lineOf(l)]
		row.waits += l.N
		if row.oldest.IsZero() {
			row.oldest = l.Oldest
		}
		out[lineOf(l)] = row
	}
	return out
}

func (c *console) numbers(ctx context.Context, v visit) (store.RecentCounts, store.WaitingCounts, error) {
	recent, err := c.recent(ctx, v)
	if err != nil {
		return recent, store.WaitingCounts{}, err
	}
	lines, err := c.Store.WaitingCounts(ctx, v.workspace.ID, v.now)
	return recent, lines, err
}

func (c *console) workflowPages(ctx context.Context, v visit) (view, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	recent, lines, err := c.numbers(ctx, v)
	if err != nil {
		return view{}, err
	}
	pauses, err := c.Store.Pauses(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	sums := tally(recent, lines, func(r store.RecentCount) string { return r.Workflow }, func(l store.WaitingCount) string { return l.Workflow })
	list := partList{scale: v.scale, title: "Workflows", kind: "workflow", moreMade: recent.More, moreWaits: lines.More}
	for _, w := range set.Workflows() {
		row := sums[w.Name]
		row.name, row.href, row.more = w.Name, workflowHref(w.Name), w.Type
		row.state, row.at = workflowBadge(w, pauses)
		list.rows = append(list.rows, row)
	}
	for _, p := range pauses {
		if set.Workflow(p.Workflow) == nil && p.ResumedAt.IsZero() {
			row := sums[p.Workflow]
			row.name, row.href, row.more = p.Workflow, workflowHref(p.Workflow), "not defined any more"
			row.state, row.at = workflowBadge(nil, []store.Pause{p})
			list.rows = append(list.rows, row)
		}
	}
	return view{title: "Workflows", section: "/workflows", body: partListPage(list), live: true}, nil
}

// pauseBadge says that a workflow is paused, and whether its own brake did it.
func pauseBadge(p store.Pause) badge {
	if p.Cause == reason.TooFast {
		return badge{hold, "paused, too fast"}
	}
	return badge{hold, "paused"}
}

// workflowBadge says whether a workflow acts; since when it is paused.
func workflowBadge(w *definition.Workflow, pauses []store.Pause) (badge, time.Time) {
	for _, p := range pauses {
		if (w == nil || p.Workflow == w.Name) && p.ResumedAt.IsZero() {
			return pauseBadge(p), p.PausedAt
		}
	}
	if w == nil {
		return badge{quiet, "not defined"}, time.Time{}
	}
	if !w.Enabled {
		return badge{quiet, "switched off"}, time.Time{}
	}
	return badge{good, "in force"}, time.Time{}
}

func (c *console) channelPages(ctx context.Context, v visit) (view, error) {
	defs, states, err := c.Definitions.ChannelStates(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	recent, lines, err := c.numbers(ctx, v)
	if err != nil {
		return view{}, err
	}
	sums := tally(recent, lines, func(r store.RecentCount) string { return r.Channel }, func(l store.WaitingCount) string { return l.Channel })
	list := partList{scale: v.scale, title: "Channels", kind: "channel", chips: leavingChips("/channels"), moreMade: recent.More, moreWaits: lines.More}
	for i, def := range defs {
		row := sums[def.Key]
		row.name, row.href, row.more = def.Key, channelHref(def.Key), def.Provider
		row.state, row.at = channelBadge(states[i]), states[i].OpenUntil
		list.rows = append(list.rows, row)
	}
	return view{title: "Channels", section: "/channels", body: partListPage(list), live: true}, nil
}

// definitionText is the document in force of that kind and name.
func (c *console) definitionText(ctx context.Context, v visit, kind, name string) (store.Definition, error) {
	number, err := c.Store.DefinitionsNumber(ctx, v.workspace.ID)
	if err != nil {
		return store.Definition{}, err
	}
	set, err := c.Store.DefinitionSet(ctx, v.workspace.ID, number)
	for _, d := range set {
		if d.Kind == kind && d.Name == name {
			return d, err
		}
	}
	return store.Definition{}, err
}

// fill adds the counts and what waits to a page. ours selects the counts of this workflow or channel.
func (c *console) fill(ctx context.Context, v visit, p *part, ours func(workflow, channel string) (other string, ok bool)) error {
	recent, lines, err := c.numbers(ctx, v)
	if err != nil {
		return err
	}
	type state struct {
		status delivery.Status
		why    string
	}
	sums, hrefs := map[state]int64{}, map[state]string{}
	var order []state
	for _, r := range recent.Counts {
		if _, ok := ours(r.Workflow, r.Channel); !ok {
			continue
		}
		one := state{r.Status, string(r.Reason)}
		if sums[one] == 0 {
			order = append(order, one)
			hrefs[one] = listAt("/deliveries", p.kind, p.name, "status", string(r.Status), "reason", string(r.Reason), "since", "1d")
		}
		sums[one] += r.N
	}
	slices.SortStableFunc(order, func(a, b state) int { return int(sums[b] - sums[a]) })
	for _, one := range order {
		p.counts = append(p.counts, countLine{badge{deliveryTone(one.status), string(one.status)}, words(one.why), atLeast(sums[one], recent.More), hrefs[one]})
	}
	for _, l := range lines.Counts {
		if other, ok := ours(l.Workflow, l.Channel); ok {
			why := ""
			if l.Reason != "" {
				why = l.Reason.Sentence()
			}
			p.waits = append(p.waits, waitLine{other, why, atLeast(l.N, lines.More), l.Oldest})
		}
	}
	if recent.More {
		p.countNote = fmt.Sprintf("The newest %s deliveries of the workspace are counted here, and there are more.", number(store.MaxRecent))
	}
	if lines.More {
		p.waitNote = fmt.Sprintf("The %s messages that have waited longest are counted here, and there are more.", number(store.MaxTurns))
	}
	p.all = listAt("/deliveries", p.kind, p.name)
	return nil
}

func (c *console) workflowPage(ctx context.Context, v visit) (view, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	pauses, err := c.Store.Pauses(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	w := set.Workflow(v.id)
	pause := slices.IndexFunc(pauses, func(p store.Pause) bool { return p.Workflow == v.id && p.ResumedAt.IsZero() })
	if w == nil && pause < 0 {
		return view{}, store.ErrNotFound
	}
	page := part{scale: v.scale, kind: "workflow", name: v.id, back: "/workflows"}
	page.commands = []command{{"carillon workflows pause " + v.id, "stops it until it is resumed; what comes due meanwhile is held"}}
	if pause >= 0 {
		p := pauses[pause]
		stopped, err := c.Store.Stopped(ctx, v.workspace.ID, pauses[pause:pause+1], v.now)
		if err != nil {
			return view{}, err
		}
		sum := stopped[p.Workflow]
		because := "."
		if p.Why != "" {
			because = ": " + p.Why + "."
		}
		page.story = []phrase{{"Paused by " + p.Actor + " since", p.PausedAt, because}, {text: fmt.Sprintf("%s and %s are stopped, %s of them due.", plural(sum.Instances, "instance", "instances"), plural(sum.Deliveries, "delivery", "deliveries"), number(sum.Due))}}
		page.commands = []command{{"carillon workflows resume " + v.id, "lets it go on, with what waited"}}
	}
	page.state, _ = workflowBadge(w, slices.DeleteFunc(slices.Clone(pauses), func(p store.Pause) bool { return p.Workflow != v.id }))
	if w != nil {
		page.facts = []fact{{name: "type", value: w.Type}, {name: "version", value: strconv.FormatInt(w.Version, 10)}}
		for _, t := range w.Trigger {
			page.facts = append(page.facts, fact{name: "trigger", value: t.ID, code: true})
		}
		if t, _ := set.ByHand(w); t != nil {
			page.audience = workflowHref(v.id) + "/recipients"
		}
		text, err := c.definitionText(ctx, v, "workflow", v.id)
		if err != nil {
			return view{}, err
		}
		page.text = text.Text
	}
	if err := c.fill(ctx, v, &page, func(workflow, channel string) (string, bool) { return channelName(channel), workflow == v.id }); err != nil {
		return view{}, err
	}
	return view{title: "Workflow " + v.id, section: "/workflows", body: partPage(page), live: true}, nil
}

func (c *console) channelPage(ctx context.Context, v visit) (view, error) {
	defs, states, err := c.Definitions.ChannelStates(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	i := slices.IndexFunc(defs, func(d *definition.Channel) bool { return d.Key == v.id })
	if i < 0 {
		return view{}, store.ErrNotFound
	}
	def, s := defs[i], states[i]
	page := part{scale: v.scale, kind: "channel", name: v.id, back: "/channels", state: channelBadge(s)}
	if s.Breaker != flow.Closed {
		page.story = []phrase{{fmt.Sprintf("%s found its provider away. It is tried again at", plural(int64(s.Failures), "request", "requests in a row")), s.OpenUntil, "."}}
	}
	page.facts = known([]fact{
		{name: "provider", value: def.Provider},
		{name: "rate", value: s.Rate},
		{name: "requests now", value: fmt.Sprintf("%d of %d", s.InFlight, s.Concurrency)},
		{name: "accepted last", at: s.AcceptedAt},
		{name: "failed last", at: s.FailedAt},
		{name: "failure", value: s.Failure, code: true},
	})
	page.commands = []command{
		{"carillon channels test " + def.Key + " --to ADDRESS", "sends one message through it"},
		{retryFailed(def.Key, reason.RetriesUsedUp), "tries again what has failed in a day after all its tries"},
	}
	text, err := c.definitionText(ctx, v, "channel", v.id)
	if err != nil {
		return view{}, err
	}
	page.text = text.Text
	if err := c.fill(ctx, v, &page, func(workflow, channel string) (string, bool) { return workflow, channel == v.id }); err != nil {
		return view{}, err
	}
	return view{title: "Channel " + v.id, section: "/channels", body: partPage(page), live: true}, nil
}

// partMore is what a list says of a workflow or a channel beside its name, partOther what its page says of what waits.
func partMore(kind string) string {
	if kind == "channel" {
		return "provider"
	}
	return "type"
}

func partOther(kind string) string {
	if kind == "channel" {
		return "workflow"
	}
	return "channel"
}
