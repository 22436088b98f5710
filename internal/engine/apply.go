package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// The actions in the history of definitions.
const (
	actionApply    = "apply"
	actionDelete   = "delete"
	actionRollback = "rollback"
)

// Edit is a request to change the definitions in force.
type Edit struct {
	Files []definition.File
	// Prune deletes definitions in force that are not among the files.
	Prune bool
	// Delete names definitions in force to delete.
	Delete []definition.Ref
	// DryRun computes what the edit would do, and changes nothing.
	DryRun bool

	action string // of the history; empty: apply
	base   int64  // number of the set that the edit is based on; if another set is in force, the edit is computed again. 0: any
}

// Applied is what applying definitions did.
type Applied struct {
	Problems []definition.Problem // if there is an error among them, nothing was stored
	Number   int64                // of the set in force
	Changes  []DefinitionChange
	// SecretChanges are the definitions that changed in fields that decide where secrets go.
	SecretChanges []definition.SecretChange
	// Preview is what would follow; only for a dry run.
	Preview *Preview
}

// DefinitionChange is what an edit does to one definition.
type DefinitionChange struct {
	store.DefinitionChange
	Diff string // for a dry run: from the text in force to the new one, unified
}

// Applier is the caller who applies definitions.
type Applier struct {
	Name    string // for the audit log
	Secrets bool   // may change references to secrets, and the fields beside them
}

// SecretsError refuses an apply that changes where secrets go, by a caller who may not change that. Nothing was changed.
type SecretsError struct{ Changes []definition.SecretChange }

func (e *SecretsError) Error() string {
	names := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		names[i] = fmt.Sprintf("%s %s (%s)", c.Kind, c.Name, strings.Join(c.Fields, ", "))
	}
	return "these changes decide where secrets go: " + strings.Join(names, "; ")
}

// Apply validates a folder of definitions and puts it in force as the workspace's next set, for a caller who may change everything. Definitions that
// the folder does not mention stay. If there is an error among the problems, nothing changes.
func (e *Engine) Apply(ctx context.Context, ws store.Workspace, files []definition.File, actor string) (Applied, error) {
	return e.ApplyOnce(ctx, ws, files, Applier{Name: actor, Secrets: true}, nil)
}

// ApplyOnce is Apply for a request that may be repeated; see store.Idempotent. The error may be a *SecretsError.
func (e *Engine) ApplyOnce(ctx context.Context, ws store.Workspace, files []definition.File, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	return e.EditDefinitions(ctx, ws, Edit{Files: files}, by, once)
}

// EditDefinitions changes the definitions in force, or computes what that would do. The error may be a *SecretsError.
func (e *Engine) EditDefinitions(ctx context.Context, ws store.Workspace, edit Edit, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	for tries := 1; ; tries++ {
		applied, err := e.edit(ctx, ws, edit, by, once)
		if !errors.Is(err, store.ErrStaleDefinitions) || tries == applies { // somebody else has applied other definitions meanwhile
			return applied, err
		}
	}
}

// applies bounds how often an edit is computed again because other definitions came into force meanwhile.
const applies = 20

func (e *Engine) edit(ctx context.Context, ws store.Workspace, edit Edit, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	number, known, err := e.catalog.Documents(ctx, ws.ID)
	if err != nil {
		return Applied{}, err
	}
	if edit.base != 0 && edit.base != number {
		return Applied{}, store.ErrStaleDefinitions
	}
	if err := inForce(known, edit.Delete); err != nil {
		return Applied{Number: number}, err
	}
	options := e.config.Definitions
	options.Known, options.Removed, options.Prune = known, edit.Delete, edit.Prune
	if e.config.SecretCheck != nil {
		if options.Secret, err = e.config.SecretCheck(ctx, ws.ID); err != nil {
			return Applied{}, fmt.Errorf("look for secrets: %w", err)
		}
	}
	var unread error
	options.Place = func(name string) bool {
		known, err := e.config.Store.HasPlace(ctx, ws.ID, name)
		unread = cmp.Or(unread, err)
		return known || err != nil
	}
	bundle, problems := loader.Load(edit.Files, options)
	if unread != nil {
		return Applied{}, fmt.Errorf("look for places: %w", unread)
	}
	applied := Applied{Problems: problems, Number: number}
	if edit.Prune && len(bundle.Documents) == 0 && len(known) > 0 && !definition.HasErrors(problems) {
		applied.Problems = append(applied.Problems, definition.Problem{
			File: edit.Files[0].Name, Line: 1, Column: 1, Code: definition.CodeMissing,
			Message: "there is no definition in these files: all that is in force would be deleted", Hint: "name the folder of the definitions; carillon definitions delete takes single ones away",
		})
	}
	if definition.HasErrors(applied.Problems) {
		return applied, nil
	}
	var old *definition.Set
	if number > 0 {
		if old, err = e.catalog.At(ctx, ws.ID, number); err != nil {
			return applied, fmt.Errorf("read the definitions in force: %w", err)
		}
	}
	applied.SecretChanges = definition.SecretChanges(old, bundle.Set, options.Providers)
	refused := len(applied.SecretChanges) > 0 && !by.Secrets
	if refused && !edit.DryRun {
		return applied, &SecretsError{applied.SecretChanges}
	}
	now := e.config.Clock.Now()
	stored, err := editOf(ws, edit, bundle, old, by, applied.SecretChanges, now)
	if err != nil {
		return applied, err
	}
	stored.base, stored.topics.NewID = number, e.config.Store.NewID
	for _, d := range known {
		if d.Kind == definition.KindWorkflow {
			stored.versions[d.Name] = d.Version
		}
	}
	stored.calendar = &rearrangement{ws: ws.ID, old: old, set: bundle.Set, zones: &e.catalog.Zones, now: now, ids: e.config.Store.NewID}
	next, changes, err := e.commit(ctx, stored, edit.DryRun, once, applied)
	if err != nil {
		return applied, err
	}
	applied.Changes = changesOf(changes)
	if edit.DryRun {
		diffs(applied.Changes, known, bundle.Documents)
		applied.Preview, err = e.preview(ctx, applied.Changes, stored)
		if applied.Preview != nil {
			applied.Preview.Refused = refused
		}
		return applied, err
	}
	applied.Number = next
	for _, entry := range stored.calendar.entries {
		e.config.Journal.Write(entry)
	}
	set, err := e.catalog.Current(ctx, ws.ID)
	if err != nil || number == 0 || number == applied.Number {
		return applied, err
	}
	e.keepOpen(ws.ID, set)
	return applied, e.repace(context.WithoutCancel(ctx), ws.ID, number, set) // the edit is made, whether its caller still waits or not
}

// NotInForceError means that a definition is not in force.
type NotInForceError struct{ definition.Ref }

func (e *NotInForceError) Error() string {
	return fmt.Sprintf("there is no %s %q in force", e.Kind, e.Name)
}

// inForce checks that the definitions to delete are in force.
func inForce(known []definition.Stored, refs []definition.Ref) error {
	for _, ref := range refs {
		if !slices.ContainsFunc(known, func(d definition.Stored) bool { return d.Kind == ref.Kind && d.Name == ref.Name }) {
			return &NotInForceError{ref}
		}
	}
	return nil
}

func changesOf(all []store.DefinitionChange) []DefinitionChange {
	changes := make([]DefinitionChange, len(all))
	for i, c := range all {
		changes[i].DefinitionChange = c
	}
	return changes
}

// jobsOf returns the jobs that a new, changed or removed definition starts: records whose evaluation changed are evaluated (R11), and messages that
// wait for changed limits are planned again (R5). A cooldown may be defined in a persona, and the zone of a date in the workspace. old is the set in
// force; nil: none.
func jobsOf(old, set *definition.Set, d definition.Document) []job.Seed {
	var types []string
	switch d.Kind {
	case definition.KindWorkflow:
		var triggers []*definition.Trigger
		if w := set.Workflow(d.Name); w != nil {
			triggers = w.Trigger
		}
		if old != nil && old.Workflow(d.Name) != nil { // occasions of a removed workflow are withdrawn
			triggers = slices.Concat(triggers, old.Workflow(d.Name).Trigger)
		}
		for _, t := range triggers {
			if typ := t.Watch().Record; typ != "" && !slices.Contains(types, typ) {
				types = append(types, typ)
			}
		}
	case definition.KindRecordType:
		types = []string{d.Name}
	case definition.KindPersona, definition.KindWorkspace:
		types = set.WatchedTypes()
	case definition.KindGroup, definition.KindTopic, definition.KindSurvey, definition.KindTemplate, definition.KindChannel, definition.KindSink, definition.KindScenario:
	}
	runs := make([]job.Seed, len(types), len(types)+1)
	for i, typ := range types {
		runs[i] = job.Seed{Kind: job.Backfill, Subject: typ}
		if d.Kind == definition.KindWorkflow && old != nil && old.Workflow(d.Name) != nil { // an edit (product decision 48)
			runs[i].Cause = d.Name
		}
	}
	switch d.Kind {
	case definition.KindPersona:
		runs = append(runs, job.Seed{Kind: job.Limits, Subject: d.Name})
	case definition.KindWorkspace: // its zone matters too
		runs = append(runs, job.Seed{Kind: job.Limits})
	case definition.KindWorkflow:
		if old != nil && set.Workflow(d.Name) != nil && relimited(old.Workflow(d.Name), set.Workflow(d.Name)) {
			runs = append(runs, job.Seed{Kind: job.Limits})
		}
	case definition.KindGroup:
		runs = append(runs, job.Seed{Kind: job.Groups})
	case definition.KindRecordType, definition.KindTopic, definition.KindSurvey, definition.KindTemplate, definition.KindChannel,
		definition.KindSink, definition.KindScenario:
	}
	return runs
}

// relimited reports whether the limits of waiting messages have changed. Messages of a pinned trigger keep the version that made them.
func relimited(before, after *definition.Workflow) bool {
	return before != nil && slices.ContainsFunc(after.Trigger, func(t *definition.Trigger) bool {
		was := before.TriggerByID(t.ID)
		return was != nil && !t.Pin && (was.Limits != t.Limits || before.Type != after.Type)
	})
}

// repace reschedules the messages that wait for the rate of a channel whose rate has changed: the old rate assigned their instants, a mistyped one
// perhaps in a month.
func (e *Engine) repace(ctx context.Context, ws subject.WorkspaceID, before int64, set *definition.Set) error {
	old, err := e.catalog.At(ctx, ws, before)
	if err != nil {
		return err
	}
	for _, c := range set.Channels() {
		was := old.Channel(c.Key)
		if was == nil || was.Rate == c.Rate {
			continue
		}
		now, next := e.config.Clock.Now(), time.Time{}
		if c.Rate.Count > 0 {
			next = now.Add(c.Rate.Every())
		}
		if _, err := e.config.Store.BringForwardPaced(ctx, ws, c.Key, now, next); err != nil {
			return err
		}
	}
	return nil
}
