package app

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/api"
	"github.com/carillonhq/carillon/internal/store"
)

// secretBytes is the size of what is drawn by chance: workspace secrets and API keys.
const secretBytes = 32

// maxKeyName bounds the name of an API key, in bytes.
const maxKeyName = 100

func newSecret() []byte {
	b := make([]byte, secretBytes)
	// It never fails: without chance the process ends.
	_, _ = rand.Read(b)
	return b
}

// NewKey draws an API key: car_ and 256 bits by chance.
func NewKey() string {
	alphabet := base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	return api.KeyPrefix + alphabet.EncodeToString(newSecret())
}

// CreateKey makes an API key with these scopes and returns it; only its hash is stored, so it is seen this once.
// store.ErrConflict: a key of that name is in force.
func CreateKey(ctx context.Context, s *store.Store, ws store.Workspace, name string, scopes []string, now time.Time) (string, error) {
	if name == "" || len(name) > maxKeyName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("the name of a key is a short text of at most %d bytes", maxKeyName)
	}
	if len(scopes) == 0 {
		return "", errors.New("a key without scopes can do nothing")
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			return "", fmt.Errorf("there is no scope %q; there are %s", scope, strings.Join(Scopes(), ", "))
		}
	}
	key := NewKey()
	err := s.CreateKey(ctx, store.APIKey{Workspace: ws.ID, Name: name, Hash: api.HashKey(key), Scopes: scopes, CreatedAt: now})
	if errors.Is(err, store.ErrConflict) {
		return "", fmt.Errorf("there is a key named %q already: %w", name, store.ErrConflict)
	}
	return key, err
}

// Scopes lists what a key may be allowed.
func Scopes() []string {
	var names []string
	for _, s := range api.Scopes() {
		names = append(names, string(s))
	}
	return names
}
