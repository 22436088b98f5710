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
		if row.waits() != "" {
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
					if otherwise()[id] == "" && waitingCourses()[id] == "" {
						row.live(t, open())
					}
					return o
				},
				notes: append(overlooked()[id], overlooked()["schedules"]...),
			})
		}
	}
	return all
}

// overlooked are the leaves of rows whose change nothing notices, by row.
func overlooked() map[string][]string { return map[string][]string{} }
