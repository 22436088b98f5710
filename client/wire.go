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
	Created int           `json:"created" doc:"Events that made something new."`
	Skipped int           `json:"skipped" doc:"Events whose occasions all existed already."`
	NoMatch int           `json:"no_match" doc:"Events that concern no workflow; they are kept."`
	Failed  int           `json:"failed" doc:"Events that were refused; nothing of them is kept."`
	Items   []EventResult `json:"items" doc:"One for each event, in the order of the request."`
}

// EventResult is what became of one event.
type EventResult struct {
	Outcome   string        `json:"outcome" enum:"created,skipped,no_match,failed" doc:"What became of the event."`
	Reason    string        `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	Message   string        `json:"message,omitempty" doc:"The reason in words."`
	Field     string        `json:"field,omitempty" doc:"The field of the event that is wrong."`
	Hint      string        `json:"hint,omitempty" doc:"What to do."`
	Event     string        `json:"event,omitempty" doc:"The event's id; absent when nothing new was stored."`
	Instances []InstanceRef `json:"instances" doc:"The occasions that it made or met."`
	Warnings  []string      `json:"warnings,omitempty" doc:"Accepted, but probably a mistake, such as a dedup field that the event lacks."`
}

// InstanceRef is one occasion of an event.
type InstanceRef struct {
	ID         string        `json:"id,omitempty" doc:"The id of the instance; absent where none was made."`
	Key        string        `json:"key,omitempty" doc:"The deterministic name of the occasion."`
	Workflow   string        `json:"workflow" doc:"The name of the workflow."`
	Trigger    string        `json:"trigger" doc:"The id of the trigger."`
	Outcome    string        `json:"outcome" enum:"created,skipped,no_match,failed" doc:"What the event did to it."`
	Reason     string        `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	Deliveries []DeliveryRef `json:"deliveries" doc:"The deliveries that exist for it by now."`
}

// DeliveryRef is a delivery that exists for an occasion.
type DeliveryRef struct {
	ID      string `json:"id" doc:"The id of the delivery."`
	Channel string `json:"channel" doc:"As kind:name."`
	Status  string `json:"status" doc:"Where it stands, such as scheduled or sent."`
}

// EventDetail is an event as it was received.
type EventDetail struct {
	ID         string          `json:"id" doc:"The id of the event."`
	ExtID      string          `json:"ext_id,omitempty" doc:"The caller's id."`
	Kind       string          `json:"kind" doc:"What happened."`
	OccurredAt time.Time       `json:"occurred_at" doc:"When it happened."`
	ReceivedAt time.Time       `json:"received_at" doc:"When it was received."`
	Payload    json.RawMessage `json:"payload" doc:"The fields that it came with."`
	Recipient  *Recipient      `json:"recipient,omitempty" doc:"The person whom the event is about."`
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
	Changes  []DefinitionChange  `json:"changes" doc:"What it did to each definition of the files."`
	Warnings []DefinitionProblem `json:"warnings,omitempty" doc:"Valid, but probably a mistake."`
	// SecretChanges need the scope secrets.
	SecretChanges []SecretChange `json:"secret_changes,omitempty" doc:"The definitions that changed in what decides where secrets go."`
	// Preview is there after a dry run alone: nothing was changed, and Number is that of the set in force.
	Preview *DefinitionPreview `json:"preview,omitempty" doc:"Of a dry run: what would follow. Nothing was changed."`
}

// SecretChange is a definition that changed in what decides where its secrets go.
type SecretChange struct {
	Kind    string   `json:"kind" enum:"channel,sink" doc:"The kind of definition."`
	Name    string   `json:"name" doc:"The name of the definition."`
	Fields  []string `json:"fields" doc:"What is new, changed or taken away: provider, settings.NAME."`
	Secrets []string `json:"secrets" doc:"What it refers to now or referred to before: secret NAME, env NAME, file PATH."`
}

// DefinitionChange is what applying did to one definition.
type DefinitionChange struct {
	Kind    string `json:"kind" doc:"Such as workflow, channel or survey."`
	Name    string `json:"name" doc:"Its name among those of its kind."`
	Version int64  `json:"version" doc:"Counts the changes of this definition, from 1."`
	Action  string `json:"action" enum:"added,changed,deleted,unchanged" doc:"What was done to it."`
	Diff    string `json:"diff,omitempty" doc:"Of a dry run: from the text in force to the new one, as diff -u prints it."`
}

// Definitions is the set in force.
type Definitions struct {
	Number      int64        `json:"number" doc:"The number of the set in force; it grows with every change."`
	Definitions []Definition `json:"definitions" doc:"Every definition in force."`
}

// Definition is one definition in force.
type Definition struct {
	Kind    string `json:"kind" doc:"Such as workflow, channel or survey."`
	Name    string `json:"name" doc:"Its name among those of its kind."`
	Version int64  `json:"version" doc:"Counts the changes of this definition, from 1."`
	Hash    string `json:"hash" doc:"SHA-256 of its meaning; comments and order do not count."`
	Text    string `json:"text" doc:"As it was written."`
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items" doc:"At most as many as the limit says."`
	NextCursor string `json:"next_cursor,omitempty" doc:"Give it as cursor to get the next page; absent on the last."`
}

// Instance is one occasion of a workflow.
type Instance struct {
	ID              string    `json:"id" doc:"The id of the instance."`
	Key             string    `json:"key" doc:"The deterministic name of the occasion."`
	Workflow        string    `json:"workflow" doc:"The name of the workflow."`
	WorkflowVersion int64     `json:"workflow_version" doc:"The version of the workflow by which it was planned."`
	Type            string    `json:"type" doc:"The type of message, such as alert or survey."`
	Trigger         string    `json:"trigger" doc:"The id of the trigger."`
	Event           string    `json:"event,omitempty" doc:"The id of the event that caused it."`
	Status          string    `json:"status" doc:"Where it stands: pending, completed, deactivated, failed, cancelled or skipped."`
	Held            bool      `json:"held" doc:"It waits until a person decides."`
	HeldSince       time.Time `json:"held_since,omitzero" doc:"Absent when an older version of this program held it."`
	HeldFor         string    `json:"held_for,omitempty" doc:"The reason of the hold. A completed instance that is held keeps the reason of its end; its hold says only that its key came with other inputs."`
	Reason          string    `json:"reason,omitempty" doc:"Why it is in this state; see GET /v1/reasons."`
	Message         string    `json:"message,omitempty" doc:"The reason in words."`
	DueAt           time.Time `json:"due_at" doc:"When its deliveries are made."`
	Round           int       `json:"round,omitzero" doc:"Of a course: the number of the round, from 1."`
	RoundMessage    int       `json:"round_message,omitzero" doc:"Of a course: the number of the message in its round, from 1."`
	Person          string    `json:"person,omitempty" doc:"Of a course of one person's own: the id of that contact, as it was when the course began."`
	NextRetryAt     time.Time `json:"next_retry_at,omitzero" doc:"When it is tried again."`
	Recipients      int       `json:"recipients" doc:"How many people it has taken up: for each of them it has made a delivery, also one that ended at once, as for a person without an address. Of a row of one zone: by that row."`
	UnbrakedAt      time.Time `json:"unbraked_at,omitzero" doc:"When a person released it from max_recipients_per_run: it takes up everybody. Absent when nobody did."`
	Attempts        int       `json:"attempts" doc:"Tries to expand it, ever."`
	RetryCount      int       `json:"retry_count" doc:"Tries that have failed since the last success."`
	Crashes         int       `json:"crashes" doc:"How often a worker was lost while it processed this instance."`
	InputHash       string    `json:"input_hash" doc:"A hash of the inputs that its key stands for and does not contain."`
	CreatedAt       time.Time `json:"created_at" doc:"When it was planned."`
	CompletedAt     time.Time `json:"completed_at,omitzero" doc:"When it ended."`
	CancelledAt     time.Time `json:"cancelled_at,omitzero" doc:"When a person cancelled it with its deliveries: none of them is sent any more. Absent when it was not cancelled, or had no deliveries."`
	DueLocal        string    `json:"due_local,omitempty" doc:"Of an occasion that is due by the zone of each person: the local time at which it is due in each zone, such as 2026-05-14T10:00. Its due_at is that time in the zone in which a day begins first."`
	Occasion        string    `json:"occasion,omitempty" doc:"Of the row of one zone: the id of the instance of the occasion."`
	Zones           []Zone    `json:"zones,omitempty" doc:"The rows of such an occasion, one for each zone, in the order in which they are due; absent until the occasion begins."`
}

// Zone is the row of one zone of an occasion that is due by the zone of each person. It is an instance of its own.
type Zone struct {
	Timezone string    `json:"timezone" doc:"The zone, such as Europe/Berlin."`
	DueAt    time.Time `json:"due_at" doc:"When it is due there."`
	DueLocal string    `json:"due_local,omitempty" doc:"The same by the clock of that zone, such as 2026-05-14T10:00."`
	ID       string    `json:"id" doc:"The id of its instance."`
	Status   string    `json:"status" doc:"Where it stands, as an instance does."`
	Held     bool      `json:"held" doc:"It waits until a person decides."`
	Reason   string    `json:"reason,omitempty" doc:"Why it is in this state; see GET /v1/reasons."`

	Recipients int `json:"recipients" doc:"How many people it has taken up."`
}

// InstanceDetail is an instance with its deliveries.
type InstanceDetail struct {
	Instance
	Record     string          `json:"record,omitempty" doc:"The record that it is about: its type, a slash and its id."`
	Conflict   *InputConflict  `json:"input_conflict,omitempty" doc:"Of one that is held with input_conflict."`
	Failures   []Failure       `json:"failures,omitempty" doc:"The last three."`
	Trace      json.RawMessage `json:"trace,omitempty" doc:"The rule and the values that made it."`
	Counts     InstanceCounts  `json:"counts" doc:"What has become of its deliveries so far. Of an occasion that is due by the zone of each person: of all its zones."`
	Deliveries []Delivery      `json:"deliveries" doc:"The first hundred of its deliveries, newest first; GET /v1/deliveries has them all. Of an occasion that is due by the zone of each person: of all its zones."`
	DigestRun  *DigestRun      `json:"digest_run,omitempty" doc:"Of a run of a digest."`
	Without    *Without        `json:"without,omitempty" doc:"Why the contact that was asked for got nothing by a run of a digest. Absent if they have a delivery, or if the run does not concern them."`
}

// DigestRun is one run of a digest: its items arrived in a window.
type DigestRun struct {
	Status      string    `json:"status" doc:"expanding: its deliveries are being made; sending: all of them exist, and some wait; done: each has ended or was sent."`
	WindowStart time.Time `json:"window_start" doc:"Items that arrived at this instant or later are in it."`
	WindowEnd   time.Time `json:"window_end" doc:"Items that arrived at this instant or later are not in it."`
	BegunAt     time.Time `json:"begun_at" doc:"When the run began."`
	ExpandedAt  time.Time `json:"expanded_at,omitzero" doc:"Since when all its deliveries exist."`
	OverAt      time.Time `json:"over_at,omitzero" doc:"Since when each of them has ended or was sent."`
}

// Without says why somebody got nothing.
type Without struct {
	Contact string `json:"contact" doc:"The id of the contact."`
	Reason  string `json:"reason" doc:"nothing_new or unsubscribed; see GET /v1/reasons."`
	Message string `json:"message" doc:"The reason in words."`
}

// InstanceCounts says what has become of the deliveries of an instance so far. Each is counted once: as sent, waiting, unknown, failed or left out.
type InstanceCounts struct {
	Deliveries int           `json:"deliveries" doc:"How many there are."`
	TakingUp   bool          `json:"taking_up" doc:"True: its audience has more people, who are still taken up."`
	Sent       int           `json:"sent" doc:"Those of which a message has left."`
	Waiting    int           `json:"waiting" doc:"Those of which nothing has left yet."`
	Unknown    int           `json:"unknown" doc:"Those of which a message may have left."`
	Failed     int           `json:"failed" doc:"Those that were given up."`
	LeftOut    int           `json:"left_out" doc:"Those that were skipped, superseded or cancelled before a message has left."`
	Reasons    []ReasonCount `json:"reasons" doc:"Why those that were not sent wait, have failed or were left out, the most frequent first."`
	More       bool          `json:"more,omitempty" doc:"True: these are the numbers of the first 100,000 deliveries that were found, and there are more. With count_all=true all are counted."`
}

// ReasonCount is how many deliveries have the same status and reason.
type ReasonCount struct {
	Status  string `json:"status" doc:"Their status."`
	Reason  string `json:"reason" doc:"Their reason; see GET /v1/reasons."`
	Message string `json:"message" doc:"The reason in words."`
	Count   int    `json:"count" doc:"How many they are."`
}

// InputConflict compares the inputs of an instance with those that its trigger computes now. Releasing, retrying or cancelling the
// instance accepts the new ones.
type InputConflict struct {
	StoredVersion int64        `json:"stored_version" doc:"Version of the workflow by which it was planned."`
	NewVersion    int64        `json:"new_version,omitempty" doc:"The one in force; absent where there is none."`
	Known         bool         `json:"known" doc:"False: its inputs were never stored, as by an older version of this program."`
	Defined       bool         `json:"defined" doc:"False: its trigger is no longer defined."`
	Agrees        bool         `json:"agrees" doc:"Both are the same by now, as after an edit; the instance is held until somebody releases it."`
	Fields        []InputField `json:"fields" doc:"Each input, with both values."`
}

// InputField is one input that the key of an instance stands for and does not contain.
type InputField struct {
	Name    string `json:"name" doc:"anchor, metric, period, per or dedup: as in the definition."`
	Stored  string `json:"stored" doc:"The value it was planned with."`
	New     string `json:"new" doc:"The value that the trigger computes now."`
	Differs bool   `json:"differs" doc:"Whether the two are not the same."`
}

// Failure is one try at an instance that failed.
type Failure struct {
	At    time.Time `json:"at" doc:"When it failed."`
	Error string    `json:"error" doc:"What went wrong."`
}

// Delivery is the promise of one message, with its reminders, to one contact on one channel.
type Delivery struct {
	ID                 string    `json:"id" doc:"The id of the delivery."`
	Key                string    `json:"key" doc:"The deterministic name of the delivery: the same one is never made twice."`
	Instance           string    `json:"instance" doc:"The id of the instance that it belongs to."`
	Event              string    `json:"event,omitempty" doc:"The id of the event that caused it."`
	Workflow           string    `json:"workflow" doc:"The name of the workflow."`
	WorkflowVersion    int64     `json:"workflow_version" doc:"The version of the workflow by which it was planned."`
	Type               string    `json:"type" doc:"The type of message, such as alert or survey."`
	Trigger            string    `json:"trigger" doc:"The id of the trigger."`
	Channel            string    `json:"channel" doc:"As kind:name."`
	Address            string    `json:"address" doc:"Where to."`
	Locale             string    `json:"locale,omitempty" doc:"The language they read, such as ar or en-GB."`
	CustomerRef        string    `json:"customer_ref,omitempty" doc:"Your id of the person."`
	Priority           string    `json:"priority" enum:"urgent,transactional,immediate,digest" doc:"Which messages go first when not all that are due can leave: urgent, transactional, immediate, digest."`
	Status             string    `json:"status" doc:"Where it stands: scheduled, sent, opened, responded, expired, skipped, failed, superseded, cancelled or unknown."`
	Sending            bool      `json:"sending" doc:"A worker is processing it."`
	Reason             string    `json:"reason,omitempty" doc:"Why it is in this state; see GET /v1/reasons."`
	Message            string    `json:"message,omitempty" doc:"The reason in words."`
	StopReason         string    `json:"stop_reason,omitempty" doc:"Why no further message of it is sent."`
	NotBefore          time.Time `json:"not_before" doc:"When it was first planned for."`
	SendAt             time.Time `json:"send_at,omitzero" doc:"When the next message leaves; absent when none is planned."`
	DeferredBy         string    `json:"deferred_by,omitempty" doc:"The first limit that moved it, in the order cooldown, type_daily, daily, weekly, monthly, quiet_hours, send_window. It stays when the message has left."`
	WaitsFor           string    `json:"waits_for,omitempty" doc:"The limit whose end send_at is, while the message waits for it; when several move it, the last to end."`
	FoldedInto         string    `json:"folded_into,omitempty" doc:"The delivery with which it left as one message, or is to leave."`
	Step               int       `json:"step" doc:"Messages that are over: accepted, skipped or given up."`
	RemindersRemaining int       `json:"reminders_remaining" doc:"Reminders that are still to come."`
	Attempts           int       `json:"attempts" doc:"Tries at the provider."`
	RetryCount         int       `json:"retry_count" doc:"Tries that have failed since the last success."`
	LastSentAt         time.Time `json:"last_sent_at,omitzero" doc:"When its last message left."`
	ExpiresAt          time.Time `json:"expires_at,omitzero" doc:"When it ends without an answer."`
	CreatedAt          time.Time `json:"created_at" doc:"When it was planned."`
	CompletedAt        time.Time `json:"completed_at,omitzero" doc:"When it ended."`
	Conversation       *Turn     `json:"conversation,omitempty" doc:"What it is in a conversation: a survey that is asked by messages; absent if it belongs to none."`
}

// Turn is a message of a conversation.
type Turn struct {
	Turn int    `json:"turn" doc:"Which message it is after the first one; 0 is the first one."`
	Says string `json:"says" enum:"question,invalid,closing,stopped" doc:"What it says: question: a question; invalid: that a reply was no answer to it; closing: that all is answered; stopped: that the person gets nothing more."`
	Asks string `json:"asks,omitempty" doc:"The question, by its id."`
}

// DeliveryDetail is a delivery with what was tried and said.
type DeliveryDetail struct {
	Delivery
	Outlook    *Outlook        `json:"outlook,omitempty" doc:"When its next message leaves, as far as that can be known; absent when there is none."`
	Says       []string        `json:"says,omitempty" doc:"What kept it from leaving as planned, as it stood then; instants are in the person's zone."`
	Trace      json.RawMessage `json:"trace,omitempty" doc:"How the limits decided, for people who look into it; its form may change."`
	AttemptLog []Attempt       `json:"attempt_log" doc:"Every try at a provider, oldest first."`
	Receipts   []Receipt       `json:"receipts,omitempty" doc:"What was reported of it after a provider had accepted it: the newest 100, oldest first."`
	Contents   []Content       `json:"contents,omitempty" doc:"What was rendered, where the channel keeps it."`
	FoldHead   *Folded         `json:"fold_head,omitempty" doc:"The fold head: the delivery that it was sent with, and its state."`
	Folded     []Folded        `json:"folded,omitempty" doc:"What left with it as one message, or is to leave with it, in the order of its texts."`
}

// Folded is a delivery that is part of one message with another one.
type Folded struct {
	ID         string    `json:"id" doc:"The id of the delivery."`
	Workflow   string    `json:"workflow" doc:"The name of the workflow."`
	Trigger    string    `json:"trigger" doc:"The id of the trigger."`
	Status     string    `json:"status" doc:"Where it stands."`
	Reason     string    `json:"reason,omitempty" doc:"Why it is in this state; see GET /v1/reasons."`
	Message    string    `json:"message,omitempty" doc:"The reason in words."`
	SendAt     time.Time `json:"send_at,omitzero" doc:"When the message leaves; absent when none is planned."`
	LastSentAt time.Time `json:"last_sent_at,omitzero" doc:"When its last message left."`
}

// Attempt is one try at a provider.
type Attempt struct {
	Number         int       `json:"number" doc:"From 1; 0 where nothing was tried."`
	Step           int       `json:"step" doc:"Of which message: 1 is the first, 2 its first reminder."`
	Channel        string    `json:"channel" doc:"Where it was sent, as kind:name."`
	IdempotencyKey string    `json:"idempotency_key,omitempty" doc:"The key under which the provider was asked."`
	IntentAt       time.Time `json:"intent_at,omitzero" doc:"When it was decided to send, before the request left."`
	SettledAt      time.Time `json:"settled_at,omitzero" doc:"When the outcome was known."`
	Outcome        string    `json:"outcome" doc:"What became of it: delivered, failed or unknown; none where nothing was tried."`
	Reason         string    `json:"reason,omitempty" doc:"Why; see GET /v1/reasons."`
	ProviderID     string    `json:"provider_id,omitempty" doc:"The provider's id of the message."`
	Error          string    `json:"error,omitempty" doc:"What the provider or the channel said."`
}

// Content is what was rendered for one step.
type Content struct {
	Step    int       `json:"step" doc:"0 is the first message, 1 the first reminder."`
	At      time.Time `json:"at" doc:"When it was rendered."`
	Channel string    `json:"channel" doc:"As kind:name."`
	Address string    `json:"address" doc:"Where to."`
	Locale  string    `json:"locale,omitempty" doc:"The language in which it was rendered."`
	Subject string    `json:"subject,omitempty" doc:"The subject of a mail."`
	Text    string    `json:"text" doc:"The text."`
	HTML    string    `json:"html,omitempty" doc:"The HTML part of a mail."`
}

// Outlook is what is known about the next message of a delivery.
type Outlook struct {
	Reason  string    `json:"reason,omitempty" doc:"What keeps it from leaving, or why it is tried again. Absent when nothing does."`
	Message string    `json:"message,omitempty" doc:"The reason's sentence."`
	At      time.Time `json:"at,omitzero" doc:"When it leaves; with a reason, at the earliest. Absent when this is unknown."`
	Away    bool      `json:"provider_away,omitempty" doc:"Its provider is also away now; the reason holds it back for longer."`
}

// InstanceRetry says for whom an instance is done again.
type InstanceRetry struct {
	// Scope is RetryFailed, which is also meant without it, or RetryAll.
	Scope string `json:"scope,omitempty" enum:"failed,all" doc:"Of a run of a digest: failed (default) reaches those who have not got its items, all also those who have. Of other instances failed alone is allowed."`
}

// Whom a run of a digest reaches that is done again.
const (
	RetryFailed = "failed" // those who have not got its items
	RetryAll    = "all"    // also those who have: they get the items of its window again
)

// Operated says what an operator's action did.
type Operated struct {
	Changed       bool     `json:"changed" doc:"False: nothing was changed, because the state was the same already or for the given reason."`
	Reason        string   `json:"reason,omitempty" doc:"Why nothing was changed: being_sent. Absent when the state was the same already."`
	Message       string   `json:"message,omitempty" doc:"The reason's sentence."`
	Instance      string   `json:"instance" doc:"The instance that was acted on, or that the delivery belongs to."`
	Deliveries    []string `json:"deliveries" doc:"The deliveries that were changed."`
	BeingSent     []string `json:"being_sent,omitempty" doc:"The deliveries whose message is being sent at this moment: it may arrive, and nothing follows it."`
	Run           string   `json:"run,omitempty" doc:"The run that ends the deliveries, if a cancel or forget concerns more than 500. None of them is sent meanwhile. Absent when they are ended already."`
	NewInstance   string   `json:"new_instance,omitempty" doc:"The new occasion, as which a message that has ended is sent again."`
	NewKey        string   `json:"new_key,omitempty" doc:"The key of the new occasion."`
	NewDeliveries []string `json:"new_deliveries,omitempty" doc:"The deliveries of the new occasion."`
}

// ManualRun is a run of a workflow by hand.
type ManualRun struct {
	Created  bool   `json:"created" doc:"False: there was a run of that id already."`
	Instance string `json:"instance" doc:"The occasion of the run."`
	Key      string `json:"key" doc:"The deterministic name of the occasion."`
}

// Tick counts what one run of every pass did.
type Tick struct {
	Processed  int `json:"processed" doc:"Deliveries that were claimed."`
	Evaluated  int `json:"evaluated" doc:"Records whose conditions were evaluated."`
	Expanded   int `json:"expanded" doc:"Instances whose deliveries were made."`
	Reclaimed  int `json:"reclaimed" doc:"Claims of lost workers that were taken over."`
	Expired    int `json:"expired" doc:"Deliveries that ended without an answer."`
	Dispatched int `json:"dispatched" doc:"Outbox events that a sink accepted."`
	Dead       int `json:"dead" doc:"Outbox events for which no try follows at a sink."`
	Failed     int `json:"failed" doc:"Deliveries and instances that failed."`
}

// Reasons lists every named outcome.
type Reasons struct {
	Reasons []Reason `json:"reasons" doc:"Every named outcome."`
}

// Reason is one named outcome.
type Reason struct {
	Reason   string `json:"reason" doc:"Its name, for programs."`
	Class    string `json:"class" doc:"What it means for the message."`
	Sentence string `json:"sentence" doc:"What it says, for people."`
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
	Zones    bool   // each row of an occasion that is due by the zone of each person, and not the occasion once
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
	if q.Zones {
		v.set("zones", "true")
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
