package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// otherCriteria are the rows that do not hold, and why.
func otherCriteria() map[string]string {
	return map[string]string{
		"cr079": numbers,
	}
}

// Why rows do not hold.
const (
	functions = "rows that say whom a function of the program names"
	// By design: the writer of a contact says which number counts, so that every limit, suppression and trace is about the one address that is used.
	// Several numbers are refused when they are written, and not chosen among when a message leaves.
	numbers = "a contact has one address of each kind"
)

// CommCare HQ's rules: which records they match, whom they reach and in which language, and how a refused message is sent again. Each row of
// the data is a subtest.
//
// Rows that do not hold are named in otherCriteria. Rows of another folder do not if they ask for the same.
//
// Shows: D14.
func TestAcceptanceCriteria(t *testing.T) {
	t.Parallel()
	rows, listed := readCriteria(t), otherCriteria()
	own := os.Getenv("CARILLON_ACCEPTANCE_DIR") == ""
	var ran, others, directories int
	for _, row := range rows {
		why := row.differs()
		if own && why != listed[row.id()] {
			t.Errorf("%s does not hold because of %q, and is listed with %q", row.id(), why, listed[row.id()])
		}
		delete(listed, row.id())
		switch {
		case row.kind() == "directory":
			directories++
		case why != "":
			others++
		default:
			ran++
		}
		t.Run(row.id(), func(t *testing.T) {
			t.Parallel()
			switch {
			case row.kind() == "directory":
				t.Log("the people of the rows below it")
			case row.kind() == "phone":
				t.Log("differs by design: " + why)
				row.numbers(t)
			case why != "":
				t.Log("does not run: " + why)
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
	t.Logf("criteria.jsonl: %d rows, of which %d run on %s, %d differ and %d are directories",
		len(rows), ran, strings.Join(storetest.Databases(t), " and "), others, directories)
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

// differs says why a row does not hold; empty: it does.
func (r criteriaRow) differs() string {
	switch {
	case r.kind() == "recipients" && dig(r.data, "recipient")["type"] == "custom":
		return functions
	case r.kind() == "phone":
		return numbers
	}
	return ""
}

// numbers shows that several numbers of one contact are refused, with the place.
func (r criteriaRow) numbers(t *testing.T) {
	only(t, r.data, "id", "kind", "source", "note", "given", "expect")
	w := newWorld(t, storetest.Memory(t), "")
	person := map[string]any{"addresses": map[string]any{"sms": dig(r.data, "given")["person_numbers"]}}
	status, answer := w.send(http.MethodPut, "/v1/contacts/p", person)
	if status != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(answer), "addresses.sms") {
		t.Errorf("several numbers: %d %v", status, answer)
	}
	person["addresses"] = map[string]any{"sms": r.data["expect"]}
	w.put("/v1/contacts/p", person)
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
			if other.kind() == "recipients" && other.differs() == "" {
				other.directory = r.data["directory"].(map[string]any)
				o.cases = append(o.cases, other.run(t, func() *store.Store { return storetest.Memory(t) }).cases...)
			}
		}
	default:
		t.Fatalf("unknown kind %s", r.kind())
	}
	return o
}
