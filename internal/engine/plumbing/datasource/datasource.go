// Package datasource reads the data that a message shows besides its occasion: records of the workspace, as they are when the message is written, and
// JSON documents (docs/reference/definitions.md, data).
//
// Records are read in pages, and each page is dropped after use, so that memory does not grow with their number. Every bound is a documented number,
// and exceeding it is an error: a report is complete or is not sent. Results are cached for a short while, so that all contacts of an occasion see
// the same data and it is read once for them.
package datasource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

const (
	// MaxRecords is how many records of a type are read for one message: some seconds of work.
	MaxRecords = 100_000
	// MaxGroups is how many groups are in memory at once.
	MaxGroups = 10_000
	// MaxBytes bounds the rows that are records, as JSON: far more than fits into a message.
	MaxBytes = 1 << 20
	// pageSize is how many records are in memory at once.
	pageSize = 500
	// within bounds the time for reading records.
	within = time.Minute
	// keptFor is how long the contacts of an occasion see the same data, and maxKept and maxValues bound the cache: in memory a value takes up to
	// some hundred bytes, whatever its size in JSON.
	keptFor   = time.Minute
	maxKept   = 32
	maxValues = 100_000
)

// Store reads records.
type Store interface {
	RecordsAfter(ctx context.Context, ws subject.WorkspaceID, typ string, after subject.RecordID, limit int) ([]store.RecordRow, error)
	ReadBatch(ctx context.Context, work func(*store.Tx) error) error
}

// Documents reads documents: it returns the JSON document at a URL. Its errors repeat nothing of the URL but its host.
type Documents interface {
	Document(ctx context.Context, url string) (any, error)
}

// Query is what a message reads.
type Query struct {
	Workspace subject.WorkspaceID
	Data      []*definition.Data
	// Occasion names the occasion: queries with the same name get the same data. Contact is the recipient.
	Occasion string
	Contact  subject.ContactID
	Input    expr.Input
}

// Reader reads data. It is safe for concurrent use.
type Reader struct {
	store     Store
	documents Documents // nil: documents cannot be read

	mu   sync.Mutex
	kept map[name]*kept
}

// name is the key of a cached result.
type name struct {
	ws       subject.WorkspaceID
	occasion string
	data     string
	contact  subject.ContactID // 0: the result is for everybody
}

// kept is a cached result, or one that is being read.
type kept struct {
	at    time.Time
	done  chan struct{}
	value any
	err   error
	many  int // number of values in it, once it is read
}

// New makes a Reader.
func New(s Store, d Documents) *Reader {
	return &Reader{store: s, documents: d, kept: map[name]*kept{}}
}

// Read returns the requested data by name. An error names what could not be read, and repeats no values.
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

// once has one of several callers read, while the others wait for its result. Errors are not cached.
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

// forget makes room in the cache for one more result.
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

// values returns the number of values in one.
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

// scan calls take for every record of a type, with the records that it references.
func (r *Reader) scan(ctx context.Context, ws subject.WorkspaceID, d *definition.Data, take func(store.RecordRow, plan.Related) error) error {
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
