package client

import (
	"context"
	"net/url"
	"time"
)

// Preview says what a workflow is going to do if nothing changes.
type Preview struct {
	Workflow   string           `json:"workflow" doc:"The name of the workflow."`
	Type       string           `json:"type" doc:"The type of message, such as alert or survey."`
	Version    int64            `json:"version" doc:"The version in force."`
	At         time.Time        `json:"at" doc:"The instant for which all of this holds."`
	Channels   []string         `json:"channels" doc:"The channels of its triggers, each once."`
	Record     string           `json:"record,omitempty" doc:"The record that was asked for: its type, a slash and its id."`
	Contact    string           `json:"contact,omitempty" doc:"The contact that was asked for."`
	Event      string           `json:"event,omitempty" doc:"The kind of event that was asked for: the list is what it would cause if it arrived now."`
	Timezone   string           `json:"timezone,omitempty" doc:"The zone of all occurrences; absent if they are in several."`
	Enabled    bool             `json:"enabled" doc:"Whether its definition is switched on."`
	PausedAt   time.Time        `json:"paused_at,omitzero" doc:"Since when it is paused; absent if it is not. Nothing leaves until it is resumed."`
	Suppressed bool             `json:"suppressed,omitempty" doc:"The contact gets no messages."`
	Outside    bool             `json:"outside,omitempty" doc:"The contact is not in the audience now. If false, it may be: an audience is computed when an occurrence is due."`
	Upcoming   []Occurrence     `json:"upcoming" doc:"The next occurrences of all triggers, in the order of their instants."`
	Triggers   []PreviewTrigger `json:"triggers" doc:"What the list leaves open, for each trigger."`
	Waiting    []Delivery       `json:"waiting,omitempty" doc:"Messages to the contact that were made already and wait to leave, in the order of their instants."`
}

// Occurrence is one occasion of a workflow that is to come. Whether it is sent, and to whom, is decided again when it is due.
type Occurrence struct {
	Trigger       string       `json:"trigger" doc:"The id of the trigger."`
	At            time.Time    `json:"at" doc:"When it is due, or tried again."`
	Local         string       `json:"local" doc:"The same by the clock of its zone, with the offset from UTC, such as 2026-10-26T10:00:00+01:00."`
	Timezone      string       `json:"timezone" doc:"The zone, such as Europe/Berlin."`
	Abbreviation  string       `json:"abbreviation" doc:"The short name of the zone's time at that instant, such as CET."`
	DueAt         time.Time    `json:"due_at,omitzero" doc:"When it was due, if that is another instant."`
	Status        string       `json:"status" doc:"planned: it is made later. waiting: its instance waits for its instant. overdue: it is taken up next. delayed: it is tried again. paused: it came due in a pause. held: a person decides. assumed: an event of the kind that was asked for would cause it."`
	Reason        string       `json:"reason,omitempty" doc:"Why it is held, delayed or overdue; see GET /v1/reasons."`
	Message       string       `json:"message,omitempty" doc:"The reason in words."`
	Iteration     int          `json:"iteration,omitzero" doc:"The number of the occurrence since the schedule's first day, or of the round of a course, from 1."`
	RoundMessage  int          `json:"round_message,omitzero" doc:"Of a course: the number of the message in its round, from 1."`
	RoundMessages int          `json:"round_messages,omitzero" doc:"Of a course: how many messages a round has."`
	Person        string       `json:"person,omitempty" doc:"Of a course of one person's own: the id of that contact, as it was when the course began. Only the next message of such a course is listed."`
	Event         string       `json:"event,omitempty" doc:"Of a message after an event that has arrived: the id of that event."`
	Contact       string       `json:"contact,omitempty" doc:"Of a message after an event that has arrived: the id of the contact whom the event names."`
	Target        string       `json:"target,omitempty" doc:"The date or instant that it is about."`
	Offset        string       `json:"offset,omitempty" doc:"How far it is from the date of a record, such as -2d."`
	Key           string       `json:"key,omitempty" doc:"The deterministic name of the occasion; absent if it is assumed."`
	Instance      string       `json:"instance,omitempty" doc:"The id of its instance, if there is one already."`
	ClockChange   *ClockChange `json:"clock_change,omitempty" doc:"The clocks of its zone have changed since the occurrence before, or since now."`
}

// ClockChange is a change of the clocks of a zone.
type ClockChange struct {
	At        time.Time `json:"at" doc:"When it is."`
	Date      string    `json:"date" doc:"Its local date, such as 2026-10-25."`
	Direction string    `json:"direction" doc:"forward or back."`
	Minutes   int       `json:"minutes" doc:"By how many minutes."`
}

// PreviewTrigger says of one trigger what the list of occurrences leaves open.
type PreviewTrigger struct {
	Trigger       string    `json:"trigger" doc:"The id of the trigger."`
	Kind          string    `json:"kind" doc:"What it waits for: schedule, record or event."`
	Event         string    `json:"event,omitempty" doc:"The kind of event that it listens to. Of events that have arrived the list has what waits, and for a contact also what follows it."`
	RecordType    string    `json:"record_type,omitempty" doc:"The type of record that it follows. Each record is asked for on its own."`
	Waits         string    `json:"waits,omitempty" doc:"The condition, issues or thresholds that it waits for. When they are met is not known ahead."`
	ByContact     bool      `json:"by_contact,omitempty" doc:"Each contact has its occurrences in a zone of their own. Without a contact they are shown in the zone of contacts without one."`
	More          int       `json:"more" doc:"How many further occurrences are known that the list does not hold."`
	LastAt        time.Time `json:"last_at,omitzero" doc:"The last occurrence of all; absent if more follow than were computed, and if there is none."`
	Endless       bool      `json:"endless,omitempty" doc:"More follow than were computed."`
	Ends          string    `json:"ends,omitempty" doc:"Why nothing follows the last one. times: the number is reached. until: the day or instant is reached. sequence: each of its messages is due once. stop_when: its stop condition is true by then. dates: the record's dates have no further message. condition: its condition is false by then."`
	Times         int       `json:"times,omitzero" doc:"With times: the number."`
	Reason        string    `json:"reason,omitempty" doc:"Why nothing is to come; see GET /v1/reasons."`
	Message       string    `json:"message,omitempty" doc:"The reason in words."`
	Field         string    `json:"field,omitempty" doc:"The field, or the line of the condition, behind the reason."`
	Error         string    `json:"error,omitempty" doc:"Why something could not be computed."`
	Until         time.Time `json:"until,omitzero" doc:"When the wait ends, or when time alone may change the result."`
	LeftOut       int       `json:"left_out,omitzero" doc:"How many occurrences are left out because they will not be sent."`
	LeftOutReason string    `json:"left_out_reason,omitempty" doc:"Why the first of them will not be sent."`
}

// PreviewQuery says of what a preview is wanted. At most one of Record and Contact is set.
type PreviewQuery struct {
	Record  string // TYPE/ID; needed if the workflow follows records only
	Contact string // in whose zone, and after whose events
	Event   string // the kind of an event: what it would cause if it arrived now, and nothing else; not with Record
	Limit   int    // 0: the server's default
}

// Preview returns the next occurrences of a workflow. It changes nothing.
func (c *Client) Preview(ctx context.Context, workflow string, q PreviewQuery) (Preview, error) {
	v := values{}
	v.set("record", q.Record)
	v.set("contact", q.Contact)
	v.set("event", q.Event)
	v.limit(q.Limit)
	return get[Preview](ctx, c, "/v1/workflows/"+url.PathEscape(workflow)+"/preview", url.Values(v))
}
