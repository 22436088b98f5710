package app

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/carillonhq/carillon/internal/store"
)

// workspaceName is what the name of a workspace is made of. It stands in logs, metrics and the console.
var workspaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) //nolint:gochecknoglobals // immutable

// CreateWorkspace makes a workspace. store.ErrConflict: there is one of that name.
func CreateWorkspace(ctx context.Context, s *store.Store, name string, now time.Time) (store.Workspace, error) {
	if !workspaceName.MatchString(name) {
		return store.Workspace{}, fmt.Errorf("%q cannot be the name of a workspace: a name has 1 to 64 letters, digits, dots, _ and -, and begins with a letter or digit", name)
	}
	secret := newSecret()
	ws, err := s.EnsureWorkspace(ctx, name, secret, now)
	if err != nil {
		return store.Workspace{}, err
	}
	if !bytes.Equal(ws.Secret, secret) { // it was there
		return store.Workspace{}, fmt.Errorf("there is a workspace named %q already: %w", name, store.ErrConflict)
	}
	return ws, nil
}
