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
	return CreateKeyUntil(ctx, s, ws, name, scopes, now, time.Time{})
}

// CreateKeyUntil is CreateKey for a key that is refused from expires on; zero: never.
func CreateKeyUntil(ctx context.Context, s *store.Store, ws store.Workspace, name string, scopes []string, now, expires time.Time) (string, error) {
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
	err := s.CreateKey(ctx, store.APIKey{Workspace: ws.ID, Name: name, Hash: api.HashKey(key), Scopes: scopes, CreatedAt: now, ExpiresAt: expires})
	if errors.Is(err, store.ErrConflict) {
		return "", fmt.Errorf("there is a key named %q already: %w", name, store.ErrConflict)
	}
	return key, err
}

// RotationGrace is how long the former secret of a rotated key is accepted: a day in which those who use it take the new one.
const RotationGrace = 24 * time.Hour

// RotateKey gives a key a new secret and returns it. The former one is accepted for grace; one before that ends at once. With
// expires the key ends then, else when it would have. A key that has expired is rotated only with a new end.
func RotateKey(ctx context.Context, s *store.Store, ws store.Workspace, name string, now time.Time, grace time.Duration, expires time.Time) (string, store.APIKey, error) {
	key := NewKey()
	var rotated store.APIKey
	err := s.RotateKey(ctx, ws.ID, name, func(k *store.APIKey) error {
		if expires.IsZero() && k.Ended(k.Hash, now) == store.KeyExpired {
			return fmt.Errorf("the key %q has expired: give it a new end with --expires", name)
		}
		former, over := k.Hash, k.Ended(k.Hash, now) != "" // an expired secret has no grace
		k.OldHash, k.OldUntil, k.Hash = "", time.Time{}, api.HashKey(key)
		if grace > 0 && !over {
			k.OldHash, k.OldUntil = former, now.Add(grace)
		}
		if !expires.IsZero() {
			k.ExpiresAt = expires
		}
		rotated = *k
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("there is no key named %q in force", name)
	}
	return key, rotated, err
}

// Scopes lists what a key may be allowed.
func Scopes() []string {
	var names []string
	for _, s := range api.Scopes() {
		names = append(names, string(s))
	}
	return names
}
