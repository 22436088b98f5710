package topic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/subject"
)

// reader is the subscriptions of one contact, as the store keeps them.
type reader struct {
	of   []Subscription
	next SubscriptionID
	now  time.Time
}

func (r *reader) id() SubscriptionID { r.next++; return r.next }

// write writes changes: what ends is found by its id.
func (r *reader) write(changes []Change) {
	for _, c := range changes {
		if c.Ended != nil {
			at := slices.IndexFunc(r.of, func(s Subscription) bool { return s.ID == c.Ended.ID })
			r.of[at] = *c.Ended
			for _, m := range c.Ended.Forgets() {
				r.forget(m)
			}
		}
	}
	for _, c := range changes {
		if c.Resumes {
			r.forget(Moved{Contact: 1, Topic: c.Started.Topic})
		}
		if c.Started != nil {
			r.of = append(r.of, *c.Started)
		}
	}
}

// forget is store.ForgetMoved.
func (r *reader) forget(m Moved) {
	for i, s := range r.of {
		if (m.Run == 0 || s.EndedBy == m.Run) && (m.Topic == 0 || s.Topic == m.Topic) {
			r.of[i].EndedBy = 0
		}
	}
}

// merge merges another contact into this one.
func (r *reader) merge(other *reader) {
	var theirs []Subscription
	for _, s := range other.of {
		if s.Contact = 2; s.Active() || s.EndedBy != 0 {
			theirs = append(theirs, s)
		}
	}
	r.write(slices.DeleteFunc(Merge(theirs, 1, r.of, r.id, r.now), func(c Change) bool { return c.Ended != nil && c.Ended.Contact == 2 }))
}

// follow begins or changes a subscription, and "" ends it.
func (r *reader) follow(id subject.TopicID, frequency string) {
	var active *Subscription
	if s, ok, _ := present(r.of, id); ok {
		active = &s
	}
	if frequency == "" {
		r.write([]Change{Unsubscribe(active, EndUnsubscribed, r.now)})
		return
	}
	wanted := Subscription{ID: r.id(), Contact: 1, Topic: id, Frequency: frequency, Source: SourceAPI}
	if moved, ok := MovedOf(r.of, id); ok && active == nil {
		r.write([]Change{Resume(moved, wanted, r.now)})
		return
	}
	r.write([]Change{Subscribe(active, wanted, r.now)})
}

func (r *reader) run(b Bulk, run int64, from ...subject.TopicID) Verdict {
	rules := BulkRules{Bulk: b, Run: run, From: from, Into: 9, Began: r.now, NewID: r.id, Offers: func(f string) bool { return f != "never" }}
	if b.Action != ActSubscribe && b.Action != ActMigrate {
		rules.Into = 0
	}
	changes, verdict := rules.Apply(1, r.of, r.now)
	r.write(changes)
	return verdict
}

// active is what goes on: "1 daily, 2 immediate".
func (r *reader) active() string {
	var list []string
	for _, s := range r.of {
		if s.Active() {
			list = append(list, fmt.Sprintf("%d %s", s.Topic, s.Frequency))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// What a run makes of the subscriptions of a contact, and what is left when it is taken back.
func TestBulk(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		follows string // topic and frequency, "-" ends it
		bulk    Bulk
		want    string
		verdict Verdict
	}{
		"moved":                       {"1 daily", Bulk{Action: ActMigrate}, "9 daily", Changed},
		"the more frequent one":       {"1 daily, 2 immediate", Bulk{Action: ActMigrate}, "9 immediate", Changed},
		"another frequency":           {"1 daily", Bulk{Action: ActMigrate, Frequency: "weekly"}, "9 weekly", Changed},
		"others stay":                 {"1 daily, 3 daily", Bulk{Action: ActMigrate}, "3 daily, 9 daily", Changed},
		"follows it as often":         {"1 daily, 9 daily", Bulk{Action: ActMigrate}, "9 daily", Changed},
		"follows it less often":       {"1 daily, 9 weekly", Bulk{Action: ActMigrate}, "9 daily", Changed},
		"follows it more often":       {"1 daily, 9 immediate", Bulk{Action: ActMigrate}, "9 immediate", Changed},
		"has left it":                 {"1 daily, 9 daily, 9 -", Bulk{Action: ActMigrate}, "1 daily", LeftBefore},
		"has left it and come back":   {"1 daily, 9 daily, 9 -, 9 weekly", Bulk{Action: ActMigrate}, "9 daily", Changed},
		"changed it, which is no end": {"1 daily, 9 daily, 9 weekly", Bulk{Action: ActMigrate}, "9 daily", Changed},
		"is not offered":              {"1 never", Bulk{Action: ActMigrate}, "1 never", NotOffered},
		"follows none of them":        {"3 daily", Bulk{Action: ActMigrate}, "3 daily", Already},
		"subscribed":                  {"1 daily", Bulk{Action: ActSubscribe}, "1 daily, 9 daily", Changed},
		"keeps their frequency":       {"1 immediate, 9 daily", Bulk{Action: ActSubscribe}, "1 immediate, 9 daily", Already},
		"subscribed, has left it":     {"1 daily, 9 daily, 9 -", Bulk{Action: ActSubscribe}, "1 daily", LeftBefore},
		"ended":                       {"1 daily, 2 weekly, 3 daily", Bulk{Action: ActUnsubscribe}, "3 daily", Changed},
		"nothing to end":              {"1 daily, 1 -", Bulk{Action: ActUnsubscribe}, "", Already},
		"a message":                   {"1 daily", Bulk{Action: ActMessage}, "1 daily", Changed},
		"a message to others":         {"3 daily", Bulk{Action: ActMessage}, "3 daily", Already},
	} {
		r := &reader{now: time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)}
		for one := range strings.SplitSeq(test.follows, ", ") {
			var id subject.TopicID
			var frequency string
			if _, err := fmt.Sscan(one, &id, &frequency); err != nil {
				t.Fatal(err)
			}
			r.follow(id, strings.TrimPrefix(frequency, "-"))
		}
		before := r.active()
		r.now = r.now.Add(time.Hour)
		if verdict := r.run(test.bulk, 70, 1, 2); verdict != test.verdict || r.active() != test.want {
			t.Errorf("%s: %s %q, want %s %q", name, verdict, r.active(), test.verdict, test.want)
		}
		r.now = r.now.Add(time.Hour)
		if r.run(Bulk{Action: ActUndo, Undoes: 70}, 71); r.active() != before {
			t.Errorf("%s, undone: %q, want %q", name, r.active(), before)
		}
		if verdict := r.run(Bulk{Action: ActUndo, Undoes: 70}, 72); verdict == Changed || r.active() != before {
			t.Errorf("%s, undone twice: %s %q", name, verdict, r.active())
		}
	}
}

// Who follows a topic only since a run has begun is left alone.
func TestBulkLeavesWhoCameLater(t *testing.T) {
	t.Parallel()
	r := &reader{now: time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)}
	r.follow(1, "daily")
	rules := BulkRules{Bulk: Bulk{Action: ActUnsubscribe}, From: []subject.TopicID{1}, Began: r.now.Add(-time.Second)}
	if changes, verdict := rules.Apply(1, r.of, r.now); len(changes) > 0 || verdict != Already {
		t.Errorf("%v %s", changes, verdict)
	}
}

// Whatever people and runs do: nobody has two subscriptions to a topic, nobody follows again what they have left themselves, an undo touches nothing that has
// changed since, and without such a change it leaves everything as it was.
func TestBulkAtRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &reader{now: time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)}
		topics, frequencies := []subject.TopicID{1, 2, 9}, []string{Immediate, "daily", "weekly"}
		left := map[subject.TopicID]bool{}
		var last int64
		var before string
		for step := range rapid.IntRange(1, 25).Draw(t, "steps") {
			r.now = r.now.Add(time.Hour)
			was := slices.Clone(r.of)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				id := rapid.SampledFrom(topics).Draw(t, "topic")
				frequency := rapid.SampledFrom(append(frequencies, "")).Draw(t, "frequency")
				_, follows, _ := present(r.of, id)
				r.follow(id, frequency)
				if left[id] = left[id] && frequency == "" || follows && frequency == ""; frequency != "" {
					left[id] = false
				}
				if len(r.of) != len(was) || !slices.Equal(r.of, was) {
					before = "?"
				}
			case 2, 3:
				b := Bulk{Action: rapid.SampledFrom([]Action{ActSubscribe, ActMigrate, ActUnsubscribe}).Draw(t, "action")}
				from := [][]subject.TopicID{{1}, {2}, {1, 2}}[rapid.IntRange(0, 2).Draw(t, "from")]
				shown := r.active()
				last = int64(100 + step)
				before = shown
				r.run(b, last, from...)
			case 4:
				if last == 0 {
					continue
				}
				verdict := r.run(Bulk{Action: ActUndo, Undoes: last}, int64(100+step))
				if before != "?" && r.active() != before {
					t.Fatalf("undone: %q, want %q", r.active(), before)
				}
				if verdict == NewerChange && !slices.EqualFunc(r.of, was, func(a, b Subscription) bool { a.EndedBy, b.EndedBy = 0, 0; return a == b }) {
					t.Fatal("an undo against which something newer stands has changed something")
				}
				last = 0
			}
			follows := map[subject.TopicID]int{}
			for _, s := range r.of {
				if s.Active() {
					follows[s.Topic]++
				}
			}
			for id, n := range follows {
				if n > 1 {
					t.Fatalf("%d subscriptions to %d", n, id)
				}
				if moved, ok := MovedOf(r.of, id); ok {
					t.Fatalf("they follow %d, and what a run has ended counts, too: %+v", id, moved)
				}
				if left[id] {
					t.Fatalf("they follow %d again, which they have left", id)
				}
			}
		}
	})
}

// weekly returns a contact who follows a topic.
func weekly(id subject.TopicID, now time.Time) *reader {
	r := &reader{now: now}
	r.follow(id, "weekly")
	return r
}

// Whatever people and runs do, and whichever contacts are merged: nobody has two subscriptions to a topic, or one that goes on and another one that a run has ended and
// that counts.
func TestMergesAtRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
		people := []*reader{{}, {}, {}}
		var runs []int64
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Hour)
			for _, r := range people {
				r.now = now
			}
			at := rapid.IntRange(0, 2).Draw(t, "who")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				id := rapid.SampledFrom([]subject.TopicID{1, 2, 9}).Draw(t, "topic")
				people[at].follow(id, rapid.SampledFrom([]string{Immediate, "daily", "weekly", ""}).Draw(t, "frequency"))
			case 2, 3:
				b := Bulk{Action: rapid.SampledFrom([]Action{ActSubscribe, ActMigrate, ActUnsubscribe}).Draw(t, "action")}
				from := rapid.SampledFrom([]subject.TopicID{1, 2}).Draw(t, "from")
				runs = append(runs, int64(100+step))
				for _, r := range people {
					r.run(b, int64(100+step), from)
				}
			case 4:
				if len(runs) == 0 {
					continue
				}
				undoes := rapid.SampledFrom(runs).Draw(t, "undoes")
				for _, r := range people {
					r.run(Bulk{Action: ActUndo, Undoes: undoes}, int64(100+step))
				}
			case 5:
				other := (at + 1) % len(people)
				people[at].merge(people[other])
				people[other] = &reader{}
			}
			for _, r := range people {
				follows := map[subject.TopicID]int{}
				for _, s := range r.of {
					if s.Active() || s.Moved() {
						follows[s.Topic]++
					}
				}
				for id, n := range follows {
					if n > 1 {
						t.Fatalf("%d subscriptions to %d count: %+v", n, id, r.of)
					}
				}
			}
		}
	})
}

// A link in a message about a topic ends what a run has put in its place.
func TestLinksAfterARun(t *testing.T) {
	t.Parallel()
	r := &reader{now: time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)}
	r.follow(1, "daily")
	r.follow(3, "daily")
	r.now = r.now.Add(time.Hour)
	r.run(Bulk{Action: ActMigrate}, 70, 1)
	for _, l := range []Leaving{{Contact: 1, Topic: 1}, {Contact: 1, Item: 5}} {
		if ends := l.Ends(r.of, []subject.TopicID{1}); len(ends) != 1 || ends[0].Topic != 9 {
			t.Errorf("%+v ends %v", l, ends)
		}
	}
	if ends := (Leaving{Contact: 1, Topic: 2}).Ends(r.of, nil); len(ends) != 0 {
		t.Errorf("a link of another topic ends %v", ends)
	}
	for l, want := range map[Leaving]string{
		{Contact: 1, Topic: 1}: "[1]", {Contact: 1, Item: 5}: "[1]", {Contact: 1, Frequency: "daily"}: "[1]", {Contact: 1, Topic: 3}: "[]", {Contact: 1, Frequency: "weekly"}: "[]",
	} {
		if got := fmt.Sprint(l.Forgets(r.of, []subject.TopicID{1})); got != want {
			t.Errorf("%+v forgets %s, want %s", l, got, want)
		}
	}
}

// An undo leaves alone whom something newer concerns: what they, or another run, have made of what the run did. What was published before the run ended a
// subscription still counts for them then, unless they have left it.
func TestUndoAgainstSomethingNewer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then   func(r *reader)
		want   string
		counts bool // what the run has ended
	}{
		"another frequency":                          {func(r *reader) { r.follow(9, "weekly") }, "9 weekly", true},
		"left what it began":                         {func(r *reader) { r.follow(9, "") }, "", false},
		"back to what it ended":                      {func(r *reader) { r.follow(1, "weekly") }, "1 weekly", false},
		"another topic is no reason":                 {func(r *reader) { r.follow(3, "daily") }, "1 daily, 3 daily", false},
		"another run over it":                        {func(r *reader) { r.run(Bulk{Action: ActUnsubscribe}, 80, 9) }, "", true},
		"merged with who follows it":                 {func(r *reader) { r.merge(weekly(1, r.now)) }, "1 weekly", false},
		"merged with who has followed what it began": {func(r *reader) { r.merge(weekly(9, r.now)) }, "9 daily", true},
		"left another topic":                         {func(r *reader) { r.follow(3, "daily"); r.follow(3, "") }, "1 daily", false},
	} {
		r := &reader{now: time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)}
		r.follow(1, "daily")
		r.now = r.now.Add(time.Hour)
		r.run(Bulk{Action: ActMigrate}, 70, 1)
		r.now = r.now.Add(time.Hour)
		test.then(r)
		r.now = r.now.Add(time.Hour)
		if r.run(Bulk{Action: ActUndo, Undoes: 70}, 71); r.active() != test.want {
			t.Errorf("%s: %q, want %q", name, r.active(), test.want)
		}
		if _, counts := MovedOf(r.of, 1); counts != test.counts {
			t.Errorf("%s: what the run has ended counts: %t", name, counts)
		}
	}
}

// A run that makes somebody follow a topic that another run has ended lets it go on from where it was.
func TestBulkResumes(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	r := &reader{now: began}
	r.write([]Change{Subscribe(nil, Subscription{ID: r.id(), Contact: 1, Topic: 9, Frequency: "daily", Covered: 5}, began)})
	r.follow(1, "weekly")
	ended := BulkRules{Bulk: Bulk{Action: ActUnsubscribe}, Run: 70, From: []subject.TopicID{9}, Began: began, NewID: r.id}
	changes, _ := ended.Apply(1, r.of, began.Add(time.Hour))
	r.write(changes)
	again := BulkRules{
		Bulk: Bulk{Action: ActSubscribe}, Run: 71, From: []subject.TopicID{1}, Into: 9, Began: began, Last: 8, NewID: r.id, Offers: func(string) bool { return true },
	}
	changes, verdict := again.Apply(1, r.of, began.Add(2*time.Hour))
	if len(changes) != 1 || verdict != Changed {
		t.Fatalf("%v %s", changes, verdict)
	}
	c := changes[0]
	if !c.Resumes || c.Ended != nil || !c.Started.Since.Equal(began) || c.Started.Covered != 5 || c.Started.Frequency != "weekly" || c.Started.StartedBy != 71 || c.Started.Source != SourceBulk {
		t.Errorf("%+v: %+v", c, c.Started)
	}
}
