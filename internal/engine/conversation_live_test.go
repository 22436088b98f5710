package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/survey"
)

// Whatever people reply, however often and in which order, and wherever the process dies: each answer counts once, each question is asked once, and nothing is
// sent after a stop.
//
// Shows: P3, P5.
func TestConversationsLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		dies := ""
		w := world{enginetest.Setup(t, s, checkup, func(c *engine.Config) {
			c.NoJitter = true // the model counts by the minute
			c.Failpoint = func(point string) error {
				if dies == point {
					dies = ""
					return errDead
				}
				return nil
			}
		})}
		lives, enough := 0, storetest.MoreLives(25)
		rapid.Check(t, func(r *rapid.T) {
			if enough() {
				return
			}
			lives++
			w.Clock.Set(ten.Add(600 * 24 * time.Hour)) // what the life before has left is over
			w.spoken()
			w.Clock.Set(ten)
			w.Workspace = w.another(fmt.Sprintf("talk-%d", lives), checkup)
			for who, number := range numbers {
				w.phone(who, number)
			}
			l := talkLife{w: w, dies: &dies, out: map[string]bool{}, open: map[string]*talked{}}
			for range rapid.IntRange(5, 25).Draw(r, "acts") {
				l.act(r)
			}
		})
	})
}

var errDead = errors.New("dead")

// talkLife is what people are to read, and what counts of what they write, by the simplest rules there are.
type talkLife struct {
	w         world
	dies      *string
	n         int
	out       map[string]bool
	open      map[string]*talked
	handed    []reply.Reply
	want      []string
	responses []string // the newest first
}

// talked is a conversation.
type talked struct {
	question string
	answers  map[string]any
	begun    time.Time
	expires  time.Time
	last     time.Time // when the question was asked last
	reminded bool
	repeats  int
}

var questions = map[string]string{"fever": "Fever, you?", "since": "Since when?\n1. Today\n2. Earlier", "pain": "Pain, 0 to 10?"} //nolint:gochecknoglobals // never changes

func (l *talkLife) act(r *rapid.T) {
	now := l.w.Clock.Now().Add(rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, 2 * time.Hour, 7 * time.Hour, 50 * time.Hour}).Draw(r, "later"))
	l.w.Clock.Set(now)
	l.pass(now)
	l.settle(r)
	who := rapid.SampledFrom([]string{"ann", "bob"}).Draw(r, "who")
	l.n++
	fate := rapid.SampledFrom([]string{"lost", "busy", "dead", "well", "well", "well", "well"}).Draw(r, "fate")
	switch fate {
	case "busy": // the provider refuses the message for now
		l.w.Provider.Next(&channel.SendError{Reason: reason.RateLimited, Retry: true, Err: errors.New("busy")})
	case "lost": // the answer of the provider, which has accepted the message
		l.w.Provider.Next(channel.Lost(errors.New("lost")))
	case "dead":
		*l.dies = rapid.SampledFrom([]string{sender.BeforeIntent, sender.AfterIntent, sender.BeforeResult}).Draw(r, "where")
	}
	switch rapid.SampledFrom([]string{"visit", "reply", "reply", "reply", "reply", "two", "again", "early"}).Draw(r, "act") {
	case "visit":
		l.visit(who)
	case "reply":
		l.hear(r, who, l.said(r, who))
	case "two":
		l.hear(r, who, l.said(r, who), l.said(r, who))
	case "again":
		if len(l.handed) > 0 {
			l.take(r, rapid.SampledFrom(l.handed).Draw(r, "of"))
		}
	case "early": // written before the question was asked
		if t := l.open[who]; t != nil {
			one := l.said(r, who)
			one.Text, one.At = "1", now.Add(-60*time.Hour)
			l.take(r, one)
		}
	}
	l.settle(r)
	if late := l.w.Clock.Now().Sub(now); late > 0 {
		for _, t := range l.open {
			if t != nil && t.last.Equal(now) {
				if t.last = l.w.Clock.Now(); fate == "busy" && t.begun.Equal(now) { // it begins when its first message may have arrived
					t.expires = t.expires.Add(late)
				}
			}
		}
	}
	l.w.Provider.Recover()
}

func (l *talkLife) said(r *rapid.T, who string) reply.Reply {
	l.n++
	text := rapid.SampledFrom([]string{"1", "2", "1", "2", "7", "maybe", "stop", "start"}).Draw(r, "text")
	return reply.Reply{ID: fmt.Sprint(l.n), From: numbers[who], Text: text}
}

func (l *talkLife) take(r *rapid.T, list ...reply.Reply) {
	if _, err := l.w.Replies().Take(l.w.Context(), l.w.Workspace, "sms:default", list, l.w.Clock.Now(), nil); err != nil {
		r.Fatal(err)
	}
}

// pass lets time pass: one reminder of each question, and an end.
func (l *talkLife) pass(now time.Time) {
	for who, t := range l.open {
		switch {
		case t == nil:
		case !now.Before(t.expires):
			l.end(who)
		case !t.reminded && !now.Before(t.last.Add(6*time.Hour)):
			t.reminded = true
			l.tell(who, questions[t.question])
		}
	}
}

func (l *talkLife) tell(who, text string) { l.want = append(l.want, numbers[who]+" "+text) }

func (l *talkLife) visit(who string) {
	l.w.visit(who, fmt.Sprint(l.n))
	if l.out[who] {
		return
	}
	l.end(who)
	now := l.w.Clock.Now()
	l.open[who] = &talked{question: "fever", answers: map[string]any{}, begun: now, expires: now.Add(48 * time.Hour), last: now}
	l.tell(who, questions["fever"])
}

// end ends a conversation before all is answered.
func (l *talkLife) end(who string) {
	if t := l.open[who]; t != nil && len(t.answers) > 0 {
		l.responses = slices.Insert(l.responses, 0, fmt.Sprint(who, " ", t.answers, " responded partial"))
	}
	l.open[who] = nil
}

// hear has a person write one or two texts at once.
func (l *talkLife) hear(r *rapid.T, who string, list ...reply.Reply) {
	l.take(r, list...)
	l.handed = append(l.handed, list...)
	var texts []string // what is said, the last word alone if it is a question
	asked := true
	for _, one := range list {
		t := l.open[who]
		switch one.Text {
		case "stop":
			if l.out[who] = true; slices.Equal(texts, []string{"Thank you."}) { // the closing is not said any more
				texts = nil
			}
			if t != nil {
				l.end(who)
				texts = []string{"You have asked us to stop. We will not write again. Reply START to get messages again."}
			}
			continue
		case "start":
			if l.out[who] { // a stop that is over is not confirmed
				l.out[who], texts = false, nil
			}
			continue
		}
		if t == nil || !asked {
			continue
		}
		answer := map[string]map[string]any{
			"fever": {"1": true, "2": false}, "since": {"1": "today", "2": "earlier"}, "pain": {"1": 1, "2": 2, "7": 7},
		}[t.question][one.Text]
		if answer == nil {
			if t.repeats < survey.MostRepeats && len(texts) == 0 {
				t.repeats++
				t.last, t.reminded = l.w.Clock.Now(), false
				texts = []string{"Please answer again."}
			}
			continue
		}
		t.answers[t.question] = answer
		next := map[string]string{"fever": "pain", "since": "pain"}[t.question]
		if answer == true {
			next = "since"
		}
		if next == "" {
			l.responses = slices.Insert(l.responses, 0, fmt.Sprint(who, " ", t.answers, " responded answered"))
			l.open[who], texts = nil, []string{"Thank you."}
			continue
		}
		t.question, t.repeats, t.last, t.reminded, asked = next, 0, l.w.Clock.Now(), false, false
		texts = []string{questions[next]}
	}
	for _, text := range texts {
		l.tell(who, text)
	}
}

// settle sees that all that is due leaves, and nothing else, and that what counts is stored.
func (l *talkLife) settle(r *rapid.T) {
	died := *l.dies
	lost := l.w.Provider.Waits() > 0
	for range 100 {
		did, err := l.w.Tick(l.w.Context())
		if errors.Is(err, errDead) {
			if died == sender.BeforeIntent {
				died = ""
			}
			continue
		} else if err != nil {
			r.Fatal(err)
		}
		if !did.Any() {
			break
		}
	}
	if died != "" && *l.dies == "" { // what it had in hand is taken over when its lease is over
		l.w.Clock.Set(l.w.Clock.Now().Add(time.Minute))
		l.w.calm()
	}
	if *l.dies = ""; lost && l.w.Provider.Waits() == 0 { // and is tried again
		l.w.Clock.Set(l.w.Clock.Now().Add(5 * time.Minute))
		l.w.calm()
	}
	got := l.sent()
	slices.Sort(got)
	slices.Sort(l.want)
	if !slices.Equal(got, l.want) {
		r.Fatalf("at %s: %q left, not %q", l.w.Clock.Now().Format("02 15:04"), got, l.want)
	}
	l.want = nil
	is := l.w.answered()
	slices.Sort(is)
	should := slices.Sorted(slices.Values(l.responses))
	if !slices.Equal(is, should) {
		r.Fatalf("responses: %q, not %q", is, should)
	}
	open := 0
	for _, one := range l.w.sessions() {
		if strings.HasPrefix(one, "open") {
			open++
		}
	}
	want := len(slices.DeleteFunc(slices.Collect(maps.Values(l.open)), func(t *talked) bool { return t == nil }))
	if open != want {
		r.Fatalf("%d sessions are open, not %d", open, want)
	}
}

func (l *talkLife) sent() (list []string) {
	for _, m := range l.w.Provider.Sent() {
		list = append(list, m.Address+" "+m.Text)
	}
	return list
}
