package plan

import (
	"maps"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/subject"
)

// Reading is what the texts and conditions of one delivery's message and survey may read.
type Reading struct {
	Set      *definition.Set // in which its workflow is
	Workflow *definition.Workflow
	Delivery delivery.Row
	Contact  subject.Contact
	Event    subject.Event
	Now      time.Time
	Zones    *civil.Zones
}

// Variables returns what texts read. A message adds its step and attempt.
func (r Reading) Variables() map[string]any {
	contact := r.contact()
	contact["address"] = r.Delivery.Address
	if r.Delivery.Locale != "" {
		contact["locale"] = r.Delivery.Locale
	}
	vars := make(map[string]any, 14) // with what follows, and what a message adds
	vars["contact"], vars["vars"], vars["now"] = contact, r.Workflow.Vars, r.Now
	vars["due_at"], vars["detected_at"] = r.Delivery.Due(), r.Delivery.CreatedAt
	vars["trigger"] = map[string]any{"id": r.Delivery.Trigger}
	vars["workspace"] = map[string]any{"timezone": r.Set.Workspace.Timezone, "locale": r.Set.Workspace.Locale, "base_url": r.Set.Workspace.BaseURL}
	if record, issues, detectedAt, ok := AlertFields(r.Event); ok {
		vars["record"], vars["issues"], vars["detected_at"] = Texts(record), issues, detectedAt
		maps.Copy(vars, Extra(r.Event, r.Now, r.Zones))
	} else if period, iteration, ok := CalendarFields(r.Event); ok {
		vars["period"], vars["iteration"] = local(period, r.Event, r.Zones), nil
		if iteration > 0 {
			vars["iteration"] = iteration
		}
	} else if r.Delivery.Event != 0 {
		event := EventFields(r.Event)
		vars["event"], vars["candidate"] = event, r.Event.Payload
		if item := itemOf(event); item != nil {
			vars["item"] = item
		}
		if t := r.Workflow.TriggerByID(r.Delivery.Trigger); t != nil && t.Course() != nil {
			vars["iteration"] = key.Delivery(r.Delivery.Key).Iteration()
		}
	}
	return vars
}

func (r Reading) contact() map[string]any {
	fields := ContactFields(r.Contact)
	if !r.Set.ReadsGroups {
		return fields
	}
	return WithGroups(fields, r.Set, r.Contact, nil)
}

// Input returns what conditions read.
func (r Reading) Input() expr.Input {
	in := Input(r.Set, r.Workflow, nil, r.Now)
	in.Contact, in.Home = r.contact(), r.Contact.Within
	if loc, err := r.Zones.Load(r.Set.Workspace.Timezone); err == nil {
		in.Zone = loc
	}
	if period, iteration, ok := CalendarFields(r.Event); ok {
		in.Period, in.Iteration = period, iteration
	} else if _, _, _, ok := AlertFields(r.Event); !ok && r.Delivery.Event != 0 {
		in.Event = EventFields(r.Event)
		in.Item = itemOf(in.Event)
	}
	return in
}

// local converts the instants of a period to the time zone of its schedule, not of its reader: a report from Monday to Monday covers the same time
// everywhere.
func local(period map[string]any, ev subject.Event, zones *civil.Zones) map[string]any {
	name, _ := ev.Payload["timezone"].(string)
	loc, err := zones.Load(name)
	if err != nil { // an older version of the program with more zones stored it
		return period
	}
	all := make(map[string]any, len(period))
	for name, value := range period {
		if at, ok := value.(time.Time); ok {
			value = message.Local{Time: at.In(loc)}
		}
		all[name] = value
	}
	return all
}

// Asked is what a delivery asks.
type Asked struct {
	Set      *definition.Set
	Workflow *definition.Workflow
	Trigger  *definition.Trigger
	Survey   *definition.Survey
}

// Asks returns what a delivery asks by a set of definitions; ok is false if that is nothing.
func Asks(set *definition.Set, row delivery.Row) (a Asked, ok bool) {
	a.Set = set
	if a.Workflow = set.Workflow(row.Workflow); a.Workflow == nil {
		return a, false
	}
	if a.Trigger = a.Workflow.TriggerOf(row.Trigger, row.Message); a.Trigger == nil {
		return a, false
	}
	a.Survey = set.Survey(a.Trigger.Message.Survey)
	return a, a.Survey != nil
}
