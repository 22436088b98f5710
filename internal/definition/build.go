package definition

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
)

// A set is made by the loader: New, the Add methods, Relate when all types are there, and Index at the end. It does not change after.

// New returns a set without definitions.
func New(number int64, defaults Workspace) *Set {
	return &Set{
		Number: number, Workspace: defaults,
		workflows: map[string]*Workflow{}, surveys: map[string]*Survey{}, channels: map[string]*Channel{},
		sinks: map[string]*Sink{}, personas: map[string]*Persona{}, groups: map[string]*Group{}, topics: map[string]*Topic{}, types: map[string]*expr.RecordType{},
		byEvent: map[string][]Match{}, byRecord: map[string][]Match{},
	}
}

// AddWorkflow adds a workflow.
func (s *Set) AddWorkflow(w *Workflow) { s.workflows[w.Name] = w }

// AddSurvey adds a survey.
func (s *Set) AddSurvey(survey *Survey) { s.surveys[survey.Name] = survey }

// AddChannel adds a channel.
func (s *Set) AddChannel(c *Channel) { s.channels[c.Key] = c }

// AddSink adds a sink.
func (s *Set) AddSink(sink *Sink) { s.sinks[sink.Name] = sink }

// AddPersona adds a persona.
func (s *Set) AddPersona(p *Persona) { s.personas[p.Name] = p }

// AddGroup adds a group.
func (s *Set) AddGroup(g *Group) { s.groups[g.Name] = g }

// AddRecordType adds a declared type of records.
func (s *Set) AddRecordType(t *expr.RecordType) { s.types[t.Name] = t }

// Index finds what each event, record and schedule triggers, and computes what evaluations need again and again.
func (s *Set) Index() {
	for _, name := range slices.Sorted(maps.Keys(s.workflows)) {
		w := s.workflows[name]
		for _, t := range w.Trigger {
			t.inputs = key.Hash(t.InputsJSON())
			for _, form := range t.Forms() {
				form.inputs = t.inputs
			}
			s.folds = s.folds || t.Limits.AtSend == LimitFold
			m := Match{Workflow: w, Trigger: t}
			switch source := t.Source.(type) {
			case *OnEvent:
				s.byEvent[source.Kind] = append(s.byEvent[source.Kind], m)
			case *OnCondition:
				s.byRecord[source.Record] = append(s.byRecord[source.Record], m)
			case *OnPlan:
				s.byRecord[source.Record] = append(s.byRecord[source.Record], m)
			case *OnSchedule:
				s.schedules = append(s.schedules, m)
			}
		}
	}
	s.follow()
}
