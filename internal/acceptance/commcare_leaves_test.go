package acceptance

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
)

// rowFiles are the rows of CommCare HQ, each as a file of its own.
func rowFiles(t testing.TB) (all []file) {
	t.Helper()
	rows := readCriteria(t)
	for i, row := range rows {
		if row.differs() != "" {
			continue
		}
		all = append(all, file{
			name: "criteria.jsonl " + row.id(), row: func(t testing.TB) map[string]any { return readCriteria(t)[i].data },
			run: func(t testing.TB, open func() *store.Store, data map[string]any) outcome {
				row := readCriteria(t)[i]
				row.data = data
				return row.run(t, open)
			},
			wants: []string{"checks[*].expect", "expect", "expect[*]", "expect_due_after[*]", "expect_final.*"},
			notes: overlooked()[row.id()],
		})
	}
	for _, name := range scheduleFiles() {
		for i, data := range readLines(t, name) {
			id := fmt.Sprint(data["id"])
			all = append(all, file{
				name: name + " " + id, row: func(t testing.TB) map[string]any { return readLines(t, name)[i] }, typed: true,
				run: func(t testing.TB, open func() *store.Store, data map[string]any) (o outcome) {
					row := scheduleRowOf(t, data)
					row.compute(t)
					if otherwise()[id] == "" {
						row.live(t, open())
					}
					return o
				},
				quick: func(t testing.TB, _ func() *store.Store, data map[string]any) (o outcome) {
					scheduleRowOf(t, data).compute(t)
					return o
				},
				tried: every, notes: append(overlooked()[id], overlooked()["schedules"]...),
			})
		}
	}
	return all
}

// overlooked are the leaves of rows whose change nothing can notice, by row or by kind of row.
func overlooked() map[string][]string {
	property := func(check int, name string) string {
		return fmt.Sprintf("checks[%d].record.properties.%s", check, name)
	}
	return map[string][]string{
		// Where every value but one gives the same answer, another one of those changes nothing.
		"cr004": {property(1, "result")},
		"cr006": {property(0, "category"), "rule.criteria[0].value"},
		"cr008": {property(2, "last_visit")},
		"cr009": {property(1, "result")},
		"cr010": {property(1, "result")},
		"cr012": {property(1, "last_visit_date")},
		"cr013": {property(3, "last_visit_date")},
		"cr015": {property(3, "last_visit_date")},
		"cr017": {"checks[2].record.parent.properties.result"},
		"cr027": {property(0, "prop")},
		"cr035": {"recipient.id"}, "cr037": {"recipient.id"}, "cr038": {"recipient.id"}, "cr041": {"recipient.id"}, "cr064": {"recipient.id"},
		"cr070": {"recipient.id", "options.data_filter.role[0]"},
		"cr043": {"recipient.id"}, "cr044": {"recipient.id"},
		"cr061": {"record.id", "record.host_owner"}, "cr062": {"record.id", "record.host_owner"},
		"cr074": {"record.id", "record.properties.recipient"},
		// A place that the criterion does not ask about may lie anywhere.
		"cr025": {"places.*"}, "cr026": {"places.diagon_alley_id", "places.western_cape"},
		// Where several criteria decide alike, one of them alone changes nothing.
		"cr022": {"checks[1].record.properties.*", "checks[2].record.properties.*", "checks[3].record.properties.*"},
		"cr023": {"checks[*].record.properties.*", "rule.criteria[1].property", "rule.criteria[1].value"},
		"cr024": {"checks[*].record.properties.*", "rule.criteria[*].property", "rule.criteria[*].value"},
		// The record only names the recipient, and its own id says nothing.
		"cr047": {"record.id"}, "cr048": {"record.id"}, "cr049": {"record.id"}, "cr050": {"record.*"}, "cr052": {"record.id"}, "cr055": {"record.id"},
		"cr056": {"record.id"}, "cr058": {"record.id"}, "cr063": {"record.id"}, "cr073": {"record.id"}, "cr075": {"record.id"},
		// A filter on people never touches records.
		"cr072": {"options.data_filter.role[0]"},
		// Groups and places are for rows that wait, and who is in them for these.
		"cr033": {
			"directory.groups.**", "directory.places.**", "directory.people.*.place", "directory.people.*.data.**",
			"directory.people.mobile.kind", "directory.people.mobile*.kind", "directory.people.web2.kind",
		},
		// The text in one language says nothing about those in others.
		"cr083": {"messages.**"}, "cr084": {"messages.**"}, "cr085": {"messages.**"},
		// A window's days that are not asked for.
		"cr086": {"visit.due_days", "visit.expires"}, "cr088": {"visit.due_days", "visit.starts"},

		// Instants and dates that the steps repeat; what the rule is bound to; and what dates and positions show already.
		"schedules": {"start", "now", "driver", "steps[*].expect_recalculated", "steps[*].expect_same_instance"},
		// Anybody may be the recipient.
		"cc012": {"steps[*].recipients[*]"}, "cc015": {"steps[*].recipients[*]"}, "cc032": {"steps[*].recipients[*]"}, "cc033": {"steps[*].recipients[*]"},
		"cc036": {"steps[*].recipients[*]"},
		// A stop date far from every message, or that is no date, and one that any change of a field resets or keeps.
		"cc007": {"steps[0].record.stop_date"}, "cc009": {"steps[*].record.stop_date", "timezone"}, "cc010": {"steps[*].record.stop_date"},
		"cc040": {"steps[2].record.reset_property"}, "cc044": {"steps[2].record.reminder_time"}, "cc045": {"steps[4].record.new_property"},
		// What is refused whatever else it says, and what is only computed.
		"dv010": {"schedule.events[*].time", "schedule.stop_date_property", "steps[0].op", "steps[0].start_date", "timezone"},
		"dv017": {"schedule.events[*].time", "schedule.stop_date_property"},
		"dv030": {"schedule.stop_date_property", "steps[1].recipients[*]", "timezone"},
		"dv033": {"schedule.stop_date_property"},
		"dv041": {"schedule.stop_date_property", "steps[1].recipients[*]"},
	}
}
