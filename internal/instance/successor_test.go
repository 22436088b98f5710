package instance_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/subject"
)

// rows yields rows of the keys, which are due a day after each other.
func rows(keys ...string) iter.Seq[instance.Row] {
	return func(yield func(instance.Row) bool) {
		for i, k := range keys {
			if !yield(instance.Row{Workspace: 1, Key: k, Status: instance.Pending, DueAt: start.AddDate(0, 0, i)}) {
				return
			}
		}
	}
}

var start = time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)

// The first occasion that has not ended exists afterwards: it is made, revived, or was there.
func TestSuccessors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stored string // key status forgotten, separated by commas; "spent" is a status
		lists  []iter.Seq[instance.Row]
		want   []string // index key, and "revived"
		rounds int
	}{
		"none is stored":              {"", []iter.Seq[instance.Row]{rows("a", "b")}, []string{"0 a"}, 1},
		"it is pending":               {"a pending 0", []iter.Seq[instance.Row]{rows("a", "b")}, nil, 1},
		"it is withdrawn":             {"a deactivated 0", []iter.Seq[instance.Row]{rows("a", "b")}, []string{"0 a revived"}, 1},
		"the first two have ended":    {"a completed 0,b cancelled 0", []iter.Seq[instance.Row]{rows("a", "b", "c")}, []string{"0 c"}, 3},
		"retention took the first":    {"a spent 0", []iter.Seq[instance.Row]{rows("a", "b")}, []string{"0 b"}, 2},
		"its key was freed":           {"a completed 2", []iter.Seq[instance.Row]{rows("a", "b")}, []string{"0 a:retry:2"}, 2},
		"freed, and pending":          {"a completed 1,a:retry:1 pending 0", []iter.Seq[instance.Row]{rows("a", "b")}, nil, 2},
		"freed, and ended again":      {"a completed 1,a:retry:1 skipped 0", []iter.Seq[instance.Row]{rows("a", "b")}, []string{"0 b"}, 3},
		"all have ended":              {"a completed 0", []iter.Seq[instance.Row]{rows("a")}, nil, 1},
		"no occasion is left":         {"", []iter.Seq[instance.Row]{rows()}, nil, 0},
		"two ask for the same":        {"", []iter.Seq[instance.Row]{rows("a"), rows("a")}, []string{"0 a"}, 1},
		"two meet at the second":      {"a completed 0", []iter.Seq[instance.Row]{rows("a", "b"), rows("b", "c")}, []string{"1 b"}, 2},
		"two that have nothing to do": {"c skipped 0", []iter.Seq[instance.Row]{rows("a"), rows("c", "d")}, []string{"0 a", "1 d"}, 2},
	} {
		stored := map[string]instance.Stored{}
		for i, line := range strings.FieldsFunc(tt.stored, func(r rune) bool { return r == ',' }) {
			var k, status string
			s := instance.Stored{}
			if _, err := fmt.Sscan(line, &k, &status, &s.Forgotten); err != nil {
				t.Fatal(err)
			}
			if s.Spent = status == "spent"; !s.Spent {
				s.Row = instance.Row{Workspace: 1, ID: instance.ID(i + 1), Key: k, Status: instance.Status(status)}
			}
			stored[k] = s
		}
		search, rounds := instance.FindSuccessors(tt.lists), 0
		for keys := search.Keys(); len(keys) > 0; keys = search.Keys() {
			rounds++
			found := map[instance.KeyRef]instance.Stored{}
			for _, ref := range keys {
				found[ref] = stored[ref.Key]
			}
			search.Found(found)
		}
		search.Close()
		var got []string
		for _, m := range search.Made() {
			line := fmt.Sprint(m.Of, " ", m.Key)
			if m.Revived {
				line += " revived"
			}
			if got = append(got, line); m.Status != instance.Pending || m.Revived != (m.ID != 0) {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if !slices.Equal(got, tt.want) || rounds != tt.rounds {
			t.Errorf("%s: %q in %d rounds, want %q in %d", name, got, rounds, tt.want, tt.rounds)
		}
	}
}

// A revived row keeps its identity and history, and is due as it is planned now.
func TestARevivedRow(t *testing.T) {
	t.Parallel()
	old := instance.Row{
		Workspace: 1, ID: 7, Key: "a", Version: 3, Attempts: 2, RetryCount: 1, NextRetryAt: start, Status: instance.Deactivated, Reason: "rule_changed",
		CompletedAt: start, Hold: instance.HoldConflict, HeldAt: start, WorkflowVersion: 1, Definitions: 1, Trace: "x", CreatedAt: start,
	}
	planned := instance.Row{
		Workspace: 1, ID: 8, Key: "a", Status: instance.Pending, DueAt: start.AddDate(0, 0, 1), LocalDate: "2026-05-15", Timezone: "Asia/Baghdad", InputHash: "h",
		WorkflowVersion: 2, Definitions: 4, CreatedAt: start.AddDate(0, 0, 1),
	}
	search := instance.FindSuccessors([]iter.Seq[instance.Row]{slices.Values([]instance.Row{planned})})
	defer search.Close()
	search.Found(map[instance.KeyRef]instance.Stored{{Workspace: 1, Key: "a"}: {Row: old}})
	want := planned
	want.ID, want.Version, want.Attempts, want.Trace, want.CreatedAt = old.ID, old.Version, old.Attempts, old.Trace, old.CreatedAt
	if made := search.Made(); len(made) != 1 || made[0].Row != want || !made[0].Revived {
		t.Errorf("got  %+v\nwant %+v", made, want)
	}
}

// A patch leaves a held row as it says, and keeps what it does not name.
func TestPatch(t *testing.T) {
	t.Parallel()
	row := instance.Row{ID: 7, Status: instance.Pending, Reason: "audience_failed", Event: 3, Definitions: 4, Crashes: 1, Attempts: 2, RetryCount: 2, ExpandCursor: 9, Trace: "x", LeaseUntil: start}
	later := start.Add(time.Hour)
	for name, tt := range map[string]struct {
		patch instance.Patch
		want  instance.Row
	}{
		"completed": {
			instance.Patch{Status: instance.Completed, Reason: "expanded", Event: 5},
			instance.Row{ID: 7, Status: instance.Completed, Reason: "expanded", Event: 5, Definitions: 4, Crashes: 1, Attempts: 3, Trace: "x", CompletedAt: start},
		},
		"another page": {
			instance.Patch{Status: instance.Pending, Cursor: 20, Definitions: 6},
			instance.Row{ID: 7, Status: instance.Pending, Event: 3, Definitions: 6, Attempts: 3, ExpandCursor: 20, Trace: "x"},
		},
		"the same page, whose worker has died again": {
			instance.Patch{Status: instance.Pending, Cursor: 9, Crashes: 2},
			instance.Row{ID: 7, Status: instance.Pending, Event: 3, Definitions: 4, Crashes: 2, Attempts: 3, ExpandCursor: 9, Trace: "x"},
		},
		"the same page, on hold": {
			instance.Patch{Status: instance.Pending, Cursor: 9, Hold: instance.HoldPaused},
			instance.Row{ID: 7, Status: instance.Pending, Hold: instance.HoldPaused, Delay: instance.DelayedByPause, HeldAt: start, Reason: "workflow_paused", Event: 3, Definitions: 4, Crashes: 1, Attempts: 3, ExpandCursor: 9, Trace: "x"},
		},
		"on hold": {
			instance.Patch{Status: instance.Pending, Hold: instance.HoldRetries, Reason: "retries_used_up", RetryCount: 3, Trace: "y"},
			instance.Row{ID: 7, Status: instance.Pending, Hold: instance.HoldRetries, Delay: instance.DelayedByHold, HeldAt: start, Reason: "retries_used_up", Event: 3, Definitions: 4, Crashes: 1, Attempts: 3, RetryCount: 3, Trace: "y"},
		},
		"leased": {
			instance.Patch{Status: instance.Pending, Crashes: 2, LeaseUntil: later, NextRetryAt: later},
			instance.Row{ID: 7, Status: instance.Pending, Event: 3, Definitions: 4, Crashes: 2, Attempts: 2, Trace: "x", LeaseUntil: later, NextRetryAt: later},
		},
	} {
		if got := row.With(tt.patch, start); got != tt.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, tt.want)
		}
	}
}

// A message of a course is known by its date in the round. One from before dates were stored is under the key of its place, and the key of a message may be
// that of another one from then.
func TestSuccessorsByDate(t *testing.T) {
	t.Parallel()
	const round = "reminder:w:stay:1:t:2026-05-18:0"
	message := func(k string, place, day, number int) instance.Row {
		date := time.Date(2026, 5, day, 10, 0, 0, 0, time.UTC)
		return instance.Row{
			Workspace: 1, Key: round + k, Status: instance.Pending, Round: 1, Message: place, DueAt: date, LocalDate: date.Format(time.DateOnly),
			MessageDate: date.Format(time.DateOnly), MessageNumber: number,
		}
	}
	as := func(row instance.Row, id instance.ID, status instance.Status) instance.Row {
		row.ID, row.Status = id, status
		return row
	}
	before := func(row instance.Row, k string, id instance.ID, status instance.Status) instance.Row {
		row.Key, row.MessageDate, row.MessageNumber = round+k, "", 0
		return as(row, id, status)
	}
	tuesday, thursday := message(":d2026-05-19", 1, 19, 1), message(":d2026-05-21", 2, 21, 1)
	evening := message(":e2", 1, 18, 2)
	of := func(row instance.Row, event subject.EventID) instance.Row {
		row.Event = event
		return row
	}
	for name, tt := range map[string]struct {
		stored []instance.Row
		asked  []instance.Row
		want   string // key, and "revived"
	}{
		"it is made":                                        {nil, []instance.Row{tuesday}, ":d2026-05-19"},
		"it has ended":                                      {[]instance.Row{as(tuesday, 5, instance.Completed)}, []instance.Row{tuesday, thursday}, ":d2026-05-21"},
		"it ended at another place":                         {[]instance.Row{as(message(":d2026-05-19", 3, 19, 1), 5, instance.Skipped)}, []instance.Row{tuesday, thursday}, ":d2026-05-21"},
		"it ended before dates were stored":                 {[]instance.Row{before(tuesday, ":e2", 5, instance.Completed)}, []instance.Row{tuesday, thursday}, ":d2026-05-21"},
		"it waits since then":                               {[]instance.Row{before(tuesday, ":e2", 5, instance.Pending)}, []instance.Row{tuesday}, ""},
		"it was withdrawn then":                             {[]instance.Row{before(tuesday, ":e2", 5, instance.Deactivated)}, []instance.Row{tuesday}, ":e2 revived"},
		"its place was that of another day then":            {[]instance.Row{before(thursday, ":e2", 5, instance.Completed)}, []instance.Row{tuesday}, ":d2026-05-19"},
		"its key was that of another day then":              {[]instance.Row{before(thursday, ":e2", 5, instance.Completed)}, []instance.Row{evening}, ":d2026-05-18:e2"},
		"its key was that of another day, and it has ended": {[]instance.Row{before(thursday, ":e2", 5, instance.Completed), as(message(":d2026-05-18:e2", 1, 18, 2), 6, instance.Completed)}, []instance.Row{evening, thursday}, ":d2026-05-21"},
		"its key is that of another event":                  {[]instance.Row{of(as(tuesday, 5, instance.Completed), 6)}, []instance.Row{of(tuesday, 7)}, ":d2026-05-19:retry:1"},
	} {
		stored := map[instance.KeyRef]instance.Stored{}
		for _, row := range tt.stored {
			stored[instance.KeyRef{Workspace: 1, Key: row.Key}] = instance.Stored{Row: row}
		}
		search := instance.FindSuccessors([]iter.Seq[instance.Row]{slices.Values(tt.asked)})
		for keys := search.Keys(); len(keys) > 0; keys = search.Keys() {
			search.Found(stored)
		}
		search.Close()
		got := ""
		for _, m := range search.Made() {
			if got += strings.TrimPrefix(m.Key, round); m.Revived {
				got += " revived"
			}
		}
		if got != tt.want {
			t.Errorf("%s: made %q, want %q", name, got, tt.want)
		}
	}
}
