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
	ended := topic.Subscription{Topic: 3, Frequency: "daily", EndedAt: time.Unix(1, 0)}
	has := []topic.Subscription{{Topic: 1, Frequency: "daily"}, {Topic: 2, Frequency: "immediate"}, ended}
	for name, tc := range map[string]struct {
		people topic.People
		topics []subject.TopicID
		want   bool
	}{
		"a topic":                            {topic.People{}, []subject.TopicID{9, 1}, true},
		"another topic":                      {topic.People{}, []subject.TopicID{9}, false},
		"no topic":                           {topic.People{}, nil, false},
		"a topic with its frequency":         {topic.People{Frequency: "immediate"}, []subject.TopicID{2}, true},
		"a topic with another frequency":     {topic.People{Frequency: "immediate"}, []subject.TopicID{1}, false},
		"any topic":                          {topic.People{All: true}, nil, true},
		"any topic with a frequency":         {topic.People{All: true, Frequency: "weekly"}, nil, false},
		"a topic that has been unsubscribed": {topic.People{}, []subject.TopicID{3}, false},
	} {
		if got := len(topic.Served(has, []topic.People{tc.people}, [][]subject.TopicID{tc.topics}, 0)) > 0; got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The survivor of a merge follows what either of the two followed, once.
func TestMerge(t *testing.T) {
	t.Parallel()
	now, before := time.Unix(9, 0), time.Unix(1, 0)
	of := []topic.Subscription{{ID: 1, Contact: 7, Topic: 1, Frequency: "daily", Since: before}, {ID: 2, Contact: 7, Topic: 2, Frequency: "daily", Since: before}}
	own := []topic.Subscription{{ID: 3, Contact: 8, Topic: 2, Frequency: "immediate"}}
	got := topic.Merge(of, 8, own, func() topic.SubscriptionID { return 4 }, now)
	want := []topic.Change{
		{
			Ended:   &topic.Subscription{ID: 1, Contact: 7, Topic: 1, Frequency: "daily", Since: before, EndedAt: now, EndReason: topic.EndMerged},
			Started: &topic.Subscription{ID: 4, Contact: 8, Topic: 1, Frequency: "daily", Source: topic.SourceMerged, Since: before, StartedAt: now},
		},
		{Ended: &topic.Subscription{ID: 2, Contact: 7, Topic: 2, Frequency: "daily", Since: before, EndedAt: now, EndReason: topic.EndMerged}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
