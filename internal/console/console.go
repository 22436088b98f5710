// Package console is the web console. It shows what is due, what was sent, what was skipped, and why.
//
// Pages are rendered on the server and are read-only: the only state that the console changes is its own sessions. Pages work
// without scripts; a short script fetches the live part of a page again and replaces it when it has changed. All assets are
// embedded, every request goes to this server, and the content security policy allows nothing else.
//
// Users sign in with an API key of scope read or admin. The session is stored on the server and ends with the key. Only
// Deps.Guest, meant for a demo on one's own machine, opens one workspace without a key.
package console

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
)

// Store is what the console reads of the store.
type Store interface {
	Accounts
	Messages
	Things
	Contacts
	Topics
	Responses
	Sessions
	Outbox
	Finder
	Health
	Counts(ctx context.Context, ws subject.WorkspaceID) (store.Counts, error)
	Instances(ctx context.Context, ws subject.WorkspaceID, f store.InstanceFilter, p store.Page) ([]instance.Row, error)
	ZonesOf(ctx context.Context, occasions []instance.ID) (map[instance.ID][]instance.Row, error)
	InstanceByID(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (instance.Row, error)
	Tally(ctx context.Context, in instance.Row, limit int) (delivery.Tally, error)
	Events(ctx context.Context, ws subject.WorkspaceID, f store.EventFilter, p store.Page) ([]store.EventRow, error)
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	Pauses(ctx context.Context, ws subject.WorkspaceID) ([]store.Pause, error)
	FailedRuns(ctx context.Context, ws subject.WorkspaceID) (store.Attention, error)
	Stopped(ctx context.Context, ws subject.WorkspaceID, pauses []store.Pause, now time.Time) (map[string]store.Stopped, error)
	Decisions(ctx context.Context, ws subject.WorkspaceID, f store.DecisionFilter, p store.Page) ([]store.Decision, error)
}

// Accounts is what signing in reads, and the sessions that it writes.
type Accounts interface {
	CreateSignIn(ctx context.Context, in store.SignIn) error
	SignInByHash(ctx context.Context, hash string) (store.SignIn, bool, error)
	EndSignIn(ctx context.Context, hash string) error
	Workspaces(ctx context.Context) ([]store.Workspace, error)
	KeyByHash(ctx context.Context, hash string) (store.APIKey, bool, error)
}

// Messages is what the pages about deliveries read.
type Messages interface {
	Deliveries(ctx context.Context, ws subject.WorkspaceID, f store.DeliveryFilter, p store.Page) ([]delivery.Row, error)
	DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error)
	DeliveriesByID(ctx context.Context, ws subject.WorkspaceID, ids []delivery.ID) (map[delivery.ID]delivery.Row, error)
	Upcoming(ctx context.Context, ws subject.WorkspaceID, limit int) ([]delivery.Row, error)
	Leaving(ctx context.Context, ws subject.WorkspaceID, limit int) ([]delivery.Row, error)
	Attempts(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Attempt, error)
	Receipts(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]store.Receipt, error)
	FoldedInto(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Row, error)
	Contents(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, p store.Page) ([]store.Content, error)
}

// Things is what the pages about records read.
type Things interface {
	RecordTypes(ctx context.Context, ws subject.WorkspaceID) ([]string, error)
	Records(ctx context.Context, ws subject.WorkspaceID, typ string, p store.Page) ([]store.RecordRow, error)
	Record(ctx context.Context, ws subject.WorkspaceID, ref subject.RecordRef) (store.RecordRow, error)
	Children(ctx context.Context, ws subject.WorkspaceID, of subject.RecordRef, after subject.RecordID, limit int) ([]store.Child, error)
	RecordByID(ctx context.Context, ws subject.WorkspaceID, id subject.RecordID) (store.RecordRow, error)
	Jobs(ctx context.Context, ws subject.WorkspaceID, p store.Page) ([]job.Row, error)
}

// Definitions gives the compiled set in force, and what follows from it; an engine is one.
type Definitions interface {
	Definitions(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error)
	// DefinitionsAt returns the set of that number, in force or not.
	DefinitionsAt(ctx context.Context, ws subject.WorkspaceID, number int64) (*definition.Set, error)
	// Circumstances say whether messages can leave when they are planned.
	Circumstances(ctx context.Context, ws subject.WorkspaceID) (func(delivery.Row) admission.Circumstances, error)
	// ChannelStates are the channels as they are defined, and what this process knows of them.
	ChannelStates(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Channel, []channelpool.State, error)
	// StopsOf returns the kinds of channels on which nothing is sent to a contact, and why.
	StopsOf(ctx context.Context, ws store.Workspace, c subject.Contact) ([]store.StoppedKind, error)
	// Limits says how far the limits of a contact are used up by the set in force.
	Limits(ctx context.Context, ws subject.WorkspaceID, contact string) (admission.Limits, error)
	// CountRecipients says who the audience of a workflow is now, and names up to sample of them.
	CountRecipients(ctx context.Context, ws subject.WorkspaceID, workflow string, sample int) (recipients.Answer, error)
	// ExplainRecord says how every trigger stands to a record at this moment.
	ExplainRecord(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]plan.Explanation, error)
	// Upcoming says what a workflow is going to do, if nothing changes.
	Upcoming(ctx context.Context, ws subject.WorkspaceID, q outlook.Query) (outlook.Answer, error)
	// NextDigests says what the next digests of a contact hold, as they would be now.
	NextDigests(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID) ([]nextdigest.Digest, error)
	// RecordWarnings says which fields of a record name a contact that does not exist.
	RecordWarnings(ctx context.Context, ws subject.WorkspaceID, r store.RecordRow) ([]record.Warning, error)
	// InputConflict sets what an instance was planned by beside what its trigger says now.
	InputConflict(ctx context.Context, ws subject.WorkspaceID, in instance.Row) (plan.InputConflict, error)
	// Throttles lists the contexts that have fired, and when they may again.
	Throttles(ctx context.Context, ws subject.WorkspaceID, f store.ThrottleFilter) ([]store.ThrottleRow, error)
}

// Deps is what a console is made of. Store, Definitions, Feed and Clock are required.
type Deps struct {
	Store       Store
	Definitions Definitions
	Feed        *Feed // what happened lately in this process
	Clock       clock.Clock
	Log         *slog.Logger // nil: nothing is logged
	// Guest names a workspace that everybody who reaches the console may read. Empty: a key is needed.
	Guest string
	// Secure marks the session's cookie for HTTPS only. Set it where the outside address begins with https.
	Secure bool
	// Notice stands above every page, such as what a demo is about. Nil or empty: none.
	Notice func() string
}

//go:embed assets
var assets embed.FS

// policy lets a page load from this server alone, and run only what lies in assets.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// partHeader asks for the living part of a page alone.
const partHeader = "Carillon-Part"

type console struct {
	Deps
	versions map[string]string // of assets, by name: the beginning of their hash
	counts   counter[store.Counts]
	lately   counter[store.RecentCounts]
	leaving  counter[[]store.SinkState]
	signIns  *signInLimit
}

// New returns the console's handler, to be mounted at /. It answers /, /inbox, /deliveries, /responses, /responses.csv,
// /responses.ndjson, /sessions, /instances, /events, /records, /throttles, /runs, /contacts, /groups, /decisions, /workflows, /channels, /sinks, /outbox, /find, /signin, /signout and
// /assets/; every other path is not found.
func New(d Deps) (http.Handler, error) {
	if d.Store == nil || d.Definitions == nil || d.Feed == nil || d.Clock == nil {
		return nil, errors.New("a console needs a store, definitions, a feed and a clock")
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	c := &console{Deps: d, versions: map[string]string{}, signIns: newSignInLimit()}
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("open the console's assets: %w", err)
	}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		sum := sha256.Sum256(text)
		c.versions[name] = hex.EncodeToString(sum[:6])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's assets: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", cached(http.FileServerFS(files))))
	mux.HandleFunc("GET /signin", c.signInPage)
	mux.HandleFunc("POST /signin", c.signIn)
	mux.HandleFunc("POST /signout", c.signOut)
	mux.HandleFunc("GET /{$}", c.page(c.overview))
	mux.HandleFunc("GET /inbox", c.page(c.inbox))
	mux.HandleFunc("GET /deliveries", c.page(c.deliveries))
	mux.HandleFunc("GET /deliveries/{id}", c.page(c.delivery))
	mux.HandleFunc("GET /responses", c.page(c.responses))
	mux.HandleFunc("GET /sessions", c.page(c.sessions))
	mux.HandleFunc("GET /sessions/{id}", c.page(c.session))
	mux.HandleFunc("GET /responses.csv", c.responsesFile("csv", "text/csv; charset=utf-8; header=present"))
	mux.HandleFunc("GET /responses.ndjson", c.responsesFile("ndjson", "application/x-ndjson"))
	mux.HandleFunc("GET /instances", c.page(c.instances))
	mux.HandleFunc("GET /instances/{id}", c.page(c.instance))
	mux.HandleFunc("GET /events", c.page(c.events))
	mux.HandleFunc("GET /events/{id}", c.page(c.event))
	mux.HandleFunc("GET /records", c.page(c.recordTypes))
	mux.HandleFunc("GET /records/{type}", c.page(c.records))
	mux.HandleFunc("GET /records/{type}/{id}", c.page(c.record))
	mux.HandleFunc("GET /throttles", c.page(c.throttles))
	mux.HandleFunc("GET /runs", c.page(c.runs))
	mux.HandleFunc("GET /contacts", c.page(c.contacts))
	mux.HandleFunc("GET /contacts/{id}", c.page(c.contact))
	mux.HandleFunc("GET /groups", c.page(c.groups))
	mux.HandleFunc("GET /groups/{id}", c.page(c.group))
	mux.HandleFunc("GET /topics", c.page(c.topics))
	mux.HandleFunc("GET /topics/{id}", c.page(c.topic))
	mux.HandleFunc("GET /items", c.page(c.items))
	mux.HandleFunc("GET /items/{id}", c.page(c.item))
	mux.HandleFunc("GET /workflows", c.page(c.workflowPages))
	mux.HandleFunc("GET /workflows/{id}", c.page(c.workflowPage))
	mux.HandleFunc("GET /workflows/{id}/recipients", c.page(c.recipients))
	mux.HandleFunc("GET /channels", c.page(c.channelPages))
	mux.HandleFunc("GET /channels/{id}", c.page(c.channelPage))
	mux.HandleFunc("GET /sinks", c.page(c.sinks))
	mux.HandleFunc("GET /outbox", c.page(c.outbox))
	mux.HandleFunc("GET /outbox/{id}", c.page(c.outboxEvent))
	mux.HandleFunc("GET /find", c.page(c.find))
	mux.HandleFunc("GET /decisions", c.page(c.decisions))
	mux.HandleFunc("/", c.page(func(context.Context, visit) (view, error) { return view{}, store.ErrNotFound }))
	return guard(http.NewCrossOriginProtection().Handler(mux)), nil
}

// guard sets the headers that every answer has.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// cached lets browsers keep an asset for ever when it is asked for by its version.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("v") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		next.ServeHTTP(w, r)
	})
}

// asset is the address of an embedded file, changing when its text does.
func (c *console) asset(name string) string { return "/assets/" + name + "?v=" + c.versions[name] }
