package store_test

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillonhq/carillon/internal/store"
)

func TestUnavailable(t *testing.T) {
	t.Parallel()
	_, nobody := store.Open(t.Context(), "postgres://x@127.0.0.1:1/x", store.Options{})
	_, nowhere := store.Open(t.Context(), t.TempDir()+"/no/such/dir.db", store.Options{})
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"nobody listens", nobody, true},
		{"no such folder", nowhere, true},
		{"too many connections", &pgconn.PgError{Code: "53300"}, true},
		{"the disk is full", &pgconn.PgError{Code: "53100"}, true},
		{"the server starts", &pgconn.PgError{Code: "57P03"}, true},
		{"a broken connection", &net.OpError{Op: "read", Err: errors.New("reset")}, true},
		{"a duplicate", &pgconn.PgError{Code: "23505"}, false},
		{"not found", store.ErrNotFound, false},
		{"nothing", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := store.Unavailable(fmt.Errorf("read: %w", test.err)); got != test.want {
				t.Errorf("%v: got %t", test.err, got)
			}
		})
	}
}
