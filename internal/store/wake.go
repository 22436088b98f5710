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
	// wakeChannel is the PostgreSQL channel on which processes notify each other of work.
	wakeChannel = "carillon_work"
	// quiet is how long a connection may be silent before it is tested: a firewall drops a connection without a notice.
	quiet = 30 * time.Second
	// answerWithin bounds that test and a notification.
	answerWithin = 5 * time.Second
)

// Errors of Listen.
var (
	// ErrSilent means that the database has no notifications.
	ErrSilent = errors.New("the database cannot notify")
	// ErrPooled means that the address leads to a pooler, through which no notification arrives.
	ErrPooled = errors.New("a pooler stands before the database")
)

const notify = `SELECT pg_notify($1, $2)`

// Notify notifies the other processes of the database that there is work. It uses no writing transaction: on PostgreSQL
// commits with a notification wait for one another, which leaves a tenth of the throughput (measured). On SQLite there is no
// other process, and Notify does nothing.
func (s *Store) Notify(ctx context.Context) error {
	if s.direct == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errors.New("no answer"))
	defer cancel()
	err := s.Read(ctx, func(t *Tx) error {
		_, err := t.exec(notify, wakeChannel, s.node())
		return err
	})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// node returns this process's number as a text.
func (s *Store) node() string {
	s.ids.mu.Lock()
	defer s.ids.mu.Unlock()
	return strconv.FormatInt(s.ids.node, 10)
}

// Listen opens a connection to Options.Direct and listens until ctx ends or the connection breaks. It calls ready once it
// listens, and notified at every notification of another process. Notifications before ready may be lost. After ErrSilent or
// ErrPooled a further try is useless.
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

// notification is a received notification; nil: none arrived.
type notification struct{ Payload string }

// await waits for a notification, and tests the connection after a long silence.
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
