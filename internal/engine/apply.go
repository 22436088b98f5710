package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// The actions of the history of definitions.
const (
	actionApply    = "apply"
	actionDelete   = "delete"
	actionRollback = "rollback"
)

// Edit is a wish to change the definitions in force.
type Edit struct {
	Files []definition.File
	// Prune deletes what is in force and not among the files.
	Prune bool
	// Delete names definitions in force that are to go.
	Delete []definition.Ref
	// DryRun says what the edit would do, and changes nothing.
	DryRun bool

	action string // of the history; empty: apply
	base   int64  // number of the set that it was put together with; another one in force has it put together again. 0: any
}

// Applied says what applying definitions did.
type Applied struct {
	Problems []definition.Problem // with an error among them nothing was stored
	Number   int64                // of the set in force
	Changes  []DefinitionChange
	// SecretChanges are the definitions that changed in what decides where secrets go.
	SecretChanges []definition.SecretChange
	// Preview is what would follow; of a dry run alone.
	Preview *Preview
}

// DefinitionChange is what an edit does to one definition.
type DefinitionChange struct {
	store.DefinitionChange
	Diff string // of a dry run: from the text in force to the new one, unified
}

// Applier is who applies definitions.
type Applier struct {
	Name    string // for the audit log
	Secrets bool   // may change references to secrets, and what stands beside them
}

// SecretsError refuses an apply that changes where secrets go, by somebody who may not. Nothing was changed.
type SecretsError struct{ Changes []definition.SecretChange }

func (e *SecretsError) Error() string {
	names := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		names[i] = fmt.Sprintf("%s %s (%s)", c.Kind, c.Name, strings.Join(c.Fields, ", "))
	}
	return "these changes decide where secrets go: " + strings.Join(names, "; ")
}

// Apply checks a folder of definitions and puts it in force as the workspace's next set, for somebody who may change everything.
// Definitions that the folder does not mention stay. With an error among the problems nothing changes.
func (e *Engine) Apply(ctx context.Context, ws store.Workspace, files []definition.File, actor string) (Applied, error) {
	return e.ApplyOnce(ctx, ws, files, Applier{Name: actor, Secrets: true}, nil)
}

// ApplyOnce is Apply for a request that may come again; see store.Once. What it refuses by may be a *SecretsError.
func (e *Engine) ApplyOnce(ctx context.Context, ws store.Workspace, files []definition.File, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	return e.EditDefinitions(ctx, ws, Edit{Files: files}, by, once)
}

// EditDefinitions changes the definitions in force, or says what that would do. What it refuses by may be a *SecretsError.
func (e *Engine) EditDefinitions(ctx context.Context, ws store.Workspace, edit Edit, by Applier, once *store.Idempotent[Applied]) (Applied, error) {
	for tries := 1; ; tries++ {
		applied, err := e.edit(ctx, ws, edit, by, once)
		if !errors.Is(err, store.ErrStaleDefinitions) || tries == applies { // somebody else has applied others meanwhile
			return applied, err
		}
	}
}

// applies bounds how often definitions are put together with those in force before others come into force in between.
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
	bundle, problems := definition.Load(edit.Files, options)
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
	rearranged := &rearrangement{ws: ws.ID, old: old, set: bundle.Set, zones: &e.catalog.Zones, now: now, ids: e.config.Store.NewID}
	stored.Calendar = rearranged.plan(number)
	done, err := e.config.Store.EditDefinitions(ctx, ws.ID, now, stored, store.From(once, func(stored store.AppliedDefinitions) Applied {
		return Applied{Problems: problems, Number: stored.Number, Changes: changesOf(stored.Changes), SecretChanges: applied.SecretChanges}
	}))
	if err != nil {
		return applied, fmt.Errorf("apply definitions: %w", err)
	}
	applied.Changes = changesOf(done.Changes)
	if edit.DryRun {
		diffs(applied.Changes, known, bundle.Documents)
		applied.Preview, err = e.preview(ctx, ws.ID, applied.Changes, stored, rearranged)
		if applied.Preview != nil {
			applied.Preview.Refused = refused
		}
		return applied, err
	}
	applied.Number = done.Number
	for _, entry := range rearranged.entries {
		e.config.Journal.Write(entry)
	}
	set, err := e.catalog.Current(ctx, ws.ID)
	if err != nil || number == 0 || number == applied.Number {
		return applied, err
	}
	return applied, e.repace(ctx, ws.ID, number, set)
}

// NotInForceError says that a definition is not in force.
type NotInForceError struct{ definition.Ref }

func (e *NotInForceError) Error() string {
	return fmt.Sprintf("there is no %s %q in force", e.Kind, e.Name)
}

// inForce makes sure that definitions which are to go are there.
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

// editOf is what the store has to do, with its entry in the audit log.
func editOf(ws store.Workspace, edit Edit, bundle definition.Bundle, old *definition.Set, by Applier, secrets []definition.SecretChange, now time.Time) (store.DefinitionEdit, error) {
	stored := store.DefinitionEdit{
		Documents: make([]store.Definition, len(bundle.Documents)), Action: edit.action, DryRun: edit.DryRun,
		Audit: store.Audit{At: now, Actor: by.Name, Action: edit.action, Target: ws.Name},
	}
	if edit.action == "" {
		stored.Action, stored.Audit.Action = actionApply, actionApply
	}
	for i, d := range bundle.Documents {
		stored.Documents[i] = store.Definition{Kind: string(d.Kind), Name: d.Name, Text: d.Text, Hash: d.Hash, Runs: runsOf(old, bundle.Set, d), Inputs: inputsOf(bundle.Set, d)}
	}
	var deleted []string
	for _, d := range bundle.Removed {
		r := store.RemovedDefinition{DefinitionRef: store.DefinitionRef{Kind: string(d.Kind), Name: d.Name}, Runs: runsOf(old, bundle.Set, d.Document)}
		if d.Kind == definition.KindWorkflow {
			selection := delivery.Selection{Workflow: d.Name, Removed: true}
			text, err := json.Marshal(selection)
			if err != nil {
				return stored, fmt.Errorf("write the selection: %w", err)
			}
			r.Withdraw, r.Subject = string(text), selection.String()
		}
		stored.Removed = append(stored.Removed, r)
		deleted = append(deleted, string(d.Kind)+" "+d.Name)
	}
	detail := map[string]any{}
	if len(secrets) > 0 {
		detail["secret_changes"] = secrets
	}
	if len(deleted) > 0 {
		detail["deleted"] = deleted
	}
	if len(detail) > 0 {
		text, err := json.Marshal(detail)
		if err != nil {
			return stored, fmt.Errorf("write the audit entry: %w", err)
		}
		stored.Audit.Detail = text
	}
	return stored, nil
}

// runsOf is what a definition that is new, changed or removed brings with it: the records that it looks at differently are looked
// at (R11), and what waits for limits that it changes is planned anew (R5). The length of a cooldown may lie in a persona,
// and the zone of a date in the workspace. Old is the set in force; nil: there is none.
func runsOf(old, set *definition.Set, d definition.Document) []store.RunSeed {
	var types []string
	switch d.Kind {
	case definition.KindWorkflow:
		var triggers []*definition.Trigger
		if w := set.Workflow(d.Name); w != nil {
			triggers = w.Trigger
		}
		if old != nil && old.Workflow(d.Name) != nil { // what is defined no longer is withdrawn
			triggers = slices.Concat(triggers, old.Workflow(d.Name).Trigger)
		}
		for _, t := range triggers {
			if t.Record != "" && !slices.Contains(types, t.Record) {
				types = append(types, t.Record)
			}
		}
	case definition.KindRecordType:
		types = []string{d.Name}
	case definition.KindPersona, definition.KindWorkspace:
		types = set.WatchedTypes()
	case definition.KindSurvey, definition.KindTemplate, definition.KindChannel, definition.KindSink, definition.KindScenario:
	}
	runs := make([]store.RunSeed, len(types), len(types)+1)
	for i, typ := range types {
		runs[i] = store.RunSeed{Kind: store.RunBackfill, Subject: typ}
		if d.Kind == definition.KindWorkflow && old != nil && old.Workflow(d.Name) != nil { // an edit (decision 48)
			runs[i].Cause = d.Name
		}
	}
	switch d.Kind {
	case definition.KindPersona:
		runs = append(runs, store.RunSeed{Kind: store.RunCadence, Subject: d.Name})
	case definition.KindWorkspace: // its zone counts too
		runs = append(runs, store.RunSeed{Kind: store.RunCadence})
	case definition.KindWorkflow:
		if old != nil && set.Workflow(d.Name) != nil && relimited(old.Workflow(d.Name), set.Workflow(d.Name)) {
			runs = append(runs, store.RunSeed{Kind: store.RunCadence})
		}
	case definition.KindRecordType, definition.KindSurvey, definition.KindTemplate, definition.KindChannel,
		definition.KindSink, definition.KindScenario:
	}
	return runs
}

// relimited reports whether messages that wait meet the limits of people in another way now. Those of a pinned trigger keep
// to the version that they were made by.
func relimited(before, after *definition.Workflow) bool {
	return before != nil && slices.ContainsFunc(after.Trigger, func(t *definition.Trigger) bool {
		was := before.TriggerByID(t.ID)
		return was != nil && !t.Pin && (was.Limits != t.Limits || before.Type != after.Type)
	})
}

// repace looks anew at what waits for the rate of a channel that has another one now: its places were given out at the
// old one, a mistyped rate's perhaps in a month.
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
