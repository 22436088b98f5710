package engine

import (
	"context"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// reachOf says how far back the definitions in force look.
func reachOf(known *catalog.Catalog) retention.Rules {
	return func(ctx context.Context, ws subject.WorkspaceID) (retention.Reach, error) {
		set, err := known.Current(ctx, ws)
		if err != nil {
			return retention.Reach{}, err
		}
		reach := retention.Reach{Cooldown: definition.LongestCooldown(set), Window: windowReach(civil.Duration{})}
		for _, w := range set.Workflows() {
			for _, t := range w.Trigger {
				if t.Digest == nil || t.OnSchedule() == nil {
					continue
				}
				reach.Digests = append(reach.Digests, store.RunTrigger{Workspace: ws, Workflow: w.Name, Trigger: t.ID})
				reach.Window = max(reach.Window, windowReach(t.OnSchedule().Calendar.Period.Length))
			}
		}
		return reach, nil
	}
}

// windowReach is how long before its due instant a run with windows of a length looks at most. Two days are for the time between the end of a window and the run.
func windowReach(length civil.Duration) time.Duration {
	const day = 24 * time.Hour
	window := time.Duration(length.Months)*31*day + time.Duration(length.Days)*day + length.Clock
	return max(digest.Horizon, 2*window) + 2*day
}
