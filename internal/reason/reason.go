// Package reason lists every named outcome of the engine once, each with its sentence for people.
//
// A reason answers "why was this sent, moved, left out or stopped?". The database, the API, the console, the command line, the logs and
// the metric labels use the same word, and the documentation page is generated from this list. A reason is shown as an error only if its
// class is Failure.
//
// The package decides nothing and depends on nothing.
package reason

import "sync"

// Reason is the snake_case name of an outcome; empty means that nothing out of the ordinary happened.
type Reason string

// Class groups reasons by what they mean for the message.
type Class string

// The classes. A skip is never a failure.
const (
	Progress Class = "progress" // it continued as planned
	NoMatch  Class = "no_match" // there was nothing to do
	Skip     Class = "skip"     // left out, rightly
	Wait     Class = "wait"     // done later
	Stop     Class = "stop"     // ended on purpose
	Held     Class = "held"     // waits for a person
	Failure  Class = "failure"  // went wrong
	Unknown  Class = "unknown"  // the outcome is not known yet
	Rejected Class = "rejected" // the input was refused
)

// Ingest and matching.
const (
	Matched             Reason = "matched"
	NoWorkflow          Reason = "no_workflow"
	ConditionFalse      Reason = "condition_false"
	ValueMissing        Reason = "value_missing"
	ExpressionFailed    Reason = "expression_failed"
	CostExceeded        Reason = "cost_exceeded"
	Duplicate           Reason = "duplicate"
	DedupMissing        Reason = "dedup_missing"
	InvalidEvent        Reason = "invalid_event"
	InvalidContact      Reason = "invalid_contact"
	InvalidRecord       Reason = "invalid_record"
	InvalidRow          Reason = "invalid_row"
	InvalidItem         Reason = "invalid_item"
	InvalidTopic        Reason = "invalid_topic"
	InvalidSubscription Reason = "invalid_subscription"
	ItemChanged         Reason = "item_changed"
	NoRecipient         Reason = "no_recipient"
	LeftAudience        Reason = "left_audience"
	Unsubscribed        Reason = "unsubscribed"
	NothingNew          Reason = "nothing_new"
	Covered             Reason = "covered"
	LateJoiner          Reason = "late_joiner"
	WorkflowInactive    Reason = "workflow_inactive"
	TriggerDisabled     Reason = "trigger_disabled"
	InputConflict       Reason = "input_conflict"
	RequestTooLarge     Reason = "request_too_large"
	Forgotten           Reason = "forgotten"
	ResentByOperator    Reason = "resent_by_operator"
	ReleasedByPerson    Reason = "released"
	RetryByOperator     Reason = "retried_by_operator"
	CancelledByPerson   Reason = "cancelled_by_operator"
	Answered            Reason = "answered"
	AnsweredElsewhere   Reason = "answered_elsewhere"
	PrimaryDelivered    Reason = "primary_delivered"
	BeingSent           Reason = "being_sent"
	WorkflowPaused      Reason = "workflow_paused"
	WorkflowResumed     Reason = "workflow_resumed"
)

// Gate 2 and timing.
const (
	CadenceCooldown  Reason = "cooldown"
	CadenceTypeDaily Reason = "type_daily"
	CadenceDaily     Reason = "daily"
	CadenceWeekly    Reason = "weekly"
	CadenceMonthly   Reason = "monthly"
	LimitsUnreadable Reason = "limits_unreadable"
	QuietHours       Reason = "quiet_hours"
	SendWindow       Reason = "send_window"
	DeferredTooLong  Reason = "deferred_too_long"
	Superseded       Reason = "superseded"
	FoldedInto       Reason = "folded_into"
	Stale            Reason = "stale"
	Restored         Reason = "restored"
	Collapsed        Reason = "collapsed"
	Suppressed       Reason = "suppressed"
	NoAddress        Reason = "no_address"
	AddressStopped   Reason = "address_stopped"
	OptedOut         Reason = "opted_out"
	UnknownSender    Reason = "unknown_sender"
	NoSession        Reason = "no_session"
	SessionOver      Reason = "session_over"
	SessionReplaced  Reason = "session_replaced"
	AlreadyAnswered  Reason = "already_answered"
	InvalidAnswer    Reason = "invalid_answer"
	Partial          Reason = "partial"
)

// Gate 1 and conditions on records.
const (
	Throttled        Reason = "throttled"
	InFlight         Reason = "in_flight"
	NobodyNotified   Reason = "nobody_notified"
	ConditionCleared Reason = "condition_cleared"
	ForNotReached    Reason = "for_not_reached"
	AwaitsTick       Reason = "awaits_tick"
	RecordClosed     Reason = "record_closed"
	Baseline         Reason = "baseline"
	DateChanged      Reason = "date_changed"
	RuleChanged      Reason = "rule_changed"
	CourseReset      Reason = "course_reset"
	CourseOver       Reason = "course_over"
	SourceGone       Reason = "source_no_longer_valid"
	EvaluationFailed Reason = "evaluation_failed"
	Repaired         Reason = "repaired"
	OutsideCalendar  Reason = "outside_calendar"
)

// Sending.
const (
	Delivered      Reason = "delivered"
	TemporaryError Reason = "temporary_error"
	PermanentError Reason = "permanent_error"
	RetriesUsedUp  Reason = "retries_used_up"
	ReplyLost      Reason = "reply_lost"
	WorkerLost     Reason = "worker_lost"
	SendThrew      Reason = "send_threw"
	NoChannel      Reason = "no_channel"
	NoSink         Reason = "no_sink"
	Gone           Reason = "gone"
	LoopStopped    Reason = "loop_stopped"
	SecretMissing  Reason = "secret_missing"
	CannotRender   Reason = "cannot_render"
	CannotRead     Reason = "data_unavailable"
	OutputTooLarge Reason = "output_too_large"
	LeaseLost      Reason = "lease_lost"
	NoResponse     Reason = "no_response"
	NeverSettled   Reason = "never_settled"
	KeyExpired     Reason = "key_expired"
	EarlierUnknown Reason = "earlier_unknown"
	NotVerified    Reason = "not_verified"
	ChannelDown    Reason = "channel_down"
	RateLimited    Reason = "rate_limited"
	NotAllowed     Reason = "not_allowed"
	Verified       Reason = "verified"
	Reported       Reason = "reported"
	TooFast        Reason = "too_fast"
)

// Instances.
const (
	Expanded          Reason = "expanded"
	AudienceFailed    Reason = "audience_failed"
	WorkerCrashed     Reason = "worker_crashed"
	TooManyRecipients Reason = "too_many_recipients"
)

// Info is one entry of the list.
type Info struct {
	Reason   Reason
	Class    Class
	Sentence string
}

// All returns the list in the order of the pipeline. The caller may keep and change the slice.
func All() []Info {
	return []Info{
		{Matched, Progress, "An enabled trigger of a workflow matched."},
		{NoWorkflow, NoMatch, "No enabled workflow has a trigger for this kind of event."},
		{ConditionFalse, NoMatch, "The trigger's condition is false."},
		{ValueMissing, NoMatch, "A value that the condition compares is missing, so the comparison is false."},
		{ExpressionFailed, Failure, "An expression could not be evaluated with these values, so it counts as false."},
		{CostExceeded, Failure, "An expression took more steps than allowed, so it counts as false."},
		{WorkflowInactive, Stop, "The workflow is switched off or removed."},
		{TriggerDisabled, NoMatch, "The trigger is switched off."},
		{Duplicate, Skip, "The same occasion exists already, so nothing was made a second time."},
		{DedupMissing, Rejected, "A value that the occasion's key needs is missing, and the trigger rejects such events."},
		{InvalidEvent, Rejected, "The event is not valid."},
		{InvalidContact, Rejected, "The contact is not valid."},
		{InvalidRecord, Rejected, "The record is not valid, or not of its type."},
		{InvalidRow, Rejected, "A row of a file cannot be read, or does not fit its mapping."},
		{InvalidItem, Rejected, "The item lacks something, or something in it has the wrong form."},
		{InvalidTopic, Rejected, "The topic lacks something, or something in it has the wrong form."},
		{InvalidSubscription, Rejected, "The subscription lacks something, or names a contact or a topic that does not exist."},
		{ItemChanged, Rejected, "An item with this id and version has been published with other fields."},
		{RequestTooLarge, Rejected, "The request is larger than allowed."},
		{NoRecipient, Skip, "There was nobody to send to."},
		{LeftAudience, Skip, "The person whose own course it is was not in the audience when it was due."},
		{LateJoiner, Skip, "The person came into the audience after the first message of the course, so late_joiner keeps this message from them."},
		{InputConflict, Held, "The same key came again with other inputs; a person must decide."},
		{Expanded, Progress, "Every delivery of this occasion exists."},
		{AudienceFailed, Failure, "The audience could not be computed."},
		{WorkerCrashed, Failure, "The worker panicked or died while it processed this; it is tried again, and put on hold after the third time."},
		{TooManyRecipients, Held, "The occasion has more people than max_recipients_per_run lets it take up; the others wait until a person releases it."},
		{Throttled, Wait, "The cooldown of this context has not passed since its last alert."},
		{InFlight, Wait, "The last alert of this context is still being sent."},
		{NobodyNotified, Wait, "The last alert of this context reached nobody, so its cooldown is refunded."},
		{ConditionCleared, Skip, "The condition was over before the message left."},
		{ForNotReached, Wait, "The condition is met, but not yet for as long as the trigger's for requires."},
		{AwaitsTick, Wait, "The trigger evaluates the record again at its next tick."},
		{EvaluationFailed, Failure, "The record could not be evaluated; it is tried again, with a longer wait each time."},
		{OutsideCalendar, Failure, "It would be due outside the years 1 to 9999, so it is not planned."},
		{Repaired, Progress, "It was missing although its record asks for it, so it was planned again."},
		{Baseline, NoMatch, "This was true already when the trigger was added; only later crossings of a threshold count."},
		{DateChanged, Stop, "The date that it was counted from has changed."},
		{RuleChanged, Stop, "The definition that planned it has changed and no longer plans it."},
		{CourseReset, Stop, "The value of reset_on has changed, so that the course began again."},
		{CourseOver, Stop, "The course has no further message: all of its rounds are done, or its until has come."},
		{SourceGone, Stop, "When it was due, its record no longer asked for it."},
		{RecordClosed, NoMatch, "The record is closed, so nothing is planned for it."},
		{CadenceCooldown, Wait, "The person's cooldown has not passed."},
		{CadenceTypeDaily, Wait, "The person's limit for this type and day is used up."},
		{CadenceDaily, Wait, "The person's limit for the day is used up."},
		{CadenceWeekly, Wait, "The person's limit for the week is used up."},
		{CadenceMonthly, Wait, "The person's limit for the month is used up."},
		{LimitsUnreadable, Failure, "This version cannot read the person's own limits, so those of the persona or the workspace apply."},
		{QuietHours, Wait, "It is within the person's quiet hours."},
		{SendWindow, Wait, "It is outside the workflow's send window."},
		{DeferredTooLong, Stop, "There was no free instant before it expires."},
		{Superseded, Skip, "A newer message of the same context replaced it before it left."},
		{FoldedInto, Skip, "It is sent as part of another message to the same person."},
		{Stale, Skip, "It is later than catch_up allows."},
		{Restored, Skip, "It was due when the database was accepted as a restored copy; the original database may have sent it."},
		{Collapsed, Skip, "Several occasions of a series were overdue at once; this one replaces those that were not sent."},
		{NothingNew, NoMatch, "Nothing was new in the topics of the digest, so nobody gets it."},
		{Covered, Skip, "Another message has sent the person all items of the digest in the meantime."},
		{Unsubscribed, Stop, "The person had left the topics that it is about when it was to leave."},
		{Suppressed, Stop, "The person must not be messaged."},
		{ChannelDown, Wait, "The provider is unavailable; it is tried again later, and this does not count as an attempt."},
		{RateLimited, Wait, "The channel's rate is used up; the message waits for its turn."},
		{NotAllowed, Skip, "The address is not on the allowlist."},
		{Delivered, Progress, "The provider accepted the message."},
		{NoAddress, Skip, "The person has no address for this channel."},
		{AddressStopped, Skip, "The address takes no messages: one that was sent there could not be delivered."},
		{OptedOut, Stop, "The person wants no messages on this kind of channel: they have replied STOP, or the like."},
		{UnknownSender, NoMatch, "A reply came from an address that nobody has."},
		{NoSession, NoMatch, "A reply came from somebody who had been asked nothing on this kind of channel."},
		{SessionOver, NoMatch, "A reply came after the end of the conversation that it belongs to."},
		{SessionReplaced, Stop, "Another conversation with the person began on the same kind of channel."},
		{AlreadyAnswered, NoMatch, "A reply was written before the question that stands was asked."},
		{InvalidAnswer, Rejected, "A reply is no answer to the question that stands."},
		{Partial, Progress, "The conversation ended before all questions were answered; the answers so far were submitted."},
		{TemporaryError, Failure, "The provider refused it for now; it is tried again."},
		{PermanentError, Failure, "The provider refused it permanently."},
		{RetriesUsedUp, Failure, "Every retry failed."},
		{ReplyLost, Unknown, "The provider's answer never arrived, so it is unknown whether it accepted the message."},
		{WorkerLost, Unknown, "The sending process ended before it could record the result."},
		{Verified, Progress, "The answer was lost, but the provider confirmed that it accepted the message."},
		{Reported, Progress, "The answer was lost, but the provider has reported on the message, so that it has it."},
		{KeyExpired, Unknown, "The message may have arrived, and the provider no longer knows its idempotency key, so it is not sent again."},
		{EarlierUnknown, Unknown, "The last attempt failed, but an earlier one may have been accepted."},
		{NotVerified, Unknown, "The provider could not say whether it has the message."},
		{SendThrew, Failure, "The channel panicked while sending; it is tried again."},
		{NoChannel, Failure, "No channel of that name is defined."},
		{NoSink, Failure, "No sink of that name is defined any more; define it and redrive the event."},
		{Gone, Failure, "The receiver wants no events any more, so its sink is disabled; they wait until somebody enables it."},
		{LoopStopped, Failure, "Eight workflows followed one from another by their outcomes; the ninth was not started."},
		{SecretMissing, Failure, "A secret that the channel needs is not set, is not allowed or cannot be decrypted; it is tried again."},
		{CannotRender, Failure, "The message could not be rendered from its template."},
		{CannotRead, Failure, "A record or document that the message reads could not be read."},
		{OutputTooLarge, Failure, "The message is longer than allowed."},
		{LeaseLost, Wait, "Another worker had claimed the delivery, so this one did not send it, or its result was refused."},
		{NoResponse, Stop, "No answer came within expire_after, or no further one."},
		{NeverSettled, Stop, "The outcome was still unknown after expire_after."},
		{BeingSent, Stop, "The message was being sent when it was cancelled: it may arrive, and nothing follows it."},
		{CancelledByPerson, Stop, "A person cancelled it."},
		{Answered, Progress, "The person answered."},
		{AnsweredElsewhere, Stop, "The person answered another message of the same occasion."},
		{PrimaryDelivered, Stop, "The message that it was to stand in for has arrived after all, as its provider reports."},
		{RetryByOperator, Progress, "A person asked for another attempt."},
		{ReleasedByPerson, Progress, "A person released it."},
		{TooFast, Held, "The workflow has sent as many messages in an hour as max_sends_per_hour allows, so Carillon has paused it; the others wait until a person resumes it."},
		{WorkflowPaused, Held, "The workflow is paused; this waits until the workflow is resumed."},
		{WorkflowResumed, Progress, "The workflow was paused and has been resumed."},
		{ResentByOperator, Progress, "A person sent it again, under a key of its own."},
		{Forgotten, Stop, "A person freed its key; the next event with this key counts as new."},
	}
}

// Lookup returns the entry of r; ok is false for a word that is not on the list.
func Lookup(r Reason) (info Info, ok bool) {
	info, ok = byName()[r]
	return info, ok
}

// byName is made once: several reasons are looked up for every event.
var byName = sync.OnceValue(func() map[Reason]Info { //nolint:gochecknoglobals // never changes
	all := map[Reason]Info{}
	for _, i := range All() {
		all[i.Reason] = i
	}
	return all
})

// Sentence is the reason in words for people, or the bare name when it is not on the list.
func (r Reason) Sentence() string {
	if i, ok := Lookup(r); ok {
		return i.Sentence
	}
	return string(r)
}
