package engine_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/survey"
)

// askingForms is a workflow with a survey; {} stands for more keys of the trigger.
const askingForms = `
workflow: visit
type: survey
triggers:
  - {id: t, event: visited}{}
timing: {reminders: [1d], expire_after: 30d}
audience: {to: event.recipient}
channel: memory
message: {survey: form}
---
survey: form
title: {en: "Visit to {{ event.place }}", ar: زيارة}
invitation: {text: "{{ survey.link }}"}
questions:
  - {id: rate, type: rating, min: 1, max: 10, required: true, text: {en: "How was {{ event.place }}?", ar: كيف كان؟}}
  - {id: why, type: text, text: Why?, show_when: answers.rate < 5}
  - {id: vip, type: yes_no, text: Gold?, show_when: event.gold == true}
---
channel: memory
provider: memory
`

func visited(id string) string {
	return `{"kind":"visited","id":"` + id + `","payload":{"place":"Basra","gold":true},"recipient":{"address":"+96477` + id + `","locale":"ar","customer_ref":"c-` + id + `"}}`
}

// asked is an engine whose only delivery asks for an answer.
type asked struct {
	*enginetest.Bundle
	link answer.Link
}

func ask(t *testing.T, s *store.Store, definitions string, change func(*engine.Config)) asked {
	t.Helper()
	b := enginetest.Setup(t, s, definitions, change)
	r := b.Post(visited("1"))
	if len(r.Instances) != 1 || len(r.Instances[0].Deliveries) != 1 {
		t.Fatalf("%+v", r)
	}
	return asked{b, answer.Link{Workspace: b.Workspace.ID, Delivery: r.Instances[0].Deliveries[0].ID}}
}

func (a asked) row() delivery.Row { return a.Delivery(a.link.Delivery) }

func (a asked) submit(answers map[string]any) error {
	_, err := a.Answers().Submit(a.Context(), a.link, answer.Submission{Answers: answers}, a.Now(), nil)
	return err
}

var good = map[string]any{"rate": 7.0} //nolint:gochecknoglobals // never changes

// Shows: C31, C32, C33 and product decision 44.
func TestAnswersByState(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, strings.Replace(askingForms, "{}", "", 1), nil)
		if _, err := a.Answers().Open(t.Context(), a.link, a.Now()); err != nil || a.row().Status != delivery.Scheduled {
			t.Errorf("opened before anything was sent: %s, %v", a.row().Status, err)
		}
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := a.row(); got.Status != delivery.Sent || got.SurveySet != 0 || got.Definitions == 0 {
			t.Fatalf("sent: %+v", got)
		}
		for range 2 {
			if _, err := a.Answers().Open(t.Context(), a.link, a.Now()); err != nil || a.row().Status != delivery.Opened || a.row().SendAt.IsZero() {
				t.Errorf("opened: %+v, %v", a.row(), err)
			}
		}
		var refused *answer.Invalid
		if err := a.submit(map[string]any{"rate": 99.0, "why": "x", "nope": 1.0}); !errors.As(err, &refused) {
			t.Fatalf("bad answers: %v", err)
		}
		var codes []survey.Code
		for _, p := range refused.Problems {
			codes = append(codes, p.Code)
		}
		if diff := cmp.Diff([]survey.Code{survey.TooLarge, survey.UnknownQuestion}, codes); diff != "" {
			t.Error(diff)
		}
		if err := a.submit(good); err != nil {
			t.Fatal(err)
		}
		if got := a.row(); got.Status != delivery.Responded || !got.SendAt.IsZero() || got.Reason != reason.Answered {
			t.Errorf("answered: %+v", got)
		}
		if err := a.submit(good); !errors.Is(err, answer.ErrAnswered) {
			t.Errorf("a second time: %v", err)
		}
		if err := a.Answers().SaveDraft(t.Context(), a.link, good, a.Now()); !errors.Is(err, answer.ErrAnswered) {
			t.Errorf("a draft after the answer: %v", err)
		}
		a.Clock.Set(a.Now().Add(24 * time.Hour))
		if _, err := a.Tick(t.Context()); err != nil || len(a.Provider.Sent()) != 1 {
			t.Errorf("a reminder after the answer: %d messages, %v", len(a.Provider.Sent()), err)
		}
	})
}

// An alert has a public id too, but no survey.
func TestAlertsAreNotOpened(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		alert := strings.Replace(askingForms, "message: {survey: form}", "message: {sms: {text: Thank you}}", 1)
		alert = strings.Replace(strings.Replace(alert, "type: survey", "type: alert", 1), "timing: {reminders: [1d], expire_after: 30d}\n", "", 1)
		a := ask(t, s, strings.Replace(alert, "{}", "", 1), nil)
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := a.row()
		if _, err := a.Answers().Open(t.Context(), a.link, a.Now()); !errors.Is(err, answer.ErrNotFound) {
			t.Errorf("opened: %v", err)
		}
		if err := a.Answers().SaveDraft(t.Context(), a.link, good, a.Now()); !errors.Is(err, answer.ErrNotFound) {
			t.Errorf("a draft: %v", err)
		}
		if diff := cmp.Diff(before, a.row()); before.Status != delivery.Sent || diff != "" {
			t.Errorf("%s: %s", before.Status, diff)
		}
	})
}

// Shows: product decision 44.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		definitions := strings.Replace(askingForms, "{}", "", 1)
		if late {
			definitions = strings.Replace(definitions, "expire_after: 30d", "expire_after: 30d, accept_late: true", 1)
		}
		storetest.Each(t, func(t *testing.T, s *store.Store) {
			a := ask(t, s, definitions, nil)
			for range 4 {
				if _, err := a.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
				a.Clock.Set(a.Now().Add(20 * 24 * time.Hour))
			}
			if a.row().Status != delivery.Expired {
				t.Fatalf("%+v", a.row())
			}
			err := a.submit(good)
			if late && (err != nil || a.row().Status != delivery.Responded) || !late && !errors.Is(err, answer.ErrClosed) {
				t.Errorf("accept_late: %t: %v, %s", late, err, a.row().Status)
			}
		})
	}
}

// The questions are those of the first message, also where the definitions in force are used: what was asked is answered.
func TestQuestionsOfTheFirstMessage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, strings.Replace(askingForms, "{}", "\npin: false", 1), nil)
		other := strings.Replace(strings.Replace(askingForms, "{}", "\npin: false", 1), "id: rate", "id: stars", 1)
		other = strings.Replace(other, "answers.rate", "answers.stars", 1)
		if a.row().SurveySet != 0 {
			t.Error("fixed before it was sent")
		}
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		fixed := a.row().SurveySet
		if fixed == 0 {
			t.Fatal("not fixed by the first message")
		}
		a.Apply(other)
		a.Clock.Set(a.Now().Add(24 * time.Hour))
		if _, err := a.Tick(t.Context()); err != nil || a.row().SurveySet != fixed || a.row().Step != 2 {
			t.Errorf("after a reminder: %+v, %v", a.row(), err)
		}
		if err := a.submit(map[string]any{"stars": 7.0}); err == nil {
			t.Error("an answer to a question that was not asked was taken")
		}
		if err := a.submit(good); err != nil {
			t.Error(err)
		}
		r, err := s.ResponseTo(t.Context(), a.link.Workspace, a.link.Delivery)
		if err != nil || r.Definitions != fixed {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// An answer while the message is in flight: the result is logged, and nothing more is sent.
func TestAnsweredInFlight(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		var a asked
		a = ask(t, s, strings.Replace(askingForms, "{}", "", 1), func(c *engine.Config) {
			c.Failpoint = func(point string) error {
				if point == sender.AfterIntent {
					return a.submit(good)
				}
				return nil
			}
		})
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := a.row(); got.Status != delivery.Responded || !got.SendAt.IsZero() || !got.IntentAt.IsZero() || got.Step != 1 {
			t.Errorf("%+v", got)
		}
		if n := len(a.Attempts(a.link.Delivery)); n != 1 {
			t.Errorf("%d attempts", n)
		}
	})
}

// Of many people who answer at once one is taken, and one response is stored.
func TestOneAnswerIsTaken(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, strings.Replace(askingForms, "{}", "", 1), nil)
		const people = 8
		errs := make([]error, people)
		var wait sync.WaitGroup
		for i := range people {
			wait.Go(func() { errs[i] = a.submit(good) })
		}
		wait.Wait()
		taken := 0
		for _, err := range errs {
			switch {
			case err == nil:
				taken++
			case !errors.Is(err, answer.ErrAnswered):
				t.Error(err)
			}
		}
		rows, err := s.Responses(t.Context(), a.link.Workspace, store.ResponseFilter{}, store.Page{})
		if taken != 1 || len(rows) != 1 || err != nil {
			t.Errorf("%d taken, %d stored, %v", taken, len(rows), err)
		}
	})
}

// A link leads to the survey of its workspace; every other id leads nowhere.
func TestLocate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		a := ask(t, s, strings.Replace(askingForms, "{}", "", 1), nil)
		if _, err := a.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := a.Provider.Sent()[0].DeliveryID
		if link, err := a.Answers().Locate(t.Context(), id); link != a.link || err != nil {
			t.Errorf("%+v, %v", link, err)
		}
		for i := range id {
			other := []byte(id)
			if other[i]++; string(other) == id {
				continue
			}
			if _, err := a.Answers().Locate(t.Context(), string(other)); !errors.Is(err, answer.ErrNotFound) {
				t.Errorf("%s: %v", other, err)
			}
		}
		found, err := a.Answers().Survey(t.Context(), a.link, a.Now())
		if err != nil {
			t.Fatal(err)
		}
		texts, err := found.Texts()
		if err != nil || texts.Locale != "ar" || texts.Title != "زيارة" || texts.By["rate"] != "كيف كان؟" || texts.By["why"] != "Why?" {
			t.Errorf("%+v, %v", texts, err)
		}
	})
}
