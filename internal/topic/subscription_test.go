package topic_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

func bytesOf(text string) io.Reader { return strings.NewReader(text) }

// A subscription begins once, goes on with another frequency from where it is, and ends for good.
//
// Shows: E2, R22.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 5, n, 12, 0, 0, 0, time.UTC) }
	wanted := func(id topic.SubscriptionID, frequency string) topic.Subscription {
		return topic.Subscription{ID: id, Contact: 1, Topic: 2, Frequency: frequency, Source: topic.SourceAPI}
	}
	first := topic.Subscribe(nil, wanted(1, "daily"), day(1))
	active := first.Started
	if first.Ended != nil || active == nil || active.Since != day(1) || active.StartedAt != day(1) || !active.Active() || active.Source != topic.SourceAPI {
		t.Fatalf("the first one: %+v", first)
	}
	if same := topic.Subscribe(active, wanted(2, "daily"), day(2)); same.Changed() {
		t.Errorf("the same frequency: %+v", same)
	}
	other := topic.Subscribe(active, wanted(3, "weekly"), day(3))
	want := topic.Change{
		Ended:   &topic.Subscription{ID: 1, Contact: 1, Topic: 2, Frequency: "daily", Source: topic.SourceAPI, Since: day(1), StartedAt: day(1), EndedAt: day(3), EndReason: topic.EndFrequencyChanged},
		Started: &topic.Subscription{ID: 3, Contact: 1, Topic: 2, Frequency: "weekly", Source: topic.SourceFrequencyChanged, Since: day(1), StartedAt: day(3)},
	}
	if diff := cmp.Diff(want, other); diff != "" {
		t.Error(diff)
	}
	end := topic.Unsubscribe(other.Started, topic.EndUnsubscribed, day(4))
	if end.Started != nil || end.Ended.EndedAt != day(4) || end.Ended.EndReason != topic.EndUnsubscribed || end.Ended.Status() != topic.StatusEnded {
		t.Errorf("the end: %+v", end)
	}
	if again := topic.Unsubscribe(nil, topic.EndUnsubscribed, day(5)); again.Changed() {
		t.Errorf("another end: %+v", again)
	}
	if back := topic.Subscribe(nil, wanted(6, "daily"), day(6)); back.Started.Since != day(6) {
		t.Errorf("who comes back begins again: %+v", back.Started)
	}
}

// Who is meant by topics and a frequency.
func TestFollows(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, 5, n, 0, 0, 0, 0, time.UTC) }
	ended := topic.Subscription{Topic: 3, Frequency: "daily", EndedAt: time.Unix(1, 0)}
	has := []topic.Subscription{{Topic: 1, Frequency: "daily", Since: day(2), StartedAt: day(4)}, {Topic: 2, Frequency: "immediate"}, ended}
	for name, tc := range map[string]struct {
		people  topic.People
		topics  []subject.TopicID
		arrived time.Time
		want    bool
	}{
		"a topic":                            {topic.People{}, []subject.TopicID{9, 1}, time.Time{}, true},
		"another topic":                      {topic.People{}, []subject.TopicID{9}, time.Time{}, false},
		"no topic":                           {topic.People{}, nil, time.Time{}, false},
		"a topic with its frequency":         {topic.People{Frequency: "immediate"}, []subject.TopicID{2}, time.Time{}, true},
		"a topic with another frequency":     {topic.People{Frequency: "immediate"}, []subject.TopicID{1}, time.Time{}, false},
		"any topic":                          {topic.People{All: true}, nil, time.Time{}, true},
		"any topic with a frequency":         {topic.People{All: true, Frequency: "weekly"}, nil, time.Time{}, false},
		"a topic that has been unsubscribed": {topic.People{}, []subject.TopicID{3}, time.Time{}, false},
		"an item that arrived before":        {topic.People{Item: 7}, []subject.TopicID{1}, day(1), false},
		"an item that arrived at the instant of the first subscription": {topic.People{Item: 7}, []subject.TopicID{1}, day(2), true},
	} {
		if got := len(topic.Served(has, []topic.People{tc.people}, []topic.Meant{{Topics: tc.topics, Arrived: tc.arrived}}, 0)) > 0; got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The survivor of a merge follows what either of the two followed, once, as often as the more frequent one of the two, and misses nothing that waited for a
// digest. A merge of what is as frequent changes no subscription of the survivor.
func TestMerge(t *testing.T) {
	t.Parallel()
	now := time.Unix(9, 0)
	for name, row := range map[string]struct {
		of, own, ended, started string // frequency, match that is covered, instant of its start
		rest                    int64
		beyond                  string // through which match, of items since when
	}{
		"nothing of its own":                             {"daily 3 2", "", "", "daily 3 2", 0, ""},
		"as frequent, and the merged one is behind":      {"daily 3 2", "daily 4 1", "", "", 0, ""},
		"as frequent, and the merged one is ahead":       {"daily 5 1", "daily 4 2", "daily 4 2", "daily 5 1", 0, ""},
		"the merged one is more frequent":                {"daily 3 2", "weekly 4 3", "weekly 4 3", "daily 3 2", 0, "4 3"},
		"the merged one is less frequent":                {"weekly 3 2", "daily 4 1", "", "", 0, ""},
		"a name that says nothing is less frequent":      {"other 3 2", "yearly 4 1", "", "", 0, ""},
		"the merged one is immediate, none waits":        {"immediate 3 2", "weekly 4 1", "weekly 4 1", "immediate 4 1", 0, ""},
		"the merged one is immediate, some wait":         {"immediate 4 6", "weekly 3 1", "weekly 3 1", "immediate 3 1", 6, ""},
		"the survivor's is immediate, none waits":        {"daily 4 1", "immediate 4 2", "", "", 0, ""},
		"the survivor's is immediate, some of it wait":   {"daily 3 1", "immediate 4 5", "immediate 4 5", "immediate 3 1", 5, ""},
		"both are immediate, and the other is behind":    {"immediate 3 1", "immediate 4 5", "", "", 0, ""},
		"both are immediate, and the other one is ahead": {"immediate 5 1", "immediate 4 2", "immediate 4 2", "immediate 5 1", 0, ""},

		"the survivor began later, and is ahead":   {"daily 3 2", "daily 4 3", "daily 4 3", "daily 3 2", 0, "4 3"},
		"the survivor began earlier, and is ahead": {"daily 3 2", "daily 4 1", "", "", 0, ""},
		"the merged one began later, and is ahead": {"daily 4 3", "daily 3 2", "daily 3 2", "daily 3 2", 0, "4 3"},
	} {
		read := func(text string, id topic.SubscriptionID, contact subject.ContactID) []topic.Subscription {
			s := topic.Subscription{ID: id, Contact: contact, Topic: 1}
			var at int64
			if _, err := fmt.Sscan(text, &s.Frequency, &s.Covered, &at); err != nil {
				return nil
			}
			s.Since, s.StartedAt = time.Unix(at, 0), time.Unix(at, 0)
			return []topic.Subscription{s}
		}
		of, own := read(row.of, 1, 7), read(row.own, 2, 8)
		got := topic.Merge(of, 8, own, func() topic.SubscriptionID { return 3 }, now)
		if e := got[0].Ended; e == nil || e.ID != 1 || e.EndReason != topic.EndMerged || !e.EndedAt.Equal(now) {
			t.Errorf("%s: the merged one ends as %+v", name, e)
		}
		var ended, started string
		last := got[len(got)-1]
		if len(got) > 1 {
			ended = fmt.Sprint(last.Ended.Frequency, " ", last.Ended.Covered, " ", last.Ended.Since.Unix())
			if last.Ended.ID != 2 || last.Ended.EndReason != topic.EndMerged {
				t.Errorf("%s: the survivor's ends as %+v", name, last.Ended)
			}
		}
		if s := last.Started; s != nil {
			started = fmt.Sprint(s.Frequency, " ", s.Covered, " ", s.Since.Unix())
			if s.ID != 3 || s.Contact != 8 || s.Topic != 1 || s.Source != topic.SourceMerged || !s.StartedAt.Equal(now) {
				t.Errorf("%s: begins as %+v", name, s)
			}
		}
		if ended != row.ended || started != row.started {
			t.Errorf("%s: %q ends and %q begins, want %q and %q", name, ended, started, row.ended, row.started)
		}
		beyond := ""
		if b := last.Beyond; b.Through != 0 {
			beyond = fmt.Sprint(b.Through, " ", b.Since.Unix())
		}
		if beyond != row.beyond {
			t.Errorf("%s: covered beyond it: %q, want %q", name, beyond, row.beyond)
		}
		if rest := last.Rest; row.rest == 0 && !rest.IsZero() || row.rest != 0 && (rest.Unix() != row.rest || last.Waited == topic.Immediate || last.Waited == "") {
			t.Errorf("%s: the rest until %v, of %q", name, rest, last.Waited)
		}
	}
}
