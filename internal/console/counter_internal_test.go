package console

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// looks is one visit of a workspace at an instant.
func looks(id subject.WorkspaceID, now time.Time) (v visit) {
	v.workspace.ID, v.now = id, now
	return v
}

// A count holds for a second, or for twenty times as long as it took; one that failed does not hold. Each workspace has its own.
func TestCountsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c counter[int]
		now, n := time.Now(), 0
		counts := func(took time.Duration, err error) func() (int, error) {
			return func() (int, error) {
				time.Sleep(took)
				n++
				return n, err
			}
		}
		for _, step := range []struct {
			workspace subject.WorkspaceID
			at        time.Duration
			took      time.Duration
			err       error
			want      int
		}{
			{1, 0, 0, errors.New("no database"), 1},
			{1, 0, 0, nil, 2},
			{1, time.Second - 1, 0, nil, 2},
			{2, time.Second - 1, 0, nil, 3},
			{1, time.Second, time.Minute, nil, 4},
			{1, 20*time.Minute + time.Second - 1, 0, nil, 4},
			{1, 20*time.Minute + time.Second, 0, nil, 5},
			{2, 20 * time.Minute, 0, nil, 6},
		} {
			got, err := c.of(looks(step.workspace, now.Add(step.at)), counts(step.took, step.err))
			if got != step.want || !errors.Is(err, step.err) {
				t.Errorf("workspace %d after %s: %d, %v, want %d", step.workspace, step.at, got, err, step.want)
			}
		}
	})
}

// While a slow count of one workspace runs, its other visitors wait for it, and those of other workspaces do not.
func TestASlowCountHoldsUpItsOwnWorkspaceOnly(t *testing.T) {
	t.Parallel()
	var c counter[string]
	now, began, end := time.Now(), make(chan struct{}), make(chan struct{})
	look := func(id subject.WorkspaceID, count func() string) <-chan string {
		got := make(chan string, 1)
		go func() {
			counts, err := c.of(looks(id, now), func() (string, error) { return count(), nil })
			if err != nil {
				t.Error(err)
			}
			got <- counts
		}()
		return got
	}
	slow := look(1, func() string {
		close(began)
		<-end
		return "slow"
	})
	<-began
	again := look(1, func() string { return "again" })
	select {
	case got := <-look(2, func() string { return "quick" }):
		if got != "quick" {
			t.Errorf("another workspace: %q", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("another workspace waits")
	}
	close(end)
	if first, second := <-slow, <-again; first != "slow" || second != "slow" {
		t.Errorf("%q, then %q", first, second)
	}
}
