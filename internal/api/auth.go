package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// KeyPrefix begins every API key, so that one that leaks is recognised.
const KeyPrefix = "car_"

// Scope is what a key may do.
type Scope string

// The scopes. A key has only those it was made with; admin contains the others.
const (
	ScopeAdmin       Scope = "admin"       // everything, and freeing keys
	ScopeIngest      Scope = "ingest"      // post events, contacts, records and answers
	ScopeRead        Scope = "read"        // see contacts, instances, deliveries, definitions, reasons
	ScopeOperate     Scope = "operate"     // cancel, retry, release, suppress, tick
	ScopeDefinitions Scope = "definitions" // apply definitions
	ScopeSecrets     Scope = "secrets"     // set and remove secrets, and apply what decides where they go
	ScopeMetrics     Scope = "metrics"     // see the numbers of the process, which know no workspaces
)

// Scopes lists every scope.
func Scopes() []Scope {
	return []Scope{ScopeAdmin, ScopeIngest, ScopeRead, ScopeOperate, ScopeDefinitions, ScopeSecrets, ScopeMetrics}
}

// HashKey is what is stored of a key: a key is 256 random bits, so a plain hash cannot be turned back.
func HashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Caller is who is asking.
type Caller struct {
	Workspace store.Workspace
	Name      string // of the API key: the actor of the audit log
	keyID     int64
	asked     *store.AnswerKey // of the request, when it carries an Idempotency-Key
	scopes    []string
}

// May reports whether the caller's key has the scope.
func (c Caller) May(s Scope) bool {
	return slices.Contains(c.scopes, string(s)) || slices.Contains(c.scopes, string(ScopeAdmin))
}

type callerKey struct{}

// caller says who sent r, or why the request is refused.
func (a *API) caller(r *http.Request, scope Scope) (Caller, *client.Problem) {
	kind, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || !strings.HasPrefix(key, KeyPrefix) {
		detail := "an API key is needed"
		if strings.EqualFold(kind, "Bearer") && key != "" {
			detail = "the API key is not valid: a key begins with " + KeyPrefix
		}
		p := client.NewProblem(http.StatusUnauthorized, "Unauthorized", client.CodeUnauthorized, detail)
		p.Hint = "send the header Authorization: Bearer car_…; carillon keys create makes a key"
		return Caller{}, p
	}
	caller, ended, err := a.auth.authenticate(r.Context(), key)
	switch {
	case err != nil:
		return Caller{}, a.problem(r.Context(), fmt.Errorf("look the key up: %w", err))
	case ended == store.KeyExpired:
		p := client.NewProblem(http.StatusUnauthorized, "Unauthorized", client.CodeUnauthorized, "the API key has expired")
		p.Hint = "carillon keys rotate NAME --expires 90d gives it a new secret and a new end"
		return Caller{}, p
	case ended == store.KeyRotated:
		p := client.NewProblem(http.StatusUnauthorized, "Unauthorized", client.CodeUnauthorized, "the API key was rotated, and its former secret is no longer accepted")
		p.Hint = "use the secret that carillon keys rotate printed"
		return Caller{}, p
	case ended != "":
		p := client.NewProblem(http.StatusUnauthorized, "Unauthorized", client.CodeUnauthorized, "the API key is not known or has been revoked")
		p.Hint = "keys belong to one database: carillon keys list, with the --db of this server, shows those that it knows"
		return Caller{}, p
	case !caller.May(scope):
		p := client.NewProblem(http.StatusForbidden, "Forbidden", client.CodeForbidden, "the API key lacks the scope "+string(scope))
		p.Hint = "carillon keys create --name NAME --scopes " + string(scope)
		return Caller{}, p
	}
	return caller, nil
}

const (
	// RevokedWithin is how long a revoked key may still work: keys that were just looked up are not looked up
	// again, which spares small requests a quarter of their work.
	RevokedWithin = 5 * time.Second
	// maxKnown bounds the keys that are remembered.
	maxKnown = 1024
)

// usedEvery is how exactly the last use of a key is known: it is written at most once in that time, not at every request.
const usedEvery = time.Minute

// usedWithin bounds how long a request waits for that write.
const usedWithin = time.Second

// authenticator knows keys by their hash.
type authenticator struct {
	store Store
	clock clock.Clock
	log   *slog.Logger

	mu         sync.Mutex
	known      map[string]knownKey
	used       map[int64]time.Time // when the use of a key was last written, or could not be
	workspaces map[subject.WorkspaceID]store.Workspace
}

type knownKey struct {
	caller Caller
	until  time.Time
}

func newAuthenticator(s Store, c clock.Clock, log *slog.Logger) *authenticator {
	return &authenticator{store: s, clock: c, log: log, known: map[string]knownKey{}, used: map[int64]time.Time{}, workspaces: map[subject.WorkspaceID]store.Workspace{}}
}

// unknown is the end of a key that never was.
const unknown store.KeyEnd = "unknown"

// authenticate says whose key it is, or why it is refused.
func (a *authenticator) authenticate(ctx context.Context, key string) (Caller, store.KeyEnd, error) {
	hash, now := HashKey(key), a.clock.Now()
	a.mu.Lock()
	known, ok := a.known[hash]
	a.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.caller, "", nil
	}
	row, ok, err := a.store.KeyByHash(ctx, hash)
	if err != nil || !ok {
		return Caller{}, unknown, err
	}
	if ended := row.Ended(hash, now); ended != "" {
		return Caller{}, ended, nil
	}
	ws, ok, err := a.workspace(ctx, row.Workspace)
	if err != nil || !ok {
		return Caller{}, unknown, err
	}
	a.noteUse(ctx, row, now)
	caller, until := Caller{Workspace: ws, Name: row.Name, keyID: row.ID, scopes: row.Scopes}, now.Add(RevokedWithin)
	if ends := row.EndsAt(hash); !ends.IsZero() && ends.Before(until) {
		until = ends
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[hash] = knownKey{caller, until}
	return caller, "", nil
}

// noteUse writes that a key was used, where that was not written within the last minute. A database that cannot be written to
// refuses no request that only reads.
func (a *authenticator) noteUse(ctx context.Context, row store.APIKey, now time.Time) {
	a.mu.Lock()
	last := a.used[row.ID]
	if row.UsedAt.After(last) {
		last = row.UsedAt
	}
	due := now.Sub(last) >= usedEvery
	if due {
		if len(a.used) >= maxKnown {
			clear(a.used)
		}
		a.used[row.ID] = now
	}
	a.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, usedWithin)
	defer cancel()
	if err := a.store.KeyUsed(ctx, row.Workspace, row.ID, now); err != nil {
		a.log.WarnContext(ctx, "the last use of an API key was not written", "key", row.Name, "error", err)
	}
}

// workspace remembers workspaces: their ids and secrets never change.
func (a *authenticator) workspace(ctx context.Context, id subject.WorkspaceID) (store.Workspace, bool, error) {
	a.mu.Lock()
	ws, ok := a.workspaces[id]
	a.mu.Unlock()
	if ok {
		return ws, true, nil
	}
	all, err := a.store.Workspaces(ctx)
	if err != nil {
		return store.Workspace{}, false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ws := range all {
		a.workspaces[ws.ID] = ws
	}
	ws, ok = a.workspaces[id]
	return ws, ok, nil
}
