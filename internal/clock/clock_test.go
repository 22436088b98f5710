package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSystemSleepsUntilTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c System
		c.SetOffset(time.Hour)
		until := c.Now().Add(90 * time.Second)
		if err := c.Sleep(t.Context(), until); err != nil {
			t.Fatal(err)
		}
		if got := c.Now(); got.Before(until) {
			t.Errorf("woke at %s, before %s", got, until)
		}
	})
}

func TestSystemSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c System
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- c.Sleep(ctx, c.Now().Add(time.Hour)) }()
		synctest.Wait()
		cancel(stop)
		if err := <-done; !errors.Is(err, stop) {
			t.Errorf("got %v, want %v", err, stop)
		}
	})
}

func TestManualSleepsUntilSet(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 14, 5, 12, 34, 0, time.UTC)
	synctest.Test(t, func(t *testing.T) {
		c := NewManual(start)
		done := make(chan error, 1)
		go func() { done <- c.Sleep(t.Context(), start.Add(time.Minute)) }()
		synctest.Wait()
		c.Set(start.Add(59 * time.Second))
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("woke a second early: %v", err)
		default:
		}
		c.Set(start.Add(time.Minute))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
