package definition

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Relation is a field of a record by which triggers read another one, or the zone of a contact.
type Relation struct {
	Field string // empty: the contact with the record's own id
	Type  string // type of the other record; subject.ContactType: it leads to a contact
	Path  bool   // it leads to a place, of which only the places above it are read
	Below []Relation
}

// OfContact reports whether the relation leads to a contact, of which only the zone is read.
func (r Relation) OfContact() bool { return r.Type == subject.ContactType }

// Relations returns the fields through which the triggers of a type of record read other records and the zones of contacts, ordered by
// name.
func (s *Set) Relations(typ string) []Relation { return s.relations[typ] }

// ReadAcross returns the fields of a type of record that triggers of other records read, ordered by name. When one of them changes,
// those records must be evaluated. Of subject.ContactType it is the zone, if records are due by the zone of their contact.
func (s *Set) ReadAcross(typ string) []string { return s.readAcross[typ] }

// Relate finds the relations between the declared types that triggers may follow.
func (s *Set) Relate() {
	for _, t := range s.types {
		for field := range t.Declared {
			if target := t.RelationOf(field); target != "" && s.types[target] != nil {
				if t.Related == nil {
					t.Related = map[string]*expr.RecordType{}
				}
				t.Related[field] = s.types[target]
			}
		}
	}
}

// follow records which fields of related records the triggers of the set read.
func (s *Set) follow() {
	s.relations, s.readAcross = map[string][]Relation{}, map[string][]string{}
	across := map[string]map[string]bool{}
	for typ, matches := range s.byRecord {
		t := s.types[typ]
		var all []Relation
		for _, m := range matches {
			if p := m.Trigger.OnPlan(); p != nil {
				p.crossing = s.crossing(m)
				if p.Dates.Person != nil {
					all = withContact(all, *p.Dates.Person)
					across[subject.ContactType] = map[string]bool{"timezone": true}
				}
			}
		}
		for _, m := range matches {
			for _, path := range m.Trigger.places() {
				all = withPath(all, t, path)
				across[subject.PlaceType] = with(across[subject.PlaceType], "parent")
			}
			if t == nil {
				continue
			}
			for _, path := range m.Trigger.reads() {
				steps, field := t.Relations(path)
				all = join(all, t, steps)
				for i := range steps {
					target, read := typeBelow(t, steps[:i+1]), field
					if across[target] == nil {
						across[target] = map[string]bool{}
					}
					if i+1 < len(steps) {
						read = steps[i+1]
					}
					across[target][read] = true
				}
			}
		}
		if len(all) > 0 {
			s.relations[typ] = all
		}
	}
	for typ, fields := range across {
		s.readAcross[typ] = slices.Sorted(maps.Keys(fields))
	}
}

// with adds a name to a set.
func with(set map[string]bool, name string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// withPath adds the relation to the place that a field names, and to the places above it.
func withPath(relations []Relation, t *expr.RecordType, path expr.Path) []Relation {
	fields := path[1:]
	if len(fields) == 1 {
		leads := Relation{Field: fields[0], Type: subject.PlaceType, Path: true}
		if !slices.ContainsFunc(relations, func(r Relation) bool { return r.Path && r.Field == leads.Field }) {
			relations = append(relations, leads)
			slices.SortStableFunc(relations, byField)
		}
		return relations
	}
	relations = join(relations, t, fields[:1])
	at := slices.IndexFunc(relations, func(r Relation) bool { return !r.Path && r.Field == fields[0] })
	if at >= 0 && t != nil {
		relations[at].Below = withPath(relations[at].Below, t.Related[fields[0]], fields)
	}
	return relations
}

// withContact adds the relation to a contact, once.
func withContact(relations []Relation, person Relation) []Relation {
	same := func(r Relation) bool { return r.OfContact() && r.Field == person.Field }
	if slices.ContainsFunc(relations, same) {
		return relations
	}
	relations = append(relations, person)
	slices.SortFunc(relations, byField)
	return relations
}

func byField(a, b Relation) int { return cmp.Compare(a.Field, b.Field) }

// typeBelow returns the type of record that steps lead to.
func typeBelow(t *expr.RecordType, steps []string) (typ string) {
	for _, step := range steps {
		typ = t.RelationOf(step)
		t = t.Related[step]
	}
	return typ
}

// join adds the steps of a path to relations.
func join(relations []Relation, t *expr.RecordType, steps []string) []Relation {
	if len(steps) == 0 || t == nil {
		return relations
	}
	leads := func(r Relation) bool { return !r.Path && r.Field == steps[0] }
	at := slices.IndexFunc(relations, leads)
	if at < 0 {
		relations = append(relations, Relation{Field: steps[0], Type: t.RelationOf(steps[0])})
		slices.SortStableFunc(relations, byField)
		at = slices.IndexFunc(relations, leads)
	}
	relations[at].Below = join(relations[at].Below, t.Related[steps[0]], steps[1:])
	return relations
}

// places returns the fields of records of which the conditions of a trigger on records ask within.
func (t *Trigger) places() (paths []expr.Path) {
	paths = append(t.When.Places(), t.StopWhen.Places()...)
	if c := t.OnCondition(); c != nil {
		for _, issue := range c.Issues {
			paths = append(paths, issue.When.Places()...)
		}
	}
	return paths
}

// reads returns all paths that a trigger on records reads in its conditions, timing, audience and texts.
func (t *Trigger) reads() (paths []expr.Path) {
	conditions, programs := []*expr.Condition{t.When, t.StopWhen}, []*expr.Program{t.Anchor}
	messages, audience := []Message{t.Message}, t.Audience
	switch s := t.Source.(type) {
	case *OnCondition:
		for _, issue := range s.Issues {
			conditions = append(conditions, issue.When)
		}
		programs = append(programs, s.Cooldown.Per...)
		if s.Resolved != nil {
			messages = append(messages, *s.Resolved)
		}
	case *OnPlan:
		if s.Metric != nil {
			programs = append(programs, s.Metric.Value)
		}
		if s.Reconcile != nil {
			conditions = append(conditions, s.Reconcile.Where)
		}
		programs = append(programs, s.Dates.At.From)
		for _, z := range s.Dates.Zones {
			programs = append(programs, z.From)
		}
		if c := s.Course; c != nil {
			programs = append(programs, c.Programs()...)
			for _, m := range c.Messages {
				if m.Own != nil {
					messages, audience = append(messages, m.Own.Message), slices.Concat(audience, m.Own.Audience)
				}
			}
		}
	}
	for _, a := range audience {
		conditions, programs = append(conditions, a.Where), append(programs, a.To, a.Address)
		if a.To == nil {
			continue
		}
		for _, path := range a.To.Paths() { // a record in an audience may be reached by its own addresses
			for _, field := range append(subject.AddressFields(""), "locale", "timezone") {
				paths = append(paths, append(slices.Clone(path), field))
			}
		}
	}
	for _, c := range conditions {
		if c != nil {
			paths = append(paths, c.Paths()...)
		}
	}
	for _, p := range programs {
		if p != nil {
			paths = append(paths, p.Paths()...)
		}
	}
	for _, m := range messages {
		for _, path := range m.Variables() {
			paths = append(paths, strings.FieldsFunc(path, func(c rune) bool { return c == '.' }))
		}
	}
	return paths
}
