package engine

import (
	"context"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/plan"
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
		reach := retention.Reach{Cooldown: definition.LongestCooldown(set), Window: digest.Reach(civil.Duration{})}
		for _, w := range set.Workflows() {
			for _, t := range w.Trigger {
				if t.Digest == nil || t.OnSchedule() == nil {
					continue
				}
				reach.Digests = append(reach.Digests, store.RunTrigger{Workspace: ws, Workflow: w.Name, Trigger: t.ID})
				reach.Window = max(reach.Window, plan.DigestReach(t))
			}
		}
		return reach, nil
	}
}
