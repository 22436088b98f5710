package digest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/subject"
)

// at is an instant of a day whose window is [8, 32).
func at(hour int) time.Time { return time.Date(2026, 5, 13, hour, 0, 0, 0, time.UTC) }

var window = digest.Window{From: at(8), End: at(32)} //nolint:gochecknoglobals // never changes

func match(seq int64, hour int) digest.Match {
	return digest.Match{Seq: seq, Item: subject.EventID(seq), Content: fmt.Sprint(seq), ReceivedAt: at(hour)}
}

func in(state digest.State, m digest.Match) digest.Match {
	m.State = state
	return m
}

func versionOf(content string, m digest.Match) digest.Match {
	m.Content = content
	return m
}

// Shows: E9, E14, R21.
func TestComposeOneTopic(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		since   time.Time
		covered int64
		ahead   []int64
		again   bool
		matches []digest.Match
		items   []subject.EventID
		through digest.Covered
		passed  int64 // 0: nothing is
	}{
		"what arrived in the window, from its start on": {
			matches: []digest.Match{match(1, 8), match(2, 31)}, items: []subject.EventID{1, 2}, through: digest.Covered{Through: 2},
		},
		"an item at the end of the window waits": {
			matches: []digest.Match{match(1, 9), match(2, 32)}, items: []subject.EventID{1}, through: digest.Covered{Through: 1},
		},
		"nothing but what waits": {matches: []digest.Match{match(2, 40)}},
		"what arrived before the window is passed over": {
			matches: []digest.Match{match(1, 7), match(2, 9)}, items: []subject.EventID{2}, through: digest.Covered{Through: 2}, passed: 1,
		},
		"what arrived before the subscription is passed over": {
			since: at(10), matches: []digest.Match{match(1, 9), match(2, 10)}, items: []subject.EventID{2}, through: digest.Covered{Through: 2}, passed: 1,
		},
		"what is covered": {
			covered: 1, matches: []digest.Match{match(1, 9), match(2, 10)}, items: []subject.EventID{2}, through: digest.Covered{Through: 2},
		},
		"in the order of arrival, not of matching": {
			matches: []digest.Match{match(1, 12), match(2, 9)}, items: []subject.EventID{2, 1}, through: digest.Covered{Through: 2},
		},
		"what was matched late, after an item that waits": {
			matches: []digest.Match{match(1, 9), match(2, 33), match(3, 10)}, items: []subject.EventID{1, 3}, through: digest.Covered{Through: 1, Ahead: []int64{3}},
		},
		"what is covered beyond an item that waited": {
			covered: 1, ahead: []int64{3}, matches: []digest.Match{match(2, 20), match(3, 10)}, items: []subject.EventID{2}, through: digest.Covered{Through: 3},
		},
		"what another message has told": {
			matches: []digest.Match{in(digest.Told, match(1, 9)), match(2, 10)}, items: []subject.EventID{2}, through: digest.Covered{Through: 2}, passed: 1,
		},
		"what another message is about to tell waits": {
			matches: []digest.Match{in(digest.Open, match(1, 9)), match(2, 10)}, items: []subject.EventID{2}, through: digest.Covered{Ahead: []int64{2}},
		},
		"nothing new, and all of it told": {matches: []digest.Match{in(digest.Told, match(1, 9)), in(digest.Told, match(2, 10))}, passed: 2},
		"told after an item that waits is not passed": {
			matches: []digest.Match{in(digest.Open, match(1, 9)), in(digest.Told, match(2, 10))},
		},
		"a later version takes the place of the one before": {
			matches: []digest.Match{versionOf("k", match(1, 8)), match(2, 10), versionOf("k", match(3, 12))}, items: []subject.EventID{2, 3}, through: digest.Covered{Through: 3},
		},
		"a version that waits takes no place": {
			matches: []digest.Match{versionOf("k", match(1, 8)), versionOf("k", match(2, 33))}, items: []subject.EventID{1}, through: digest.Covered{Through: 1},
		},
		"told again: what is covered, and nothing that came before or after it": {
			again: true, covered: 3, ahead: []int64{5}, items: []subject.EventID{2, 3, 5, 6}, through: digest.Covered{Through: 3, Ahead: []int64{5, 6}},
			matches: []digest.Match{match(1, 7), match(2, 9), match(3, 10), match(4, 40), match(5, 11), match(6, 12)},
		},
		"told again: what came before the window stays for the next digest": {
			again: true, covered: 1, items: []subject.EventID{1, 3}, through: digest.Covered{Through: 1, Ahead: []int64{3}},
			matches: []digest.Match{match(1, 9), match(2, 7), match(3, 10)},
		},
		"told again: not what another message has told": {
			again: true, covered: 2, matches: []digest.Match{in(digest.Told, match(1, 9)), match(2, 10)}, items: []subject.EventID{2}, through: digest.Covered{Through: 2},
		},
	} {
		f := digest.Followed{Topic: 7, Since: tc.since, Covered: tc.covered, Ahead: tc.ahead, Again: tc.again, Matches: tc.matches}
		got, passed := digest.Compose([]digest.Followed{f}, window, digest.Rules{})
		var want digest.Contents
		if len(tc.items) > 0 {
			tc.through.Topic = 7
			want = digest.Contents{Sections: []digest.Section{{Topic: 7, Items: tc.items}}, Covered: []digest.Covered{tc.through}}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		var over []digest.Covered
		if tc.passed > 0 {
			over = []digest.Covered{{Topic: 7, Through: tc.passed}}
		}
		if diff := cmp.Diff(over, passed); diff != "" {
			t.Errorf("%s: passed (-want +got)\n%s", name, diff)
		}
		if got.Empty() != (len(tc.items) == 0) {
			t.Errorf("%s: empty is %v", name, got.Empty())
		}
	}
}

// Shows: E1, E14, E16.
func TestComposeSeveralTopics(t *testing.T) {
	t.Parallel()
	visas := digest.Followed{Topic: 1, Title: "Visas", Matches: []digest.Match{{Seq: 2, Item: 20, Content: "b", ReceivedAt: at(10)}, {Seq: 4, Item: 30, Content: "c", ReceivedAt: at(11)}}}
	tax := digest.Followed{Topic: 2, Title: "Tax", Matches: []digest.Match{{Seq: 1, Item: 10, Content: "a", ReceivedAt: at(9)}, {Seq: 3, Item: 20, Content: "b", ReceivedAt: at(10)}}}
	pets := digest.Followed{Topic: 3, Title: "Pets"}
	taxToo := digest.Followed{Topic: 4, Title: "Tax", Name: "z", Matches: []digest.Match{{Seq: 9, Item: 90, Content: "z", ReceivedAt: at(9)}}}
	section := func(id subject.TopicID, items, see []subject.EventID, more int) digest.Section {
		return digest.Section{Topic: id, Items: items, See: see, More: more}
	}
	ids := func(list ...subject.EventID) []subject.EventID { return list }
	for name, tc := range map[string]struct {
		follows []digest.Followed
		rules   digest.Rules
		want    []digest.Section
		more    int
	}{
		"once":                     {[]digest.Followed{visas, tax, pets}, digest.Rules{}, []digest.Section{section(2, ids(10, 20), nil, 0), section(1, ids(30), ids(20), 0)}, 0},
		"each":                     {[]digest.Followed{visas, tax}, digest.Rules{Duplicates: digest.DuplicatesEach}, []digest.Section{section(2, ids(10, 20), nil, 0), section(1, ids(20, 30), nil, 0)}, 0},
		"no room":                  {[]digest.Followed{visas, tax}, digest.Rules{MaxItems: 1}, []digest.Section{section(2, ids(10), nil, 1), section(1, nil, nil, 2)}, 3},
		"room for a reference":     {[]digest.Followed{visas, tax}, digest.Rules{MaxItems: 2}, []digest.Section{section(2, ids(10, 20), nil, 0), section(1, nil, ids(20), 1)}, 1},
		"titles, and then by name": {[]digest.Followed{taxToo, tax}, digest.Rules{}, []digest.Section{section(2, ids(10, 20), nil, 0), section(4, ids(90), nil, 0)}, 0},
	} {
		got, _ := digest.Compose(tc.follows, window, tc.rules)
		if diff := cmp.Diff(tc.want, got.Sections); diff != "" || got.More != tc.more || len(got.Covered) != len(got.Sections) {
			t.Errorf("%s: %d more, %d covered (-want +got)\n%s", name, got.More, len(got.Covered), diff)
		}
	}
	both, _ := digest.Compose([]digest.Followed{visas, tax}, window, digest.Rules{MaxItems: 3})
	if diff := cmp.Diff([]subject.TopicID{2, 1}, both.Topics()); diff != "" {
		t.Error(diff)
	}
	// Who has left the topic in which an item stands reads it where it was referred to.
	if diff := cmp.Diff([]digest.Section{section(1, ids(30, 20), nil, 0)}, both.Only(ids2(1)).Sections); diff != "" {
		t.Error(diff)
	}
	if only := both.Only(nil); !only.Empty() || len(only.Covered) > 0 {
		t.Errorf("of no topic there is %+v", only)
	}
	few, _ := digest.Compose([]digest.Followed{visas, tax}, window, digest.Rules{MaxItems: 1})
	if only := few.Only(ids2(1)); only.More != 2 || len(only.Covered) != 1 || only.Covered[0].Topic != 1 {
		t.Errorf("of one topic there is %+v", only)
	}
}

func ids2(list ...subject.TopicID) []subject.TopicID { return list }

// A person with one topic over many windows, while items are matched in any order and messages fail: each item is in exactly one message that has left, or in
// none because it arrived before the person did.
//
// Shows: R21.
func TestEveryItemOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		since := at(rapid.IntRange(0, 20).Draw(t, "since"))
		f := digest.Followed{Topic: 7, Since: since}
		var all []digest.Match
		told := map[subject.EventID]int{}
		move := func(c digest.Covered) {
			f.Covered = max(f.Covered, c.Through)
			f.Ahead = slices.DeleteFunc(append(f.Ahead, c.Ahead...), func(seq int64) bool { return seq <= f.Covered })
		}
		tell := func(now int, leaves bool) {
			f.Matches = slices.DeleteFunc(slices.Clone(all), func(m digest.Match) bool { return m.Seq <= f.Covered })
			contents, passed := digest.Compose([]digest.Followed{f}, digest.Window{From: at(0), End: at(now)}, digest.Rules{})
			for _, c := range passed {
				move(c)
			}
			if !leaves {
				return
			}
			for _, s := range contents.Sections {
				for _, item := range s.Items {
					told[item]++
				}
			}
			for _, c := range contents.Covered {
				move(c)
			}
		}
		hour := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1: // an item that arrived up to a day ago is matched now
				n := int64(len(all) + 1)
				all = append(all, match(n, max(hour-rapid.IntRange(0, 24).Draw(t, "late"), 0)))
			case 2:
				hour += rapid.IntRange(1, 12).Draw(t, "pass")
			case 3:
				tell(hour-rapid.IntRange(0, 6).Draw(t, "before"), rapid.Bool().Draw(t, "leaves"))
			}
		}
		tell(hour+1, true)
		for _, m := range all {
			want := 1
			if m.ReceivedAt.Before(since) {
				want = 0
			}
			if told[m.Item] != want {
				t.Fatalf("item %d, of %s with since %s, left %d times: %v", m.Item, m.ReceivedAt, since, told[m.Item], slices.Sorted(maps.Keys(told)))
			}
		}
		if len(f.Ahead) > 0 {
			t.Fatalf("all has left, and %v is ahead of %d", f.Ahead, f.Covered)
		}
	})
}
