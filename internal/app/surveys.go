package app

import (
	"context"
	"errors"

	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/survey"
)

// surveys is the engine as the public pages see it.
type surveys struct{ engine *engine.Engine }

// Find implements public.Surveys.
func (s surveys) Find(ctx context.Context, id string) (public.Survey, error) {
	link, err := s.engine.Answers().Locate(ctx, id)
	if err != nil {
		return public.Survey{}, said(err)
	}
	found, err := s.engine.Answers().Survey(ctx, link, s.engine.Now())
	if err != nil {
		return public.Survey{}, said(err)
	}
	texts, err := found.Texts()
	if err != nil {
		return public.Survey{}, err
	}
	state := public.Asking
	switch found.State {
	case delivery.Answered:
		state = public.Answered
	case delivery.Closed:
		state = public.Closed
	case delivery.TakesAnswer:
	}
	return public.Survey{
		Form: found.Form, Locale: texts.Locale, Title: texts.Title, Texts: texts.By, Input: found.Reading.Input(), Draft: found.Draft, State: state,
	}, nil
}

// Open implements public.Surveys.
func (s surveys) Open(ctx context.Context, id string) error {
	link, err := s.engine.Answers().Locate(ctx, id)
	if err == nil {
		_, err = s.engine.Answers().Open(ctx, link, s.engine.Now())
	}
	return said(err)
}

// SaveDraft implements public.Surveys.
func (s surveys) SaveDraft(ctx context.Context, id string, answers map[string]any) error {
	link, err := s.engine.Answers().Locate(ctx, id)
	if err == nil {
		err = s.engine.Answers().SaveDraft(ctx, link, answers, s.engine.Now())
	}
	return said(err)
}

// Submit implements public.Surveys. Who answers has seen the page: without script this is the first that is heard of it (C31).
func (s surveys) Submit(ctx context.Context, id string, answers map[string]any) ([]survey.Problem, error) {
	if err := s.Open(ctx, id); err != nil {
		return nil, err
	}
	link, err := s.engine.Answers().Locate(ctx, id)
	if err == nil {
		_, err = s.engine.Answers().Submit(ctx, link, answer.Submission{Answers: answers}, s.engine.Now(), nil)
	}
	var refused *answer.Invalid
	if errors.As(err, &refused) {
		return refused.Problems, nil
	}
	return nil, said(err)
}

// said turns an error of the service into the one that the page has an answer for.
func said(err error) error {
	switch {
	case errors.Is(err, answer.ErrNotFound):
		return public.ErrNotFound
	case errors.Is(err, answer.ErrAnswered):
		return public.ErrAnswered
	case errors.Is(err, answer.ErrClosed):
		return public.ErrClosed
	}
	return err
}
