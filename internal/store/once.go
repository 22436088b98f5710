package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/subject"
)

// AnswersFor is how long the answer to a request is kept: a day is longer than callers retry, and other widespread services
// promise the same.
const AnswersFor = 24 * time.Hour

var (
	// ErrKeyReused means that another request had the same idempotency key.
	ErrKeyReused = errors.New("the idempotency key belongs to another request")
	// ErrBusy means that a request with the same key, or one that changes the same, took too long.
	ErrBusy = errors.New("a request with the same key is still under way")
)

// AnswerKey names a request that takes effect once. The caller makes both parts.
type AnswerKey struct {
	Key     string // hex SHA-256 of the caller, the operation, and the idempotency key
	Request string // hex SHA-256 of the request: another one under the same key is refused
}

// Answer is the answer to a request.
type Answer struct {
	Status int // HTTP status
	Body   string
}

// Idempotent makes a request take effect once. Its answer is stored in the transaction of the effect, so that either both
// exist or neither. A nil Idempotent stores nothing.
//
//	if err := once.Begin(tx, ws); err != nil {
//		return err // a *Replay, if the request took effect before
//	}
//	… the effect …
//	return once.Keep(tx, ws, result)
type Idempotent[T any] struct {
	AnswerKey
	At time.Time
	// Answer makes the answer of the result. It must have no effects: it may run more than once.
	Answer func(T) (Answer, error)
}

// Begin waits for another transaction with the same key, and keeps others from beginning. The error is a *Replay if the
// request took effect before, and ErrKeyReused if another one with its key did.
func (o *Idempotent[T]) Begin(t *Tx, ws subject.WorkspaceID) error {
	if o == nil {
		return nil
	}
	answers, err := t.Answered(ws, o.At, []AnswerKey{o.AnswerKey})
	if err != nil {
		return err
	}
	if known, ok := answers[o.Key]; ok {
		return known.Again(o.AnswerKey)
	}
	return nil
}

// Keep stores the answer.
func (o *Idempotent[T]) Keep(t *Tx, ws subject.WorkspaceID, result T) error {
	if o == nil {
		return nil
	}
	answer, err := o.Answer(result)
	if err != nil {
		return fmt.Errorf("make the answer: %w", err)
	}
	return t.KeepAnswers(ws, o.At, []KeptAnswer{{o.AnswerKey, answer}})
}

// From converts o to an Idempotent of S; result makes a T of an S.
func From[S, T any](o *Idempotent[T], result func(S) T) *Idempotent[S] {
	if o == nil {
		return nil
	}
	return &Idempotent[S]{AnswerKey: o.AnswerKey, At: o.At, Answer: func(s S) (Answer, error) { return o.Answer(result(s)) }}
}

// Replay is returned instead of a result if the request took effect before. Nothing was done.
type Replay struct{ Answer }

func (r *Replay) Error() string { return "the request has taken effect before" }

// KeptAnswer is a stored answer with its request.
type KeptAnswer struct {
	AnswerKey
	Answer
}

// Again returns the error for a repeated key: a *Replay, or ErrKeyReused.
func (k KeptAnswer) Again(again AnswerKey) error {
	if k.Request != again.Request {
		return ErrKeyReused
	}
	return &Replay{k.Answer}
}

// defaultBusyAfter is how long a transaction waits for another one with the same key. An error that asks the caller to retry
// is better than a connection that hangs.
const defaultBusyAfter = 10 * time.Second

// PostgreSQL: a transaction with the same key waits here, before it reads anything, until the first has committed. The bound
// also applies to the row locks that follow. SQLite has one writer at a time.
const lockAnswers = `
SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock(r.lock)
FROM /*ROWS $2 (lock bigint)*/ AS r`

const selectAnswers = `
SELECT a.key, a.request, a.status, a.answer
FROM /*ROWS $2 (ws bigint, key text)*/ AS r CROSS JOIN idempotency AS a
WHERE a.ws = r.ws AND a.key = r.key AND /*BY NAME*/a.created_at > $1`

const answerSpec = `ws bigint, key text, request text, status bigint, answer text, created_at bigint`

// An answer that is too old to be found is replaced.
const insertAnswers = `
INSERT INTO idempotency (/*NAMES (` + answerSpec + `)*/)
SELECT r.* FROM /*ROWS $2 (` + answerSpec + `)*/ AS r
WHERE true
ON CONFLICT (ws, key) DO UPDATE SET request = excluded.request, status = excluded.status, answer = excluded.answer,
  created_at = excluded.created_at
WHERE idempotency.created_at <= $1`

// Answered waits for transactions with the same keys, keeps others from beginning, and returns the stored answers by key.
func (t *Tx) Answered(ws subject.WorkspaceID, now time.Time, keys []AnswerKey) (map[string]KeptAnswer, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if t.s.dialect.advisory {
		var locks rowset
		for _, id := range slices.Compact(slices.Sorted(func(yield func(int64) bool) {
			for _, k := range keys {
				if !yield(lockID(ws, k.Key)) {
					return
				}
			}
		})) {
			locks.row().int(id)
		}
		if _, err := t.exec(lockAnswers, fmt.Sprint(t.s.busyAfter.Milliseconds()), &locks); err != nil {
			return nil, fmt.Errorf("lock idempotency keys: %w", err)
		}
	}
	return t.answers(ws, now, keys)
}

// lockID returns the number of the lock of a key. Two keys with one number only wait for each other.
func lockID(ws subject.WorkspaceID, key string) int64 {
	raw, err := hex.DecodeString(key)
	if err != nil || len(raw) < 8 {
		raw = append([]byte(key), make([]byte, 8)...)
	}
	return int64(binary.BigEndian.Uint64(raw)) ^ int64(ws) //nolint:gosec // any number will do
}

func (t *Tx) answers(ws subject.WorkspaceID, now time.Time, keys []AnswerKey) (map[string]KeptAnswer, error) {
	var wanted rowset
	for _, k := range slices.CompactFunc(slices.SortedFunc(slices.Values(keys), compareKey), sameKey) {
		wanted.row().int(int64(ws)).text(k.Key)
	}
	answers := map[string]KeptAnswer{}
	_, err := query(t, func(rows *sql.Rows) (struct{}, error) {
		var k KeptAnswer
		err := rows.Scan(&k.Key, &k.Request, &k.Status, &k.Body)
		answers[k.Key] = k
		return struct{}{}, err
	}, selectAnswers, micros(now.Add(-AnswersFor)), &wanted)
	if err != nil {
		return nil, fmt.Errorf("find answers: %w", err)
	}
	return answers, nil
}

// KeepAnswers stores the answers to requests in the transaction of their effects.
func (t *Tx) KeepAnswers(ws subject.WorkspaceID, now time.Time, list []KeptAnswer) error {
	list = slices.SortedFunc(slices.Values(list), func(a, b KeptAnswer) int { return compareKey(a.AnswerKey, b.AnswerKey) })
	var rows rowset
	for _, k := range list {
		rows.row().int(int64(ws)).text(k.Key).text(k.Request).int(int64(k.Status)).text(k.Body).time(now)
	}
	n, err := t.exec(insertAnswers, micros(now.Add(-AnswersFor)), &rows)
	if err != nil {
		return fmt.Errorf("keep answers: %w", err)
	}
	if n < int64(len(list)) {
		return ErrAgain
	}
	return nil
}

func compareKey(a, b AnswerKey) int { return cmp.Compare(a.Key, b.Key) }

func sameKey(a, b AnswerKey) bool { return a.Key == b.Key }

// Answered returns the answer to a request that took effect before: the error is a *Replay, or ErrKeyReused for another
// request, else nil. It saves the work before a transaction; the transaction checks again.
func (s *Store) Answered(ctx context.Context, ws subject.WorkspaceID, now time.Time, k AnswerKey) error {
	var answers map[string]KeptAnswer
	err := s.ReadBatch(ctx, func(t *Tx) (err error) {
		answers, err = t.answers(ws, now, []AnswerKey{k})
		return err
	})
	if err != nil {
		return err
	}
	if known, ok := answers[k.Key]; ok {
		return known.Again(k)
	}
	return nil
}

const pruneAnswers = `
DELETE FROM idempotency
WHERE (ws, key) IN (
  SELECT a.ws, a.key FROM idempotency AS a
  WHERE a.created_at <= $1
  ORDER BY a.created_at
  LIMIT $2)`

// PruneAnswers deletes up to limit answers older than AnswersFor and returns how many it deleted.
func (s *Store) PruneAnswers(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = s.Write(ctx, func(t *Tx) error {
		deleted, err := t.exec(pruneAnswers, micros(now.Add(-AnswersFor)), int64(limit))
		n = int(deleted)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune answers: %w", err)
	}
	return n, nil
}
