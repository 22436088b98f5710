package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/jobs"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
	"github.com/carillonhq/carillon/internal/subject"
)

func begin(b *enginetest.Bundle, wish operator.Bulk) (job.Row, operator.Matched) {
	b.Helper()
	run, m, err := b.Operator().Begin(b.Context(), b.Workspace.ID, wish, "ann", b.Now(), func(operator.Matched) *store.Idempotent[job.Row] { return nil })
	if err != nil {
		b.Fatal(err)
	}
	return run, m
}

func (w wholeRun) step() int {
	w.Helper()
	done, _, err := w.Operator().Work(w.Context(), w.Now())
	if err != nil {
		w.Fatal(err)
	}
	return done
}

// dyingJob is a store whose process dies after so many deliveries.
type dyingJob struct {
	*store.Store
	after *int
}

func (d dyingJob) WriteHoldingDefinitions(ctx context.Context, work func(*store.Tx) error) error {
	if *d.after--; *d.after < 0 {
		return errDied
	}
	return d.Store.WriteHoldingDefinitions(ctx, work)
}

type wholeRun struct{ *enginetest.Bundle }

func (w wholeRun) run() job.Row {
	w.Helper()
	runs, err := w.Store.Jobs(w.Context(), w.Workspace.ID, store.Page{})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range runs {
		if r.Kind == job.Retry || r.Kind == job.Cancel {
			return r
		}
	}
	w.Fatal("there is no run")
	return job.Row{}
}

// Many deliveries are retried in pages: each once, even if a page is repeated after a crash. The same request is one job. The same names in another
// workspace are unchanged. Every action is in the audit log.
func TestRetryMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n = 250
		b := enginetest.Setup(t, s, alert("a", "up", "retry: {backoff: []}\n")+memory, nil)
		other, err := s.EnsureWorkspace(t.Context(), "other", []byte("0123456789abcdef0123456789abcdeX"), enginetest.Start)
		if err != nil {
			t.Fatal(err)
		}
		mine := b.Workspace
		b.Workspace = other
		b.Apply("workspace: default\ncadence: {max_per_day: 0}\n---\n" + alert("a", "up", "retry: {backoff: []}\n") + memory)
		for range n + 1 {
			b.Provider.Next(channel.Permanent(errors.New("the account is closed")))
		}
		b.Post(event("up", "x", "theirs@x.org"))
		b.Workspace = mine
		b.PostAll(many(n)...)
		for b.At(enginetest.Start).Any() {
		}
		b.PostAll(many(n + 1)[n:]...) // sent
		b.At(enginetest.Start.Add(time.Second))
		b.Provider.Sent()
		wish := operator.Bulk{Retry: true, Selection: delivery.Selection{Channel: "memory:default"}}
		m, err := b.Operator().Preview(t.Context(), b.Workspace.ID, wish)
		if err != nil || m.N != n || m.ByStatus[delivery.Failed] != n || len(m.Samples) != 10 {
			t.Fatalf("%d of %v, %d samples, %v", m.N, m.ByStatus, len(m.Samples), err)
		}
		w := wholeRun{b}
		run, _ := begin(b, wish)
		if again, _ := begin(b, wish); again.ID != run.ID || run.ID == 0 || run.Total != n {
			t.Errorf("the same wish: %+v, %+v", run, again)
		}
		const before = 30
		after := before
		dying := operator.New(dyingJob{s, &after}, catalog.New(s, enginetest.Options(nil)), nil)
		if _, _, err := dying.Work(t.Context(), b.Now()); !errors.Is(err, errDied) || w.run().Done != before || w.run().Changed != before {
			t.Fatalf("%v, %+v", err, w.run())
		}
		for w.run().Status == job.Running {
			w.step()
		}
		if r := w.run(); r.Status != job.Done || r.Changed != n || r.Done != n {
			t.Errorf("in the end: %+v", r)
		}
		for b.At(enginetest.Start.Add(time.Minute)).Any() {
		}
		to := map[string]int{}
		for _, out := range b.Provider.Sent() {
			to[out.Address]++
		}
		for i := range n {
			if got := to[fmt.Sprintf("p%d@x.org", i)]; got != 1 {
				t.Errorf("p%d got %d messages", i, got)
			}
		}
		if len(to) != n {
			t.Errorf("%d people got one, want %d", len(to), n)
		}
		if m, err := b.Operator().Preview(t.Context(), b.Workspace.ID, wish); err != nil || m.N != 0 {
			t.Errorf("afterwards %d are left, %v", m.N, err)
		}
		log, err := s.AuditLog(t.Context(), b.Workspace.ID, store.Page{Limit: 2 * n})
		acts := map[string]int{}
		for _, a := range log {
			acts[a.Actor+" "+a.Action]++
		}
		if err != nil || acts["ann retry"] != n || acts["ann retry deliveries"] != 1 {
			t.Errorf("audit %v, %v", acts, err)
		}
	})
}

// A cancelled job stops within a page, and continues there when it is resumed.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const n = 250
		b := enginetest.Setup(t, s, alert("a", "up", "timing: {offset: 1d}\n")+memory, nil)
		b.PostAll(many(n)...)
		w := wholeRun{b}
		run, _ := begin(b, operator.Bulk{Selection: delivery.Selection{Workflow: "a"}})
		w.step()
		if _, err := jobs.Cancel(t.Context(), s, b.Workspace.ID, run.ID, b.Now(), store.Audit{}); err != nil {
			t.Fatal(err)
		}
		if done := w.step(); done != 0 {
			t.Errorf("a cancelled run went on with %d", done)
		}
		left := func() int {
			m, err := b.Operator().Preview(t.Context(), b.Workspace.ID, operator.Bulk{Selection: delivery.Selection{Workflow: "a"}})
			if err != nil {
				t.Fatal(err)
			}
			return m.N
		}
		if got := left(); got == 0 || got == n {
			t.Errorf("%d are left", got)
		}
		if _, err := jobs.Resume(t.Context(), s, b.Workspace.ID, run.ID, b.Now(), store.Audit{}); err != nil {
			t.Fatal(err)
		}
		for b.At(b.Now()).Any() { // the engine runs the job by itself
		}
		if r := w.run(); left() != 0 || r.Status != job.Done || r.Changed != n {
			t.Errorf("%d are left, %+v", left(), r)
		}
		b.At(enginetest.Start.Add(48 * time.Hour))
		if sent := b.Provider.Sent(); len(sent) != 0 {
			t.Errorf("%d were sent", len(sent))
		}
	})
}

// between runs a function after a job has read its page.
type between struct {
	*store.Store
	do func()
}

func (s between) Selected(ctx context.Context, ws subject.WorkspaceID, sel delivery.Selection, after, last delivery.ID, limit int) ([]delivery.Row, delivery.ID, error) {
	rows, through, err := s.Store.Selected(ctx, ws, sel, after, last, limit)
	s.do()
	return rows, through, err
}

// A message that was sent after a job had read its page is not sent again.
func TestRetryOfAMessageSentMeanwhile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "")+memory, nil)
		b.Provider.Next(channel.Temporary(errors.New("busy")))
		b.PostAll(many(1)...)
		b.At(enginetest.Start)
		begin(b, operator.Bulk{Retry: true, Selection: delivery.Selection{Workflow: "a"}})
		once := true
		late := operator.New(between{s, func() {
			if once {
				once = false
				b.At(enginetest.Start.Add(time.Hour)) // the engine runs the job and sends
				b.At(enginetest.Start.Add(time.Hour))
			}
		}}, catalog.New(s, enginetest.Options(nil)), nil)
		if _, _, err := late.Work(t.Context(), b.Now()); err != nil {
			t.Fatal(err)
		}
		b.At(enginetest.Start.Add(2 * time.Hour))
		if sent := b.Provider.Sent(); len(sent) != 1 {
			t.Errorf("%d were sent", len(sent))
		}
	})
}

// endless is a store with more deliveries than can be counted while a caller waits.
type endless struct {
	*store.Store
	asked *int
}

func (e endless) Selected(ctx context.Context, ws subject.WorkspaceID, sel delivery.Selection, after, last delivery.ID, limit int) ([]delivery.Row, delivery.ID, error) {
	if *e.asked++; *e.asked > 1000 {
		return nil, 0, errors.New("everything is counted")
	}
	rows, through, err := e.Store.Selected(ctx, ws, sel, after, last, limit)
	return rows, max(through, after+1), err
}

// Counting while a caller waits is bounded: the job itself finds the rest.
func TestCountOfMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "timing: {offset: 1d}\n")+memory, nil)
		b.PostAll(many(3)...)
		asked := 0
		ops := operator.New(endless{s, &asked}, catalog.New(s, enginetest.Options(nil)), nil)
		for workflow, n := range map[string]int{"a": 3, "none": 0} {
			asked = 0
			wish := operator.Bulk{Selection: delivery.Selection{Workflow: workflow}}
			if m, err := ops.Preview(t.Context(), b.Workspace.ID, wish); err != nil || m.N != n || !m.More {
				t.Errorf("of %s %d, more %v, %v", workflow, m.N, m.More, err)
			}
			asked = 0
			run, _, err := ops.Begin(t.Context(), b.Workspace.ID, wish, "ann", b.Now(), func(operator.Matched) *store.Idempotent[job.Row] { return nil })
			if err != nil || run.ID == 0 || run.Total != 0 {
				t.Errorf("of %s the job is %+v, %v", workflow, run, err)
			}
		}
		for b.At(b.Now()).Any() {
		}
		if r := (wholeRun{b}).run(); r.Status != job.Done {
			t.Errorf("in the end: %+v", r)
		}
		if m, err := b.Operator().Preview(t.Context(), b.Workspace.ID, operator.Bulk{Selection: delivery.Selection{Workflow: "a"}}); err != nil || m.N != 0 || m.More {
			t.Errorf("%d are left, %v", m.N, err)
		}
	})
}

// A job that is cancelled within a page changes nothing more.
func TestCancelledJobStops(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := enginetest.Setup(t, s, alert("a", "up", "timing: {offset: 1d}\n")+memory, nil)
		b.PostAll(many(3)...)
		wish := operator.Bulk{Selection: delivery.Selection{Workflow: "a"}}
		run, _ := begin(b, wish)
		late := operator.New(between{s, func() {
			if _, err := jobs.Cancel(t.Context(), s, b.Workspace.ID, run.ID, b.Now(), store.Audit{}); err != nil {
				t.Error(err)
			}
		}}, catalog.New(s, enginetest.Options(nil)), nil)
		if _, _, err := late.Work(t.Context(), b.Now()); err != nil {
			t.Fatal(err)
		}
		if m, err := b.Operator().Preview(t.Context(), b.Workspace.ID, wish); err != nil || m.N != 3 {
			t.Errorf("%d are left, %v", m.N, err)
		}
		if r := (wholeRun{b}).run(); r.Status != job.Cancelled || r.Done != 0 || r.Changed != 0 {
			t.Errorf("the job: %+v", r)
		}
	})
}
