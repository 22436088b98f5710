package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// wakeChannel is PostgreSQL's name of what processes tell each other: that there is work.
	wakeChannel = "carillon_work"
	// quiet is how long nothing may be heard before the connection is tried: a firewall that has forgotten it tells
	// nobody.
	quiet = 30 * time.Second
	// answerWithin is how long that trial, or a notification, may take.
	answerWithin = 5 * time.Second
)

// Errors of Listen.
var (
	// ErrSilent means that the database has no notifications.
	ErrSilent = errors.New("the database cannot notify")
	// ErrPooled means that the address leads to a pooler, behind which nothing would be heard.
	ErrPooled = errors.New("a pooler stands before the database")
)

const notify = `SELECT pg_notify($1, $2)`

// Notify tells the other processes of the database that there is work. Not inside a transaction that writes: on
// PostgreSQL a commit with a notification waits for every other one (measured: a tenth of the throughput). SQLite
// has nobody to tell and does nothing.
func (s *Store) Notify(ctx context.Context) error {
	if s.direct == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("no answer"))
	defer cancel()
	err := s.read(ctx, func(t *Tx) error {
		_, err := t.exec(ctx, notify, wakeChannel, s.node())
		return err
	})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// node is this process's number as a text.
func (s *Store) node() string {
	s.ids.mu.Lock()
	defer s.ids.mu.Unlock()
	return strconv.FormatInt(s.ids.node, 10)
}

// Listen calls ready when it listens, on a connection of its own to Options.Direct, and heard at every notification
// of another process, until ctx ends or the connection breaks. What was committed before ready may not be heard of.
// ErrSilent and ErrPooled: there is no use in trying again.
func (s *Store) Listen(ctx context.Context, ready, notified func()) error {
	if s.direct == nil {
		return ErrSilent
	}
	if err := s.listen(ctx, ready, notified); err != nil {
		return fmt.Errorf("listen for notifications: %w", err)
	}
	return nil
}

func (s *Store) listen(ctx context.Context, ready, notified func()) (err error) {
	conn, err := pgx.ConnectConfig(ctx, s.direct.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	if err := mustBeDirect(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `LISTEN `+wakeChannel); err != nil {
		return err
	}
	ready()
	for {
		received, err := await(ctx, conn)
		switch {
		case err != nil:
			return err
		case received != nil && received.Payload != s.node():
			notified()
		}
	}
}

// notification is what came, nil when nothing did.
type notification struct{ Payload string }

// await waits for a notification, and tries the connection when it was quiet for long.
func await(ctx context.Context, conn *pgx.Conn) (*notification, error) {
	wait, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	received, err := conn.WaitForNotification(wait)
	switch {
	case err == nil:
		return &notification{received.Payload}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case wait.Err() == nil:
		return nil, err
	}
	try, end := context.WithTimeoutCause(ctx, answerWithin, errors.New("no answer"))
	defer end()
	return nil, conn.Ping(try)
}
