package loader

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/subject"
)

// person decides how a trigger follows the zone of its contacts: of one contact whom the record names, the zone is read when the occasion is
// planned; of any other audience each occasion has a row for each zone. A course has no such rows. wrong is set if the blocks have mistakes.
func (r *reader) person(timing *portable.Node, set *definition.Set, t *definition.Trigger, wrong bool) {
	plan := t.OnPlan()
	if plan == nil || !plan.Dates.ByContact {
		return
	}
	if to, ok := onlyPerson(set, t); ok {
		plan.Dates.Person, plan.Dates.ByContact = &to, false
		return
	}
	if wrong { // the audience is not known
		return
	}
	if plan.Course != nil {
		n := r.items(timing.Get("timezone"))[0]
		r.notYet(n.Pos, n.Text, "a course has the zone of a contact only where its whole audience is one contact, such as to: record; else write a zone, or record.timezone")
	}
	if plan.Dates.KeepZone {
		r.invalid(timing.Get("follow_zone").Pos, fmt.Sprintf("trigger %s: each contact is notified in their present zone", t.ID), "remove follow_zone, or write a zone that is the same for everybody")
	}
}

// onlyPerson returns how a record names the one contact of its trigger's audience; ok is false when the audience may be another one.
func onlyPerson(set *definition.Set, t *definition.Trigger) (to definition.Relation, ok bool) {
	for i, form := range t.Forms() {
		if len(form.Audience) != 1 || form.Audience[0].To == nil || form.Audience[0].Above {
			return to, false
		}
		person, ok := personOf(set, t.Watch().Record, form.Audience[0].To.Source())
		if !ok || i > 0 && person.Field != to.Field {
			return to, false
		}
		to = person
	}
	return to, true
}

// personOf reads to: record, record.id, or record.FIELD where the type of the record declares that the field names a contact.
func personOf(set *definition.Set, typ, source string) (to definition.Relation, ok bool) {
	to.Type = subject.ContactType
	if source == "record" || source == "record.id" {
		return to, true
	}
	field, ofRecord := strings.CutPrefix(source, "record.")
	declared := set.RecordType(typ)
	if !ofRecord || declared == nil || declared.Declared[field] != "contact" || slices.Contains(recordFields(&expr.RecordType{}), field) {
		return to, false
	}
	to.Field = field
	return to, true
}
