package topic_test

import (
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
