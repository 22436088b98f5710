package importer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/importer"
	"github.com/carillonhq/carillon/internal/rowreader"
)

var errAway = errors.New("away")

// server takes objects in by their id, each once.
type server struct {
	mu       sync.Mutex
	seen     map[string]int // how often it was sent
	requests map[string]int // sizes by key
	most     int            // requests at a time
	now      int
	before   func(n int) error // n counts requests
	n        int
}

func newServer() *server { return &server{seen: map[string]int{}, requests: map[string]int{}} }

func (s *server) send(_ context.Context, key string, objects []json.RawMessage) ([]importer.Verdict, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	n := s.n
	s.n++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if s.before != nil {
		if err := s.before(n); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[key] = len(objects)
	verdicts := make([]importer.Verdict, len(objects))
	for i, raw := range objects {
		var o struct{ ID string }
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(o.ID, "bad"):
			verdicts[i] = importer.Verdict{Outcome: "failed", Failed: true, Reason: "invalid_event", Field: "id", Message: "is bad", Hint: "be good"}
		case s.seen[o.ID] > 0:
			verdicts[i].Outcome = "skipped"
		default:
			verdicts[i].Outcome = "created"
		}
		s.seen[o.ID]++
	}
	return verdicts, nil
}

// file writes a CSV file of n rows, id and text.
func file(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("id,text\n")
	for i := range n {
		fmt.Fprintf(&text, "r%d,\"text, %d\"\n", i, i)
	}
	return write(t, "rows.csv", text.String())
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, ctx context.Context, path string, s *server, change func(*importer.Config)) (importer.Summary, []importer.Rejection, error) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	format, _ := rowreader.FormatOf(path)
	m, err := rowreader.NewMapping(rowreader.Shape{Noun: "a row", Fields: []string{"id"}, Groups: []string{"rest"}, Rest: "rest"}, nil, nil, nil, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var refused []importer.Rejection
	c := importer.Config{
		Name: path, File: in, Sheet: rowreader.Options{Format: format}, Object: m.Object, Head: m.Check, Options: "x", Send: s.send,
		Temporary: func(err error) bool { return errors.Is(err, errAway) }, Wait: func(error) time.Duration { return 0 },
		Batch: 10, Parallel: 3, RetryFor: time.Minute, Clock: &clock.System{},
		Done: func(importer.Progress) {}, Retry: func(error, time.Duration) {},
		Rejected: func(r importer.Rejection) { refused = append(refused, r) },
	}
	if change != nil {
		change(&c)
	}
	summary, err := importer.Run(ctx, c)
	return summary, refused, err
}

// exactly demands that the server holds the n rows of a file, each sent at most often times.
func (s *server) exactly(t *testing.T, n, often int) {
	t.Helper()
	if len(s.seen) != n {
		t.Errorf("the server holds %d rows of %d", len(s.seen), n)
	}
	for id, times := range s.seen {
		if times > often {
			t.Errorf("%s was sent %d times", id, times)
		}
	}
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// Shows: C53.
func TestRun(t *testing.T) {
	t.Parallel()
	s, path := newServer(), file(t, 95)
	summary, _, err := run(t, t.Context(), path, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.exactly(t, 95, 1)
	if s.most > 3 || len(s.requests) != 10 {
		t.Errorf("%d requests, %d at a time", len(s.requests), s.most)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := importer.Summary{Progress: importer.Progress{Rows: 95, Outcomes: map[string]int{"created": 95}, Bytes: info.Size()}}
	if diff := cmp.Diff(want, summary); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	gone(t, path+".progress")
}

// Rows that the server or the mapping refuses are reported, and the corrected report can be imported.
func TestRejected(t *testing.T) {
	t.Parallel()
	s := newServer()
	path := write(t, "rows.csv", "id,text\na,1\nbad1,\"x,\ny\"\nb\nx\"y,1\nc,3\nbad2,4\n")
	summary, refused, err := run(t, t.Context(), path, s, func(c *importer.Config) { c.Batch = 2 })
	if err != nil {
		t.Fatal(err)
	}
	if summary.Rejected != 4 || summary.Outcomes["created"] != 2 || len(refused) != 4 || refused[0].Line != 3 || refused[1].Line != 5 {
		t.Errorf("%+v %+v", summary, refused)
	}
	report := filepath.Join(filepath.Dir(path), "rows.rejected.csv")
	if summary.RejectedFile != report {
		t.Errorf("reported in %s", summary.RejectedFile)
	}
	raw, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	want := `id,text,rejected_line,rejected_reason,rejected_field,rejected_message,rejected_hint
bad1,"x,
y",3,invalid_event,id,is bad,be good
b,,5,invalid_row,,the row has 1 cells and the head 2,put a cell that holds the delimiter into quotes
,,6,invalid_row,,a quote stands where none may be,"a cell with a quote is written ""like """"this"""""""
bad2,4,8,invalid_event,id,is bad,be good
`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	corrected := strings.NewReplacer("bad", "good", "\n,,6", "\nd,1,6").Replace(string(raw))
	if err := os.WriteFile(report, []byte(corrected), 0o600); err != nil {
		t.Fatal(err)
	}
	if summary, _, err = run(t, t.Context(), report, s, nil); err != nil || summary.Outcomes["created"] != 4 {
		t.Errorf("the corrected report: %+v, %v", summary, err)
	}
	s.exactly(t, 8, 1)

	lines := write(t, "rows.ndjson", `{"id": "bad", "rest": {"n": 1.50, "t": "<a>"}}`+"\n{")
	if _, _, err = run(t, t.Context(), lines, s, nil); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(strings.Replace(lines, ".nd", ".rejected.nd", 1)); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	var back map[string]any
	if err := json.Unmarshal([]byte(first), &back); err != nil || back["id"] != "bad" || back["rejected_line"] != "1" {
		t.Errorf("%s: %v", raw, err)
	}
}

// A run that is interrupted goes on where it was, whatever was under way; the report has every refused row once.
// Shows: C53.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]error{"the server is gone": errors.New("gone for good"), "the server is away too long": errAway, "a person": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := newServer(), file(t, 200)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := strings.NewReplacer("\nr7,", "\nbad7,", "\nr60,", "\nbad60,", "\nr199,", "\nbad199,").Replace(string(text))
			if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
				t.Fatal(err)
			}
			runs := 0
			for {
				if runs++; runs > 20 {
					t.Fatal("it never ends")
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				s.n = 0
				s.before = func(n int) error {
					if n < 5 {
						return nil
					}
					if stop == nil {
						cancel(nil)
					}
					return stop
				}
				summary, _, err := run(t, ctx, path, s, func(c *importer.Config) { c.RetryFor = 0 })
				if err == nil {
					if !summary.Resumed || summary.Rows != 200 || summary.Rejected != 3 {
						t.Errorf("%+v", summary)
					}
					break
				}
				if stop != nil && !errors.Is(err, stop) || stop == nil && !errors.Is(err, importer.ErrInterrupted) {
					t.Fatalf("%v", err)
				}
				if summary.StateFile != path+".progress" {
					t.Fatalf("run %d remembers in %q", runs, summary.StateFile)
				}
			}
			if runs < 3 {
				t.Errorf("only %d runs", runs)
			}
			s.exactly(t, 200, runs)
			gone(t, path+".progress")
			report, err := os.ReadFile(filepath.Join(filepath.Dir(path), "rows.rejected.csv"))
			if err != nil || strings.Count(string(report), "\n") != 4 || strings.Count(string(report), "bad60") != 1 {
				t.Errorf("%s, %v", report, err)
			}
			if len(s.requests) != 20 {
				t.Errorf("%d different requests: batches were not cut alike", len(s.requests))
			}
		})
	}
}

// A report that was removed between two runs is started again, with its head.
func TestReportTakenAway(t *testing.T) {
	t.Parallel()
	s, path := newServer(), write(t, "rows.csv", "id,text\nbad1,x\n"+strings.Repeat("r,x\n", 100)+"bad2,x\n")
	s.before = func(n int) error {
		if n < 3 {
			return nil
		}
		return errors.New("gone")
	}
	inOrder := func(c *importer.Config) { c.Parallel = 1 } // so that the first batch is among those that are answered
	if _, _, err := run(t, t.Context(), path, s, inOrder); err == nil {
		t.Fatal("it was not interrupted")
	}
	report := filepath.Join(filepath.Dir(path), "rows.rejected.csv")
	if err := os.Remove(report); err != nil {
		t.Fatal(err)
	}
	s.before = nil
	if summary, _, err := run(t, t.Context(), path, s, nil); err != nil || !summary.Resumed || summary.Rejected != 2 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.HasPrefix(string(text), "id,text,rejected_line,") || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%q, %v", text, err)
	}
}

// Later batches may be answered, and refused, before the first one is sent. Then nothing is reported, and the next run sends
// all of them again.
func TestFirstBatchLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, path := newServer(), file(t, 100)
		gone := errors.New("gone")
		first := true // the run
		lastFirst := func(c *importer.Config) {
			c.Send = func(ctx context.Context, key string, objects []json.RawMessage) ([]importer.Verdict, error) {
				if first && strings.Contains(string(objects[0]), `"r0"`) {
					synctest.Wait() // until the window is full of later batches
					return nil, gone
				}
				return s.send(ctx, key, objects)
			}
		}
		summary, _, err := run(t, t.Context(), path, s, lastFirst)
		if !errors.Is(err, gone) || summary.Rows != 0 || summary.RejectedFile != "" || len(s.seen) < 50 {
			t.Fatalf("%+v, %v; the server holds %d rows", summary, err, len(s.seen))
		}
		first = false
		if summary, _, err := run(t, t.Context(), path, s, lastFirst); err != nil || !summary.Resumed || summary.Rows != 100 {
			t.Errorf("%+v, %v", summary, err)
		}
		s.exactly(t, 100, 2)
	})
}

// Runs of one file at the same time do not end each other: every row arrives, and nothing is left beside the file.
func TestRunsOfOneFileAtOnce(t *testing.T) {
	t.Parallel()
	s, path := newServer(), file(t, 400)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, _, err := run(t, t.Context(), path, s, func(c *importer.Config) { c.Batch = 1 }); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	s.exactly(t, 400, 4)
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside the file are %v (%v)", left, err)
	}
}

// The state belongs to the contents and to the options.
func TestStateOfOthers(t *testing.T) {
	t.Parallel()
	s, path := newServer(), file(t, 50)
	s.before = func(n int) error {
		if n > 2 {
			return errors.New("gone")
		}
		return nil
	}
	if _, _, err := run(t, t.Context(), path, s, nil); err == nil {
		t.Fatal("was not stopped")
	}
	s.before = nil
	if summary, _, err := run(t, t.Context(), path, s, func(c *importer.Config) { c.Options = "y" }); err != nil || summary.Resumed || !summary.Discarded || summary.Rows != 50 {
		t.Errorf("%+v %v", summary, err)
	}
	if err := os.WriteFile(path+".progress", []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if summary, _, err := run(t, t.Context(), path, s, nil); err != nil || !summary.Discarded || summary.Rows != 50 {
		t.Errorf("%+v %v", summary, err)
	}
	s.exactly(t, 50, 3)
}

// While the server is away a batch waits longer and longer; a server that never answered is not waited for.
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, path := newServer(), file(t, 30)
		start := time.Now()
		s.before = func(n int) error {
			if n > 0 && time.Since(start) < 40*time.Second {
				return errAway
			}
			return nil
		}
		var waits []time.Duration
		one := func(c *importer.Config) {
			c.Parallel, c.Retry = 1, func(_ error, wait time.Duration) { waits = append(waits, wait) }
		}
		if _, _, err := run(t, t.Context(), path, s, one); err != nil {
			t.Fatal(err)
		}
		s.exactly(t, 30, 1)
		want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second}
		if diff := cmp.Diff(want, waits); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		waits, s.n, s.before = nil, 0, func(int) error { return errAway }
		if _, _, err := run(t, t.Context(), path, s, one); !errors.Is(err, errAway) || len(waits) > 0 {
			t.Errorf("never reached: %v after %v", err, waits)
		}
	})
}

// Other ends of a run.
func TestRunStops(t *testing.T) {
	t.Parallel()
	s := newServer()
	path := write(t, "rows.csv", "id\na\nb\n\"c"+strings.Repeat("x\n", rowreader.MaxRow))
	summary, _, err := run(t, t.Context(), path, s, nil)
	var fault *rowreader.Fault
	if !errors.As(err, &fault) || fault.Line != 4 || summary.Rows != 2 || len(s.seen) != 2 {
		t.Errorf("an open quote: %+v %v", summary, err)
	}
	short := func(c *importer.Config) {
		c.Send = func(context.Context, string, []json.RawMessage) ([]importer.Verdict, error) { return nil, nil }
	}
	if _, _, err := run(t, t.Context(), file(t, 3), s, short); err == nil || !strings.Contains(err.Error(), "answered 0 of 3 rows") {
		t.Errorf("a short answer: %v", err)
	}
	reader := func(c *importer.Config) { c.File = strings.NewReader("id\nz\n") }
	if summary, _, err := run(t, t.Context(), file(t, 3), s, reader); err != nil || summary.Rows != 1 || s.seen["z"] != 1 {
		t.Errorf("from a pipe: %+v %v", summary, err)
	}
}

// Memory does not grow with the file.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 18 MB")
	}
	row := "r," + strings.Repeat("x", 3000) + "\n"
	path := write(t, "rows.csv", "id,text\n"+strings.Repeat(row, 6000))
	s := newServer()
	var most uint64
	_, _, err := run(t, t.Context(), path, s, func(c *importer.Config) {
		c.Batch, c.Parallel = 100, 2
		c.Done = func(p importer.Progress) {
			if p.Rows%1000 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
	})
	if err != nil || most > 12<<20 {
		t.Errorf("%d MiB in use, %v", most>>20, err)
	}
}

// A server that has too much to do says when to come back; the import waits that long, also before anything was answered.
func TestServerThatIsBusy(t *testing.T) {
	t.Parallel()
	var waits []time.Duration
	busy := errors.New("busy")
	s := &server{seen: map[string]int{}, requests: map[string]int{}}
	refused := 0
	summary, _, err := run(t, t.Context(), file(t, 20), s, func(c *importer.Config) {
		c.Parallel = 1
		c.Temporary = func(err error) bool { return errors.Is(err, busy) }
		c.Wait = func(error) time.Duration { return 600 * time.Millisecond }
		c.Retry = func(_ error, wait time.Duration) { waits = append(waits, wait) }
		c.Send = func(ctx context.Context, key string, objects []json.RawMessage) ([]importer.Verdict, error) {
			if refused++; refused == 1 {
				return nil, busy
			}
			return s.send(ctx, key, objects)
		}
	})
	if err != nil || summary.Outcomes["created"] != 20 || !slices.Equal(waits, []time.Duration{600 * time.Millisecond}) {
		t.Errorf("%+v, %v, waited %v", summary, err, waits)
	}
}

// Done and Retry are called one at a time, although several batches wait at once.
func TestReportsComeOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, path := newServer(), file(t, 95)
		failing := make(chan struct{})
		s.before = func(n int) error {
			switch {
			case n == 2:
				close(failing)
				return errAway
			case n < 2:
				<-failing
				return errAway
			}
			return nil
		}
		var inside, retries atomic.Int32
		report := func() {
			defer inside.Add(-1)
			inside.Add(1)
			for range 1000 {
				if runtime.Gosched(); inside.Load() > 1 {
					t.Error("two reports at once")
					return
				}
			}
		}
		_, _, err := run(t, t.Context(), path, s, func(c *importer.Config) {
			c.Wait = func(error) time.Duration { return time.Second } // the server is there
			c.Retry = func(error, time.Duration) { retries.Add(1); report() }
			c.Done = func(importer.Progress) { report() }
		})
		if err != nil || retries.Load() != 3 {
			t.Errorf("%d waits, %v", retries.Load(), err)
		}
	})
}
