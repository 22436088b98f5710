package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// definitionEdit is an edit and what follows from it, computed from the set in force before its transaction.
type definitionEdit struct {
	ws       subject.WorkspaceID
	now      time.Time
	base     int64 // number of the set that it was computed from
	set      store.DefinitionEdit
	effects  map[store.DefinitionRef]effects
	versions map[string]int64 // of the workflows in the set in force
	calendar *rearrangement
	topics   topics.Edit
	audit    store.Audit
}

// effects are what follows if a definition is new, changed or removed.
type effects struct {
	jobs     []job.Seed
	inputs   []string            // the values that the input hashes of its instances cover
	withdraw *delivery.Selection // the waiting deliveries of a removed workflow; nil: none
}

// errDryRun rolls a dry run back.
var errDryRun = errors.New("dry run")

// commit makes the edit in one transaction, and returns the number of the set in force then, and the changes. A dry run rolls everything back: the
// result says what the edit would do. The error is store.ErrStaleDefinitions if another set has come into force.
func (e *Engine) commit(ctx context.Context, d *definitionEdit, dryRun bool, once *store.Idempotent[Applied], answer Applied) (number int64, changes []store.DefinitionChange, err error) {
	err = e.config.Store.Write(ctx, func(tx *store.Tx) error {
		if err := once.Begin(tx, d.ws); err != nil {
			return err
		}
		if number, changes, err = d.write(tx); err != nil {
			return err
		}
		if dryRun {
			return errDryRun
		}
		answer.Number, answer.Changes = number, changesOf(changes)
		return once.Keep(tx, d.ws, answer)
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return 0, nil, fmt.Errorf("apply definitions: %w", err)
	}
	return number, changes, nil
}

// write writes the next set and what follows from it. If nothing differs from the set in force, nothing is written.
func (d *definitionEdit) write(tx *store.Tx) (number int64, changes []store.DefinitionChange, err error) {
	d.calendar.entries = nil
	held, err := tx.LockDefinitions(d.ws)
	if err != nil {
		return 0, nil, err
	}
	if held != d.base {
		return 0, nil, store.ErrStaleDefinitions
	}
	number = held + 1
	if changes, err = tx.WriteDefinitions(d.ws, d.now, number, d.set); err != nil {
		return 0, nil, err
	}
	if !slices.ContainsFunc(changes, func(c store.DefinitionChange) bool { return c.Action != store.Unchanged }) {
		return held, changes, nil
	}
	open, err := tx.OpenJobs(d.ws)
	if err != nil {
		return 0, nil, err
	}
	edited := editedWorkflows(changes)
	if err := job.Unlocked(open, edited); err != nil {
		return 0, nil, err
	}
	series, err := tx.Series(d.ws, d.calendar.refs())
	if err != nil {
		return 0, nil, err
	}
	follows := d.follow(changes)
	if err := tx.KeepInputs(d.ws, follows.inputs); err != nil {
		return 0, nil, err
	}
	started := startedJobs{ws: d.ws, now: d.now, number: number, open: open, seeds: follows.jobs, repairs: d.calendar.repairs(), actor: d.audit.Actor}
	if err := started.write(tx, follows.withdraw); err != nil {
		return 0, nil, err
	}
	if err := tx.RecomputeGroups(d.ws, editedGroups(changes)); err != nil {
		return 0, nil, err
	}
	if err := d.editedTopics(changes).Write(tx); err != nil {
		return 0, nil, err
	}
	if err := tx.WakeWorkflows(d.ws, d.now, edited); err != nil {
		return 0, nil, err
	}
	if err := d.calendar.write(tx, number, versionsAfter(d.versions, changes), series); err != nil {
		return 0, nil, err
	}
	return number, changes, tx.Audit(d.ws, d.now, d.audit)
}

// editedWorkflows returns the workflows in force before that are changed or removed.
func editedWorkflows(changes []store.DefinitionChange) (names []string) {
	for _, c := range changes {
		if c.Kind == string(definition.KindWorkflow) && (c.Action == store.Changed || c.Action == store.Deleted) {
			names = append(names, c.Name)
		}
	}
	return names
}

// editedGroups returns the groups that are new, changed or removed.
func editedGroups(changes []store.DefinitionChange) (names []string) {
	for _, c := range changes {
		if c.Kind == string(definition.KindGroup) && c.Action != store.Unchanged {
			names = append(names, c.Name)
		}
	}
	return names
}

// editedTopics returns what the changes make of the rows of topics.
func (d *definitionEdit) editedTopics(changes []store.DefinitionChange) topics.Edit {
	edit := d.topics
	edit.Documents = map[string]string{}
	for _, c := range changes {
		switch {
		case c.Kind != string(definition.KindTopic) || c.Action == store.Unchanged:
		case c.Action == store.Deleted:
			edit.Removed = append(edit.Removed, c.Name)
		default:
			edit.Documents[c.Name] = d.topics.Documents[c.Name]
		}
	}
	return edit
}

// versionsAfter returns the versions of the workflows of the new set.
func versionsAfter(before map[string]int64, changes []store.DefinitionChange) map[string]int64 {
	versions := maps.Clone(before)
	for _, c := range changes {
		if c.Kind == string(definition.KindWorkflow) {
			versions[c.Name] = c.Version
		}
	}
	return versions
}

// followed is what follows from all changes of an edit.
type followed struct {
	jobs     []job.Seed
	inputs   []string
	withdraw []delivery.Selection
}

func (d *definitionEdit) follow(changes []store.DefinitionChange) (f followed) {
	for _, c := range changes {
		if c.Action == store.Unchanged {
			continue
		}
		e := d.effects[store.DefinitionRef{Kind: c.Kind, Name: c.Name}]
		f.jobs, f.inputs = append(f.jobs, e.jobs...), append(f.inputs, e.inputs...)
		if e.withdraw != nil {
			f.withdraw = append(f.withdraw, *e.withdraw)
		}
	}
	return f
}

// startedJobs are the jobs that definitions start, and those that end: the ones that these replace, and repairs that are defined no longer.
type startedJobs struct {
	ws      subject.WorkspaceID
	now     time.Time
	number  int64 // of the set that starts them
	open    []job.Row
	seeds   []job.Seed
	repairs []store.Repair
	actor   string
}

// decide returns the jobs to begin, and the open ones that end.
func (s *startedJobs) decide() (begun, ended []job.Row) {
	seeds, ended := job.Restart(s.open, s.seeds, s.now)
	for _, j := range s.open {
		if j.Kind != job.Reconcile || slices.ContainsFunc(s.repairs, func(r store.Repair) bool { return r.Subject() == j.Subject }) {
			continue
		}
		if j, err := j.Cancel(s.now); err == nil {
			ended = append(ended, j)
		}
	}
	for _, seed := range seeds {
		begun = append(begun, job.New(s.ws, seed, s.number, s.now))
	}
	return begun, ended
}

// write starts the jobs, and one for each selection that withdraws its waiting deliveries in pages.
func (s *startedJobs) write(tx *store.Tx, withdraw []delivery.Selection) error {
	begun, ended := s.decide()
	if len(withdraw) > 0 {
		last, err := tx.LastDelivery(s.ws)
		if err != nil {
			return err
		}
		for _, selection := range withdraw {
			text, err := json.Marshal(selection)
			if err != nil {
				return fmt.Errorf("write the selection: %w", err)
			}
			j := job.New(s.ws, job.Seed{Kind: job.Cancel, Subject: selection.String()}, s.number, s.now)
			j.Selection, j.Actor, j.LastID = string(text), s.actor, int64(last)
			begun = append(begun, j)
		}
	}
	if err := tx.SaveJobs(s.now, ended...); err != nil {
		return err
	}
	_, err := tx.AddJobs(s.now, begun)
	return err
}

// editOf returns an edit of the store with its effects and its audit entry.
func editOf(ws store.Workspace, edit Edit, bundle loader.Bundle, old *definition.Set, by Applier, secrets []definition.SecretChange, now time.Time) (*definitionEdit, error) {
	action := edit.action
	if action == "" {
		action = actionApply
	}
	d := &definitionEdit{
		ws: ws.ID, now: now, effects: map[store.DefinitionRef]effects{}, versions: map[string]int64{},
		set:   store.DefinitionEdit{Documents: make([]store.Definition, len(bundle.Documents)), Actor: by.Name, Action: action},
		audit: store.Audit{At: now, Actor: by.Name, Action: action, Target: ws.Name},
	}
	d.topics = topics.Edit{Workspace: ws.ID, Set: bundle.Set, Documents: map[string]string{}, Now: now}
	for i, doc := range bundle.Documents {
		if doc.Kind == definition.KindTopic {
			d.topics.Documents[doc.Name] = doc.Text
		}
		d.set.Documents[i] = store.Definition{Kind: string(doc.Kind), Name: doc.Name, Text: doc.Text, Hash: doc.Hash}
		d.effects[refOf(doc)] = effects{jobs: jobsOf(old, bundle.Set, doc), inputs: inputsOf(bundle.Set, doc)}
	}
	var deleted []string
	for _, doc := range bundle.Removed {
		e := effects{jobs: jobsOf(old, bundle.Set, doc.Document)}
		if doc.Kind == definition.KindWorkflow {
			e.withdraw = &delivery.Selection{Workflow: doc.Name, Removed: true}
		}
		d.set.Removed, d.effects[refOf(doc.Document)] = append(d.set.Removed, refOf(doc.Document)), e
		deleted = append(deleted, string(doc.Kind)+" "+doc.Name)
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
			return nil, fmt.Errorf("write the audit entry: %w", err)
		}
		d.audit.Detail = text
	}
	return d, nil
}

func refOf(d definition.Document) store.DefinitionRef {
	return store.DefinitionRef{Kind: string(d.Kind), Name: d.Name}
}
