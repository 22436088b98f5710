package function_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/function"
)

func message() sink.Message {
	return sink.Message{
		ID: "d_2b5k", Type: "response.completed", At: time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC), Group: "d_2b5k", Workspace: "cars",
		Body: []byte(`{"id":"d_2b5k"}`),
	}
}

func open(t *testing.T, call func(ctx context.Context, m sink.Message) error) sink.Sink {
	t.Helper()
	s, err := function.Provider("tickets", call).Open(nil)
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

// The function gets the whole message, in every try; what it does to the body changes nobody else's.
//
// Shows: C37.
func TestSendCallsTheFunction(t *testing.T) {
	t.Parallel()
	var got []sink.Message
	s := open(t, func(_ context.Context, m sink.Message) error {
		got = append(got, m)
		return nil
	})
	m := message()
	for range 2 {
		if err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]sink.Message{message(), message()}, got); diff != "" {
		t.Error(diff)
	}
	got[0].Body[0] = 'X'
	if diff := cmp.Diff(message(), m); diff != "" {
		t.Errorf("the body of the caller has changed: %s", diff)
	}
}

// What a function returns, or does instead of returning, says what follows; it never ends the process.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	later := sink.Failed(errors.New("busy"))
	later.After = time.Minute
	for name, tc := range map[string]struct {
		call func() error
		want sink.Error
		text string
	}{
		"an error":          {func() error { return errors.New("no route to host") }, sink.Error{Reason: reason.TemporaryError, Retry: sink.Temporary}, "no route to host"},
		"later":             {func() error { return later }, sink.Error{Reason: reason.TemporaryError, Retry: sink.Temporary, After: time.Minute}, "busy"},
		"for good":          {func() error { return sink.Refused(errors.New("bad")) }, sink.Error{Reason: reason.PermanentError, Retry: sink.Permanent}, "bad"},
		"for good, wrapped": {func() error { return fmt.Errorf("x: %w", sink.Refused(errors.New("bad"))) }, sink.Error{Reason: reason.PermanentError, Retry: sink.Permanent}, "bad"},
		"gone":              {func() error { return sink.NotWanted(errors.New("closed")) }, sink.Error{Reason: reason.Gone, Retry: sink.Gone}, "closed"},
		"a panic":           {func() error { panic("out of tickets") }, sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary}, "the function panicked at function_test.go:82: out of tickets"},
		"a panic of the runtime": {func() error {
			var list []error
			n := len(list)
			return list[n]
		}, sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary}, "the function panicked at function_test.go:86: runtime error: index out of range [0] with length 0"},
		"a long panic": {func() error { panic(strings.Repeat("ä", 500)) }, sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary}, "the function panicked at function_test.go:88: " + strings.Repeat("ä", 100) + "…"},
		"an exit": {func() error {
			runtime.Goexit()
			return nil
		}, sink.Error{Reason: reason.SendThrew, Retry: sink.Temporary}, "the function has ended its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := open(t, func(context.Context, sink.Message) error { return tc.call() }).Send(t.Context(), message())
			var got *sink.Error
			if !errors.As(err, &got) || got.Reason != tc.want.Reason || got.Retry != tc.want.Retry || got.After != tc.want.After || got.Err.Error() != tc.text {
				t.Errorf("got %+v", err)
			}
		})
	}
}

// A function that heeds its time, and one that does not, leave open whether they have taken the event. The second is left behind, and not
// called again before few enough of its calls are: its goroutines cannot grow without bound.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, func(ctx context.Context, _ sink.Message) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := sink.AsError(s.Send(ctx, message())); got.Reason != reason.ReplyLost || got.Retry != sink.Temporary {
			t.Errorf("one that heeds its time: %v", got)
		}
	})
	for range 200 { // whichever of the two is seen first
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, func(context.Context, sink.Message) error {
			cancel()
			return errors.New("cut off")
		})
		if got := sink.AsError(s.Send(ctx, message())); got.Reason != reason.ReplyLost || got.Retry != sink.Temporary {
			t.Fatalf("one that is cut off: %v", got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int64
		s := open(t, func(context.Context, sink.Message) error {
			calls.Add(1)
			<-release
			return nil
		})
		send := func() *sink.Error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := s.Send(ctx, message())
			if err == nil {
				return nil
			}
			return sink.AsError(err)
		}
		for range 16 {
			began := time.Now()
			if got := send(); got == nil || got.Reason != reason.ReplyLost || got.Retry != sink.Temporary || time.Since(began) != time.Second {
				t.Errorf("one that does not return: %v after %s", got, time.Since(began))
			}
		}
		if got := send(); got == nil || got.Reason != reason.TemporaryError || calls.Load() != 16 {
			t.Errorf("the seventeenth: %v, after %d calls", got, calls.Load())
		}
		close(release)
		synctest.Wait()
		if got := send(); got != nil || calls.Load() != 17 {
			t.Errorf("after they have returned: %v, %d calls", got, calls.Load())
		}
	})
}

// A function has no settings.
func TestProvider(t *testing.T) {
	t.Parallel()
	p := function.Provider("tickets", func(context.Context, sink.Message) error { return nil })
	if p.Name != "tickets" || p.Doc == "" || len(p.Settings) > 0 || p.Check(nil) != nil {
		t.Errorf("%+v", p)
	}
	var wrong *sink.SettingError
	if err := p.Check(map[string]string{"to": "x"}); !errors.As(err, &wrong) || wrong.Setting != "to" {
		t.Errorf("a setting: %v", err)
	}
}
