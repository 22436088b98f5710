package definition

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition/portable"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/schedule"
)

// Kind is the first key of a document.
type Kind string

// The kinds of documents. Scenario files share the format and are checked, never applied.
const (
	KindWorkflow   Kind = "workflow"
	KindSurvey     Kind = "survey"
	KindTemplate   Kind = "template"
	KindPersona    Kind = "persona"
	KindRecordType Kind = "record_type"
	KindChannel    Kind = "channel"
	KindSink       Kind = "sink"
	KindWorkspace  Kind = "workspace"
	KindScenario   Kind = "scenario"
)

// Values of keys that have a fixed set of words.
const (
	DedupWorkflow   = "workflow" // dedup_scope: an occasion is one per workflow
	DedupWorkspace  = "workspace"
	DedupAllow      = "allow" // dedup_missing: a missing value counts as empty
	DedupReject     = "reject"
	OnUnknownResend = "resend" // on_unknown: tried again under the same key
	OnUnknownHold   = "hold"   // left to a person
	OnUnknownVerify = "verify" // the provider is asked first
	RetryFail       = "fail"   // retry.then
	RetryHold       = "hold"
	RetryDaily      = "daily"
	RetryForever    = "forever"
	CrashNow        = "now" // retry.on_crash
	CrashLadder     = "ladder"
)

// EventResponseCompleted is the outcome that sinks get by default.
const EventResponseCompleted = "response.completed"

// Document is one definition as written: the unit of storing and of versions.
type Document struct {
	Kind Kind
	Name string
	Text string // the YAML of this document alone, as the author wrote it
	Hash string // SHA-256 of its meaning: comments, order of keys and spelling of blanks do not count
	File string // where it was read; empty when it comes from the store
	Line int
}

// Stored is a document of one numbered set, as the store gives it back.
type Stored struct {
	Document
	Version int64 // counts the changes of this definition, from 1
}

// Set is everything that is defined in one workspace at one moment, compiled. It is immutable and safe for
// concurrent use.
type Set struct {
	Number    int64 // of the workspace's sets; every applied change makes the next one
	Workspace Workspace

	workflows map[string]*Workflow
	surveys   map[string]*Survey
	channels  map[string]*Channel
	sinks     map[string]*Sink
	templates map[string]Message
	personas  map[string]*Persona
	types     map[string]*expr.RecordType
	byEvent   map[string][]Match
	byRecord  map[string][]Match
	schedules []Match

	relations  map[string][]Relation
	readAcross map[string][]string
}

// Persona is the rules of a kind of people.
type Persona struct {
	Name    string
	Cadence cadence.Rules
}

// limits reports whether the persona has any limit: without one its people have the workspace's (decision 11).
func (p *Persona) limits() bool {
	if !p.Cadence.Empty() {
		return true
	}
	for _, own := range p.Cadence.Channels {
		if !own.Empty() {
			return true
		}
	}
	return false
}

// Match is one trigger of one workflow.
type Match struct {
	Workflow *Workflow
	Trigger  *Trigger
}

// Workspace holds the defaults of a tenant.
type Workspace struct {
	Timezone string // UTC
	Locale   string // en
	BaseURL  string // public links begin with it
	Retry    Retry
	Cadence  cadence.Rules // for people without any rule
	Limits   cadence.Layer // whether Cadence is the workspace's own, or the default (A37)
}

// Workflow says what makes an occasion, who is told, when and what.
type Workflow struct {
	Name    string
	Version int64
	Type    string // alert reminder report survey broadcast digest story_so_far custom
	Enabled bool
	ExtID   string // its id in another system; its name when there is none
	Locale  string
	Vars    map[string]any
	Trigger []*Trigger
	Sinks   []SinkRef
}

// Trigger makes occasions out of events, of the states of records, or of the calendar. Blocks that a trigger may override stand here already resolved.
type Trigger struct {
	ID           string
	Enabled      bool
	Event        string          // kind of event; empty for a trigger on records
	Record       string          // type of record; empty for a trigger on events
	Schedule     *Timetable      // nil for the others: then exactly one of Event, Record and Schedule is set
	When         *expr.Condition // nil = always
	Issues       []Issue         // instead of When, in the order of their names; the true ones are the issues
	For          time.Duration   // how long it must have held (R8)
	Check        Check
	Cooldown     *Cooldown  // of a trigger on records; nil = it plans ahead
	Metric       *Metric    // of a trigger that plans ahead; nil = none
	Fire         string     // within what such a trigger fires once; empty = by its date, else once_per_source
	Dates        *Dates     // of a trigger that plans ahead: when its occasions are due
	Reconcile    *Reconcile // of a trigger that plans ahead: how what is missing is planned again; nil = not at all
	Fallback     []string   // channels in the order of trying, kind:name
	Resolved     *Message   // what is said when the condition has cleared; nil = nothing
	Limits       Limits
	Dedup        []string // paths; nil = the event's id, else the hash of its content
	DedupScope   string   // workflow or workspace
	DedupMissing string   // allow or reject (decision 40)
	Timing       schedule.Timing
	Anchor       *expr.Program   // a date or an instant; nil = event.occurred_at, or when a record's condition is met
	StopWhen     *expr.Condition // of a trigger that plans ahead or by a schedule; nil = never
	Audience     []Audience
	Channel      string // kind:name
	Message      Message
	Retry        Retry
	Pin          bool

	inputs      string // see Inputs
	crossing    Crossing
	at, dedupAt portable.Pos
}

// Issue is one named condition of a trigger.
type Issue struct {
	Name string
	When *expr.Condition
}

// Check says when a trigger looks at its records.
type Check struct {
	Change bool          // when they are written, and when time alone may change the answer
	Every  time.Duration // at the multiples of it since midnight UTC, nominally; 0 = never
}

// Cooldown is gate 1: a context fires again, but not sooner.
type Cooldown struct {
	Length       time.Duration            // 0 = the shortest of the audience's personas, else an hour (A12, A13)
	Per          []*expr.Program          // what makes a context, beside the trigger; empty: one for the trigger
	Issues       map[string]time.Duration // lengths of single issues (A23)
	ResetOnClear bool
}

// Values of cadence.window.
const (
	WindowCalendar = "calendar"
	WindowRolling  = "rolling"
)

// Values of limits.
const (
	LimitDefer    = "defer"
	LimitSkip     = "skip"
	LimitFallback = "fallback"
	LimitFail     = "fail"
	LimitFold     = "fold"
)

// Limits say how a trigger's messages meet the limits of people (gate 2).
type Limits struct {
	Critical   bool       // passes caps, cooldown and quiet hours
	Uncounted  bool       // uses up no caps (counts: false)
	AtCreate   string     // defer, skip or fallback
	AtSend     string     // defer, fail or fold
	KeepQueued bool       // a newer message does not supersede one that still waits (supersede: false)
	Revalidate bool       // what no longer holds is dropped at the send
	SendWindow civil.Span // in the recipient's zone; zero = at any time
}

// Audience is one entry of who is told.
type Audience struct {
	Persona        string        // everybody with that persona, resolved when due
	Everyone       bool          // all contacts, resolved when due
	EventRecipient bool          // to: event.recipient, resolved at ingest (decision 61)
	To             *expr.Program // ids of contacts, resolved when due
	Address        *expr.Program // an address or a list of them, resolved when due
	AddressKind    string        // of the channels that Address is for
	Where          *expr.Condition

	kindAt portable.Pos // of AddressKind
}

// Message is what is said; exactly one of Survey and the texts is set.
type Message struct {
	Survey  string // renders that survey's invitation
	ByKind  map[string]Texts
	Default Texts // the plain text for channel kinds without texts of their own
	Data    []*Data
}

// Texts are the parts of a message for one kind of channel, each in several locales.
type Texts struct {
	Subject, Text, HTML message.Text
	// Of emails alone; From and ReplyTo are the channel's where they say nothing.
	From, ReplyTo message.Text
	Headers       map[string]message.Text // by name
}

// Retry says what follows a failed try.
type Retry struct {
	Backoff []time.Duration // of instances, and of deliveries that have another channel to go to; of all where it is written
	Patient []time.Duration // of other deliveries, where no backoff is written
	Jitter  int             // percent, drawn from key and attempt; 0 = none
	Then    string          // after the last wait (decision 31)
	// Of instances alone:
	OnCrash string        // now or ladder (decision 29)
	Lease   time.Duration // 0: one is held by the lock of its row while it is done
}

// Survey is a form; until its pages exist only the invitation is used. Its title is the invitation's subject.
type Survey struct {
	Name       string
	Version    int64
	Title      message.Text
	Invitation Texts
	Questions  []Question

	broken bool // its invitation was refused already
}

// Question is one question of a survey.
type Question struct {
	ID        string
	Type      string // choice multiple number rating text date yes_no
	Text      message.Text
	Required  bool
	Options   []Option // of choice and multiple
	Min, Max  *float64 // of number and rating, inclusive; nil = no bound
	MaxLength int      // of text, in characters; 0 = no bound
	Pattern   string   // of text: a regular expression
	ShowWhen  *expr.Condition
	ValidWhen *expr.Condition
}

// Option is one answer to choose from.
type Option struct {
	Value string
	Text  message.Text
}

// Channel names a provider and its settings.
type Channel struct {
	Key       string // kind:name
	Kind      string
	Provider  string
	Settings  map[string]Setting
	OnUnknown string        // resend, hold or verify
	KeyLife   time.Duration // how long the provider knows an idempotency key; 0 = for ever
	Timeout   time.Duration // of one request; 0 = the process's
	// Concurrency is how many requests a process has on the wire at once; 0 = the process's.
	Concurrency int
	Rate        flow.Rate  // over all processes; zero = no bound
	OnlyTo      flow.Allow // whom it may write to; nil = everybody
	Hash        string     // of the document: a channel is opened anew when it changes
}

// Setting is a literal or a reference to a secret; secrets are never written into definitions.
type Setting struct {
	Value string
	Env   string
	File  string
	// Secret is the name of one of the workspace's secrets.
	Secret string
}

// Sink is where outcomes go; stored and checked, acted on once outcomes leave.
type Sink struct {
	Name     string
	Provider string
	Settings map[string]Setting
	Events   []string
	When     *expr.Condition
	Backoff  []time.Duration
	Attempts int             // 0 = the default
	Raw      json.RawMessage // the document as JSON
}

// SinkRef is a workflow's use of a sink.
type SinkRef struct {
	Sink   string
	Events []string
	When   *expr.Condition
}

// Workflow returns the workflow of that name, nil when there is none.
func (s *Set) Workflow(name string) *Workflow { return s.workflows[name] }

// Survey returns the survey of that name, nil when there is none.
func (s *Set) Survey(name string) *Survey { return s.surveys[name] }

// Channel returns the channel of that key (kind:name), nil when there is none.
func (s *Set) Channel(key string) *Channel { return s.channels[key] }

// ChannelKinds are the kinds of channels for which there can be limits.
func (s *Set) ChannelKinds() []string {
	var keys []string
	for _, c := range s.Channels() {
		keys = append(keys, c.Key)
	}
	return kindsWith(keys)
}

// Workflows lists every workflow by name.
func (s *Set) Workflows() []*Workflow {
	return slices.SortedFunc(maps.Values(s.workflows), func(a, b *Workflow) int { return strings.Compare(a.Name, b.Name) })
}

// Channels returns all channels in the order of their keys.
func (s *Set) Channels() []*Channel {
	return slices.SortedFunc(maps.Values(s.channels), func(a, b *Channel) int { return strings.Compare(a.Key, b.Key) })
}

// Sinks returns all sinks in the order of their names.
func (s *Set) Sinks() []*Sink {
	return slices.SortedFunc(maps.Values(s.sinks), func(a, b *Sink) int { return strings.Compare(a.Name, b.Name) })
}

// Sink returns the sink of that name, nil when there is none.
func (s *Set) Sink(name string) *Sink { return s.sinks[name] }

// ByEvent returns the triggers for a kind of event, switched off ones included, in the order of workflow names
// and of the triggers in their file.
func (s *Set) ByEvent(kind string) []Match { return s.byEvent[kind] }

// ByRecord returns the triggers for a type of record, switched off ones included, in the order of workflow names and
// of the triggers in their file.
func (s *Set) ByRecord(typ string) []Match { return s.byRecord[typ] }

// WatchedTypes returns the types of records that triggers look at, in the order of their names.
func (s *Set) WatchedTypes() []string { return slices.Sorted(maps.Keys(s.byRecord)) }

// Persona returns the persona of that name, nil when there is none.
func (s *Set) Persona(name string) *Persona { return s.personas[name] }

// Personas returns all personas in the order of their names.
func (s *Set) Personas() []*Persona {
	return slices.SortedFunc(maps.Values(s.personas), func(a, b *Persona) int { return strings.Compare(a.Name, b.Name) })
}

// RecordType returns the declared type of that name, nil when its records are open.
func (s *Set) RecordType(name string) *expr.RecordType { return s.types[name] }

// RecordTypes returns the declared types in the order of their names.
func (s *Set) RecordTypes() []*expr.RecordType {
	return slices.SortedFunc(maps.Values(s.types), func(a, b *expr.RecordType) int { return strings.Compare(a.Name, b.Name) })
}

// TriggerByID returns the trigger of that id, nil when there is none.
func (w *Workflow) TriggerByID(id string) *Trigger {
	for _, t := range w.Trigger {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// ExtIDValue is ext_id for an answer in JSON: a number when it is spelled as one, as the systems that have numbers for
// ids expect it (C12), else a text.
func (w *Workflow) ExtIDValue() any {
	const exactDigits = 15 // every reader of JSON keeps whole numbers up to here
	if len(w.ExtID) > exactDigits || w.ExtID == "" || w.ExtID[0] == '0' && w.ExtID != "0" {
		return w.ExtID
	}
	for _, c := range w.ExtID {
		if c < '0' || c > '9' {
			return w.ExtID
		}
	}
	return json.Number(w.ExtID)
}
