// Package engine runs the stages of the pipeline over one store.
//
//	ingest ────┬▶ instances ─▶ fan-out ─▶ deliveries ─▶ sender ─▶ channel
//	evaluator ─┘                reschedule ─┘     └─▶ expiry, retention
//	answers, and what becomes of deliveries ─▶ outbox events ─▶ dispatch ─▶ sink
//
// Every stage takes a bounded batch of what is due; stages lists them. Retention runs beside them: nothing waits for it. Tick runs each stage that
// has work once, at one instant, and a batch of retention; the simulator and the tick route use it. Run runs them continuously: an alarm sleeps
// until the next due instant, commits of this process and notifications of other processes wake it earlier, and a slow poll finds work without a notification. There is no queue besides the database, and no leader.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/admission"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/definition/loader"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/engine/plumbing/catalog"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/engine/plumbing/datasource"
	"github.com/carillonhq/carillon/internal/engine/plumbing/sinkpool"
	compiledtopics "github.com/carillonhq/carillon/internal/engine/plumbing/topics"
	"github.com/carillonhq/carillon/internal/engine/service/answer"
	"github.com/carillonhq/carillon/internal/engine/service/bulk"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/engine/service/item"
	"github.com/carillonhq/carillon/internal/engine/service/nextdigest"
	"github.com/carillonhq/carillon/internal/engine/service/operator"
	"github.com/carillonhq/carillon/internal/engine/service/outlook"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/recipients"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/engine/service/sinks"
	"github.com/carillonhq/carillon/internal/engine/service/topics"
	"github.com/carillonhq/carillon/internal/engine/stage/confirmer"
	"github.com/carillonhq/carillon/internal/engine/stage/converser"
	"github.com/carillonhq/carillon/internal/engine/stage/dispatch"
	"github.com/carillonhq/carillon/internal/engine/stage/evaluator"
	"github.com/carillonhq/carillon/internal/engine/stage/expiry"
	"github.com/carillonhq/carillon/internal/engine/stage/fanout"
	"github.com/carillonhq/carillon/internal/engine/stage/matcher"
	"github.com/carillonhq/carillon/internal/engine/stage/reschedule"
	"github.com/carillonhq/carillon/internal/engine/stage/retention"
	"github.com/carillonhq/carillon/internal/engine/stage/sender"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/sink"
	"github.com/carillonhq/carillon/internal/sink/workflow"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/telemetry"
)

const (
	// DefaultBatch is how many rows a step takes: measured as the best size for both databases.
	DefaultBatch = 500
	// DefaultWorkers is how many senders run: two use the full capacity of a database on the same machine.
	DefaultWorkers = 2
	// DefaultPoll is how often the database is polled for work of other processes while no notifications arrive.
	DefaultPoll = time.Second
	// TickBatch is how many deliveries one Tick sends (C17, C18).
	TickBatch = 100
)

// Config is the configuration of an engine.
type Config struct {
	Store     *store.Store
	Clock     clock.Clock
	Log       *slog.Logger       // nil: nothing is logged
	Providers []channel.Provider // the channels that definitions may use
	Sinks     []sink.Provider    // the sinks that definitions may use, beside workflow, which is the engine's own
	// Documents reads the JSON documents that messages show; nil: none can be read.
	Documents datasource.Documents
	// Secret returns the value of a setting of a workspace's channel, wherever it is stored.
	Secret func(subject.WorkspaceID, definition.Setting) (string, error)
	// SecretCheck reports, when definitions are applied, why the secrets that they name cannot be used; nil: no check.
	SecretCheck func(context.Context, subject.WorkspaceID) (func(name string) error, error)
	// Journal receives every decision and outcome; nil = they are dropped.
	Journal     journal.Writer
	Definitions loader.Options
	Workers     int            // senders; 0 = DefaultWorkers
	Batch       int            // rows a step of Run takes; 0 = DefaultBatch
	Concurrency int            // 1 = one request at a time, in order, for replays; 0 = as each channel allows
	OnlyTo      flow.Allow     // addresses that this process may write to; nil = all
	Lease       time.Duration  // of a claim; 0 = sender.DefaultLease
	Timeout     time.Duration  // of one request; 0 = sender.DefaultTimeout
	SinkGrace   time.Duration  // how long tries at sinks go on after a stop began; 0 = dispatch.DefaultGrace
	Poll        time.Duration  // 0 = DefaultPoll
	SlowPoll    time.Duration  // while notifications of other processes arrive; 0 = DefaultSlowPoll
	Retention   retention.Keep // how long what is over stays
	Patience    time.Duration  // how long a sender waits for its providers; 0 = DefaultPatience
	PublicURL   string         // begins public links where a workspace has no base_url
	Links       key.LinkKeys   // sign unsubscribe links; without a key messages have none
	NoJitter    bool           // retries wait exactly as long as their definition says
	// ZoneRules replace the zone files' rules, by the name of the zone.
	ZoneRules map[string]*time.Location
	// Spans traces steps and sends; nil = no tracing.
	Spans     telemetry.Spans
	Failpoint func(point string) error
}

// Engine is all stages over one store.
type Engine struct {
	config     Config
	catalog    *catalog.Catalog
	channels   *channelpool.Pool
	ingester   *ingest.Ingester
	items      *item.Publisher
	topics     *topics.Writer
	bulk       *bulk.Runner
	matcher    *matcher.Matcher
	confirmer  *confirmer.Confirmer
	converser  *converser.Converser
	receipts   *receipt.Writer
	replies    *reply.Writer
	next       *nextdigest.Service
	sent       atomic.Bool  // deliveries were made, sent or expired since the runs of digests were read
	runsLooked atomic.Int64 // µs: when they were
	evaluator  *evaluator.Evaluator
	reschedule *reschedule.Rescheduler
	fanout     *fanout.Fanout
	sender     *sender.Sender
	expirer    *expiry.Expirer
	dispatcher *dispatch.Dispatcher
	sinkPool   *sinkpool.Pool
	sinks      *sinks.Sinks
	operator   *operator.Operator
	answers    *answer.Answers
	retainer   *retention.Retention
	contacts   *contact.Writer
	records    *record.Writer
	outlook    *outlook.Outlook
	recipients *recipients.Counter
	news       chan struct{} // capacity 1: there is work of which other processes do not know yet
	list       []stage       // see stages
	woken      stageSet      // the stages that the next Tick runs: in the first one all, later those for which there is work
	compared   names         // zones whose rules were compared with those by which something was planned
	unknown    names         // zones that were reported as unknown
}

// New makes an engine; it starts nothing.
func New(c Config) (*Engine, error) {
	if c.Store == nil || c.Clock == nil {
		return nil, errors.New("an engine needs a store and a clock")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Secret == nil {
		c.Secret = func(_ subject.WorkspaceID, s definition.Setting) (string, error) {
			if s.Env != "" || s.File != "" || s.Secret != "" {
				return "", errors.New("this engine resolves no secrets")
			}
			return s.Value, nil
		}
	}
	c.Workers = max(c.Workers, 0)
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if c.Batch <= 0 {
		c.Batch = DefaultBatch
	}
	if c.Poll <= 0 {
		c.Poll = DefaultPoll
	}
	if c.SlowPoll <= 0 {
		c.SlowPoll = DefaultSlowPoll
	}
	if c.Patience <= 0 {
		c.Patience = DefaultPatience
	}
	known := catalog.New(c.Store, c.Definitions)
	for name, loc := range c.ZoneRules {
		known.Zones.Use(name, loc)
	}
	compiled, err := compiledtopics.New(c.Definitions.Compiler)
	if err != nil {
		return nil, err
	}
	channels := channelpool.New(c.Providers, c.Secret, sender.DefaultConcurrency, c.Log)
	e := &Engine{
		config:     c,
		news:       make(chan struct{}, 1),
		catalog:    known,
		channels:   channels,
		ingester:   ingest.New(c.Store, known, c.Journal),
		items:      item.New(c.Store, c.Journal),
		topics:     topics.New(c.Store, compiled, known),
		next:       nextdigest.New(c.Store, known, compiled),
		evaluator:  evaluator.New(c.Store, known, c.Journal),
		reschedule: reschedule.New(c.Store, known, c.Journal),
		fanout:     fanout.New(c.Store, known, c.Journal, c.Failpoint),
		sender: sender.New(sender.Config{
			Store: c.Store, Catalog: known, Channels: channels, Clock: c.Clock, Journal: c.Journal,
			Log: c.Log, Reports: datasource.New(c.Store, c.Documents), OnlyTo: c.OnlyTo, Lease: c.Lease, Timeout: c.Timeout, Concurrency: c.Concurrency, PublicURL: c.PublicURL, Links: c.Links, Topics: compiled, NoJitter: c.NoJitter, Spans: c.Spans, Failpoint: c.Failpoint,
		}),
		expirer:  expiry.New(c.Store, known, c.Journal),
		operator: operator.New(c.Store, known, c.Journal),
		answers:  answer.New(c.Store, known, c.Journal),
		retainer: retention.New(c.Store, reachOf(known), c.Retention, c.Log),
		contacts: contact.New(c.Store, known, c.Journal),
		records:  record.New(c.Store, known),
		outlook:  outlook.New(c.Store, known), recipients: recipients.New(c.Store, known),
	}
	e.sinkPool = sinkpool.New(append(slices.Clone(c.Sinks), workflow.Provider(e.follow)), c.Secret, c.Log)
	e.sinks = sinks.New(c.Store, known)
	e.dispatcher = dispatch.New(dispatch.Config{
		Store: c.Store, Catalog: known, Sinks: e.sinkPool, Clock: c.Clock, Journal: c.Journal, Log: c.Log, Timeout: c.Timeout, Grace: c.SinkGrace,
		Concurrency: c.Concurrency, NoJitter: c.NoJitter, Failpoint: c.Failpoint,
	})
	e.bulk = bulk.New(c.Store, known, compiled, e.publish)
	e.matcher = matcher.New(c.Store, known, compiled, e.ingester, c.Journal)
	e.receipts = receipt.New(c.Store, known, c.Journal)
	e.replies = reply.New(c.Store, known, e.ingester, c.Journal)
	e.converser = converser.New(c.Store, known, c.Journal)
	e.confirmer = confirmer.New(c.Store, known, compiled, e.ingester, c.Journal)
	e.list = e.stages()
	e.woken.fill()
	c.Store.OnCommit(func(due store.Due) { e.note(due.At(c.Clock.Now())) })
	c.Store.OnCommit(e.worth)
	return e, nil
}

// Ingest accepts up to ingest.MaxBatch events. The valid ones are stored in one transaction; an invalid one is failed in the answer and affects no
// other.
func (e *Engine) Ingest(ctx context.Context, ws store.Workspace, items []ingest.Item) ([]ingest.Result, error) {
	return e.IngestOnce(ctx, ws, items, nil)
}

// IngestOnce is Ingest for a request that may be repeated; see store.Idempotent.
func (e *Engine) IngestOnce(ctx context.Context, ws store.Workspace, items []ingest.Item, once *store.Idempotent[[]ingest.Result]) ([]ingest.Result, error) {
	return e.ingester.Ingest(ctx, ws, items, e.config.Clock.Now(), once)
}

// PublishOnce stores up to item.MaxBatch items. The valid ones are stored in one transaction; an invalid one is failed in the answer and affects no other.
// See store.Idempotent for requests that may be repeated.
func (e *Engine) PublishOnce(ctx context.Context, ws store.Workspace, items []item.Item, once *store.Idempotent[[]item.Result]) ([]item.Result, error) {
	return e.items.Publish(ctx, ws, items, e.config.Clock.Now(), once)
}

// Channels returns what this process knows about the channels that it has used.
func (e *Engine) Channels() []channelpool.State { return e.channels.States(e.config.Clock.Now()) }

// ChannelInfo is a defined channel, with what this process knows about it.
type ChannelInfo struct {
	Definition *definition.Channel
	Timeout    time.Duration // of one request; the process's if the definition has none
	State      channelpool.State
}

// DefinedChannels lists the channels of a workspace.
func (e *Engine) DefinedChannels(ctx context.Context, ws subject.WorkspaceID) ([]ChannelInfo, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	defined, now := set.Channels(), e.config.Clock.Now()
	list := make([]ChannelInfo, len(defined))
	for i, def := range defined {
		list[i] = ChannelInfo{Definition: def, Timeout: cmp.Or(def.Timeout, e.sender.Timeout), State: e.channels.State(ws, def, now)}
	}
	return list, nil
}

// TryChannel sends one message through a channel; see sender.Try.
func (e *Engine) TryChannel(ctx context.Context, ws store.Workspace, w sender.Trial, once *store.Idempotent[sender.Tried]) (sender.Tried, error) {
	return e.sender.Try(ctx, e.config.Store, w, ws, once)
}

// Inbound reads a callback of the provider of a channel. The error is store.ErrNotFound, channel.ErrNotSigned or a *channel.CallbackError; without its
// secrets the channel cannot be opened.
func (e *Engine) Inbound(ctx context.Context, ws subject.WorkspaceID, name string, c channel.Callback) (channel.Inbound, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return channel.Inbound{}, err
	}
	def := set.Channel(name)
	if def == nil {
		return channel.Inbound{}, fmt.Errorf("channel %s: %w", name, store.ErrNotFound)
	}
	open, err := e.channels.Get(ws, def)
	if err != nil {
		return channel.Inbound{}, err
	}
	receiver, ok := open.Channel.(channel.Receiver)
	if !ok {
		return channel.Inbound{}, fmt.Errorf("channel %s: %w", name, store.ErrNotFound)
	}
	in, err := receiver.Inbound(c)
	if errors.Is(err, channel.ErrNoInbound) {
		err = store.ErrNotFound
	}
	if err != nil {
		return channel.Inbound{}, fmt.Errorf("channel %s: %w", name, err)
	}
	return in, nil
}

// Close closes the channels and the sinks. Nothing is sent after it.
func (e *Engine) Close() {
	e.sinkPool.Close()
	e.channels.Close()
}

// Operator performs the actions of people.
func (e *Engine) Operator() *operator.Operator { return e.operator }

// Answers takes the answers to surveys.
func (e *Engine) Answers() *answer.Answers { return e.answers }

// Sinks carries out what people do with sinks.
func (e *Engine) Sinks() *sinks.Sinks { return e.sinks }

// Contacts writes contacts.
func (e *Engine) Contacts() *contact.Writer { return e.contacts }

// Topics makes topics that are data, and subscriptions.
func (e *Engine) Topics() *topics.Writer { return e.topics }

// Subscribers changes the subscriptions of many people.
func (e *Engine) Subscribers() *bulk.Runner { return e.bulk }

// publish publishes an item in a transaction.
func (e *Engine) publish(tx *store.Tx, ws subject.WorkspaceID, fields map[string]any, now time.Time) (id subject.EventID, created bool, err error) {
	results, _, err := e.items.In(tx, ws, []item.Item{item.Accept(fields)}, now)
	if err != nil {
		return 0, false, err
	}
	if results[0].Error != nil && results[0].Reason != reason.ItemChanged {
		wrong := *results[0].Error
		wrong.Field = strings.TrimSuffix("item."+wrong.Field, ".")
		return 0, false, &wrong
	}
	return results[0].Event, results[0].Outcome == item.Created, nil
}

// Replies takes in what people write back.
func (e *Engine) Replies() *reply.Writer { return e.replies }

// Receipts takes in what is reported of messages that were sent.
func (e *Engine) Receipts() *receipt.Writer { return e.receipts }

// Records writes records.
func (e *Engine) Records() *record.Writer { return e.records }

// maxWaiting is how many waiting messages of a contact are shown.
const maxWaiting = 100

// Limits returns how much of a contact's limits is used, and what waits for them.
func (e *Engine) Limits(ctx context.Context, ws subject.WorkspaceID, id string) (admission.Limits, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return admission.Limits{}, err
	}
	now := e.config.Clock.Now()
	standing, err := e.config.Store.LimitUse(ctx, ws, id, now, maxWaiting)
	if err != nil {
		return admission.Limits{}, err
	}
	return admission.LimitsOf(set, standing, &e.catalog.Zones, now), nil
}

// Circumstances returns a function that reports for deliveries of a workspace what decides whether their next message can leave when it is planned.
// It knows the breakers of this process only.
func (e *Engine) Circumstances(ctx context.Context, ws subject.WorkspaceID) (func(delivery.Row) admission.Circumstances, error) {
	set, err := e.catalog.Current(ctx, ws)
	if err != nil {
		return nil, err
	}
	pauses, err := e.config.Store.Pauses(ctx, ws)
	if err != nil {
		return nil, err
	}
	now, paused := e.config.Clock.Now(), map[string]bool{}
	for _, p := range pauses {
		paused[p.Workflow] = p.ResumedAt.IsZero()
	}
	return func(row delivery.Row) admission.Circumstances {
		c := admission.Circumstances{Paused: paused[row.Workflow]}
		if w := set.Workflow(row.Workflow); w != nil {
			c.Off = !w.Enabled
		}
		def := set.Channel(row.Channel)
		if c.Missing = def == nil; def != nil {
			if state := e.channels.State(ws, def, now); state.Breaker != flow.Closed {
				c.AwayUntil = now
				if state.OpenUntil.After(now) {
					c.AwayUntil = state.OpenUntil
				}
			}
		}
		return c
	}, nil
}

// Now is the time of the engine's clock.
func (e *Engine) Now() time.Time { return e.config.Clock.Now() }

// Definitions returns the set in force.
func (e *Engine) Definitions(ctx context.Context, ws subject.WorkspaceID) (*definition.Set, error) {
	return e.catalog.Current(ctx, ws)
}

// DefinitionsAt returns the set of that number, in force or not.
func (e *Engine) DefinitionsAt(ctx context.Context, ws subject.WorkspaceID, number int64) (*definition.Set, error) {
	return e.catalog.At(ctx, ws, number)
}

// PublicIDs translates row ids to public ids.
func PublicIDs(ws store.Workspace) key.PublicIDs { return key.NewPublicIDs(ws.Secret) }

// NextDue is the earliest instant at which a step will find something to do; zero if there is none.
func (e *Engine) NextDue(ctx context.Context) (time.Time, error) {
	due, err := e.config.Store.NextDue(ctx, e.config.Clock.Now())
	return due.Earliest(), err
}
