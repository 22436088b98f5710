package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// waitingCriteria are the rows that wait for a feature.
func waitingCriteria() map[string]string {
	return map[string]string{
		"cr062": above,
		"cr079": numbers,
	}
}

// The features that rows wait for.
const (
	functions = "rows that say whom a function of the program names"
	above     = "a place above that of an owner"
	numbers   = "several numbers of one contact"
)

// CommCare HQ's rules: which records they match, whom they reach and in which language, and how a refused message is sent again. Each row of
// the data is a subtest.
//
// Rows that wait for a feature are named in waitingCriteria. Rows of another folder wait if they ask for the same features.
//
// Shows: D14.
func TestAcceptanceCriteria(t *testing.T) {
	t.Parallel()
	rows, listed := readCriteria(t), waitingCriteria()
	own := os.Getenv("CARILLON_ACCEPTANCE_DIR") == ""
	var ran, waiting, directories int
	for _, row := range rows {
		why := row.waits()
		if own && why != listed[row.id()] {
			t.Errorf("%s waits for %q, and is listed as one that waits for %q", row.id(), why, listed[row.id()])
		}
		delete(listed, row.id())
		switch {
		case row.kind() == "directory":
			directories++
		case why != "":
			waiting++
		default:
			ran++
		}
		t.Run(row.id(), func(t *testing.T) {
			t.Parallel()
			switch {
			case row.kind() == "directory":
				t.Log("the people of the rows below it")
			case why != "":
				t.Log("waits for: " + why)
			default:
				storetest.Each(t, func(t *testing.T, s *store.Store) {
					got := row.run(t, func() *store.Store { return s })
					for _, d := range got.diffs() {
						t.Error(d)
					}
				})
			}
		})
	}
	for id := range listed {
		if own {
			t.Errorf("there is no row %s", id)
		}
	}
	t.Logf("criteria.jsonl: %d rows, of which %d run on %s, %d wait for a feature and %d are directories",
		len(rows), ran, strings.Join(storetest.Databases(t), " and "), waiting, directories)
}

// criteriaRow is a row of the file, and the directory of people that its recipients are in.
type criteriaRow struct {
	data      map[string]any
	directory map[string]any
	others    []criteriaRow // of a directory: the rows that use it
}

func (r criteriaRow) id() string   { return fmt.Sprint(r.data["id"]) }
func (r criteriaRow) kind() string { return fmt.Sprint(r.data["kind"]) }

// readCriteria reads the rows. A directory is that of the rows after it.
func readCriteria(t testing.TB) (rows []criteriaRow) {
	t.Helper()
	for _, data := range readLines(t, "criteria.jsonl") {
		rows = append(rows, criteriaRow{data: data})
	}
	directory := map[string]any{}
	for i, r := range rows {
		if r.kind() == "directory" {
			directory = r.data["directory"].(map[string]any)
			rows[i].others = rows[i+1:]
		}
		rows[i].directory = directory
	}
	return rows
}

// waits names the feature that a row waits for; empty: it can run.
func (r criteriaRow) waits() string {
	switch r.kind() {
	case "recipients":
		switch dig(r.data, "recipient")["type"] {
		case "host_owner_place_above":
			return above
		case "custom":
			return functions
		}
	case "phone":
		return numbers
	}
	return ""
}

// run runs a row.
func (r criteriaRow) run(t testing.TB, open func() *store.Store) outcome {
	var o outcome
	o.begin(r.id())
	switch r.kind() {
	case "criteria":
		r.criteria(t, open, &o)
	case "references_parent":
		r.referencesParent(t, open, &o)
	case "recipients":
		r.recipients(t, open, &o)
	case "language":
		r.language(t, open, &o)
	case "visit_window":
		r.visitWindow(t, open, &o)
	case "sms_queue":
		r.smsQueue(t, open, &o)
	case "directory":
		for _, other := range r.others {
			if other.kind() == "recipients" && other.waits() == "" {
				other.directory = r.data["directory"].(map[string]any)
				o.cases = append(o.cases, other.run(t, func() *store.Store { return storetest.Memory(t) }).cases...)
			}
		}
	default:
		t.Fatalf("unknown kind %s", r.kind())
	}
	return o
}
