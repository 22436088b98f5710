// Package datasource reads what a message tells beside its occasion: records of the workspace, as they are when it is written,
// and JSON documents (format.md §2, message.data).
//
// Records are read in pages, each seen once and forgotten, so that memory does not grow with their number; what is bounded
// is bounded by a number that is told, and passing it is an error: a report is complete or is not sent. What was read is
// kept for a short while, so that the people of one occasion are told the same, and it is not read anew for each of them.
package datasource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// MaxRecords is how many records of a type are looked at for one message: some seconds of work.
	MaxRecords = 100_000
	// MaxGroups is how many groups are kept in mind at once.
	MaxGroups = 10_000
	// MaxBytes bounds the rows that are records, as JSON: far more than fits into a message.
	MaxBytes = 1 << 20
	// pageSize is how many records are in memory at once.
	pageSize = 500
	// within bounds the reading of records as a whole.
	within = time.Minute
	// keptFor is how long the people of an occasion are told the same, and maxKept and maxValues bound what is kept: in memory
	// a value takes up to some hundred bytes, whatever it is in JSON.
	keptFor   = time.Minute
	maxKept   = 32
	maxValues = 100_000
)

// Store is where records are read.
type Store interface {
	RecordsAfter(ctx context.Context, ws subject.WorkspaceID, typ string, after subject.RecordID, limit int) ([]store.RecordRow, error)
	RelatedRecords(ctx context.Context, more func(store.Related) []store.RelatedRef) error
}

// Documents is where documents are read: the value of the JSON document at an address. Its errors repeat nothing of the
// address but its host.
type Documents interface {
	Document(ctx context.Context, url string) (any, error)
}

// Query says what a message reads.
type Query struct {
	Workspace subject.WorkspaceID
	Data      []*definition.Data
	// Occasion names what is told of: who has the same name is told the same. Contact is whom it is told to.
	Occasion string
	Contact  subject.ContactID
	Input    expr.Input
}

// Reader reads. It is safe for concurrent use.
type Reader struct {
	store     Store
	documents Documents // nil: none can be read

	mu   sync.Mutex
	kept map[name]*kept
}

// name is what something that was read is kept under.
type name struct {
	ws       subject.WorkspaceID
	occasion string
	data     string
	contact  subject.ContactID // 0: it is for everybody
}

// kept is what was read, or is being read.
type kept struct {
	at    time.Time
	done  chan struct{}
	value any
	err   error
	many  int // values that it holds, once it is read
}

// New makes a reader.
func New(s Store, d Documents) *Reader {
	return &Reader{store: s, documents: d, kept: map[name]*kept{}}
}

// Read returns all that is asked for, by name. An error names what could not be read, and says nothing of values.
func (r *Reader) Read(ctx context.Context, now time.Time, a Query) (map[string]any, error) {
	all := make(map[string]any, len(a.Data))
	for _, d := range a.Data {
		n := name{a.Workspace, a.Occasion, d.Name, 0}
		if d.PerContact {
			n.contact = a.Contact
		}
		value, err := r.once(ctx, now, n, func() (any, error) { return r.read(ctx, a, d) })
		if err != nil {
			return nil, fmt.Errorf("data.%s: %w", d.Name, err)
		}
		all[d.Name] = value
	}
	return all, nil
}

// once has one of those who ask read, and the others wait for it. What went wrong is not kept.
func (r *Reader) once(ctx context.Context, now time.Time, n name, read func() (any, error)) (any, error) {
	r.mu.Lock()
	k, known := r.kept[n]
	if known && now.Sub(k.at) < keptFor {
		r.mu.Unlock()
		select {
		case <-k.done:
			return k.value, k.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r.forget(now)
	k = &kept{at: now, done: make(chan struct{}), err: errors.New("reading it broke down")}
	r.kept[n] = k
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		if k.many = values(k.value); k.err != nil && r.kept[n] == k {
			delete(r.kept, n)
		}
		r.forget(now)
		r.mu.Unlock()
		close(k.done)
	}()
	k.value, k.err = read()
	return k.value, k.err
}

// forget makes room for one more.
func (r *Reader) forget(now time.Time) {
	for {
		var oldest name
		many := 0
		for n, k := range r.kept {
			if now.Sub(k.at) >= keptFor {
				delete(r.kept, n)
				continue
			}
			many += k.many
			if o, ok := r.kept[oldest]; !ok || k.at.Before(o.at) {
				oldest = n
			}
		}
		if len(r.kept) < maxKept && many <= maxValues {
			return
		}
		delete(r.kept, oldest)
	}
}

// values is how many values there are in one.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			n += values(one)
		}
	case map[string]any:
		for _, one := range v {
			n += values(one)
		}
	}
	return n
}

func (r *Reader) read(ctx context.Context, a Query, d *definition.Data) (any, error) {
	if d.Records == "" {
		if r.documents == nil {
			return nil, errors.New("this program reads no documents")
		}
		ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, fmt.Errorf("no answer within %s", d.Timeout))
		defer cancel()
		return r.documents.Document(ctx, d.URL)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("reading records took longer than %s", within))
	defer cancel()
	q := newQuery(d, a.Input)
	if err := r.scan(ctx, a.Workspace, d, q.take); err != nil {
		return nil, err
	}
	return q.result()
}

// scan hands every record of a type over, with those that it names.
func (r *Reader) scan(ctx context.Context, ws subject.WorkspaceID, d *definition.Data, take func(store.RecordRow, related) error) error {
	var after subject.RecordID
	for seen := 0; ; {
		page, err := r.store.RecordsAfter(ctx, ws, d.Records, after, pageSize)
		if err != nil {
			return err
		}
		if seen += len(page); seen > MaxRecords {
			return fmt.Errorf("there are more than %d records of type %s", MaxRecords, d.Records)
		}
		known, err := r.related(ctx, ws, d, page)
		if err != nil {
			return err
		}
		for _, row := range page {
			if row.Unreadable != nil {
				return row.Unreadable
			}
			if err := take(row, known); err != nil {
				return fmt.Errorf("record %s/%s: %w", row.Type, row.ExtID, err)
			}
			after = row.ID
		}
		if len(page) < pageSize {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
}
