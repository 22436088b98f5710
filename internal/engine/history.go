package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// SetChange is a definition set that came into force, with its changes.
type SetChange struct {
	store.DefinitionSetRow // without a time if an earlier release applied it, which did not store the time
	Changes                []store.DefinitionChange
}

// History lists the sets that came into force before the set with the number before (0: all), the newest first, at most limit. With a ref it lists
// the sets that changed this definition.
func (e *Engine) History(ctx context.Context, ws subject.WorkspaceID, ref definition.Ref, before int64, limit int) ([]SetChange, error) {
	last, err := e.config.Store.DefinitionsNumber(ctx, ws)
	if err != nil {
		return nil, err
	}
	if before > 0 {
		last = min(last, before-1)
	}
	first, named := max(last-int64(limit)+1, 1), ref != definition.Ref{}
	var versions []store.DefinitionVersion
	if named {
		first = 1
		versions, err = e.config.Store.VersionsOfDefinition(ctx, ws, store.DefinitionRef{Kind: string(ref.Kind), Name: ref.Name})
		if err == nil && len(versions) == 0 {
			err = &NotInForceError{ref}
		}
	} else {
		versions, err = e.config.Store.DefinitionVersions(ctx, ws, first, last)
	}
	if err != nil {
		return nil, err
	}
	rows, err := e.config.Store.DefinitionSets(ctx, ws, first, last)
	if err != nil {
		return nil, err
	}
	all := historyOf(versions, rows, first, last)
	return all[:min(limit, len(all))], nil
}

// historyOf groups versions by the sets that added or removed them, the newest first. Sets that changed none of the versions are left out.
func historyOf(versions []store.DefinitionVersion, rows []store.DefinitionSetRow, first, last int64) []SetChange {
	came := map[int64]map[store.DefinitionRef]bool{}
	refOf := func(v store.DefinitionVersion) store.DefinitionRef {
		return store.DefinitionRef{Kind: v.Kind, Name: v.Name}
	}
	for _, v := range versions {
		if came[v.AddedIn] == nil {
			came[v.AddedIn] = map[store.DefinitionRef]bool{}
		}
		came[v.AddedIn][refOf(v)] = true
	}
	changes := map[int64][]store.DefinitionChange{}
	add := func(number int64, v store.DefinitionVersion, action string) {
		if first <= number && number <= last {
			changes[number] = append(changes[number], store.DefinitionChange{Kind: v.Kind, Name: v.Name, Version: v.Version, Action: action})
		}
	}
	replaced := map[int64]map[store.DefinitionRef]bool{}
	for _, v := range versions {
		if v.RemovedIn == 0 {
			continue
		}
		if !came[v.RemovedIn][refOf(v)] {
			add(v.RemovedIn, v, store.Deleted)
			continue
		}
		if replaced[v.RemovedIn] == nil {
			replaced[v.RemovedIn] = map[store.DefinitionRef]bool{}
		}
		replaced[v.RemovedIn][refOf(v)] = true
	}
	for _, v := range versions {
		action := store.Added
		if replaced[v.AddedIn][refOf(v)] {
			action = store.Changed
		}
		add(v.AddedIn, v, action)
	}
	byNumber := map[int64]store.DefinitionSetRow{}
	for _, r := range rows {
		byNumber[r.Number] = r
	}
	var all []SetChange
	for number := last; number >= first; number-- {
		if len(changes[number]) == 0 {
			continue
		}
		s := SetChange{DefinitionSetRow: byNumber[number], Changes: changes[number]}
		s.Number = number
		slices.SortFunc(s.Changes, func(a, b store.DefinitionChange) int {
			return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name)
		})
		all = append(all, s)
	}
	return all
}

// Rollback is a request to put earlier definitions in force again: as new versions, with the same validation as an apply.
type Rollback struct {
	Ref     definition.Ref // empty: the whole set
	Version int64          // of the definition; 0: the one before the version in force, or the last one if the definition is not in force
	Set     int64          // used instead of Version; 0 for the whole set: the one before the set in force
	DryRun  bool
}

// NoVersionError means that there is no such version or set.
type NoVersionError struct{ What string }

func (e *NoVersionError) Error() string { return "there is no " + e.What }

// Rollback puts an earlier version of a definition, or of the whole set, in force again.
func (e *Engine) Rollback(ctx context.Context, ws store.Workspace, r Rollback, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	for tries := 1; ; tries++ {
		edit, err := e.rollback(ctx, ws.ID, r)
		if err != nil {
			return Applied{}, err
		}
		applied, err := e.edit(ctx, ws, edit, by, once)
		if !errors.Is(err, store.ErrStaleDefinitions) || tries == applies {
			return applied, err
		}
	}
}

func (e *Engine) rollback(ctx context.Context, ws subject.WorkspaceID, r Rollback) (Edit, error) {
	number, known, err := e.catalog.Documents(ctx, ws)
	if err != nil {
		return Edit{}, err
	}
	if (r.Ref == definition.Ref{}) {
		return e.rollbackSet(ctx, ws, r, number, known)
	}
	edit := Edit{DryRun: r.DryRun, action: actionRollback, base: number}
	d, there, err := e.earlier(ctx, ws, r, known)
	if err != nil {
		return Edit{}, err
	}
	if !there {
		edit.Delete = []definition.Ref{r.Ref}
		return edit, inForce(known, edit.Delete)
	}
	edit.Files = []definition.File{{Name: fmt.Sprintf("%s %s version %d", d.Kind, d.Name, d.Version), Text: []byte(d.Text)}}
	return edit, nil
}

// earlier returns the requested version of a definition; there is false if the requested set has none.
func (e *Engine) earlier(ctx context.Context, ws subject.WorkspaceID, r Rollback, known []definition.Stored) (d store.Definition, there bool, err error) {
	ref := store.DefinitionRef{Kind: string(r.Ref.Kind), Name: r.Ref.Name}
	versions, err := e.config.Store.VersionsOfDefinition(ctx, ws, ref)
	if err != nil {
		return d, false, err
	}
	if len(versions) == 0 {
		return d, false, &NotInForceError{r.Ref}
	}
	version := r.Version
	switch {
	case r.Set > 0:
		number, err := e.config.Store.DefinitionsNumber(ctx, ws)
		if err != nil {
			return d, false, err
		}
		if r.Set > number {
			return d, false, &NoVersionError{fmt.Sprintf("set %d", r.Set)}
		}
		at := slices.IndexFunc(versions, func(v store.DefinitionVersion) bool {
			return v.AddedIn <= r.Set && (v.RemovedIn == 0 || v.RemovedIn > r.Set)
		})
		if at < 0 {
			return d, false, nil
		}
		version = versions[at].Version
	case version == 0:
		version = versions[len(versions)-1].Version
		if inForce(known, []definition.Ref{r.Ref}) == nil {
			version--
		}
	}
	d, err = e.config.Store.DefinitionVersion(ctx, ws, ref, version)
	if errors.Is(err, store.ErrNotFound) {
		what := fmt.Sprintf("version %d of %s %s", version, ref.Kind, ref.Name)
		if version == 0 {
			what = fmt.Sprintf("version of %s %s before version 1", ref.Kind, ref.Name)
		}
		err = &NoVersionError{what}
	}
	return d, true, err
}

// rollbackSet returns the edit that restores an earlier set: it applies what differs as it was, and deletes what came since.
func (e *Engine) rollbackSet(ctx context.Context, ws subject.WorkspaceID, r Rollback, number int64, known []definition.Stored) (Edit, error) {
	target := r.Set
	if target == 0 {
		target = number - 1
	}
	if target < 1 || target > number {
		return Edit{}, &NoVersionError{fmt.Sprintf("set %d", target)}
	}
	docs, err := e.config.Store.DefinitionSet(ctx, ws, target)
	if err != nil {
		return Edit{}, err
	}
	edit := Edit{DryRun: r.DryRun, action: actionRollback, base: number}
	hashes := map[definition.Ref]string{}
	for _, d := range known {
		hashes[definition.Ref{Kind: d.Kind, Name: d.Name}] = d.Hash
	}
	for _, d := range docs {
		ref := definition.Ref{Kind: definition.Kind(d.Kind), Name: d.Name}
		if hashes[ref] != d.Hash {
			edit.Files = append(edit.Files, definition.File{Name: fmt.Sprintf("%s %s version %d", d.Kind, d.Name, d.Version), Text: []byte(d.Text)})
		}
		delete(hashes, ref)
	}
	for _, d := range known { // in their order
		ref := definition.Ref{Kind: d.Kind, Name: d.Name}
		if _, since := hashes[ref]; since {
			edit.Delete = append(edit.Delete, ref)
		}
	}
	return edit, nil
}

// DeleteDefinition deletes a definition.
func (e *Engine) DeleteDefinition(ctx context.Context, ws store.Workspace, ref definition.Ref, dryRun bool, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	return e.EditDefinitions(ctx, ws, Edit{Delete: []definition.Ref{ref}, DryRun: dryRun, action: actionDelete}, by, once)
}
