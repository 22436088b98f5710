package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
)

// zonesEvery is how often the rules of newly used zones are stored.
const zonesEvery = time.Minute

// keepZones compares the rules of zones at the start, and then stores those of newly used zones.
func (l *runner) keepZones(ctx context.Context) {
	for {
		moved, err := l.CompareZones(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			l.config.Log.WarnContext(ctx, "the rules of zones were not compared", "error", err)
		case len(moved) > 0:
			l.config.Log.InfoContext(ctx, "pending occasions move: these zones have other rules", "zones", strings.Join(moved, " "))
		}
		if l.config.Clock.Sleep(ctx, l.config.Clock.Now().Add(zonesEvery)) != nil {
			return
		}
	}
}

// CompareZones compares the zone rules by which something was planned with those of this process. If they differ, as after an update of the tz
// database, pending occasions are planned again and moved, in place and under their keys: the records of all types with triggers are evaluated, and
// the calendar of schedules is planned again. moved are the zones that differ. Run does this at its start, and then stores the rules of newly used
// zones.
func (e *Engine) CompareZones(ctx context.Context) (moved []string, err error) {
	planned, err := e.config.Store.ZoneRules(ctx)
	if err != nil {
		return nil, err
	}
	for name := range planned {
		if _, err := e.catalog.Zones.Load(name); err != nil && e.unknown.add(name) {
			e.config.Log.WarnContext(ctx, "a zone by which something was planned is not known any more", "zone", name)
		}
	}
	all, news := e.catalog.Zones.Rules(), map[string]string{}
	for name, rules := range all {
		before, known := planned[name]
		if before == rules || e.compared.has(name) {
			continue
		}
		if news[name] = rules; known {
			moved = append(moved, name)
		}
	}
	slices.Sort(moved)
	if len(news) > 0 {
		err = e.rezone(ctx, news, len(moved) > 0)
	}
	if err != nil {
		return moved, err
	}
	for name := range all {
		e.compared.add(name)
	}
	return moved, nil
}

// names is a set of names.
type names struct{ all sync.Map }

func (n *names) has(name string) bool { _, has := n.all.Load(name); return has }

// add reports whether the name is new.
func (n *names) add(name string) bool { _, has := n.all.LoadOrStore(name, true); return !has }

func (e *Engine) rezone(ctx context.Context, rules map[string]string, moved bool) error {
	for try := 1; ; try++ {
		var list []store.Rescheduled
		var arranged []*rearrangement
		if moved {
			err := e.eachSet(ctx, func(ws store.Workspace, set *definition.Set) error {
				r := &rearrangement{ws: ws.ID, old: set, set: set, zones: &e.catalog.Zones, now: e.config.Clock.Now(), ids: e.config.Store.NewID}
				arranged = append(arranged, r)
				again := store.Rescheduled{Workspace: ws.ID, Calendar: r.plan(ws.Definitions)}
				for _, typ := range set.WatchedTypes() {
					again.Jobs = append(again.Jobs, job.Seed{Kind: job.Backfill, Subject: typ})
				}
				list = append(list, again)
				return nil
			})
			if err != nil {
				return err
			}
		}
		err := e.config.Store.Rezone(ctx, e.config.Clock.Now(), rules, list)
		if errors.Is(err, store.ErrStaleDefinitions) && try < applies {
			continue
		}
		if err != nil {
			return err
		}
		for _, r := range arranged {
			for _, entry := range r.entries {
				e.config.Journal.Write(entry)
			}
		}
		return nil
	}
}

// eachSet calls do with the definitions in force of each workspace that has any.
func (e *Engine) eachSet(ctx context.Context, do func(store.Workspace, *definition.Set) error) error {
	all, err := e.config.Store.Workspaces(ctx)
	if err != nil {
		return err
	}
	for _, ws := range all {
		if ws.Definitions == 0 {
			continue
		}
		set, err := e.catalog.At(ctx, ws.ID, ws.Definitions)
		if err != nil {
			return fmt.Errorf("read the definitions in force: %w", err)
		}
		if err := do(ws, set); err != nil {
			return err
		}
	}
	return nil
}
