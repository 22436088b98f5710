package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// CalmFor is how long further lines of one trouble are left out after one was written.
const CalmFor = time.Second

// Calm writes at most one line a second about a trouble that everything runs into at once, such as a database that is
// away: every stage and every request would say the same. A line is about the trouble when it is a warning or an error
// with an attribute named error for which about says so. The next line that is written counts those that were left out.
func Calm(log *slog.Logger, about func(error) bool) *slog.Logger {
	return slog.New(&calm{next: log.Handler(), about: about, state: &calmState{}})
}

type calm struct {
	next  slog.Handler
	about func(error) bool
	state *calmState // shared by the handlers of one logger
}

type calmState struct {
	mu      sync.Mutex
	said    time.Time
	leftOut int
}

// Enabled implements slog.Handler.
func (c *calm) Enabled(ctx context.Context, level slog.Level) bool { return c.next.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !c.concerns(r) {
		return c.next.Handle(ctx, r)
	}
	c.state.mu.Lock()
	if age := r.Time.Sub(c.state.said); age >= 0 && age < CalmFor {
		c.state.leftOut++
		c.state.mu.Unlock()
		return nil
	}
	leftOut := c.state.leftOut
	c.state.said, c.state.leftOut = r.Time, 0
	c.state.mu.Unlock()
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", leftOut))
	}
	return c.next.Handle(ctx, r)
}

func (c *calm) concerns(r slog.Record) (yes bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		yes = ok && a.Key == "error" && c.about(err)
		return !yes
	})
	return yes
}

// WithAttrs implements slog.Handler.
func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calm{next: c.next.WithAttrs(attrs), about: c.about, state: c.state}
}

// WithGroup implements slog.Handler.
func (c *calm) WithGroup(name string) slog.Handler {
	return &calm{next: c.next.WithGroup(name), about: c.about, state: c.state}
}
