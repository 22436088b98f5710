// Package api is the HTTP API: JSON in, JSON out, errors as problems (RFC 9457), described by OpenAPI 3.1.
//
// It knows who is asking, what they may do and how to say what came of it; everything else is done by the engine
// and the store behind two small interfaces. Routes stand in one table with the scope that each needs. A caller
// sees one workspace: the id of anything in another one is an id of nothing (404), because ids are made and read
// with the workspace's own secret.
//
// Requests are bounded before they are read, JSON is read strictly (unknown and doubled keys are refused), and no
// error repeats a value of the request. Nothing here sends, plans or decides.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/job"
	"github.com/carillonhq/carillon/internal/outbox"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/topic"
)

const (
	// MaxBody bounds a request, in bytes.
	MaxBody = 1 << 20
	// MaxBatchBody bounds a request of the routes that take many items: /v1/events, /v1/contacts, /v1/records,
	// /v1/definitions and the compatible ingest. It counts what a compressed request holds, not what travels.
	MaxBatchBody = 16 << 20
	// readTimeout is how long a caller may take to send a request's body.
	readTimeout = 30 * time.Second
)

// Store is what the API reads by itself.
type Store interface {
	Health
	Ping(ctx context.Context) error
	Writable(ctx context.Context) error
	KeyByHash(ctx context.Context, hash string) (store.APIKey, bool, error)
	KeyUsed(ctx context.Context, ws subject.WorkspaceID, id int64, at time.Time) error
	Workspaces(ctx context.Context) ([]store.Workspace, error)
	WorkspaceByName(ctx context.Context, name string) (store.Workspace, bool, error)
	EventsByID(ctx context.Context, refs []store.EventRef) (map[store.EventRef]store.EventRow, error)
	Events(ctx context.Context, ws subject.WorkspaceID, f store.EventFilter, p store.Page) ([]store.EventRow, error)
	Decisions(ctx context.Context, ws subject.WorkspaceID, f store.DecisionFilter, p store.Page) ([]store.Decision, error)
	Instances(ctx context.Context, ws subject.WorkspaceID, f store.InstanceFilter, p store.Page) ([]instance.Row, error)
	ZonesOf(ctx context.Context, occasions []instance.ID) (map[instance.ID][]instance.Row, error)
	InstanceByKey(ctx context.Context, ws subject.WorkspaceID, key string) (instance.Row, error)
	InstanceByID(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (instance.Row, error)
	Tally(ctx context.Context, in instance.Row, limit int) (delivery.Tally, error)
	Deliveries(ctx context.Context, ws subject.WorkspaceID, f store.DeliveryFilter, p store.Page) ([]delivery.Row, error)
	DeliveryByID(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (delivery.Row, error)
	Attempts(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Attempt, error)
	FoldedInto(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]delivery.Row, error)
	Receipts(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) ([]store.Receipt, error)
	Contents(ctx context.Context, ws subject.WorkspaceID, id delivery.ID, p store.Page) ([]store.Content, error)
	Sessions(ctx context.Context, ws subject.WorkspaceID, f store.SessionFilter, p store.Page) ([]store.ListedSession, error)
	Conversation(ctx context.Context, ws subject.WorkspaceID, id delivery.ID) (store.Conversation, error)
	Responses(ctx context.Context, ws subject.WorkspaceID, f store.ResponseFilter, p store.Page) ([]delivery.Response, error)
	OutboxEvents(ctx context.Context, ws subject.WorkspaceID, f store.OutboxFilter, p store.Page) ([]outbox.Event, error)
	OutboxEvent(ctx context.Context, ws subject.WorkspaceID, id int64) (outbox.Event, error)
	Dispatches(ctx context.Context, ws subject.WorkspaceID, events []int64) (map[int64][]outbox.Row, error)
	DispatchAttempts(ctx context.Context, ws subject.WorkspaceID, event int64) ([]outbox.Attempt, error)
	SinkHealth(ctx context.Context, ws subject.WorkspaceID) (map[string]outbox.Health, error)
	SinksOf(ctx context.Context, ws subject.WorkspaceID) ([]store.SinkState, error)
	DefinitionSet(ctx context.Context, ws subject.WorkspaceID, number int64) ([]store.Definition, error)
	DefinitionVersion(ctx context.Context, ws subject.WorkspaceID, ref store.DefinitionRef, version int64) (store.Definition, error)
	DefinitionsNumber(ctx context.Context, ws subject.WorkspaceID) (int64, error)
	Contacts(ctx context.Context, ws subject.WorkspaceID, f store.ContactFilter, p store.Page) ([]subject.ContactRow, error)
	FindContacts(ctx context.Context, ws subject.WorkspaceID, w store.ContactQuery, limit int) ([]subject.ContactRow, error)
	Top(ctx context.Context, ws subject.WorkspaceID, since time.Time, limit int) ([]store.TopContact, error)
	DigestRun(ctx context.Context, ws subject.WorkspaceID, id instance.ID) (store.DigestRun, error)
	ContactRow(ctx context.Context, ws subject.WorkspaceID, id string) (subject.ContactRow, error)
	GroupStates(ctx context.Context, ws subject.WorkspaceID, names []string) (map[string]store.GroupState, error)
	GroupMembers(ctx context.Context, ws subject.WorkspaceID, name string, p store.Page) ([]subject.ContactRow, error)
	RecordTypes(ctx context.Context, ws subject.WorkspaceID) ([]string, error)
	Records(ctx context.Context, ws subject.WorkspaceID, typ string, p store.Page) ([]store.RecordRow, error)
	Record(ctx context.Context, ws subject.WorkspaceID, ref subject.RecordRef) (store.RecordRow, error)
	Children(ctx context.Context, ws subject.WorkspaceID, of subject.RecordRef, after subject.RecordID, limit int) ([]store.Child, error)
	RecordByID(ctx context.Context, ws subject.WorkspaceID, id subject.RecordID) (store.RecordRow, error)
	Jobs(ctx context.Context, ws subject.WorkspaceID, p store.Page) ([]job.Row, error)
	Topic(ctx context.Context, ws subject.WorkspaceID, name string) (store.ListedTopic, error)
	Items(ctx context.Context, ws subject.WorkspaceID, f store.ItemFilter) ([]store.ReadItem, error)
	Topics(ctx context.Context, ws subject.WorkspaceID, f store.TopicFilter) ([]store.ListedTopic, error)
	RequestsOfContact(ctx context.Context, ws subject.WorkspaceID, id subject.ContactID) ([]store.ListedRequest, error)
	SubscriptionsOf(ctx context.Context, f store.SubscriptionFilter) ([]store.ListedSubscription, error)
	Subscriptions(ctx context.Context, ws subject.WorkspaceID, f store.SubscriptionFilter) ([]store.ListedSubscription, error)
	Subscribers(ctx context.Context, id subject.TopicID, after subject.ContactID, limit int) ([]store.ListedSubscription, error)
	Item(ctx context.Context, ws subject.WorkspaceID, ref store.ItemRef) (store.ReadItem, error)
	Answered(ctx context.Context, ws subject.WorkspaceID, now time.Time, k store.AnswerKey) error
}

// Engine does what callers ask for. Its errors may be *client.Problem, which is answered as it is, or wrap
// store.ErrNotFound. What it changes it changes once for a request that carries an Idempotency-Key: see store.Once,
// which is nil for others.
type Engine interface {
	Ingest(ctx context.Context, ws store.Workspace, items []ingest.Item, once *store.Idempotent[[]ingest.Result]) ([]ingest.Result, error)
	Tick(ctx context.Context) (client.Tick, error)
	EditDefinitions(ctx context.Context, ws store.Workspace, edit DefinitionEdit, by Applier, once *store.Idempotent[Applied]) (Applied, error)
	DefinitionHistory(ctx context.Context, ws store.Workspace, q client.HistoryQuery) (client.DefinitionHistory, error)
	Operate(ctx context.Context, ws store.Workspace, actor string, action Action, once *store.Idempotent[Operated]) (Operated, error)
	Circumstances(ctx context.Context, ws subject.WorkspaceID) (func(delivery.Row) admission.Circumstances, error)
	Bulk(ctx context.Context, ws store.Workspace, actor string, b Bulk, once *store.Idempotent[Bulked]) (Bulked, error)
	CancelRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error)
	ResumeRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error)
	UndoRun(ctx context.Context, ws store.Workspace, id int64, audit store.Audit) (job.Row, error)
	PreviewSubscriptions(ctx context.Context, ws store.Workspace, q bulk.Request) (bulk.Found, error)
	ChangeSubscriptions(ctx context.Context, ws store.Workspace, actor string, q bulk.Request, once *store.Idempotent[bulk.Found]) (bulk.Found, error)
	RunManually(ctx context.Context, ws store.Workspace, actor, workflow, runID string, once *store.Idempotent[store.ManualRun]) (store.ManualRun, error)
	Workflows(ctx context.Context, ws store.Workspace) (client.Workflows, error)
	Upcoming(ctx context.Context, ws store.Workspace, q outlook.Query) (outlook.Answer, error)
	CountRecipients(ctx context.Context, ws store.Workspace, workflow string, sample int) (recipients.Answer, error)
	PauseWorkflow(ctx context.Context, ws store.Workspace, actor, workflow, why string) (client.PausedWorkflow, error)
	ResumeWorkflow(ctx context.Context, ws store.Workspace, actor, workflow string) (client.PausedWorkflow, error)
	WriteContacts(ctx context.Context, ws store.Workspace, mode upsert.Mode, items []contact.Item, once *store.Idempotent[[]upsert.Result[subject.ContactRow]]) ([]upsert.Result[subject.ContactRow], error)
	WriteRecords(ctx context.Context, ws store.Workspace, mode upsert.Mode, items []record.Item, actor string, once *store.Idempotent[[]record.Result]) ([]record.Result, error)
	Receipts() *receipt.Writer
	Replies() *reply.Writer
	FindTopic(ctx context.Context, ws store.Workspace, raw json.RawMessage, once *store.Idempotent[topics.Found]) (topics.Found, error)
	RemoveTopic(ctx context.Context, ws store.Workspace, name string, once *store.Idempotent[store.TopicRow]) (store.TopicRow, error)
	NextDigests(ctx context.Context, ws subject.WorkspaceID, contact subject.ContactID) ([]nextdigest.Digest, error)
	Subscribe(ctx context.Context, ws store.Workspace, list []topics.Request, source topic.Source, once *store.Idempotent[[]topics.Subscribed]) ([]topics.Subscribed, error)
	Unsubscribe(ctx context.Context, ws store.Workspace, list []topics.Request, once *store.Idempotent[[]topics.Subscribed]) ([]topics.Subscribed, error)
	Publish(ctx context.Context, ws store.Workspace, items []item.Item, once *store.Idempotent[[]item.Result]) ([]item.Result, error)
	DigestLeftOut(ctx context.Context, run store.DigestRun, contact subject.ContactID) (reason.Reason, error)
	RecordTypes(ctx context.Context, ws subject.WorkspaceID) ([]*expr.RecordType, error)
	Respond(ctx context.Context, ws store.Workspace, id delivery.ID, s answer.Submission, once *store.Idempotent[delivery.Response]) (delivery.Response, error)
	Limits(ctx context.Context, ws subject.WorkspaceID, contact string) (admission.Limits, error)
	Throttles(ctx context.Context, ws subject.WorkspaceID, f store.ThrottleFilter) ([]store.ThrottleRow, error)
	InputConflict(ctx context.Context, ws subject.WorkspaceID, in instance.Row) (plan.InputConflict, error)
	ExplainRecord(ctx context.Context, ws store.Workspace, r store.RecordRow) ([]plan.Explanation, error)
	RecordWarnings(ctx context.Context, ws store.Workspace, r store.RecordRow) ([]record.Warning, error)
	MergeContact(ctx context.Context, ws store.Workspace, m contact.Merger, once *store.Idempotent[contact.Merged]) (contact.Merged, error)
	StopContact(ctx context.Context, ws store.Workspace, w contact.Suppression, once *store.Idempotent[contact.Stopped]) (contact.Stopped, error)
	Channels(ctx context.Context, ws store.Workspace) (client.Channels, error)
	Inbound(ctx context.Context, ws subject.WorkspaceID, channel string, c channel.Callback) (channel.Inbound, error)
	TestChannel(ctx context.Context, ws store.Workspace, actor, channel string, t client.ChannelTest, once *store.Idempotent[client.ChannelTested]) (client.ChannelTested, error)
	DefinedGroups(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Group, error)
	StopsOf(ctx context.Context, ws store.Workspace, c subject.Contact) ([]store.StoppedKind, error)
	GroupsOf(ctx context.Context, ws subject.WorkspaceID, contacts []subject.ContactRow) ([][]string, error)
	DefinedSinks(ctx context.Context, ws subject.WorkspaceID) ([]*definition.Sink, error)
	PauseSink(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error)
	EnableSink(ctx context.Context, ws store.Workspace, actor, name string) (client.ChangedSink, error)
	RedriveSink(ctx context.Context, ws store.Workspace, actor, name string, once *store.Idempotent[int]) (events int, err error)
	RedriveEvent(ctx context.Context, ws store.Workspace, actor string, event int64, sink string, once *store.Idempotent[[]string]) (sinks []string, err error)
}

// Applier is who applies definitions.
type Applier struct {
	Name    string
	Secrets bool // may change references to secrets, and the settings beside them
}

// DefinitionEdit is a wish to change the definitions in force: by files, by a rollback, or by what is to go.
type DefinitionEdit struct {
	Files    []definition.File
	Prune    bool
	Delete   []definition.Ref
	Rollback *client.Rollback
	DryRun   bool
}

// Applied says what applying definitions did; with an error among the problems it did nothing.
type Applied struct {
	Problems []definition.Problem
	Number   int64
	Changes  []client.DefinitionChange
	// SecretChanges are the definitions that changed in what decides where secrets go.
	SecretChanges []definition.SecretChange
	Preview       *client.DefinitionPreview // of a dry run
}

// Verb is what a person may do to an instance or a delivery.
type Verb string

// The verbs.
const (
	Cancel  Verb = "cancel"
	Retry   Verb = "retry"
	Release Verb = "release"
	Forget  Verb = "forget"
)

// Action is a verb and what it is done to: exactly one of Instance, Delivery and Key is set.
type Action struct {
	Verb     Verb
	Instance instance.ID
	Delivery delivery.ID
	Key      string
	All      bool // Retry: with those who have got the digest
}

// Operated says what an action did.
type Operated struct {
	Changed       bool
	BeingSent     []delivery.ID // what a cancel came too late for
	Run           int64         // the job that ends the other deliveries; 0: none
	Instance      instance.ID
	Deliveries    []delivery.ID
	NewInstance   instance.ID
	NewKey        string
	NewDeliveries []delivery.ID
}

// Deps are what an API is made of; all are needed.
type Deps struct {
	Store   Store
	Engine  Engine
	Secrets Secrets
	Clock   clock.Clock
	Log     *slog.Logger
	Version string // of the program, for the description
	Metrics http.Handler
	// Bodies bounds what the bodies of all requests in flight hold together, in bytes; 0 = DefaultBodies.
	Bodies int64
}

// API answers requests.
type API struct {
	Deps
	auth   *authenticator
	mux    *http.ServeMux
	huma   huma.API
	routes []Route
	ids    sync.Map // workspace → ids
	bodies *bodies

	callbacks *callbackLimit

	writable readiness
}

// Route is one route with the scope that a key needs for it; without a scope it is open to everybody.
type Route struct {
	Method string
	Path   string // with {names}
	Scope  Scope
	// Repeatable routes change nothing that another request of theirs would not: they take no Idempotency-Key.
	Repeatable bool
	// Signed routes take requests that are signed with a secret of the definitions, instead of a key.
	Signed bool
}

// New puts an API together.
func New(d Deps) *API {
	a := &API{
		Deps: d, auth: newAuthenticator(d.Store, d.Clock, d.Log), mux: http.NewServeMux(),
		bodies: &bodies{limit: cmp.Or(d.Bodies, DefaultBodies)}, callbacks: newCallbackLimit(),
	}
	a.huma = humago.New(a.mux, describe(d.Version))
	a.health()
	a.events()
	a.definitions()
	a.contacts()
	a.groups()
	a.topics()
	a.items()
	a.feedback()
	a.records()
	a.throttles()
	a.runs()
	a.journal()
	a.instances()
	a.workflows()
	a.preview()
	a.recipients()
	a.deliveries()
	a.bulk()
	a.bulkSubscriptions()
	a.sessions()
	a.responses()
	a.outbox()
	a.sinks()
	a.secrets()
	a.channels()
	a.inbound()
	a.status()
	a.ticks()
	a.surveysTriggers()
	a.metrics()
	a.finishDescription()
	a.servePage()
	a.mux.HandleFunc("GET /openapi.json", a.serveDescription)
	a.mux.HandleFunc("/", a.notFound)
	a.routes = append(a.routes, Route{Method: http.MethodGet, Path: "/openapi.json"})
	return a
}

// Routes lists every route.
func (a *API) Routes() []Route { return a.routes }

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if p := checkRequest(r); p != nil {
		writeProblem(w, p)
		return
	}
	a.counted(w, r, a.mux)
}

// route registers an operation that is answered by way of its description. Handlers return a *client.Problem, an
// error wrapping store.ErrNotFound, or any other error, which is logged and answered without details.
func route[I, O any](a *API, method, path string, scope Scope, op huma.Operation, handle func(context.Context, Caller, *I) (*O, error)) {
	to := Route{Method: method, Path: path, Scope: scope, Repeatable: path == tickPath || path == secretPath || path == pausePath || path == resumePath || path == sinkPausePath || path == sinkEnablePath || strings.HasPrefix(path, runPath)}
	a.routes = append(a.routes, to)
	op.Method, op.Path = method, path
	op.BodyReadTimeout, op.RejectUnknownQueryParameters = readTimeout, true
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = MaxBody
	}
	op.Security = []map[string][]string{{"key": {}}}
	op.Extensions = map[string]any{"x-scope": string(scope)}
	op.Responses = map[string]*huma.Response{"default": problemResponse()}
	op.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		caller, problem := a.caller(r, scope)
		if problem != nil {
			writeProblem(w, problem)
			return
		}
		var err error
		if caller.asked, err = a.asked(w, r, caller, to, op.MaxBodyBytes); err != nil {
			a.refuse(r.Context(), w, path, err)
			return
		}
		if err = reserve(w, r, op.MaxBodyBytes); err != nil {
			a.refuse(r.Context(), w, path, err)
			return
		}
		next(huma.WithValue(ctx, callerKey{}, caller))
	}}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		caller, _ := ctx.Value(callerKey{}).(Caller)
		out, err := handle(ctx, caller, in)
		var again *store.Replay
		switch {
		case errors.As(err, &again):
			return nil, &replayed{again.Answer}
		case err != nil:
			return nil, missing(path, a.problem(ctx, err))
		}
		return out, nil
	})
}

// plain registers a handler that reads and writes its bodies by itself.
func (a *API) plain(method, path string, scope Scope, handle func(http.ResponseWriter, *http.Request, Caller) error) {
	to := Route{Method: method, Path: path, Scope: scope, Repeatable: path == surveysTickPath}
	a.routes = append(a.routes, to)
	a.mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
		caller, problem := a.caller(r, scope)
		if problem != nil {
			writeProblem(w, problem)
			return
		}
		var err error
		if caller.asked, err = a.asked(w, r, caller, to, MaxBatchBody); err == nil {
			err = handle(w, r, caller)
		}
		if err != nil {
			a.refuse(r.Context(), w, path, err)
		}
	})
}

func writeJSON(w http.ResponseWriter, status int, kind string, v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	// A caller who has gone away is no concern of ours.
	_, _ = w.Write(text)
	return nil
}

// metrics shows the numbers of the process to keys of a scope of their own: they know no workspaces.
func (a *API) metrics() {
	a.plain(http.MethodGet, "/metrics", ScopeMetrics, func(w http.ResponseWriter, r *http.Request, _ Caller) error {
		a.Metrics.ServeHTTP(w, r)
		return nil
	})
}

const (
	// writableEvery is how often the database is asked whether it can be written to, at most; that takes a small write.
	writableEvery = 5 * time.Second
	// writableWithin bounds that. A database that is busy with other writes for longer can be written to.
	writableWithin = 2 * time.Second
)

// readiness remembers for a short time whether the database can be written to.
type readiness struct {
	mu    sync.Mutex
	asked time.Time
	err   error
}

func (a *API) ready(ctx context.Context) error {
	if err := a.Store.Ping(ctx); err != nil {
		return err
	}
	a.writable.mu.Lock()
	defer a.writable.mu.Unlock()
	now := a.Clock.Now()
	if since := now.Sub(a.writable.asked); a.writable.asked.IsZero() || since < 0 || since >= writableEvery {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writableWithin)
		defer cancel()
		err := a.Store.Writable(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrBusy) {
			err = nil
		}
		a.writable.asked, a.writable.err = now, err
	}
	return a.writable.err
}

func (a *API) health() {
	open := func(path string, check func(context.Context) error) {
		a.routes = append(a.routes, Route{Method: http.MethodGet, Path: path})
		a.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			status, text := http.StatusOK, "ok"
			if err := check(r.Context()); err != nil {
				a.Log.WarnContext(r.Context(), "not ready", "error", err)
				status, text = http.StatusServiceUnavailable, "the database does not answer"
				for _, known := range []error{store.ErrNoRoom, store.ErrReadOnly} {
					if errors.Is(err, known) {
						text = known.Error()
					}
				}
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text + "\n"))
		})
	}
	open("/healthz", func(context.Context) error { return nil })
	open("/readyz", a.ready)
}
