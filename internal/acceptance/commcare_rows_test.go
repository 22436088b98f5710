package acceptance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The rows of CommCare HQ's schedules. Two adapters run them: one computes them by a Course alone, the other has the engine send them.

// scheduleFiles are the files of the rows.
func scheduleFiles() []string { return []string{"schedules.jsonl", "schedule_edges.jsonl"} }

// readSchedules reads the rows of a file.
func readSchedules(t testing.TB, name string) (rows []scheduleRow) {
	t.Helper()
	for _, data := range readLines(t, name) {
		rows = append(rows, scheduleRowOf(t, data))
	}
	return rows
}

// readLines reads the rows of a file below commcare.
func readLines(t testing.TB, name string) (rows []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder(), "commcare", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		rows = append(rows, object(t, line))
	}
	return rows
}

func scheduleRowOf(t testing.TB, data map[string]any) (row scheduleRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(inJSON(data)), &row); err != nil {
		t.Fatal(err)
	}
	return row
}

type theirSchedule struct {
	Kind     string  `json:"kind"`
	Unit     string  `json:"repeat_unit"`
	Every    int     `json:"repeat_every"`
	Total    int     `json:"total_iterations"`
	Offset   int     `json:"start_offset_days"`
	StartDay *int    `json:"start_day_of_week"`
	UTC      bool    `json:"use_utc_default"`
	Active   *bool   `json:"active"`
	Stop     *string `json:"stop_date_property"`
	Events   []struct {
		Type     string `json:"type"`
		Day      int    `json:"day"`
		Time     string `json:"time"`
		Window   int    `json:"window_minutes"`
		Property string `json:"property"`
		Wait     int    `json:"minutes_to_wait"`
	} `json:"events"`
}

// merge changes what a patch mentions.
func (s *theirSchedule) merge(t testing.TB, patch json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(patch, s); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains([]string{"timed", "alert"}, s.Kind) || s.Kind == "timed" && !slices.Contains([]string{"day", "month"}, s.Unit) {
		t.Fatalf("unknown kind of schedule: %s, in rounds of a %s", s.Kind, s.Unit)
	}
	for _, e := range s.Events {
		if known := []string{"time", "random", "property"}; s.Kind == "timed" && !slices.Contains(known, e.Type) {
			t.Fatalf("unknown type of event: %s", e.Type)
		}
	}
}

type scheduleExpected struct {
	Due        *time.Time `json:"expect_next_due_utc"`
	Min        *time.Time `json:"expect_next_due_min_utc"`
	Max        *time.Time `json:"expect_next_due_max_utc"`
	Active     *bool      `json:"expect_active"`
	Iteration  *int       `json:"expect_iteration"`
	Event      *int       `json:"expect_event"`
	Start      *string    `json:"expect_start_date"`
	Sent       *int       `json:"expect_sent_total"`
	Instances  *int       `json:"expect_instances"`
	Recipients []string   `json:"expect_recipients"`
	Error      bool       `json:"expect_error"`
	Reached    *bool      `json:"expect_stop_reached"`
}

type scheduleStep struct {
	Op         string            `json:"op"`
	Now        time.Time         `json:"now"`
	StartDate  string            `json:"start_date"`
	NextDue    time.Time         `json:"next_due_utc"`
	Recipients []string          `json:"recipients"`
	Patch      json.RawMessage   `json:"patch"`
	Record     map[string]string `json:"record"`
	Project    string            `json:"project_timezone"`
	Zone       string            `json:"recipient_timezone"`
	scheduleExpected
	For map[string]scheduleExpected `json:"expect_for"`
}

type scheduleRow struct {
	ID       string            `json:"id"`
	Schedule json.RawMessage   `json:"schedule"`
	Timezone string            `json:"timezone"`
	Zones    map[string]string `json:"recipient_timezones"`
	Reset    string            `json:"reset_property"`
	Steps    []scheduleStep    `json:"steps"`
}
