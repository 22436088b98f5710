package store

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// cursorTTL bounds how long what is due is taken up from a mark before somebody looks at its beginning again. What
	// reappears there meanwhile is rare: rows of a worker that was lost, or what another process wrote.
	cursorTTL = time.Second
	// cursorSlack is how far before the instant of a look that has found the end the next one begins: what became due
	// meanwhile may have been committed later than what became due after it.
	cursorSlack = 100 * time.Millisecond
	// After a look from the beginning there is none for slowRest times as long, so that they have a twentieth of the time;
	// but for no longer than longestRest, since what was lost must be under way again within 45 s. One that took longer than
	// slowLook is not made within that time either by who finds nothing past the mark.
	slowRest    = 20
	longestRest = 10 * time.Second
	slowLook    = time.Second
	// ofRow is what a row that is found may take of the time of a look: it is claimed meanwhile.
	ofRow = time.Millisecond
)

// scanCursor is where the next batch of what is due begins: this process has taken what is due before. Without it every
// batch walks again over the rows that its siblings hold, and over the dead entries of those that are done, which
// stay in PostgreSQL's index until it is vacuumed, and for as long as any snapshot is open, as that of a dump: half a
// second a batch when 170,000 were done meanwhile.
//
// It only saves work. A batch that finds nothing past the mark looks from the beginning, and so does the one after
// work became due before it, after a failure, and after markFor. While such looks take long they are rare.
type scanCursor struct {
	mu    sync.Mutex
	at    scanPosition
	since int64 // µs; when there was a look from the beginning
	rest  int64 // µs; for how long after it there shall be none
	slow  bool  // that it took long
}

// scanPosition is a place in the index of what is due: µs and row id. The zero value is its beginning.
type scanPosition struct{ at, id int64 }

// from is the position past which a batch at the instant now (µs) shall look.
func (m *scanCursor) from(now int64) scanPosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now - m.since; age < 0 || age > max(cursorTTL.Microseconds(), m.rest) {
		m.at, m.since, m.rest, m.slow = scanPosition{}, now, 0, false
	}
	return m.at
}

// resting reports whether a look from the beginning at the instant now (µs) has to wait, since such looks take long.
func (m *scanCursor) resting(now int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow && now >= m.since && now-m.since < m.rest
}

// looked notes a look from the beginning at the instant now (µs), and how long it took.
func (m *scanCursor) looked(now int64, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since, m.rest, m.slow = now, min(slowRest*took, longestRest).Microseconds(), took > slowLook
}

// place is the position of the mark.
func (m *scanCursor) place() scanPosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// over is the instant (µs) at which the next look from the beginning may be.
func (m *scanCursor) over() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since + m.rest
}

// walked is how much of the time of a look that has found so many rows went into what is done. On SQLite nothing did: it has no
// dead entries.
func (s *Store) walked(took time.Duration, rows int) time.Duration {
	if s.writer != nil {
		return 0
	}
	return max(took-time.Duration(rows)*ofRow, 0)
}

// taken moves the mark past a batch that is full; one that is not has found the end, as it was at the instant now (µs).
func (m *scanCursor) taken(last scanPosition, full bool, now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if full {
		m.at = later(m.at, last)
	} else {
		m.at = scanPosition{at: now - cursorSlack.Microseconds()}
	}
}

// back takes the mark back to the beginning.
func (m *scanCursor) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = scanPosition{}
}

// due moves the mark back when something became due before it: as far as that, while looks from the beginning take long.
func (m *scanCursor) due(at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case at > m.at.at:
	case m.slow:
		m.at = scanPosition{at: at} // ids are above zero
	default:
		m.at = scanPosition{}
	}
}

func later(a, b scanPosition) scanPosition {
	if b.at > a.at || b.at == a.at && b.id > a.id {
		return b
	}
	return a
}

// takeUp reads a batch past the mark, and from the beginning when there is nothing past it. A transaction that
// fails gives back what it took, so that the mark goes back too.
func takeUp[T any](t *Tx, m *scanCursor, now int64, limit int, read func(scanPosition) ([]T, scanPosition, error)) ([]T, error) {
	t.marks = append(t.marks, m)
	from := m.from(now)
	look := func(from scanPosition) ([]T, scanPosition, error) {
		elapsed := clock.Monotonic()
		rows, last, err := read(from)
		if err == nil && from == (scanPosition{}) {
			m.looked(now, t.s.walked(elapsed(), len(rows)))
		}
		return rows, last, err
	}
	rows, last, err := look(from)
	if err == nil && len(rows) == 0 && from != (scanPosition{}) && !m.resting(now) {
		rows, last, err = look(scanPosition{})
	}
	if err == nil {
		m.taken(last, len(rows) >= limit, now)
	}
	return rows, err
}
