package definition

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// Relation is a step by which triggers read other records, or the zone of a contact: a field, the name of a parent, any parent, or the children.
type Relation struct {
	Field string // parent or parents: all parents; children: the children; empty: the contact with the record's own id
	// Type is the type of the record that the field names, if it is declared; subject.ContactType: it leads to a contact. Empty: only parents
	// are followed by it, and fields by Types.
	Type  string
	Types map[string]string // by the type of the record that has the field: the type of the records that it names
	Path  bool              // it leads to a place, of which only the places above it are read
	Below []Relation
}

// AllFields stands for all fields of a record, where it is not known which are read.
const AllFields = "*"

// OfContact reports whether the relation leads to a contact, of which only the zone is read.
func (r Relation) OfContact() bool { return r.Type == subject.ContactType }

// Relations returns the fields through which the triggers of a type of record read other records and the zones of contacts, ordered by
// name.
func (s *Set) Relations(typ string) []Relation { return s.relations[typ] }

// ReadAcross returns the fields of a type of record that triggers of other records read. When one of them changes, those records must be
// evaluated. Of subject.ContactType it is the zone, if records are due by the zone of their contact. The triggers of children are among them;
// those of parents are not.
func (s *Set) ReadAcross(typ string) []string {
	if typ == subject.ContactType {
		return s.readAcross[typ]
	}
	return slices.Concat(s.readAcross[typ], s.readAcross[anyType])
}

// ReadOfChildren returns the fields of the children of a type of record that triggers read. When one of them changes, or another record becomes
// a child, the records must be evaluated of which these are the triggers.
func (s *Set) ReadOfChildren(typ string) []string {
	return slices.Concat(s.readOfChildren[typ], s.readOfChildren[anyType])
}

// anyType stands for records whose type is not known when definitions are read: parents and children.
const anyType = ""

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
	s.relations = map[string][]Relation{}
	across, children := reads{}, reads{}
	for typ, matches := range s.byRecord {
		t := s.types[typ]
		var all []Relation
		for _, m := range matches {
			if p := m.Trigger.OnPlan(); p != nil {
				p.crossing = s.crossing(m)
				if p.Dates.Person != nil {
					all = withContact(all, *p.Dates.Person)
					across.add(subject.ContactType, "timezone")
				}
			}
		}
		for _, m := range matches {
			for _, path := range m.Trigger.places() {
				all = s.withPath(all, t, path)
				across.add(subject.PlaceType, "parent")
			}
			for _, path := range m.Trigger.reads() {
				steps, field := t.Relations(path)
				all = s.join(all, t, steps)
				at, of := t, typ
				for i, step := range steps {
					read := field
					if i+1 < len(steps) {
						read = steps[i+1]
					}
					target := at.RelationOf(step)
					if target == "" && step == expr.Children {
						children.add(of, read)
					} else {
						across.add(target, read)
					}
					at, of = at.Below(step), target
				}
			}
		}
		if len(all) > 0 {
			s.relations[typ] = all
		}
	}
	s.readAcross, s.readOfChildren = across.sorted(), children.sorted()
}

// reads are the fields that are read of types of records.
type reads map[string]map[string]bool

func (r reads) add(typ, field string) {
	if r[typ] == nil {
		r[typ] = map[string]bool{}
	}
	if field == "" {
		field = AllFields
	}
	r[typ][field] = true
}

func (r reads) sorted() map[string][]string {
	all := make(map[string][]string, len(r))
	for typ, fields := range r {
		all[typ] = slices.Sorted(maps.Keys(fields))
	}
	return all
}

// withPath adds the relation to the place that a field names, and to the places above it.
func (s *Set) withPath(relations []Relation, t *expr.RecordType, path expr.Path) []Relation {
	fields := path[1:]
	if len(fields) == 1 {
		leads := Relation{Field: fields[0], Type: subject.PlaceType, Path: true}
		if !slices.ContainsFunc(relations, func(r Relation) bool { return r.Path && r.Field == leads.Field }) {
			relations = append(relations, leads)
			slices.SortStableFunc(relations, byField)
		}
		return relations
	}
	relations = s.join(relations, t, fields[:1])
	at := slices.IndexFunc(relations, func(r Relation) bool { return r.Field == fields[0] && !r.OfContact() && !r.Path })
	relations[at].Below = s.withPath(relations[at].Below, t.Below(fields[0]), fields)
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

// Join adds the relations that paths follow from a type of record to relations. A nil type is open.
func (s *Set) Join(relations []Relation, t *expr.RecordType, paths []expr.Path) []Relation {
	for _, path := range paths {
		steps, _ := t.Relations(path)
		relations = s.join(relations, t, steps)
	}
	return relations
}

// join adds the steps of a path to relations.
func (s *Set) join(relations []Relation, t *expr.RecordType, steps []string) []Relation {
	if len(steps) == 0 {
		return relations
	}
	is := func(r Relation) bool { return r.Field == steps[0] && !r.OfContact() && !r.Path }
	if !slices.ContainsFunc(relations, is) {
		r := Relation{Field: steps[0], Type: t.RelationOf(steps[0])}
		if t == nil {
			r.Types = s.naming(steps[0])
		}
		relations = append(relations, r)
		slices.SortStableFunc(relations, byField)
	}
	at := slices.IndexFunc(relations, is)
	relations[at].Below = s.join(relations[at].Below, t.Below(steps[0]), steps[1:])
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

// naming returns the declared types in which a field names a record, with the types of these records; nil if there are none.
func (s *Set) naming(field string) map[string]string {
	var types map[string]string
	for name, t := range s.types {
		if target := t.RelationOf(field); target != "" {
			if types == nil {
				types = map[string]string{}
			}
			types[name] = target
		}
	}
	return types
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
