package workflow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/workflow"
)

func message() sink.Message {
	return sink.Message{
		ID: "d_2b5k", Type: "response.completed", At: time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC), Group: "d_2b5k", Workspace: "cars",
		Body: []byte(`{"id":"d_2b5k","data":{"answers":{"rate":3}}}`),
	}
}

func open(t *testing.T, ingest workflow.Ingest) sink.Sink {
	t.Helper()
	s, err := workflow.Provider(ingest).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The whole message is handed on, in every try.
//
// Shows: C37.
func TestSendHandsTheMessageOn(t *testing.T) {
	t.Parallel()
	var got []sink.Message
	s := open(t, func(_ context.Context, m sink.Message) error {
		got = append(got, m)
		return nil
	})
	for range 2 {
		if err := s.Send(t.Context(), message()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]sink.Message{message(), message()}, got); diff != "" {
		t.Error(diff)
	}
}

// An error that says what follows is kept; any other is temporary.
func TestErrorsOfIngest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want sink.Retry
		text string
	}{
		"any":      {errors.New("database is locked"), sink.Temporary, "temporary_error: take in the event: database is locked"},
		"for good": {sink.Refused(errors.New("eight links")), sink.Permanent, "permanent_error: eight links"},
	} {
		err := open(t, func(context.Context, sink.Message) error { return tc.err }).Send(t.Context(), message())
		var known *sink.Error
		if !errors.As(err, &known) || known.Retry != tc.want || err.Error() != tc.text || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// An outcome of no workspace is taken in nowhere.
func TestAMessageWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	s := open(t, func(context.Context, sink.Message) error {
		t.Error("it was taken in")
		return nil
	})
	m := message()
	m.Workspace = ""
	if got := sink.AsError(s.Send(t.Context(), m)); got.Retry != sink.Permanent {
		t.Errorf("got %v", got)
	}
}

// Without somebody who takes events in, nothing is opened; there are no settings.
func TestProvider(t *testing.T) {
	t.Parallel()
	p := workflow.Provider(nil)
	if p.Name != "workflow" || p.Doc == "" || len(p.Settings) > 0 || p.Check(nil) != nil {
		t.Errorf("%+v", p)
	}
	var wrong *sink.SettingError
	if err := p.Check(map[string]string{"to": "x"}); !errors.As(err, &wrong) || wrong.Setting != "to" {
		t.Errorf("a setting: %v", err)
	}
	if s, err := p.Open(nil); s != nil || err == nil {
		t.Errorf("opened %v, %v", s, err)
	}
}
