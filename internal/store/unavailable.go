package store

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Unavailable reports whether err means that the database cannot be reached, is starting or stopping, has no room left, or takes no writes. The
// request itself is not wrong, and may succeed later.
func Unavailable(err error) bool {
	if errors.Is(err, ErrReadOnly) {
		return true
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		for _, class := range []string{"08", "53", "57P"} { // connection, resources, intervention by an operator
			if strings.HasPrefix(server.Code, class) {
				return true
			}
		}
		return false
	}
	var file *sqlite.Error
	if errors.As(err, &file) {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	var path *fs.PathError // the file of the database
	return errors.Is(err, ErrReplaced) || errors.As(err, &path) || errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF)
}
