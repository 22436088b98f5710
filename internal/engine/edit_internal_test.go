package engine

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
)

// An edit cancels the running job that a new one replaces, and the repair whose rule it removes; the others go on.
func TestJobsOfAnEdit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	running := func(id int64, kind job.Kind, subject string) job.Row {
		return job.Row{ID: id, Seed: job.Seed{Kind: kind, Subject: subject}, Status: job.Running}
	}
	s := startedJobs{
		ws: 7, now: now, number: 3, seeds: []job.Seed{{Kind: job.Backfill, Subject: "host"}}, repairs: []store.Repair{{Workflow: "w", Trigger: "kept"}},
		open: []job.Row{
			running(1, job.Backfill, "host"), running(2, job.Backfill, "team"), running(3, job.Reconcile, "w/kept"), running(4, job.Reconcile, "w/gone"), running(5, job.Retry, ""),
		},
	}
	begun, ended := s.decide()
	if len(begun) != 1 || begun[0].Subject != "host" || begun[0].Definitions != 3 || begun[0].Workspace != 7 {
		t.Errorf("begun: %+v", begun)
	}
	if len(ended) != 2 || ended[0].ID != 1 || ended[1].ID != 4 || ended[0].Status != job.Cancelled || ended[1].Status != job.Cancelled {
		t.Errorf("ended: %+v", ended)
	}
}
