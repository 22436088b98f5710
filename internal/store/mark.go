package store

import (
	"sync"
	"time"
)

// markFor bounds how long a backlog is taken up from a mark before somebody looks at its beginning again. What
// reappears there meanwhile is rare: rows of a worker that was lost, or what another process wrote.
const markFor = time.Second

// markSlack is how far before the instant of a look that has found the end the next one begins: what became due meanwhile may
// have been committed later than what became due after it.
const markSlack = 100 * time.Millisecond

// mark is where the next batch of what is due begins: this process has taken what is due before. Without it every
// batch walks again over the rows that its siblings hold, and over the dead entries of those that are done, which
// stay in PostgreSQL's index until it is vacuumed, and for as long as any snapshot is open: a batch of ten rows took 24
// times as long a minute after a dump had begun.
//
// It only saves work. A batch that finds nothing past the mark looks from the beginning, and so does the one after
// work became due before it, after a failure, and after markFor.
type mark struct {
	mu    sync.Mutex
	at    position
	since int64 // µs; when the backlog was last taken up from its beginning
}

// position is a place in the index of what is due: µs and row id. The zero value is its beginning.
type position struct{ at, id int64 }

// from is the position past which a batch at the instant now (µs) shall look.
func (m *mark) from(now int64) position {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now - m.since; age < 0 || age > markFor.Microseconds() {
		m.at, m.since = position{}, now
	}
	return m.at
}

// taken moves the mark past a batch that is full; one that is not has found the end, as it was at the instant now (µs).
func (m *mark) taken(last position, full bool, now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if full {
		m.at = later(m.at, last)
	} else {
		m.at = position{at: now - markSlack.Microseconds()}
	}
}

// back takes the mark back to the beginning.
func (m *mark) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = position{}
}

// due moves the mark back when something became due before it.
func (m *mark) due(at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at <= m.at.at {
		m.at = position{}
	}
}

func later(a, b position) position {
	if b.at > a.at || b.at == a.at && b.id > a.id {
		return b
	}
	return a
}

// takeUp reads a batch past the mark, and from the beginning when there is nothing past it. A transaction that
// fails gives back what it took, so that the mark goes back too.
func takeUp[T any](t *session, m *mark, now int64, limit int, read func(position) ([]T, position, error)) ([]T, error) {
	t.marks = append(t.marks, m)
	from := m.from(now)
	rows, last, err := read(from)
	if err == nil && len(rows) == 0 && from != (position{}) {
		rows, last, err = read(position{})
	}
	if err == nil {
		m.taken(last, len(rows) >= limit, now)
	}
	return rows, err
}
