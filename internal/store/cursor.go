package store

import (
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/clock"
)

const (
	// cursorTTL bounds how long batches start at the cursor. After it, one batch scans the index from its beginning. Rows
	// rarely reappear before the cursor: rows of a worker that was lost, or rows that another process wrote.
	cursorTTL = time.Second
	// After a batch that reached the end of the index, the next one begins cursorSlack before the instant of that batch. A
	// row that became due earlier may have been committed later.
	cursorSlack = 100 * time.Millisecond
	// After a scan from the beginning that took t, no other one begins for slowRest × t, so that these scans use at most a
	// twentieth of the time. The pause is at most longestRest, because lost work must continue within 45 s. After a scan
	// that took longer than slowScan, a batch that finds nothing past the cursor does not scan from the beginning either.
	slowRest    = 20
	longestRest = 10 * time.Second
	slowScan    = time.Second
	// ofRow is the time that a scan may spend on each row that it finds, because it also claims the row. The rest of its
	// time was spent on dead entries.
	ofRow = time.Millisecond
)

// scanCursor is the position in an index at which the next batch of due rows begins: this process has taken the due rows
// before it. Without a cursor every batch reads past the rows that other workers have claimed and past the dead entries of
// finished rows. Dead entries stay in PostgreSQL's index until a vacuum, which removes none while a snapshot is open, such as
// that of a dump. With 170,000 dead entries a batch took half a second.
//
// The cursor only saves work. A batch that finds nothing past it scans from the beginning. So does the batch after work
// became due before the cursor, after a failure, and after cursorTTL. If such scans take long, they are made less often.
type scanCursor struct {
	mu    sync.Mutex
	at    scanPosition
	since int64 // µs; when the last scan from the beginning was made
	rest  int64 // µs; how long after that scan no other one begins
	slow  bool  // that scan took longer than slowScan
}

// scanPosition is a position in the index of due rows: µs and row id. The zero value is the beginning.
type scanPosition struct{ at, id int64 }

// from returns the position after which a batch at the instant now (µs) begins.
func (m *scanCursor) from(now int64) scanPosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now - m.since; age < 0 || age > max(cursorTTL.Microseconds(), m.rest) {
		m.at, m.since, m.rest, m.slow = scanPosition{}, now, 0, false
	}
	return m.at
}

// resting reports whether a scan from the beginning has to wait at the instant now (µs), because the last one took long.
func (m *scanCursor) resting(now int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow && now >= m.since && now-m.since < m.rest
}

// scanned records a scan from the beginning at the instant now (µs), and how long it took.
func (m *scanCursor) scanned(now int64, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since, m.rest, m.slow = now, min(slowRest*took, longestRest).Microseconds(), took > slowScan
}

// place returns the position of the cursor.
func (m *scanCursor) place() scanPosition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// over returns the instant (µs) from which a scan from the beginning may run again.
func (m *scanCursor) over() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.since + m.rest
}

// walked returns how much of the time of a scan that found this many rows was spent on dead entries. SQLite has no dead
// entries, so the result is zero there.
func (s *Store) walked(took time.Duration, rows int) time.Duration {
	if s.writer != nil {
		return 0
	}
	return max(took-time.Duration(rows)*ofRow, 0)
}

// taken moves the cursor past a full batch. A batch that is not full has reached the end of the index as of now (µs).
func (m *scanCursor) taken(last scanPosition, full bool, now int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if full {
		m.at = later(m.at, last)
	} else {
		m.at = scanPosition{at: now - cursorSlack.Microseconds()}
	}
}

// back moves the cursor to the beginning.
func (m *scanCursor) back() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = scanPosition{}
}

// due moves the cursor back when a row became due before it (µs, 0 = none did): to that row while scans from the beginning take long,
// otherwise to the beginning.
func (m *scanCursor) due(at int64) {
	if at == 0 {
		return
	}
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

// takeUp reads a batch past the cursor. If there are no rows past it, takeUp reads from the beginning, unless such scans take
// long. If the transaction fails, its rows are free again and the cursor goes back to the beginning.
func takeUp[T any](t *Tx, m *scanCursor, now int64, limit int, read func(scanPosition) ([]T, scanPosition, error)) ([]T, error) {
	return takeUpParts(t, []*scanCursor{m}, now, limit, func(from []scanPosition) ([]T, []partRead, error) {
		rows, last, err := read(from[0])
		return rows, []partRead{{last, len(rows)}}, err
	})
}

// partRead is what a batch has of one part of an index: how many rows, and the position of the last one.
type partRead struct {
	last scanPosition
	rows int
}

// takeUpParts is takeUp where a batch has rows of several parts of an index, each with a cursor: those of the first part, then those of the second as far as
// there is room, and so on.
func takeUpParts[T any](t *Tx, parts []*scanCursor, now int64, limit int, read func([]scanPosition) ([]T, []partRead, error)) ([]T, error) {
	t.cursors = append(t.cursors, parts...)
	from, past := make([]scanPosition, len(parts)), false
	resting := false
	for i, m := range parts {
		from[i] = m.from(now)
		past = past || from[i] != (scanPosition{})
		resting = resting || m.resting(now)
	}
	scan := func(from []scanPosition) ([]T, []partRead, error) {
		elapsed := clock.Monotonic()
		rows, of, err := read(from)
		room := limit
		for i, m := range parts {
			if err == nil && room > 0 && from[i] == (scanPosition{}) {
				m.scanned(now, t.s.walked(elapsed(), len(rows)))
			}
			if err == nil {
				room -= of[i].rows
			}
		}
		return rows, of, err
	}
	rows, of, err := scan(from)
	if err == nil && len(rows) == 0 && past && !resting {
		rows, of, err = scan(make([]scanPosition, len(parts)))
	}
	if err != nil {
		return nil, err
	}
	room := limit
	for i, m := range parts {
		if room > 0 { // else it was not read
			m.taken(of[i].last, of[i].rows >= room, now)
		}
		room -= of[i].rows
	}
	return rows, nil
}
