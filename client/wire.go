package client

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// Bounds of the API.
const (
	// MaxEvents is how many events one request may hold.
	MaxEvents = 1000
	// DefaultLimit is how many items a page holds when the caller does not say.
	DefaultLimit = 50
	// MaxLimit is how many items a page may hold.
	MaxLimit = 500
)

// Event is a fact that happened in another system.
type Event struct {
	ID         string     `json:"id,omitempty" maxLength:"256" doc:"Your id of the event. The same id and kind is the same event, unless a trigger says otherwise by dedup."`
	Kind       string     `json:"kind" minLength:"1" maxLength:"256" doc:"What happened, such as service-visit-closed."`
	OccurredAt time.Time  `json:"occurred_at,omitzero" doc:"When it happened; the time of receipt when absent."`
	Payload    any        `json:"payload,omitempty" doc:"A JSON object with fields of your own."`
	Recipient  *Recipient `json:"recipient,omitempty" doc:"The person whom the event is about."`
}

// Recipient is a person as an event names them, by address, by reference, or both.
type Recipient struct {
	Address     string `json:"address,omitempty" maxLength:"256" doc:"Telephone number, e-mail address …"`
	Locale      string `json:"locale,omitempty" maxLength:"256" doc:"The language they read, such as ar or en-GB."`
	CustomerRef string `json:"customer_ref,omitempty" maxLength:"256" doc:"Your id of the person."`
}

// EventsAnswer says what became of each event of a request, in the same order.
type EventsAnswer struct {
	Created int           `json:"created" doc:"Events of which something new was made."`
	Skipped int           `json:"skipped" doc:"Events whose every occasion existed already."`
	NoMatch int           `json:"no_match" doc:"Events that concern no workflow; they are kept."`
	Failed  int           `json:"failed" doc:"Events that were refused; nothing of them is kept."`
	Items   []EventResult `json:"items" doc:"One for each event, in the order of the request."`
}

// EventResult is what became of one event.
type EventResult struct {
	Outcome   string        `json:"outcome" enum:"created,skipped,no_match,failed"`
	Reason    string        `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	Message   string        `json:"message,omitempty" doc:"The reason in words."`
	Field     string        `json:"field,omitempty" doc:"The field of the event that is wrong."`
	Hint      string        `json:"hint,omitempty" doc:"What to do."`
	Event     string        `json:"event,omitempty" doc:"The event's id; absent when nothing new was stored."`
	Instances []InstanceRef `json:"instances" doc:"The occasions that it made or met."`
	Warnings  []string      `json:"warnings,omitempty"`
}

// InstanceRef is one occasion of an event.
type InstanceRef struct {
	ID         string        `json:"id,omitempty"`
	Key        string        `json:"key,omitempty" doc:"The deterministic name of the occasion."`
	Workflow   string        `json:"workflow"`
	Trigger    string        `json:"trigger"`
	Outcome    string        `json:"outcome" enum:"created,skipped,no_match,failed"`
	Reason     string        `json:"reason,omitempty"`
	Deliveries []DeliveryRef `json:"deliveries"`
}

// DeliveryRef is a delivery that exists for an occasion.
type DeliveryRef struct {
	ID      string `json:"id"`
	Channel string `json:"channel"`
	Status  string `json:"status"`
}

// EventDetail is an event as it was taken in.
type EventDetail struct {
	ID         string          `json:"id"`
	ExtID      string          `json:"ext_id,omitempty" doc:"The caller's id."`
	Kind       string          `json:"kind"`
	OccurredAt time.Time       `json:"occurred_at"`
	ReceivedAt time.Time       `json:"received_at"`
	Payload    json.RawMessage `json:"payload"`
	Recipient  *Recipient      `json:"recipient,omitempty"`
	Trace      json.RawMessage `json:"trace,omitempty" doc:"What each trigger made of it."`
}

// File is one definition file.
type File struct {
	Name string `json:"name" minLength:"1" maxLength:"1024" doc:"Its path, for messages."`
	Text string `json:"text" doc:"YAML."`
}

// Applied says what a set of files changed.
type Applied struct {
	Number   int64               `json:"number" doc:"The number of the set in force; it grows with every change."`
	Changes  []DefinitionChange  `json:"changes"`
	Warnings []DefinitionProblem `json:"warnings,omitempty"`
	// SecretChanges need the scope secrets.
	SecretChanges []SecretChange `json:"secret_changes,omitempty" doc:"The definitions that changed in what decides where secrets go."`
}

// SecretChange is a definition that changed in what decides where its secrets go.
type SecretChange struct {
	Kind    string   `json:"kind" enum:"channel,sink"`
	Name    string   `json:"name"`
	Fields  []string `json:"fields" doc:"What is new, changed or taken away: provider, settings.NAME."`
	Secrets []string `json:"secrets" doc:"What it refers to now or referred to before: secret NAME, env NAME, file PATH."`
}

// DefinitionChange is what applying did to one definition.
type DefinitionChange struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version int64  `json:"version" doc:"Counts the changes of this definition, from 1."`
	Action  string `json:"action" enum:"added,changed,unchanged"`
}

// Definitions is the set in force.
type Definitions struct {
	Number      int64        `json:"number"`
	Definitions []Definition `json:"definitions"`
}

// Definition is one definition in force.
type Definition struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version int64  `json:"version"`
	Hash    string `json:"hash" doc:"SHA-256 of its meaning; comments and order do not count."`
	Text    string `json:"text" doc:"As it was written."`
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Give it as cursor to get the next page; absent on the last."`
}

// Instance is one occasion of a workflow.
type Instance struct {
	ID              string    `json:"id"`
	Key             string    `json:"key" doc:"The deterministic name of the occasion."`
	Workflow        string    `json:"workflow"`
	WorkflowVersion int64     `json:"workflow_version"`
	Type            string    `json:"type"`
	Trigger         string    `json:"trigger"`
	Event           string    `json:"event,omitempty"`
	Status          string    `json:"status"`
	Held            bool      `json:"held" doc:"It waits until a person decides."`
	HeldSince       time.Time `json:"held_since,omitzero" doc:"Absent where an older version held it."`
	HeldFor         string    `json:"held_for,omitempty" doc:"The reason of the hold. What is completed and has it keeps the reason of its end: of such a row the hold says only that its key came with other inputs."`
	Reason          string    `json:"reason,omitempty"`
	Message         string    `json:"message,omitempty" doc:"The reason in words."`
	DueAt           time.Time `json:"due_at"`
	NextRetryAt     time.Time `json:"next_retry_at,omitzero"`
	Attempts        int       `json:"attempts"`
	RetryCount      int       `json:"retry_count"`
	Crashes         int       `json:"crashes"`
	InputHash       string    `json:"input_hash"`
	CreatedAt       time.Time `json:"created_at"`
	CompletedAt     time.Time `json:"completed_at,omitzero"`
}

// InstanceDetail is an instance with its deliveries.
type InstanceDetail struct {
	Instance
	Record     string          `json:"record,omitempty" doc:"The record that it is about: its type, a slash and its id."`
	Conflict   *InputConflict  `json:"input_conflict,omitempty" doc:"Of one that is held with input_conflict."`
	Failures   []Failure       `json:"failures,omitempty" doc:"The last three."`
	Trace      json.RawMessage `json:"trace,omitempty" doc:"By which rule and values it came to be."`
	Deliveries []Delivery      `json:"deliveries"`
}

// InputConflict sets what an instance was planned by beside what its trigger says now. To release, retry or cancel the instance
// accepts the new.
type InputConflict struct {
	StoredVersion int64        `json:"stored_version" doc:"Version of the workflow by which it was planned."`
	NewVersion    int64        `json:"new_version,omitempty" doc:"The one in force; absent where there is none."`
	Known         bool         `json:"known" doc:"False: what it was planned by was never written down, as by an older version of this program."`
	Defined       bool         `json:"defined" doc:"False: its trigger is defined no longer."`
	Agrees        bool         `json:"agrees" doc:"By now both are the same, as after an edit; it is held until somebody releases it."`
	Fields        []InputField `json:"fields"`
}

// InputField is one field of what the key of an instance stands for but does not spell.
type InputField struct {
	Name    string `json:"name" doc:"anchor, metric, period, per or dedup: as in the definition."`
	Stored  string `json:"stored"`
	New     string `json:"new"`
	Differs bool   `json:"differs"`
}

// Failure is one try at an instance that failed.
type Failure struct {
	At    time.Time `json:"at"`
	Error string    `json:"error"`
}

// Delivery is the promise of one message, with its reminders, to one contact on one channel.
type Delivery struct {
	ID                 string    `json:"id"`
	Key                string    `json:"key"`
	Instance           string    `json:"instance"`
	Event              string    `json:"event,omitempty"`
	Workflow           string    `json:"workflow"`
	WorkflowVersion    int64     `json:"workflow_version"`
	Type               string    `json:"type"`
	Trigger            string    `json:"trigger"`
	Channel            string    `json:"channel"`
	Address            string    `json:"address"`
	Locale             string    `json:"locale,omitempty"`
	CustomerRef        string    `json:"customer_ref,omitempty"`
	Status             string    `json:"status"`
	Sending            bool      `json:"sending" doc:"A worker has it in hand."`
	Reason             string    `json:"reason,omitempty"`
	Message            string    `json:"message,omitempty" doc:"The reason in words."`
	StopReason         string    `json:"stop_reason,omitempty"`
	NotBefore          time.Time `json:"not_before"`
	SendAt             time.Time `json:"send_at,omitzero" doc:"When the next message leaves; absent when none is planned."`
	DeferredBy         string    `json:"deferred_by,omitempty" doc:"The first limit that moved it, in the order cooldown, type_daily, daily, weekly, monthly, quiet_hours, send_window. It stays when the message has left."`
	WaitsFor           string    `json:"waits_for,omitempty" doc:"The limit whose end send_at is, while the message waits for it; when several move it, the last to end."`
	FoldedInto         string    `json:"folded_into,omitempty" doc:"The delivery with which it left as one message, or is to leave."`
	Step               int       `json:"step" doc:"Messages that are over: accepted, skipped or given up."`
	RemindersRemaining int       `json:"reminders_remaining"`
	Attempts           int       `json:"attempts" doc:"Tries at the provider."`
	RetryCount         int       `json:"retry_count"`
	LastSentAt         time.Time `json:"last_sent_at,omitzero"`
	ExpiresAt          time.Time `json:"expires_at,omitzero"`
	CreatedAt          time.Time `json:"created_at"`
	CompletedAt        time.Time `json:"completed_at,omitzero"`
}

// DeliveryDetail is a delivery with what was tried and said.
type DeliveryDetail struct {
	Delivery
	Outlook  *Outlook        `json:"outlook,omitempty" doc:"When its next message leaves, as far as that can be known; absent when there is none."`
	Says     []string        `json:"says,omitempty" doc:"What kept it from leaving as planned, as it stood then; instants are in the person's zone."`
	Trace    json.RawMessage `json:"trace,omitempty"`
	Attempts []Attempt       `json:"attempt_log"`
	Contents []Content       `json:"contents,omitempty" doc:"What was rendered, where the channel keeps it."`
	Carrier  *Folded         `json:"carrier,omitempty" doc:"What it was folded into, and what became of that."`
	Folded   []Folded        `json:"folded,omitempty" doc:"What left with it as one message, or is to leave with it, in the order of its texts."`
}

// Folded is a delivery that is part of one message with another one.
type Folded struct {
	ID         string    `json:"id"`
	Workflow   string    `json:"workflow"`
	Trigger    string    `json:"trigger"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty" doc:"The reason in words."`
	SendAt     time.Time `json:"send_at,omitzero"`
	LastSentAt time.Time `json:"last_sent_at,omitzero"`
}

// Attempt is one try at a provider.
type Attempt struct {
	Number         int       `json:"number" doc:"From 1; 0 where nothing was tried."`
	Step           int       `json:"step"`
	Channel        string    `json:"channel"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	IntentAt       time.Time `json:"intent_at,omitzero"`
	SettledAt      time.Time `json:"settled_at,omitzero"`
	Outcome        string    `json:"outcome"`
	Reason         string    `json:"reason,omitempty"`
	ProviderID     string    `json:"provider_id,omitempty"`
	Error          string    `json:"error,omitempty"`
}

// Content is what was rendered for one step.
type Content struct {
	Step    int       `json:"step"`
	At      time.Time `json:"at"`
	Channel string    `json:"channel"`
	Address string    `json:"address"`
	Locale  string    `json:"locale,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Text    string    `json:"text"`
	HTML    string    `json:"html,omitempty"`
}

// Outlook is what is known about the next message of a delivery.
type Outlook struct {
	Reason  string    `json:"reason,omitempty" doc:"What keeps it from leaving, or why it is tried again; absent: nothing."`
	Message string    `json:"message,omitempty" doc:"The reason's sentence."`
	At      time.Time `json:"at,omitzero" doc:"When it leaves, with a reason at the earliest; absent: nobody can say."`
}

// Operated says what a person's action did.
type Operated struct {
	Changed       bool     `json:"changed" doc:"False: nothing was changed, because it was so already or for the reason beside it."`
	Reason        string   `json:"reason,omitempty" doc:"Why nothing was changed: being_sent. Without one it was so already."`
	Message       string   `json:"message,omitempty" doc:"The reason's sentence."`
	Instance      string   `json:"instance" doc:"The instance that was acted on, or that the delivery belongs to."`
	Deliveries    []string `json:"deliveries" doc:"The deliveries that were changed."`
	BeingSent     []string `json:"being_sent,omitempty" doc:"The deliveries whose message is on the wire at this moment: it may arrive, and nothing follows it."`
	NewInstance   string   `json:"new_instance,omitempty" doc:"A message that has ended is sent again as a new occasion."`
	NewKey        string   `json:"new_key,omitempty"`
	NewDeliveries []string `json:"new_deliveries,omitempty"`
}

// ManualRun is a run of a workflow by hand.
type ManualRun struct {
	Created  bool   `json:"created" doc:"False: there was a run of that id already."`
	Instance string `json:"instance" doc:"The occasion of the run."`
	Key      string `json:"key"`
}

// Tick counts what one run of every pass did.
type Tick struct {
	Processed  int `json:"processed" doc:"Deliveries that were taken up."`
	Looked     int `json:"looked" doc:"Records whose conditions were looked at."`
	Expanded   int `json:"expanded" doc:"Instances whose deliveries were made."`
	Reclaimed  int `json:"reclaimed" doc:"Rows of lost workers that were taken over."`
	Expired    int `json:"expired"`
	Failed     int `json:"failed"`
	Dispatched int `json:"dispatched" doc:"Outcomes handed to sinks."`
}

// Reasons lists every named outcome.
type Reasons struct {
	Reasons []Reason `json:"reasons"`
}

// Reason is one named outcome.
type Reason struct {
	Reason   string `json:"reason"`
	Class    string `json:"class" doc:"What it means for the message."`
	Sentence string `json:"sentence"`
}

// InstanceQuery narrows a list of instances; zero fields do not.
type InstanceQuery struct {
	Workflow string
	Status   string
	Held     bool
	Event    string // id
	Record   string // TYPE/ID
	Key      string
	Reason   string
	Since    string // made at this instant or later: RFC 3339, or how long ago, such as 1d
	Until    string // made before this instant
	Limit    int
	Cursor   string
}

func (q InstanceQuery) values() url.Values {
	v := values{}
	v.set("workflow", q.Workflow)
	v.set("status", q.Status)
	v.set("event", q.Event)
	v.set("record", q.Record)
	v.set("key", q.Key)
	v.set("reason", q.Reason)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	if q.Held {
		v.set("held", "true")
	}
	v.limit(q.Limit)
	return url.Values(v)
}

// DeliveryQuery narrows a list of deliveries; zero fields do not.
type DeliveryQuery struct {
	Workflow string
	Status   string
	Channel  string
	Reason   string
	To       string // any address of a person, your id of them, or their whole name
	Instance string // id
	Since    string // made at this instant or later: RFC 3339, or how long ago, such as 1d
	Until    string // made before this instant
	Limit    int
	Cursor   string
}

func (q DeliveryQuery) values() url.Values {
	v := values{}
	v.set("workflow", q.Workflow)
	v.set("status", q.Status)
	v.set("channel", q.Channel)
	v.set("reason", q.Reason)
	v.set("to", q.To)
	v.set("instance", q.Instance)
	v.set("since", q.Since)
	v.set("until", q.Until)
	v.set("cursor", q.Cursor)
	v.limit(q.Limit)
	return url.Values(v)
}

type values url.Values

func (v values) set(name, value string) {
	if value != "" {
		v[name] = []string{value}
	}
}

func (v values) limit(n int) {
	if n > 0 {
		v.set("limit", strconv.Itoa(n))
	}
}
