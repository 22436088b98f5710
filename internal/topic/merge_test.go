package topic_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

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
		"the merged one is immediate, some wait":         {"immediate 4 6", "weekly 3 1", "weekly 3 1", "immediate 3 1", 6, "4 6"},
		"the survivor's is immediate, none waits":        {"daily 4 1", "immediate 4 2", "", "", 0, ""},
		"the survivor's is immediate, some of it wait":   {"daily 3 1", "immediate 4 5", "immediate 4 5", "immediate 3 1", 5, "4 5"},
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
		if len(got) > 1 && last.Ended != nil {
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
		for _, b := range last.Beyond {
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

// What waited for the digest of somebody whose subscription a run has ended still waits when they turn out to be somebody else, too, who follows the topic or
// whose subscription a run has ended as well.
func TestMergeOfWhatARunHasEnded(t *testing.T) {
	t.Parallel()
	now := time.Unix(90, 0)
	for name, row := range map[string]struct {
		of, own, want string // frequency, match that is covered, instant of its start, and of the end by a run
		rest          int64
		beyond        string // through which match, of items since when, and until when
	}{
		"nothing of its own":                            {"daily 3 20 40", "", "daily 3 20 40", 0, ""},
		"the survivor follows it since":                 {"daily 3 20 40", "weekly 5 50", "weekly 3 20", 0, "5 40"},
		"they followed it before it ended":              {"daily 3 20 40", "daily 5 30", "daily 3 20", 0, "5 30"},
		"they followed it as long":                      {"daily 3 20 40", "daily 5 20", "daily 5 20", 0, ""},
		"nothing waited":                                {"daily 5 20 40", "daily 5 50", "daily 5 50", 0, ""},
		"they get each item at once":                    {"daily 3 20 40", "immediate 5 50", "immediate 3 20", 50, "5 40"},
		"each item was sent at once":                    {"immediate 3 20 40", "daily 5 50", "daily 5 50", 0, ""},
		"the merged one follows the survivor's":         {"daily 5 50", "weekly 3 20 40", "daily 3 20", 0, "5 40"},
		"the merged one gets each item at once":         {"immediate 5 50", "daily 3 20 40", "immediate 3 20", 50, "5 40"},
		"both have ended, the merged one is behind":     {"daily 3 20 40", "weekly 5 30 45", "daily 3 20 45", 0, "5 30 45"},
		"both have ended, and it ended later":           {"weekly 3 20 45", "daily 5 30 40", "daily 3 20 45", 0, "5 30 40"},
		"both have ended, one before the other began":   {"daily 5 30 40", "daily 3 20 25", "daily 3 20 40", 0, "5 25 40"},
		"both have ended, the survivor is behind":       {"daily 5 30 40", "weekly 3 20 40", "daily 3 20 40", 0, "5 30 40"},
		"both have ended, one got items at once":        {"daily 3 20 40", "immediate 5 30 40", "daily 3 20 40", 0, "5 30 40"},
		"both have ended, and got items at once":        {"immediate 3 20 40", "immediate 5 30 40", "immediate 5 20 40", 0, ""},
		"the ended one is ahead":                        {"daily 5 20 40", "weekly 3 10", "weekly 3 10", 0, "5 20 40"},
		"the ended one has had the rest at once":        {"immediate 5 20 40", "weekly 3 10", "weekly 3 10", 0, "5 20 40"},
		"both have ended, one has had the rest at once": {"immediate 5 20 40", "weekly 3 10 40", "weekly 3 10 40", 0, "5 20 40"},
		"both get each item at once":                    {"immediate 3 20 40", "immediate 5 50", "immediate 5 20", 0, ""},
		"both follow it, one of them again":             {"weekly 6 60", "daily 5 50; daily 3 20 40", "daily 3 20", 0, "6 60; 5 40"},
		"changed by the run":                            {"daily 3 20 40 changed; daily 5 40 0 begun", "", "daily 3 20 40; daily 5 40", 0, ""},
		"changed by the run, and by themselves":         {"daily 3 20 40 changed; daily 5 50", "", "daily 5 50", 0, ""},
		"changed by the run, and the survivor's":        {"daily 3 20 40 changed; daily 5 40 0 begun", "weekly 5 30", "daily 5 30", 0, ""},
		"left since":                                    {"daily 3 20 40 forgotten", "daily 5 50", "", 0, ""},
	} {
		read := func(text string, id topic.SubscriptionID, contact subject.ContactID) (list []topic.Subscription) {
			for part := range strings.SplitSeq(text, "; ") {
				s := topic.Subscription{ID: id, Contact: contact, Topic: 1}
				var at, ended int64
				var why string
				n, _ := fmt.Sscan(part, &s.Frequency, &s.Covered, &at, &ended, &why)
				if id++; n == 0 {
					continue
				}
				s.Since, s.StartedAt = time.Unix(at, 0), time.Unix(at, 0)
				if ended > 0 {
					s.EndedAt, s.EndReason, s.EndedBy = time.Unix(ended, 0), topic.EndBulkUnsubscribed, ended
				}
				switch why {
				case "changed":
					s.EndReason = topic.EndFrequencyChanged
				case "begun":
					s.StartedBy = at
				case "forgotten":
					s.EndedBy = 0
				}
				list = append(list, s)
			}
			return list
		}
		var began, beyond []string
		var rest int64
		next := topic.SubscriptionID(100)
		own := read(row.own, 50, 8)
		for _, c := range topic.Merge(read(row.of, 1, 7), 8, own, func() topic.SubscriptionID { next++; return next }, now) {
			if s := c.Started; s != nil {
				text := fmt.Sprint(s.Frequency, " ", s.Covered, " ", s.Since.Unix())
				if !s.Active() {
					text += fmt.Sprint(" ", s.EndedAt.Unix())
				}
				began = append(began, text)
				if s.ID <= 100 || s.Contact != 8 || s.Active() != (s.EndedBy == 0) || s.Active() && (s.Source != topic.SourceMerged || !s.StartedAt.Equal(now)) || !s.Active() && s.EndedBy != s.EndedAt.Unix() {
					t.Errorf("%s: begins as %+v", name, s)
				}
				if moved := slices.ContainsFunc(own, topic.Subscription.Moved); c.Resumes != moved {
					t.Errorf("%s: what a run has ended of the survivor's counts no more: %t", name, c.Resumes)
				}
			}
			for _, b := range c.Beyond {
				text := fmt.Sprint(b.Through, " ", b.Since.Unix())
				if !b.Until.IsZero() {
					text += fmt.Sprint(" ", b.Until.Unix())
				}
				beyond = append(beyond, text)
			}
			if !c.Rest.IsZero() {
				rest = c.Rest.Unix()
			}
			if c.Ended != nil && (c.Ended.EndReason != topic.EndMerged || !c.Ended.EndedAt.Equal(now)) {
				t.Errorf("%s: ends as %+v", name, c.Ended)
			}
		}
		if got := strings.Join(began, "; "); got != row.want || strings.Join(beyond, "; ") != row.beyond || rest != row.rest {
			t.Errorf("%s: %q begins, covered beyond it %q, the rest until %d", name, got, beyond, rest)
		}
	}
}
