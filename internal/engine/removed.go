package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// removedEvery is how often a process looks for channels and sinks that another one has removed from the definitions. An open one costs a
// connection and its secret in memory, and nothing leaves by it.
const removedEvery = time.Minute

// closeRemoved closes channels and sinks that are not defined any more, until ctx ends.
func (l *runner) closeRemoved(ctx context.Context) {
	for l.config.Clock.Sleep(ctx, l.config.Clock.Now().Add(removedEvery)) == nil {
		if err := l.CloseRemoved(ctx); err != nil && ctx.Err() == nil {
			l.config.Log.WarnContext(ctx, "channels and sinks that are not defined any more were not closed", "error", err)
		}
	}
}

// CloseRemoved closes the channels and sinks that are not defined any more, each when its last request has ended. Run does so every minute,
// and an edit at once in the process that makes it.
func (e *Engine) CloseRemoved(ctx context.Context) error {
	return e.eachSet(ctx, func(ws store.Workspace, set *definition.Set) error {
		e.keepOpen(ws.ID, set)
		return nil
	})
}

// keepOpen closes what a set does not define.
func (e *Engine) keepOpen(ws subject.WorkspaceID, set *definition.Set) {
	e.channels.Keep(ws, set)
	e.sinkPool.Keep(ws, set)
}
