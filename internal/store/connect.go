package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresConfig reads an address.
func postgresConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "carillon"
	}
	return config, nil
}

// connector makes the connections of the pool. A connection to the server itself keeps its statements prepared, which
// spares parsing and planning them at each execution. A pooler may give every transaction another connection, on which
// they would be missing; through one the server is only asked for their types, once a connection, so that rows travel
// in binary. Each new connection is looked at, so that a pooler may come and go while the process runs.
type connector struct {
	driver.Connector // through a pooler
	prepared         driver.Connector
}

// newConnector makes connections to an address. One that names a mode gets it.
func newConnector(url string, config *pgx.ConnConfig) driver.Connector {
	anyway := func(_ context.Context, conn *pgx.Conn) error {
		useArrays(conn)
		return nil
	}
	if strings.Contains(url, "default_query_exec_mode=") {
		return stdlib.GetConnector(*config, stdlib.OptionAfterConnect(anyway))
	}
	described, prepared := config.Copy(), config.Copy()
	described.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	prepared.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	c := &connector{}
	c.prepared = stdlib.GetConnector(*prepared, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if err := mustBeDirect(ctx, conn); err != nil {
			return errors.Join(err, conn.Close(ctx)) // else nobody would
		}
		return anyway(ctx, conn)
	}))
	c.Connector = stdlib.GetConnector(*described, stdlib.OptionAfterConnect(anyway))
	return c
}

// Connect makes a connection: of those that are prepared, and when it leads to a pooler another one.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.prepared.Connect(ctx)
	if errors.Is(err, ErrPooled) {
		return c.Connector.Connect(ctx)
	}
	return conn, err
}

// mustBeDirect is ErrPooled for a connection to a pooler, which makes its clients numbers of its own.
func mustBeDirect(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`, pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return ErrPooled
	}
	return nil
}
