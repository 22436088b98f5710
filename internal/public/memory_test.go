package public_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/survey"
)

// memory keeps surveys as the engine does, without a database: a survey is answered once, and takes nothing when it is closed.
type memory struct {
	mu      sync.Mutex
	surveys map[string]*kept
	err     error    // of every call but Find
	calls   []string // the calls that may change something
	called  chan struct{}
}

type kept struct {
	public.Survey
	opened  int // how often somebody has opened it for the first time: 0 or 1
	answers map[string]any
}

func (m *memory) Find(_ context.Context, id string) (public.Survey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.surveys[id]
	if !ok {
		return public.Survey{}, public.ErrNotFound
	}
	out := k.Survey
	out.Draft = maps.Clone(k.Draft)
	return out, nil
}

// change finds a survey that takes something, and notes that it was asked to.
func (m *memory) change(call, id string) (*kept, error) {
	m.calls = append(m.calls, call)
	select {
	case m.called <- struct{}{}:
	default: // who waits has not looked yet
	}
	if m.err != nil {
		return nil, m.err
	}
	k, ok := m.surveys[id]
	switch {
	case !ok:
		return nil, public.ErrNotFound
	case k.State == public.Answered:
		return k, public.ErrAnswered
	case k.State == public.Closed:
		return k, public.ErrClosed
	}
	return k, nil
}

func (m *memory) Open(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.change("open", id)
	switch {
	case errors.Is(err, public.ErrAnswered):
		return nil
	case err != nil:
		return err
	}
	k.opened = 1
	return nil
}

func (m *memory) SaveDraft(_ context.Context, id string, answers map[string]any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.change("draft", id)
	if err != nil {
		return err
	}
	text, err := json.Marshal(answers) // as a database keeps it
	if err != nil {
		return err
	}
	k.Draft = nil
	return json.Unmarshal(text, &k.Draft)
}

func (m *memory) Submit(_ context.Context, id string, answers map[string]any) ([]survey.Problem, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.change("submit", id)
	if err != nil {
		return nil, err
	}
	r := k.Form.Check(answers, k.Input)
	if len(r.Problems) > 0 {
		return r.Problems, nil
	}
	k.opened, k.answers, k.State, k.Draft = 1, r.Answers, public.Answered, nil
	return nil, nil
}

// wait waits until something holds of what is kept of a survey, and of the calls so far.
func (m *memory) wait(t *testing.T, what, id string, holds func(k kept, calls []string) bool) {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		k := m.look(id)
		m.mu.Lock()
		calls := slices.Clone(m.calls)
		m.mu.Unlock()
		if holds(k, calls) {
			return
		}
		select {
		case <-m.called:
		case <-limit.C:
			t.Fatalf("%s: never; calls %v, %+v", what, calls, k.Draft)
		}
	}
}

// look returns what is kept of a survey at this moment.
func (m *memory) look(id string) kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.surveys[id]
}

var compiler = sync.OnceValues(func() (*expr.Compiler, error) { return expr.NewCompiler() }) // it takes longer to make than a page

func condition(t testing.TB, line string) *expr.Condition {
	t.Helper()
	compiler, err := compiler()
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Line(line, expr.Scope{Answers: true, Event: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func number(n float64) *float64 { return &n }

// visitForm has a question of each type, two ratings, and questions that follow from others.
func visitForm(t testing.TB) *survey.Form {
	t.Helper()
	options := func(values ...string) (all []survey.Option) {
		for _, v := range values {
			all = append(all, survey.Option{Value: v})
		}
		return all
	}
	return &survey.Form{Questions: []survey.Question{
		{ID: "rate", Type: survey.Rating, Required: true, Min: number(1), Max: number(10)},
		{ID: "complaint", Type: survey.Choice, Required: true, Options: options("Yes", "No")},
		{ID: "what", Type: survey.FreeText, Required: true, MaxLength: 500, ShowWhen: condition(t, `answers.complaint == "Yes"`)},
		{ID: "call", Type: survey.YesNo, ShowWhen: condition(t, `answers.complaint == "Yes"`)},
		{ID: "phone", Type: survey.FreeText, Required: true, MaxLength: 40, Pattern: regexp.MustCompile(`^\+[0-9 ]+$`), ShowWhen: condition(t, `answers.call == true`)},
		{ID: "parts", Type: survey.Multiple, Options: options("engine", "tyres", "paint")},
		{ID: "cost", Type: survey.Number, Min: number(0), Max: number(9000), ValidWhen: condition(t, `answers.cost <= event.total`)},
		{ID: "waited", Type: survey.Rating, Min: number(0), Max: number(120)},
		{ID: "day", Type: survey.Date},
	}}
}

var input = expr.Input{Event: map[string]any{"total": 250}}

// visitTexts are the texts of visitForm by locale, with what a template has filled in.
func visitTexts() map[string]map[string]string {
	return map[string]map[string]string{
		"en": {
			"": "Your visit to the workshop", "rate": "How satisfied are you with your visit on 12 May, from 1 (not at all) to 10 (very)?",
			"complaint": "Do you have a complaint?", "complaint=Yes": "Yes, I have", "complaint=No": "No, all was well",
			"what": "What went wrong?", "call": "May we call you about it?", "phone": "At which number?",
			"parts": "What did we work on?", "parts=engine": "The engine", "parts=tyres": "The tyres", "parts=paint": "The paint",
			"cost": "What did you pay, in dollars?", "waited": "How many minutes did you wait?", "day": "When do you need the car next?",
		},
		"ar": {
			"": "زيارتك إلى الورشة", "rate": "ما مدى رضاك عن زيارتك في ١٢ أيار، من ١ (غير راضٍ) إلى ١٠ (راضٍ جدًا)؟",
			"complaint": "هل لديك شكوى؟", "complaint=Yes": "نعم، لديّ شكوى", "complaint=No": "لا، كان كل شيء جيدًا",
			"what": "ما المشكلة؟", "call": "هل يمكننا الاتصال بك بشأنها؟", "phone": "على أي رقم؟",
			"parts": "على ماذا عملنا؟", "parts=engine": "المحرك", "parts=tyres": "الإطارات", "parts=paint": "الطلاء",
			"cost": "كم دفعت بالدولار؟", "waited": "كم دقيقة انتظرت؟", "day": "متى تحتاج إلى السيارة مرة أخرى؟",
		},
		"de": {
			"": "Ihr Besuch in der Werkstatt", "rate": "Wie zufrieden sind Sie mit Ihrem Besuch am 12. Mai, von 1 (gar nicht) bis 10 (sehr)?",
			"complaint": "Gibt es eine Beschwerde?", "complaint=Yes": "Ja", "complaint=No": "Nein, alles war gut",
			"what": "Was war nicht in Ordnung?", "call": "Dürfen wir Sie anrufen?", "phone": "Unter welcher Nummer?",
			"parts": "Woran haben wir gearbeitet?", "parts=engine": "Motor", "parts=tyres": "Reifen", "parts=paint": "Lack",
			"cost": "Was haben Sie bezahlt, in Dollar?", "waited": "Wie viele Minuten haben Sie gewartet?", "day": "Wann brauchen Sie das Auto wieder?",
		},
	}
}

// newMemory keeps one survey of each language that takes answers, one that was answered, and one that is closed.
func newMemory(t testing.TB) *memory {
	t.Helper()
	form, m := visitForm(t), &memory{surveys: map[string]*kept{}, called: make(chan struct{}, 1)}
	add := func(id, locale string, state public.State) {
		texts := visitTexts()[locale]
		m.surveys[id] = &kept{Survey: public.Survey{Form: form, Locale: locale, Title: texts[""], Texts: texts, Input: input, State: state}}
	}
	for _, locale := range []string{"en", "ar", "de"} {
		add("d_"+locale, locale, public.Asking)
		add("d_"+locale+"_answered", locale, public.Answered)
		add("d_"+locale+"_closed", locale, public.Closed)
	}
	return m
}
