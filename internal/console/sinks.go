package console

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
)

// leavingChips are the lists of what messages and outcomes leave through.
func leavingChips(at string) []chip {
	out := []chip{{name: "channels", href: "/channels"}, {name: "sinks", href: "/sinks"}, {name: "outbox", href: "/outbox"}}
	for i := range out {
		out[i].on = out[i].href == at
	}
	return out
}

// sinkLine is a sink that is defined or has events.
type sinkLine struct {
	name     string
	href     string // of its events
	provider string // empty: it is not defined
	state    badge
	why      string
	failing  time.Time
	pending  int64
	waiting  string // address of what is pending
	dead     int64
	lost     string // address of what is dead
	oldest   time.Time
	next     time.Time
	mends    []command
	pause    []command // none: it sends nothing already
}

type sinkList struct {
	scale
	chips    []chip
	rows     []sinkLine
	commands []command // those that mend something first
}

// sinkBadge says whether the events of a sink leave.
func sinkBadge(h outbox.Health) badge {
	switch {
	case h.State == outbox.Disabled:
		return badge{bad, "disabled"}
	case h.State == outbox.Paused:
		return badge{hold, "paused"}
	case !h.FailingSince.IsZero():
		return badge{hold, "active, failing"}
	}
	return badge{good, "active"}
}

// sinkWhy explains the state of a sink; empty when nothing is out of the ordinary.
func sinkWhy(h outbox.Health, defined bool) string {
	switch {
	case !defined && h.Sends():
		return "No sink of this name is defined: its events are given up. Define it, then redrive them."
	case !defined:
		return "No sink of this name is defined. Its events wait until somebody enables it."
	case h.State == outbox.Disabled && h.Reason == reason.RetriesUsedUp:
		return "It failed for days without a success between. Its events wait until somebody enables it."
	case h.State == outbox.Disabled: // gone
		return "It has said that it wants no events any more. They wait until somebody enables it."
	case h.State == outbox.Paused:
		return "Somebody paused it. Its events wait until somebody enables it."
	case !h.FailingSince.IsZero() && h.Reason != "":
		return h.Reason.Sentence()
	}
	return ""
}

func (c *console) sinks(ctx context.Context, v visit) (view, error) {
	set, err := c.Definitions.Definitions(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	states, err := c.Store.SinksOf(ctx, v.workspace.ID)
	if err != nil {
		return view{}, err
	}
	known := map[string]store.SinkState{}
	for _, def := range set.Sinks() {
		known[def.Name] = store.SinkState{SinkRef: store.SinkRef{Name: def.Name}}
	}
	for _, k := range states {
		known[k.Name] = k
	}
	list := sinkList{scale: v.scale, chips: leavingChips("/sinks")}
	var pauses []command
	for _, name := range slices.Sorted(maps.Keys(known)) {
		provider := ""
		if def := set.Sink(name); def != nil {
			provider = def.Provider
		}
		l := newSinkLine(known[name], provider)
		list.rows = append(list.rows, l)
		list.commands = append(list.commands, l.mends...)
		pauses = append(pauses, l.pause...)
	}
	list.commands = append(list.commands, pauses...)
	return view{title: "Sinks", section: "/channels", body: sinksPage(list), live: true}, nil
}

func enableSink(name string) string  { return "carillon sinks enable " + name }
func redriveSink(name string) string { return "carillon sinks redrive " + name }

// newSinkLine is the row of a sink of a provider; an empty one: it is not defined.
func newSinkLine(k store.SinkState, provider string) sinkLine {
	l := sinkLine{
		name: k.Name, href: listAt("/outbox", "sink", k.Name), provider: provider, state: sinkBadge(k.Health), why: sinkWhy(k.Health, provider != ""),
		failing: k.FailingSince, pending: k.Pending, dead: k.Dead, oldest: k.Oldest, next: k.NextTry(k.Oldest),
		waiting: listAt("/outbox", "sink", k.Name, "status", string(outbox.Pending)), lost: listAt("/outbox", "sink", k.Name, "status", string(outbox.Dead)),
	}
	if provider == "" && k.Sends() {
		l.state = badge{quiet, "defined no more"}
	}
	if !k.Sends() {
		l.mends = append(l.mends, command{enableSink(k.Name), "lets its events leave again; what waits is tried at once"})
	}
	if k.Dead > 0 {
		l.mends = append(l.mends, command{redriveSink(k.Name), "has all events tried again that are dead there"})
	}
	if k.Sends() && provider != "" {
		l.pause = []command{{"carillon sinks pause " + k.Name, "stops its events until somebody enables it; they wait"}}
	}
	return l
}

// sinkCount is how many events wait or are dead at a sink, which are counted up to a limit.
func sinkCount(n int64) string { return atLeast(n, n >= store.MaxBacklog) }
