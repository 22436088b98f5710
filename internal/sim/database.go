package sim

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/carillonhq/carillon/internal/store"
)

// openStore opens an empty store: in memory, or in a schema of its own in the PostgreSQL database at url, so that no existing data is
// read or changed. Close removes everything.
func openStore(ctx context.Context, address string) (s *store.Store, close func() error, err error) {
	if address == "" {
		return migrated(ctx, ":memory:", func() error { return nil })
	}
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, nil, errors.New("--db takes the address of a PostgreSQL database: postgres://…")
	}
	at, err := url.Parse(address)
	if err != nil {
		return nil, nil, errors.New("--db is not an address") // the error of url.Parse repeats the password
	}
	name := "carillon_test_" + strings.ToLower(rand.Text())
	if err := execute(ctx, address, "CREATE SCHEMA "+name); err != nil {
		return nil, nil, fmt.Errorf("make the schema of a scenario: %w", err)
	}
	drop := func() error {
		// The schema is dropped even if the scenario's context has ended.
		return execute(context.WithoutCancel(ctx), address, "DROP SCHEMA "+name+" CASCADE")
	}
	query := at.Query()
	query.Set("search_path", name)
	at.RawQuery = query.Encode()
	return migrated(ctx, at.String(), drop)
}

// migrated opens a store and creates its tables.
func migrated(ctx context.Context, address string, drop func() error) (*store.Store, func() error, error) {
	s, err := store.Open(ctx, address, store.Options{MaxConns: 2, Disposable: true})
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	close := func() error { return errors.Join(s.Close(), drop()) }
	if err := s.Migrate(ctx); err != nil {
		return nil, nil, errors.Join(err, close())
	}
	return s, close, nil
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, address, statement string) (err error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement)
	return err
}
