package civil_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/civil"
)

// acceptance reads a file of the acceptance data.
func acceptance(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("CARILLON_ACCEPTANCE_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "testdata", "acceptance")
	}
	data, err := os.ReadFile(filepath.Join(dir, "sources", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// dst runs the conversions and date offsets of automation-dst.json. It returns the number of cases and the wrong ones.
func dst(t *testing.T, data []byte) (cases int, wrong []string) {
	t.Helper()
	var file struct {
		Conversions []struct {
			Timezone  string
			LocalDate civil.Date `json:"local_date"`
			LocalTime string     `json:"local_time"`
			UTC       time.Time
			Shown     string `json:"shown_local"`
			Case      string
		}
		DateOffsets struct {
			Timezone, At string
			Cases        []struct {
				TargetDate         civil.Date `json:"target_date"`
				OffsetDays         int        `json:"offset_days"`
				ScheduledLocalDate civil.Date `json:"scheduled_local_date"`
				ScheduledOn        time.Time  `json:"scheduled_on"`
			}
		} `json:"date_offsets"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Conversions {
		cases++
		loc := zone(t, c.Timezone)
		at, ok := civil.Resolve(c.LocalDate, clock(t, c.LocalTime), loc, civil.Rule{})
		if shown := at.In(loc).Format("2006-01-02T15:04:05-0700"); !ok || !at.Equal(c.UTC) || shown != c.Shown {
			wrong = append(wrong, fmt.Sprintf("%s, %s: got %v, shown as %s", c.Timezone, c.Case, at, shown))
		}
	}
	for _, c := range file.DateOffsets.Cases {
		cases++
		d := c.TargetDate.AddDays(-c.OffsetDays)
		at, ok := civil.Resolve(d, clock(t, file.DateOffsets.At), zone(t, file.DateOffsets.Timezone), civil.Rule{})
		if !ok || d != c.ScheduledLocalDate || !at.Equal(c.ScheduledOn) {
			wrong = append(wrong, fmt.Sprintf("%v − %d days: got %v, %v", c.TargetDate, c.OffsetDays, d, at))
		}
	}
	return cases, wrong
}

// Shows: B34.
func TestAcceptanceDST(t *testing.T) {
	t.Parallel()
	cases, wrong := dst(t, acceptance(t, "automation-dst.json"))
	t.Logf("automation-dst.json: %d cases", cases)
	for _, w := range wrong {
		t.Error(w)
	}
	if cases == 0 {
		t.Error("no cases in the file")
	}
}

// A changed expectation makes the acceptance test fail.
func TestAcceptanceBites(t *testing.T) {
	t.Parallel()
	data := acceptance(t, "automation-dst.json")
	for _, change := range [][2]string{{"14:30:00Z", "14:30:01Z"}, {"2026-07-31T21:00:00Z", "2026-07-31T20:00:00Z"}} {
		changed := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
		if _, wrong := dst(t, changed); bytes.Equal(changed, data) || len(wrong) != 1 {
			t.Errorf("%s for %s: %d differences, want 1", change[1], change[0], len(wrong))
		}
	}
}
