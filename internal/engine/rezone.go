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

// rezone writes the rules of zones and, if some that were planned by have changed, plans what depends on them again in the same transaction.
func (e *Engine) rezone(ctx context.Context, rules map[string]string, moved bool) error {
	for try := 1; ; try++ {
		var list []*rezoned
		if moved {
			now := e.config.Clock.Now()
			err := e.eachSet(ctx, func(ws store.Workspace, set *definition.Set) error {
				list = append(list, &rezoned{
					base:     ws.Definitions,
					calendar: &rearrangement{ws: ws.ID, old: set, set: set, zones: &e.catalog.Zones, now: now, ids: e.config.Store.NewID},
				})
				return nil
			})
			if err != nil {
				return err
			}
		}
		err := e.config.Store.Write(ctx, func(tx *store.Tx) error {
			if err := tx.WriteZoneRules(rules); err != nil {
				return err
			}
			return writeRezoned(tx, list)
		})
		if errors.Is(err, store.ErrStaleDefinitions) && try < applies {
			continue
		}
		if err != nil {
			return fmt.Errorf("plan by other rules of zones: %w", err)
		}
		for _, r := range list {
			for _, entry := range r.calendar.entries {
				e.config.Journal.Write(entry)
			}
		}
		return nil
	}
}

// rezoned is the work in a workspace after a change of zone rules: the records of all types with triggers are evaluated, and series are planned by the
// set in force.
type rezoned struct {
	base     int64 // number of the set in force
	calendar *rearrangement
	open     []job.Row
	series   map[store.SeriesRef]store.Series
}

// writeRezoned locks what it plans again in all workspaces, table by table, and then plans.
func writeRezoned(tx *store.Tx, list []*rezoned) (err error) {
	for _, r := range list {
		number, err := tx.LockDefinitions(r.calendar.ws)
		if err != nil {
			return err
		}
		if number != r.base {
			return store.ErrStaleDefinitions
		}
	}
	for _, r := range list {
		if r.open, err = tx.OpenJobs(r.calendar.ws); err != nil {
			return err
		}
	}
	for _, r := range list {
		if r.series, err = tx.Series(r.calendar.ws, r.calendar.refs()); err != nil {
			return err
		}
	}
	for _, r := range list {
		if err := r.write(tx); err != nil {
			return err
		}
	}
	return nil
}

func (r *rezoned) write(tx *store.Tx) error {
	c := r.calendar
	jobs := startedJobs{ws: c.ws, now: c.now, number: r.base, open: r.open, repairs: c.repairs()}
	for _, typ := range c.set.WatchedTypes() {
		jobs.seeds = append(jobs.seeds, job.Seed{Kind: job.Backfill, Subject: typ})
	}
	if err := jobs.write(tx, nil); err != nil {
		return err
	}
	versions := map[string]int64{}
	for _, w := range c.set.Workflows() {
		versions[w.Name] = w.Version
	}
	return c.write(tx, r.base, versions, r.series)
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
