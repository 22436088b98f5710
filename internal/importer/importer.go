// Package importer sends the rows of a file to a server: in batches, several at a time, with retries. An interrupted import resumes
// where it stopped.
//
//	file ──▶ reader ──▶ batches (cut at the same rows every time) ──▶ senders ──▶ collector ──▶ report, state
//	            ▲                                                                     │
//	            └───────────────── a batch is read when an earlier one is done ◀──────┘
//
// Batches complete in the order of the file: the state names the row up to which all rows are on the server, or were refused and
// reported. The next run sends the batches after that row again. This creates no duplicates, because the server recognises the rows.
// Memory does not grow with the file.
//
// The package knows neither events nor contacts: a Config says how a row becomes an object, and how objects are sent.
package importer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/rowreader"
)

const (
	// DefaultParallel keeps the server busy while an answer is in transit; a higher number gains nothing.
	DefaultParallel = 2
	// MaxParallel bounds the load that one import may put on a server.
	MaxParallel = 4
	// maxBatchBytes is a quarter of what the server reads in one request.
	maxBatchBytes = 4 << 20
	// firstPause and maxPause bound the time between two tries of a batch: it doubles.
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second
)

// Verdict is what the server said about one object.
type Verdict struct {
	Outcome string
	Failed  bool
	Reason  string
	Field   string
	Message string
	Hint    string
}

// Config says what is imported and how.
type Config struct {
	Name    string    // of the file, for messages and for the names of the state and report files
	File    io.Reader // if it is an *os.File that can seek, the run can be resumed
	Sheet   rowreader.Options
	Object  func(rowreader.Row) (map[string]any, *rowreader.Fault)
	Head    func(head []string) error // judges the columns of a CSV file
	Options any                       // everything that decides what is sent; an import with other options does not resume this one
	Send    func(ctx context.Context, key string, objects []json.RawMessage) ([]Verdict, error)
	// Temporary reports whether an error of Send may go away on a retry.
	Temporary func(error) bool
	// Wait returns how long the server asked to wait after an error; 0: it did not say.
	Wait     func(error) time.Duration
	Batch    int
	Parallel int
	RetryFor time.Duration // how long one batch is retried
	Clock    clock.Clock
	// Done is called after every batch, and Retry before every wait, both by one goroutine at a time.
	Done  func(Progress)
	Retry func(err error, wait time.Duration)
	// Rejected is called for every refused row, in the order of the file.
	Rejected func(Rejection)
}

// Rejection is one row that was refused.
type Rejection struct {
	Line    int    `json:"line"`
	Reason  string `json:"reason"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Progress counts what is done.
type Progress struct {
	Rows     int            `json:"rows"`
	Rejected int            `json:"rejected"`
	Outcomes map[string]int `json:"outcomes"`
	Bytes    int64          `json:"bytes"` // of the file
}

// Summary is the result of a run.
type Summary struct {
	Progress
	Resumed      bool   // the run continued an earlier one
	Discarded    bool   // a state for other contents or options was discarded
	RejectedFile string // "" when there is none
	StateFile    string // the file from which the next run can resume; "" when the import is done, or cannot be resumed
}

// entry is one row that is being sent.
type entry struct {
	row     rowreader.Row
	object  json.RawMessage // nil when the row was refused here
	verdict Verdict
}

type batch struct {
	number  int
	start   rowreader.Position
	entries []entry
	end     rowreader.Position
	err     error
}

// run is one import.
type run struct {
	Config
	head    []string
	reader  *rowreader.Reader
	number  int // of the next batch
	reject  *rejects
	state   *stateFile
	at      state
	once    sync.Once
	answers chan struct{} // closed after the first answer of the server
	telling sync.Mutex    // held during Done and Retry
}

// Run imports a file. The summary is valid also with an error: it then says how far the import came.
func Run(ctx context.Context, c Config) (Summary, error) {
	r := &run{Config: c, answers: make(chan struct{})}
	summary := Summary{Progress: Progress{Outcomes: map[string]int{}}}
	if err := r.open(&summary); err != nil {
		return summary, err
	}
	err := r.work(ctx)
	err = errors.Join(err, r.reject.close())
	summary.Progress = r.at.Progress
	if r.at.Rejected > 0 {
		summary.RejectedFile = r.reject.path
	}
	if err == nil {
		return summary, r.state.remove()
	}
	if r.state == nil {
		return summary, err
	}
	var network *net.OpError
	if r.at.Rows == 0 && errors.As(err, &network) && network.Op == "dial" { // nothing was sent
		return summary, errors.Join(err, r.state.remove())
	}
	summary.StateFile = r.state.path
	return summary, err
}

// open reads the head, and finds where an earlier run stopped.
func (r *run) open(summary *Summary) error {
	file, seekable := r.File.(*os.File)
	if seekable {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		seekable = info.Mode().IsRegular()
	}
	if seekable {
		var err error
		if r.state, err = newStateFile(r.Name, file, r.Options); err != nil {
			return err
		}
	}
	var err error
	if r.reader, err = rowreader.New(r.File, r.Sheet); err != nil {
		return err
	}
	r.head = r.reader.Head()
	if r.head != nil {
		if err := r.Head(r.head); err != nil {
			return err
		}
	}
	r.at = state{Position: r.reader.Position(), Progress: Progress{Outcomes: map[string]int{}}}
	if r.state != nil {
		earlier, found, err := r.state.read()
		switch {
		case err != nil:
			return err
		case found && earlier.Identity == r.state.identity:
			r.at, summary.Resumed = earlier, true
			if _, err := file.Seek(earlier.Position.Offset, io.SeekStart); err != nil {
				return err
			}
			r.reader = rowreader.Resume(file, r.Sheet, r.head, earlier.Position)
		case found:
			summary.Discarded = true
		}
		r.at.Identity = r.state.identity
	}
	if r.at.Run == "" {
		r.at.Run = rand.Text()
	}
	if r.state != nil && !summary.Resumed { // before anything is sent
		if err := r.state.write(r.at); err != nil {
			return fmt.Errorf("remember the run: %w", err)
		}
	}
	r.reject, err = newRejects(r.Name, r.Sheet, r.head, r.at.RejectedSize)
	return err
}

// work runs reader, senders and collector until the file ends, something fails, or ctx is done. It still waits for the answers to
// requests in flight, so that the state counts every row that the server accepted.
func (r *run) work(ctx context.Context) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	batches, results := make(chan *batch), make(chan *batch)
	window := make(chan struct{}, 2*r.Parallel) // batches that are read but not done
	var readers, senders errgroup.Group
	readers.Go(func() error {
		defer close(batches)
		return r.read(reading, window, batches)
	})
	for range r.Parallel {
		senders.Go(func() error {
			for b := range batches {
				if b.err = r.send(reading, b); b.err != nil {
					stop(b.err)
				}
				results <- b
			}
			return nil
		})
	}
	go func() {
		_ = senders.Wait() // they report errors in their batches
		close(results)
	}()
	var failed error
	waiting := map[int]*batch{}
	next := 0
	for b := range results {
		waiting[b.number] = b
		for ; waiting[next] != nil; next++ {
			b := waiting[next]
			delete(waiting, next)
			if failed == nil {
				if failed = b.err; failed == nil {
					failed = r.finish(b)
				}
				if failed != nil {
					stop(failed)
				}
			}
			<-window
		}
	}
	err := readers.Wait()
	if failed != nil && !errors.Is(failed, context.Cause(ctx)) {
		return failed
	}
	if cause := context.Cause(ctx); cause != nil {
		return ErrInterrupted
	}
	return err
}

// ErrInterrupted is returned when the context of a run is done.
var ErrInterrupted = errors.New("interrupted")

// read cuts the file into batches.
func (r *run) read(ctx context.Context, window chan<- struct{}, batches chan<- *batch) error {
	for {
		select {
		case window <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		b, err := r.cut()
		if len(b.entries) > 0 {
			select {
			case batches <- b:
			case <-ctx.Done():
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// cut reads one batch. It ends at the same row in every run.
func (r *run) cut() (*batch, error) {
	b := &batch{number: r.number, start: r.reader.Position()}
	size := 0
	var err error
	for len(b.entries) < r.Batch && size < maxBatchBytes {
		var row rowreader.Row
		if row, err = r.reader.Next(); err != nil {
			break
		}
		e := entry{row: row}
		var fault *rowreader.Fault
		if e.object, fault = r.object(row); fault != nil {
			e.verdict = Verdict{Failed: true, Reason: string(fault.Reason), Field: fault.Field, Message: fault.Message, Hint: fault.Hint}
		}
		size += len(e.object)
		b.entries = append(b.entries, e)
	}
	b.end = r.reader.Position()
	if len(b.entries) > 0 {
		r.number++
	}
	return b, err
}

func (r *run) object(row rowreader.Row) (json.RawMessage, *rowreader.Fault) {
	if row.Fault != nil {
		return nil, row.Fault
	}
	object, fault := r.Object(row)
	if fault != nil {
		return nil, fault
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, &rowreader.Fault{Line: row.Line, Reason: reason.InvalidRow, Message: "cannot be written as JSON"}
	}
	return raw, nil
}

// send sends one batch until it is answered.
func (r *run) send(ctx context.Context, b *batch) error {
	var objects []json.RawMessage
	var indexes []int
	for i, e := range b.entries {
		if e.object != nil {
			objects, indexes = append(objects, e.object), append(indexes, i)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	until := r.Clock.Now().Add(r.RetryFor)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		verdicts, err := r.Send(context.WithoutCancel(ctx), r.key(b), objects)
		if err == nil && len(verdicts) != len(objects) {
			return fmt.Errorf("the server answered %d of %d rows", len(verdicts), len(objects))
		}
		if err == nil {
			for i, v := range verdicts {
				b.entries[indexes[i]].verdict = v
			}
			r.answered()
			return nil
		}
		wish := r.Wait(err)
		wait := max(pause, min(wish, maxPause))
		again := r.Clock.Now().Add(wait)
		if !r.Temporary(err) || wish == 0 && !r.hasAnswered() || again.After(until) {
			return err
		}
		r.waits(err, wait)
		if err := r.Clock.Sleep(ctx, again); err != nil {
			return err
		}
	}
}

// key returns the idempotency key of a batch, the same in this run and in those that resume it, so that the server accepts it once. A
// new import of the same file has other keys.
func (r *run) key(b *batch) string { return fmt.Sprintf("%s-%d", r.at.Run, b.start.Offset) }

func (r *run) answered() { r.once.Do(func() { close(r.answers) }) }

// hasAnswered reports whether the server has ever answered; if not, its address is probably wrong.
func (r *run) hasAnswered() bool {
	select {
	case <-r.answers:
		return true
	default:
		return false
	}
}

// finish records that a batch is done.
func (r *run) finish(b *batch) error {
	for _, e := range b.entries {
		r.at.Rows++
		v := e.verdict
		if v.Failed {
			r.at.Rejected++
			r.Rejected(Rejection{Line: e.row.Line, Reason: v.Reason, Field: v.Field, Message: v.Message, Hint: v.Hint})
			continue
		}
		r.at.Outcomes[v.Outcome]++
	}
	if err := r.reject.add(b.entries); err != nil {
		return fmt.Errorf("report rejected rows: %w", err)
	}
	r.at.Position, r.at.Bytes, r.at.RejectedSize = b.end, b.end.Offset, r.reject.size
	if r.state != nil {
		if err := r.state.write(r.at); err != nil {
			return fmt.Errorf("remember how far it came: %w", err)
		}
	}
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Done(r.at.Progress)
	return nil
}

func (r *run) waits(err error, wait time.Duration) {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.Retry(err, wait)
}
