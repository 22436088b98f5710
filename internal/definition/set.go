package definition

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/flow"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/reply"
	"github.com/carillonhq/carillon/internal/schedule"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

// Kind is the first key of a document.
type Kind string

// The kinds of documents. Scenario files share the format and are checked, never applied.
const (
	KindWorkflow   Kind = "workflow"
	KindSurvey     Kind = "survey"
	KindTemplate   Kind = "template"
	KindPersona    Kind = "persona"
	KindGroup      Kind = "group"
	KindTopic      Kind = "topic"
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

// Document is one definition as written: the unit of storing and of versions.
type Document struct {
	Kind Kind
	Name string
	Text string // the YAML of this document alone, as the author wrote it
	Hash string // SHA-256 of its content: comments, the order of keys and blanks do not count
	File string // the file that it was read from; empty when it comes from the store
	Line int
}

// Stored is a document of one numbered set, as the store returns it.
type Stored struct {
	Document
	Version int64 // counts the changes of this definition, from 1
}

// Set is a compiled definition set of one workspace. It is immutable and safe for concurrent use.
type Set struct {
	Number    int64 // of the workspace's sets; every applied change makes the next one
	Workspace Workspace
	// ReadsGroups says that a text or an expression reads contact.groups.
	ReadsGroups bool

	workflows map[string]*Workflow
	surveys   map[string]*Survey
	channels  map[string]*Channel
	sinks     map[string]*Sink
	personas  map[string]*Persona
	groups    map[string]*Group
	topics    map[string]*Topic
	types     map[string]*expr.RecordType
	byEvent   map[string][]Match
	byRecord  map[string][]Match
	schedules []Match

	folds      bool
	relations  map[string][]Relation
	readAcross map[string][]string
	// readOfChildren are the fields of children that triggers read, by the type of the parent.
	readOfChildren map[string][]string
}

// Persona is a role of contacts with its limits.
type Persona struct {
	Name    string
	Cadence cadence.Rules
}

// HasLimits reports whether the persona has any limit: without one, the workspace's limits apply to its contacts (product decision 11).
func (p *Persona) HasLimits() bool {
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
	BaseURL  string // prefix of public links
	Retry    Retry
	Cadence  cadence.Rules // limits for contacts without limits of their own
	Limits   cadence.Layer // says whether Cadence is the workspace's own or the default (A37)
}

// Workflow says what makes an occasion, who is notified, when and with which message.
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
	// MaxSends is how many messages it may send in an hour; what would go beyond pauses it. 0 = any number.
	MaxSends int
	// Digest says how its digests are put together; nil: its type is not digest.
	Digest *digest.Rules
}

// Trigger makes occasions from events, from the states of records, or from a schedule. Blocks that a trigger may override are already
// resolved here.
type Trigger struct {
	ID       string
	Enabled  bool
	Source   Source
	When     *expr.Condition // nil = always
	Timing   schedule.Timing
	Anchor   *expr.Program   // a date or an instant; nil = event.occurred_at, or when a record's condition is met
	StopWhen *expr.Condition // of a trigger that plans ahead or by a schedule; nil = never
	Audience []Audience
	Channel  string   // kind:name
	Fallback []string // channels in the order of trying, kind:name
	Message  Message
	Limits   Limits
	Priority flow.Priority
	// MaxRecipients is how many people an occasion may take up; with more it is put on hold. 0 = any number.
	MaxRecipients int
	Retry         Retry
	Pin           bool
	Digest        *digest.Rules // of a schedule whose runs are digests; nil: its messages are not

	inputs string // see Inputs
}

// Issue is one named condition of a trigger.
type Issue struct {
	Name string
	When *expr.Condition
}

// Check says when a trigger evaluates its records.
type Check struct {
	Change bool          // when they are written, and when time alone may change the result
	Every  time.Duration // at multiples of this interval since midnight UTC; 0 = never
}

// Cooldown is gate 1: the least time between two firings of a context.
type Cooldown struct {
	Length       time.Duration            // 0 = the shortest of the audience's personas, else an hour (A12, A13)
	Per          []*expr.Program          // the parts of a context, in addition to the trigger; empty: one context for the trigger
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

// Limits say how the limits of contacts apply to a trigger's messages (gate 2).
type Limits struct {
	Critical   bool       // passes caps, cooldown and quiet hours
	Uncounted  bool       // uses up no caps (counts: false)
	AtCreate   string     // defer, skip or fallback
	AtSend     string     // defer, fail or fold
	KeepQueued bool       // a newer message does not supersede one that still waits (supersede: false)
	Revalidate bool       // a message whose condition no longer holds is dropped when it would be sent
	SendWindow civil.Span // in the recipient's zone; zero = at any time
}

// Audience is one entry of an audience.
type Audience struct {
	Persona        string        // all contacts with that persona, resolved when due
	Group          string        // all contacts of that group, resolved when due
	Places         []string      // the contacts in these places, resolved when due
	Below          bool          // with Places: and in those below them
	PlaceTypes     []string      // with Below: those alone whose own place has one of these types; with Above: of which type that place is; nil: of any
	Everyone       bool          // all contacts, resolved when due
	EventRecipient bool          // to: event.recipient, resolved at ingest (product decision 61)
	To             *expr.Program // ids of contacts, resolved when due
	Above          bool          // To gives places, or owners who have one, and the contacts of the place above are meant
	Address        *expr.Program // an address or a list of them, resolved when due
	AddressKind    string        // kind of the channels that Address is for
	Function       *expr.Program // the call of a function of a binary of one's own, resolved when due
	Topics         string        // which topics its people subscribe to: TopicsNamed, TopicsAll or TopicsMatched; empty: it is not about topics
	TopicNames     []string      // with TopicsNamed
	Frequency      string        // with Topics: of the subscriptions; empty: any
	Where          *expr.Condition
}

// Values of Audience.Topics.
const (
	TopicsNamed   = "named"
	TopicsAll     = "all"
	TopicsMatched = "matched" // those of the item
)

// Message is a message; exactly one of Survey and the texts is set.
type Message struct {
	Survey string // renders that survey's invitation, or asks its questions
	// Converses means that the survey is asked by messages, one question each (mode: conversation).
	Converses bool
	ByKind    map[string]Texts
	Default   Texts // the plain text for channel kinds without texts of their own
	Data      []*Data
	// Metadata goes with the message to the provider, by name (commcare.md §1).
	Metadata map[string]message.Text
}

// Texts are the parts of a message for one kind of channel, each in several locales.
type Texts struct {
	Subject, Text, HTML message.Text
	// For emails only; an empty From or ReplyTo means the channel's.
	From, ReplyTo message.Text
	Headers       map[string]message.Text // by name
}

// Retry says what follows a failed attempt.
type Retry struct {
	Backoff []time.Duration // for instances and for deliveries that have a fallback; for all deliveries when the definition writes it
	Patient []time.Duration // for the other deliveries, when the definition writes no backoff
	Jitter  int             // percent, drawn from key and attempt; 0 = none
	Then    string          // after the last wait (product decision 31)
	// For instances only:
	OnCrash string        // now or ladder (product decision 29)
	Lease   time.Duration // 0: no lease; the row stays locked while the instance is processed
}

// Survey is a form, and the invitation to it. Its title is the invitation's subject.
type Survey struct {
	Name       string
	Version    int64
	Invitation Texts
	Form       survey.Form
	// Conversation says how it is asked by messages.
	Conversation survey.Conversation
}

// Spoken returns the variables that the messages of a conversation read.
func (s *Survey) Spoken() []string {
	texts := []message.Text{s.Conversation.Invalid, s.Conversation.Closing}
	for _, q := range s.Form.Questions {
		texts = append(texts, q.Text)
		for _, o := range q.Options {
			texts = append(texts, o.Text)
		}
	}
	var all []string
	for _, text := range texts {
		text.Templates(func(_ string, t *message.Template) { all = append(all, t.Variables()...) })
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Channel names a provider and its settings.
type Channel struct {
	Key       string // kind:name
	Kind      string
	Provider  string
	Settings  map[string]Setting
	OnUnknown string        // resend, hold or verify
	KeyLife   time.Duration // how long the provider remembers an idempotency key; 0 = for ever
	Timeout   time.Duration // of one request; 0 = the process's
	// Concurrency is how many requests a process has in flight at once; 0 = the process's.
	Concurrency int
	Rate        flow.Rate   // over all processes; zero = no bound
	OnlyTo      flow.Allow  // the allowlist; nil = all addresses
	Keywords    reply.Words // the words for keywords where they are not the built-in ones
	Hash        string      // hash of the document: the channel is reopened when it changes
}

// Setting is a literal or a reference to a secret; secrets are never written into definitions.
type Setting struct {
	Value string
	Env   string
	File  string
	// Secret is the name of one of the workspace's secrets.
	Secret string
}

// Workflow returns the workflow of that name, nil when there is none.
func (s *Set) Workflow(name string) *Workflow { return s.workflows[name] }

// Survey returns the survey of that name, nil when there is none.
func (s *Set) Survey(name string) *Survey { return s.surveys[name] }

// Channel returns the channel of that key (kind:name), nil when there is none.
func (s *Set) Channel(key string) *Channel { return s.channels[key] }

// ChannelKinds returns the kinds of channels that can have limits.
func (s *Set) ChannelKinds() []string {
	var keys []string
	for _, c := range s.Channels() {
		keys = append(keys, c.Key)
	}
	return KindsWith(keys)
}

// Workflows lists every workflow by name.
func (s *Set) Workflows() []*Workflow {
	return slices.SortedFunc(maps.Values(s.workflows), func(a, b *Workflow) int { return strings.Compare(a.Name, b.Name) })
}

// Channels returns all channels in the order of their keys.
func (s *Set) Channels() []*Channel {
	return slices.SortedFunc(maps.Values(s.channels), func(a, b *Channel) int { return strings.Compare(a.Key, b.Key) })
}

// Folds reports whether messages of any trigger may leave with others as one (at_send: fold).
func (s *Set) Folds() bool { return s.folds }

// ByEvent returns the triggers for a kind of event, switched off ones included, in the order of workflow names
// and of the triggers in their file.
func (s *Set) ByEvent(kind string) []Match { return s.byEvent[kind] }

// ByRecord returns the triggers for a type of record, switched off ones included, in the order of workflow names and
// of the triggers in their file.
func (s *Set) ByRecord(typ string) []Match { return s.byRecord[typ] }

// WatchedTypes returns the types of records that triggers evaluate, ordered by name.
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

// ExtIDValue returns ext_id for a JSON response: a number when it is written as one, as systems with numeric ids expect (C12), else a
// text.
func (w *Workflow) ExtIDValue() any {
	const exactDigits = 15 // every JSON reader keeps integers of this many digits
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

// Schedules returns the triggers with a schedule, switched off ones included, in the order of workflow names and of the
// triggers in their file.
func (s *Set) Schedules() []Match { return s.schedules }

// Ladder returns the waits between the attempts of a delivery; further says that it has another channel to fall back to.
func (r Retry) Ladder(further bool) []time.Duration {
	if further || r.Patient == nil {
		return r.Backoff
	}
	return r.Patient
}

// KindsWith returns the kinds of addresses, and the kinds of the given channels.
func KindsWith(channels []string) []string {
	kinds := subject.AddressKinds()
	for _, key := range channels {
		if kind, _, _ := strings.Cut(key, ":"); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Variables returns the paths that the texts of a message read, sorted.
func (m Message) Variables() []string {
	var all []string
	for _, texts := range m.ByKind {
		all = append(all, texts.Variables()...)
	}
	for _, value := range m.Metadata {
		all = append(all, variables(value)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Variables returns the paths that the texts read.
func (t Texts) Variables() []string {
	var all []string
	for _, text := range slices.AppendSeq([]message.Text{t.Subject, t.Text, t.HTML, t.From, t.ReplyTo}, maps.Values(t.Headers)) {
		all = append(all, variables(text)...)
	}
	return all
}

func variables(text message.Text) (all []string) {
	text.Templates(func(_ string, t *message.Template) { all = append(all, t.Variables()...) })
	return all
}

// File is a file of definitions, or a scenario.
type File struct {
	Name string
	Text []byte
}

// Ref names a definition.
type Ref struct {
	Kind Kind
	Name string
}
