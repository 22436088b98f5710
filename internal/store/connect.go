package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresConfig parses an address.
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

// connector makes the connections of the pool. A direct connection to the server keeps its statements prepared, which saves
// parsing and planning them at each execution. A pooler may give every transaction another connection, on which the prepared
// statements would be missing. So a connection through a pooler only asks for the types of each statement's parameters, once,
// which is enough to send rows in binary. Each new connection is checked for a pooler, because one may be added or removed
// while the process runs.
type connector struct {
	driver.Connector                  // of connections through a pooler
	prepared         driver.Connector // of direct connections
}

// newConnector returns the connector for an address. If the address names a query mode, that mode is used.
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
			return errors.Join(err, conn.Close(ctx)) // no other code closes it
		}
		return anyway(ctx, conn)
	}))
	c.Connector = stdlib.GetConnector(*described, stdlib.OptionAfterConnect(anyway))
	return c
}

// Connect makes a connection: a direct one, or one through a pooler if the address leads to a pooler.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.prepared.Connect(ctx)
	if errors.Is(err, ErrPooled) {
		return c.Connector.Connect(ctx)
	}
	return conn, err
}

// mustBeDirect returns ErrPooled for a connection to a pooler. A pooler reports a backend number of its own, which differs
// from that of the server's backend.
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
