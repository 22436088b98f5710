package store

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// lockOrder lists the tables in the order in which a transaction waits for locks on their rows, so that no two transactions
// wait for each other. The rows of one table are locked by one statement, or by several in ascending order.
//
// Two locks come before all of these: the number of the definitions in force (WriteHoldingDefinitions) and the keys of
// requests that take effect once. The lock of places (LockPlaces) comes after that of records, that of
// occasions with rows of zones (LockTakenUp) after that of instances. Statements that do not wait (SKIP LOCKED, LOCK NOW) may stand anywhere.
func lockOrder() []string {
	return []string{"workspace", "matcher", "job", "record", "throttle", "instance", "delivery", "contact", "cadence", "session", "pace", "send_count", "pause", "sink", "dispatch"}
}

// strict checks what transactions must keep to. Tests use it; a violation panics. nil checks nothing.
type strict struct {
	mu     sync.Mutex
	inside map[int64]bool // goroutines that are inside a transaction or a read
}

// enter panics if the goroutine is inside a transaction of the store already: on an SQLite file it would wait for itself. Other stores do not ask: to find out
// which goroutine it is takes a fifth of the time of tests in memory, and the same code runs on files.
func (s *Store) enter() (leave func()) {
	c := s.strict
	if c == nil || s.memory || s.writer == nil {
		return func() {}
	}
	id := goroutine()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside[id] {
		panic("store: a method of the store is called inside a transaction, which uses its Tx only")
	}
	c.inside[id] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inside, id)
	}
}

// goroutine returns the number of the calling goroutine.
func goroutine() int64 {
	var stack [64]byte
	_, rest, _ := bytes.Cut(stack[:runtime.Stack(stack[:], false)], []byte(" "))
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	id, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

var (
	waitsForLocks = regexp.MustCompile(`/\*LOCK (\w+)\*/`)
	tableNamed    = regexp.MustCompile(`(?:FROM|JOIN) (\w+) AS (\w+)`)
)

// order panics if a statement waits for row locks of a table that comes before one that is locked.
func (c *strict) order(t *Tx, text string) {
	if c == nil || !strings.Contains(text, "/*LOCK ") {
		return
	}
	table := ""
	m := waitsForLocks.FindStringSubmatch(text)
	if m == nil {
		return // it waits for none
	}
	alias := m[1]
	for _, m := range tableNamed.FindAllStringSubmatch(text, -1) {
		if m[2] == alias {
			table = m[1]
		}
	}
	at := slices.Index(lockOrder(), table)
	if at < 0 {
		panic(fmt.Sprintf("store: the table of %s has no place in lockOrder: %s", alias, text))
	}
	if at < slices.Index(lockOrder(), t.locked) {
		panic(fmt.Sprintf("store: rows of %s are locked after rows of %s: %s", table, t.locked, text))
	}
	t.locked = table
}
