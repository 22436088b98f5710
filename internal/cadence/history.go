package cadence

import (
	"slices"
	"sort"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// History holds a person's slots on one kind of channel. It has an index, so that many decisions cost little more than one: thousands of
// messages may wait for one person, and a batch decides about each of them.
//
// Windows of the calendar are counted when they are first needed, and their counts are kept up to date. The end of a search is kept
// until a slot is released; see trail. A History decides as Decide does with the same slots, in any order of the decisions. It is not
// safe for concurrent use.
//
// Slots on other kinds of channels are kept separately; only totals use them.
type History struct {
	own   family  // of this kind of channel
	over  *family // of all kinds; nil until a total needs it
	other []Slot  // of the other kinds, while over is nil
}

// family holds views of the same slots, one for each way to count them.
type family struct {
	all   view
	parts []*view // for policies that count only some of the slots
}

// NewHistory makes a history of slots. They may be in any order, ascending being the fastest, and are not changed.
func NewHistory(slots []Slot) *History {
	h, own := &History{}, slots
	if slices.ContainsFunc(slots, func(s Slot) bool { return s.Elsewhere }) {
		own = make([]Slot, 0, len(slots))
		for _, s := range slots {
			if s.Elsewhere {
				h.other = append(h.other, s)
			} else {
				own = append(own, s)
			}
		}
	}
	h.own.all.fill(own, nil, false)
	return h
}

// Decide is the function Decide with these slots as the history.
func (h *History) Decide(policy Policy, loc *time.Location, now, until time.Time, m Message) Verdict {
	return decide(policy, h.view(policy, loc), h.overall(policy.Total, loc, m.Type), now, until, m)
}

// Without calls f with the history as if some slots, of one message each, were free. Slots that f adds or removes stay so afterwards.
func (h *History) Without(slots []Slot, f func()) {
	var taken []Slot
	for _, s := range slots {
		if was, ok := h.take(s); ok {
			taken = append(taken, was)
		}
	}
	if len(taken) == 0 {
		f()
		return
	}
	h.each(func(v *view) { v.apart = true })
	f()
	h.each(func(v *view) { v.apart = false })
	for _, s := range taken {
		h.put(s)
	}
}

// Add adds a slot.
func (h *History) Add(s Slot) { h.put(s) }

// Remove removes one message of the slot's type at its instant, on this or another kind of channel, if there is one.
func (h *History) Remove(s Slot) {
	if _, ok := h.take(s); ok {
		h.each(func(v *view) { clear(v.trails) })
	}
}

func (h *History) each(f func(*view)) {
	h.own.each(f)
	if h.over != nil {
		h.over.each(f)
	}
}

func (f *family) each(do func(*view)) {
	do(&f.all)
	for _, v := range f.parts {
		do(v)
	}
}

func (h *History) put(s Slot) {
	if !s.Elsewhere {
		h.own.put(s)
	}
	switch {
	case h.over != nil:
		h.over.put(s)
	case s.Elsewhere:
		h.other = append(h.other, s)
	}
}

func (f *family) put(s Slot) {
	f.each(func(v *view) {
		if v.counts(s) {
			v.insert(s)
		}
	})
}

func (h *History) take(s Slot) (taken Slot, ok bool) {
	switch {
	case !s.Elsewhere:
		if taken, ok = h.own.all.find(s); ok {
			h.own.take(taken)
		}
	case h.over != nil:
		taken, ok = h.over.all.find(s)
	default:
		return h.takeOther(s)
	}
	if ok && h.over != nil {
		h.over.take(taken)
	}
	return taken, ok
}

func (f *family) take(s Slot) {
	f.each(func(v *view) {
		if v.counts(s) {
			v.remove(s)
		}
	})
}

// takeOther is take for a message on another kind of channel, while no total needs these messages.
func (h *History) takeOther(s Slot) (taken Slot, ok bool) {
	at := -1
	for i, o := range h.other {
		if o.N > 0 && o.At.Equal(s.At) && o.Type == s.Type && (at < 0 || h.other[at].Sent && !o.Sent) {
			at = i
		}
	}
	if at < 0 {
		return taken, false
	}
	taken = h.other[at]
	taken.N = 1
	h.other[at].N--
	return taken, true
}

// overall returns the slots that a total counts; nil if there is no total, or if it does not apply to messages of the type.
func (h *History) overall(total Total, loc *time.Location, typ string) *view {
	if total.Empty() || !total.Counts(typ) {
		return nil
	}
	if h.over == nil {
		h.over = &family{}
		h.over.all.apart = h.own.all.apart
		h.over.all.fill(append(slices.Clone(h.own.all.slots), h.other...), nil, false)
		h.other = nil
	}
	return h.over.view(total.Types, total.Count == CountSent, loc)
}

// view returns the slots that count under a policy, with windows in the zone loc.
func (h *History) view(policy Policy, loc *time.Location) *view {
	return h.own.view(policy.Types, policy.Count == CountSent, loc)
}

func (f *family) view(types []string, sentOnly bool, loc *time.Location) *view {
	v := &f.all
	if !v.serves(types, sentOnly) {
		i := slices.IndexFunc(f.parts, func(v *view) bool { return v.serves(types, sentOnly) })
		if i < 0 {
			part := &view{apart: f.all.apart}
			part.fill(f.all.slots, types, sentOnly)
			i, f.parts = len(f.parts), append(f.parts, part)
		}
		v = f.parts[i]
	}
	if v.loc != loc {
		v.loc, v.windows, v.trails = loc, [3][]window{}, nil
	}
	return v
}

// view holds the slots that count under a policy.
type view struct {
	types    []string // the types that count; none: all
	sentOnly bool
	slots    []Slot // ascending; a released slot stays, without messages, until there are many
	dead     int    // number of released slots
	total    int    // number of messages; a higher limit needs no window
	loc      *time.Location
	windows  [3][]window // by length; the windows that were needed, ascending
	trails   map[question]trail
	apart    bool // Without has made some slots free; no trail is kept or followed
}

// The lengths of the calendar's windows.
const (
	day = iota
	week
	month
)

// calendarBounds return the windows of the calendar that contain an instant.
var calendarBounds = [...]func(time.Time, *time.Location) (start, end time.Time){
	day: civil.DayBounds, week: civil.WeekBounds, month: civil.MonthBounds,
}

// window is a window of the calendar with the number of its messages.
type window struct {
	start, end time.Time
	all        int
	types      []typed // numbers by type, for the types that were needed
}

type typed struct {
	typ string
	n   int
}

// fill sets the slots to those that count.
func (v *view) fill(slots []Slot, types []string, sentOnly bool) {
	v.types, v.sentOnly = types, sentOnly
	if len(v.types) == 0 && !v.sentOnly {
		v.slots = slots[:len(slots):len(slots)] // a write copies it first
	} else {
		v.slots = make([]Slot, 0, len(slots))
		for _, s := range slots {
			if v.counts(s) {
				v.slots = append(v.slots, s)
			}
		}
	}
	ascending := true
	for i, s := range v.slots {
		v.total += s.N
		if s.N == 0 {
			v.dead++
		}
		ascending = ascending && (i == 0 || !s.At.Before(v.slots[i-1].At))
	}
	if !ascending {
		v.slots = slices.SortedStableFunc(slices.Values(v.slots), func(a, b Slot) int { return a.At.Compare(b.At) })
	}
}

func (v *view) serves(types []string, sentOnly bool) bool {
	return v.sentOnly == sentOnly && slices.Equal(v.types, types)
}

func (v *view) counts(s Slot) bool {
	return (!v.sentOnly || s.Sent) && (len(v.types) == 0 || slices.Contains(v.types, s.Type))
}

// from returns the index of the first slot at t or later.
func (v *view) from(t time.Time) int {
	if n := len(v.slots); n == 0 || v.slots[n-1].At.Before(t) { // common if each message waits for the one before
		return n
	}
	return sort.Search(len(v.slots), func(i int) bool { return !v.slots[i].At.Before(t) })
}

// find returns a message of the same type at the same instant. It prefers one that still waits to one that has left.
func (v *view) find(like Slot) (found Slot, ok bool) {
	for _, s := range v.slots[v.from(like.At):] {
		if !s.At.Equal(like.At) {
			break
		}
		if s.Type == like.Type && s.Elsewhere == like.Elsewhere && s.N > 0 && (!ok || found.Sent && !s.Sent) {
			found, ok = s, true
		}
	}
	found.N = min(found.N, 1)
	return found, ok
}

// alike reports whether two slots at one instant are stored as one.
func (s Slot) alike(other Slot) bool {
	return s.Type == other.Type && s.Sent == other.Sent && s.Passed == other.Passed && s.Elsewhere == other.Elsewhere
}

// own copies the slots if they may belong to the caller.
func (v *view) own() {
	if cap(v.slots) == len(v.slots) { // they may be the caller's
		v.slots = slices.Grow(slices.Clone(v.slots), len(v.slots)/8+1)
	}
}

func (v *view) insert(s Slot) {
	v.own()
	i := v.from(s.At)
	for ; i < len(v.slots) && v.slots[i].At.Equal(s.At); i++ {
		if same := &v.slots[i]; same.alike(s) {
			if same.N == 0 {
				v.dead--
			}
			same.N += s.N
			v.count(s, s.N)
			return
		}
	}
	v.slots = slices.Insert(v.slots, i, s)
	v.count(s, s.N)
}

func (v *view) remove(s Slot) {
	v.own()
	for i := v.from(s.At); i < len(v.slots) && v.slots[i].At.Equal(s.At); i++ {
		one := &v.slots[i]
		if !one.alike(s) || one.N == 0 {
			continue
		}
		if one.N--; one.N == 0 {
			v.dead++
		}
		v.count(s, -1)
		break
	}
	if v.dead > 16+len(v.slots)/2 {
		v.slots, v.dead = slices.DeleteFunc(v.slots, func(s Slot) bool { return s.N == 0 }), 0
	}
}

// count adds n messages like s to the known windows.
func (v *view) count(s Slot, n int) {
	v.total += n
	for length := range v.windows {
		i, ok := v.known(length, s.At)
		if !ok {
			continue
		}
		w := &v.windows[length][i]
		w.all += n
		for k := range w.types {
			if w.types[k].typ == s.Type {
				w.types[k].n += n
			}
		}
	}
}

// known returns the index of the known window that contains t; if there is none, the index where it belongs.
func (v *view) known(length int, t time.Time) (i int, ok bool) {
	list := v.windows[length]
	if n := len(list); n == 0 || !list[n-1].end.After(t) {
		return n, false
	}
	i = sort.Search(len(list), func(i int) bool { return list[i].end.After(t) })
	return i, !t.Before(list[i].start)
}

// window returns the window of the calendar that contains t. The result is valid until the next call.
func (v *view) window(length int, t time.Time) *window {
	i, ok := v.known(length, t)
	if !ok {
		start, end := calendarBounds[length](t, v.loc)
		v.windows[length] = slices.Insert(v.windows[length], i, window{start: start, end: end, all: v.sum("", start, end)})
	}
	return &v.windows[length][i]
}

// of returns the number of messages of a type in the window.
func (w *window) of(v *view, typ string) int {
	for _, t := range w.types {
		if t.typ == typ {
			return t.n
		}
	}
	n := v.sum(typ, w.start, w.end)
	w.types = append(w.types, typed{typ, n})
	return n
}

// sum counts the messages in [start, end), all of them or those of a type.
func (v *view) sum(typ string, start, end time.Time) (n int) {
	for _, s := range v.slots[v.from(start):] {
		if !s.At.Before(end) {
			break
		}
		if typ == "" || s.Type == typ {
			n += s.N
		}
	}
	return n
}
