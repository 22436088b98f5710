package engine_test

import (
	"iter"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/topic"
)

// digestModel is what people are owed.
type digestModel struct {
	*rapid.T
	workspace string
	deletes   bool                 // messages are deleted soon
	frequency map[string]string    // by person and topic
	owed      map[string][]string  // items by person and topic
	received  map[string]time.Time // items
	of        map[string][]string  // their topics
	moved     map[string]string    // with which frequency who followed what a run has ended
	since     map[string]time.Time // when it did
	runs      int
	rested    map[string]time.Time // when they chose each item at once: what waited for a digest comes then, or when it is tried again
	changed   map[string]time.Time // when they began to follow it, or changed how often
	begun     map[string]int       // by which run they follow it
	ended     map[string]int       // which run has ended it
	sent      int
	may       map[string][]string // what they may still get
	had       map[string]bool     // by person and item: a message about it alone
	told      map[string][]string // what they have got
}

// follow notes a subscription, or its end. What an immediate message has not brought is not owed any more, since it may have failed for good; but it may come.
func (m *digestModel) follow(now time.Time, who, frequency string) {
	m.changed[who] = now
	before, resumed := m.frequency[who], false
	if moved := m.moved[who]; before == "" && frequency != "" && moved != "" { // it goes on from where it was: what they have missed may come, too
		_, name, _ := strings.Cut(who, " ")
		for id, topics := range m.of {
			if slices.Contains(topics, name) && !m.received[id].Before(m.since[who]) {
				m.may[who] = append(m.may[who], id)
			}
		}
		before, resumed = moved, true
		delete(m.moved, who)
	}
	switch {
	case frequency == "":
		delete(m.owed, who)
		delete(m.may, who)
		person, _, _ := strings.Cut(who, " ")
		for other := range m.moved { // who leaves a topic gets nothing of it that a run has ended, or of what it took the place of
			if other == who || before != "" && m.begun[who] != 0 && m.begun[who] == m.ended[other] && strings.HasPrefix(other, person+" ") {
				delete(m.owed, other)
				delete(m.may, other)
				delete(m.moved, other)
			}
		}
	case before == "immediate" && frequency != before:
		m.may[who], m.owed[who] = append(m.may[who], m.owed[who]...), nil
	case before != frequency, resumed: // what a message brought for another topic counts for this one then
		person, _, _ := strings.Cut(who, " ")
		m.owed[who] = slices.DeleteFunc(m.owed[who], func(id string) bool { return m.had[person+" "+id] })
	}
	if m.frequency[who] != frequency {
		m.begun[who] = 0
	}
	if frequency == "immediate" {
		m.rested[who] = now
	}
	m.frequency[who] = frequency
	m.Logf("%s: %q", who, frequency)
}

// merge notes that a person is another one: nobody gets an item of a topic that one of the two had.
func (m *digestModel) merge(now time.Time, person, into string) {
	m.Logf("%s is merged into %s", person, into)
	for id := range m.received {
		m.had[into+" "+id] = m.had[into+" "+id] || m.had[person+" "+id]
	}
	for _, name := range []string{"tax", "visas"} {
		from, to := person+" "+name, into+" "+name
		both := append(m.told[to], m.told[from]...)
		left := func(list map[string][]string, of ...string) (all []string) {
			for _, who := range of {
				all = append(all, list[who]...)
			}
			slices.Sort(all)
			return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return slices.Contains(both, id) })
		}
		owed, may := []string{}, left(m.may, from, to)
		missed := slices.Clone(may) // by one of the two
		for _, who := range []string{from, to} {
			if m.frequency[who] == "immediate" {
				may = append(may, left(m.owed, who)...) // it may have failed for good
			} else {
				owed = append(owed, left(m.owed, who)...)
			}
		}
		got := func(id string) bool { return m.had[into+" "+id] || slices.Contains(missed, id) } // by another topic, which may count for this one
		for _, id := range owed {
			if got(id) {
				may = append(may, id)
			}
		}
		owed = slices.DeleteFunc(owed, got)
		slices.Sort(owed)
		slices.Sort(may)
		owed = slices.Compact(owed)
		may = slices.DeleteFunc(slices.Compact(may), func(id string) bool { return slices.Contains(owed, id) })
		m.told[to], m.owed[to], m.may[to], m.changed[to] = both, owed, may, now
		switch {
		case m.frequency[to] == "":
			m.begun[to] = m.begun[from]
		case m.frequency[from] != "" && m.begun[from] == 0: // it is theirs
			m.begun[to] = 0
		}
		if f := m.frequency[from]; f != "" && (m.frequency[to] == "" || topic.CompareFrequencies(f, m.frequency[to]) < 0) {
			m.frequency[to] = f
		}
		if m.frequency[to] == "immediate" {
			m.rested[to] = now
		}
		switch moved := m.moved[from]; {
		case m.frequency[to] != "": // it goes on from where either was
			delete(m.moved, to)
		case moved == "":
		case m.moved[to] == "":
			m.moved[to], m.since[to], m.ended[to] = moved, m.since[from], m.ended[from]
		default:
			if m.since[from].Before(m.since[to]) {
				m.since[to] = m.since[from]
			}
			if m.moved[to] == "immediate" || m.ended[to] != m.ended[from] { // what waited for the other one may be lost, or with another topic
				m.may[to], m.owed[to] = append(m.may[to], owed...), nil
			}
		}
		for _, list := range []map[string][]string{m.told, m.owed, m.may} {
			delete(list, from)
		}
		delete(m.frequency, from)
		delete(m.moved, from)
		m.Logf("%s: %q is owed %q, and may get %q", to, m.frequency[to], owed, may)
	}
}

// all returns each person with each topic.
func (m *digestModel) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, person := range []string{"ann", "bob", "cid", "dan", "eve"} {
			for _, name := range []string{"tax", "visas"} {
				if !yield(person + " " + name) {
					return
				}
			}
		}
	}
}

// run notes what a run, or its undo, has made of who follows what.
func (m *digestModel) run(now time.Time, undo bool, follow []string) {
	m.runs++
	is := map[string]string{}
	for _, line := range follow {
		parts := strings.Fields(line)
		is[parts[0]+" "+parts[1]] = parts[2]
	}
	for who := range m.all() {
		before, after := m.frequency[who], is[who]
		if before == after {
			continue
		}
		m.Logf("%s: a run makes %s %q of %q", now.Format("02 15:04"), who, after, before)
		switch {
		case after == "" && undo: // they never asked for it; what is under way may still come
			m.may[who], m.owed[who], m.frequency[who] = append(m.may[who], m.owed[who]...), nil, ""
		case after == "":
			m.moved[who], m.since[who], m.ended[who] = before, now, m.runs
			if before == "immediate" {
				m.may[who], m.owed[who] = append(m.may[who], m.owed[who]...), nil
			}
			m.frequency[who] = ""
		default:
			m.follow(now, who, after)
			m.begun[who] = m.runs
		}
	}
}

func (m *digestModel) publish(id string, topics []string, now time.Time) {
	m.received[id] = now
	m.Logf("%s: %s of %q", now.Format("02 15:04"), id, topics)
	m.of[id] = topics
	for who, frequency := range m.frequency {
		_, name, _ := strings.Cut(who, " ")
		if frequency != "" && slices.Contains(topics, name) {
			m.owed[who] = append(m.owed[who], id)
		}
	}
}

// sees takes messages that have left.
func (m *digestModel) sees(now time.Time, sent []channel.Outgoing) {
	for _, out := range sent {
		if out.Workspace != m.workspace {
			continue
		}
		m.Logf("%s: %s gets %q", now.Format("02 15:04"), out.Address, out.Text)
		m.sent++
		kind, rest, _ := strings.Cut(out.Text, " ")
		switch kind {
		case "at": // once ID
			_, id, _ := strings.Cut(rest, " ")
			m.had[out.Address+" "+id] = true
			m.payAny(out.Text, out.Address, id, func(frequency string) bool { return frequency == "immediate" })
			for _, name := range m.of[id] { // it counts for a topic that they follow since the item arrived, too, and for all once it is deleted
				who := out.Address + " " + name
				if i := slices.Index(m.owed[who], id); i >= 0 && (m.deletes || !m.changed[who].Before(m.received[id])) {
					m.owed[who], m.may[who] = slices.Delete(m.owed[who], i, i+1), append(m.may[who], id)
				}
			}
		case "urgent":
			m.had[out.Address+" "+rest] = true
			m.payAny(out.Text, out.Address, rest, func(frequency string) bool { return frequency != "" })
		default:
			if rest == "" {
				m.Fatalf("%s: the message %q is empty", now, out.Text)
			}
			for _, section := range strings.Fields(rest) {
				name, list, _ := strings.Cut(section, ":")
				for _, id := range strings.Split(strings.TrimSuffix(list, ","), ",") {
					m.pay(out.Text, out.Address+" "+name, id)
					if end := map[string]time.Duration{"daily": 30 * time.Minute, "rare": 2 * time.Hour}[kind]; m.frequency[out.Address+" "+name] != "immediate" && !m.rested[out.Address+" "+name].After(m.received[id]) && m.received[id].Add(end).After(now) {
						m.Fatalf("%s: %q has an item that arrived at %s", now, out.Text, m.received[id])
					}
				}
			}
		}
	}
}

// pay notes that a person has got an item of a topic.
func (m *digestModel) pay(text, who, id string) {
	if !m.paid(who, id) {
		m.Fatalf("%q: %s was not owed %s any more", text, who, id)
	}
}

// payAny notes that a person has got a message about an item alone, for all topics of it that they were following when it arrived. They may follow another one
// of its topics since: then it may be for what they followed then.
func (m *digestModel) payAny(text, person, id string, by func(frequency string) bool) {
	follows, owed, may := false, false, ""
	for _, name := range m.of[id] {
		who := person + " " + name
		frequency := m.frequency[who]
		if frequency == "" {
			frequency = m.moved[who]
		}
		switch {
		case by(frequency):
			follows, owed = true, m.paid(who, id) || owed
		case slices.Contains(m.may[who], id):
			may = who
		}
	}
	if follows && !owed && (may == "" || !m.paid(may, id)) {
		m.Fatalf("%q: %s was not owed %s any more", text, person, id)
	}
}

func (m *digestModel) paid(who, id string) bool {
	for _, list := range []map[string][]string{m.owed, m.may} {
		if i := slices.Index(list[who], id); i >= 0 {
			m.told[who] = append(m.told[who], id)
			list[who] = slices.Delete(list[who], i, i+1)
			return true
		}
	}
	return false
}
