package related_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/plumbing/related"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A job that another transaction has is passed over: a write of the record that finds it unbegun keeps it from beginning, so
// that its first page finds what the write has changed.
func TestAHeldJobIsPassedOver(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.URL(t, "postgres"))
	now := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	ws, err := s.EnsureWorkspace(t.Context(), "w", []byte("0123456789abcdef0123456789abcdef"), now)
	if err != nil {
		t.Fatal(err)
	}
	var begun []job.Row
	err = s.Write(t.Context(), func(tx *store.Tx) (err error) {
		begun, err = tx.AddJobs(now, []job.Row{job.New(ws.ID, job.Seed{Kind: job.Related, Subject: "home/x"}, 1, now)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := jobs.New(s, related.Jobs(s, 10))
	stepped := make(chan bool)
	step := func() {
		_, more, err := w.Step(t.Context(), now)
		if err != nil {
			t.Error(err)
		}
		stepped <- more
	}
	err = s.Write(t.Context(), func(tx *store.Tx) error {
		if _, held, err := tx.HoldJob(begun[0]); err != nil || !held {
			t.Errorf("%t, %v", held, err)
		}
		go step()
		select {
		case more := <-stepped:
			if more {
				t.Error("a job was advanced that another transaction has")
			}
		case <-time.After(time.Minute):
			t.Error("the step waits for the transaction")
			go func() { <-stepped }()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	go step()
	if !<-stepped {
		t.Error("the job was not advanced after the transaction")
	}
}
