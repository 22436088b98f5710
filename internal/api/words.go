package api

import (
	"github.com/danielgtaylor/huma/v2"
)

// tagSurveys groups the routes in the words of ADP Surveys.
const tagSurveys = "adp-surveys"

// describedTags are the groups of operations, in the order of the routes.
func describedTags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "events", Description: "Facts that happened in other systems, and what became of each."},
		{Name: "definitions", Description: "Workflows, channels, surveys, personas and the other definitions in force."},
		{Name: "reasons", Description: "The names of outcomes: why a message was sent, waits or was not sent."},
		{Name: "contacts", Description: "The people who get messages, with their addresses and limits."},
		{Name: tagTopics, Description: "What people subscribe to, and the items that are published."},
		{Name: "feedback", Description: "Bounces and complaints, and the addresses that take no messages."},
		{Name: "records", Description: "Things that workflows watch, by type and your own id."},
		{Name: "runs", Description: "Work over many rows that goes on after a crash."},
		{Name: "instances", Description: "Occasions of workflows. Each is made once, under its key."},
		{Name: "workflows", Description: "Pausing, resuming and running workflows."},
		{Name: "deliveries", Description: "Messages to people: one for each person and channel of an instance, with its reminders and attempts."},
		{Name: "sessions", Description: "Conversations with people: surveys that are asked by messages, one question each."},
		{Name: "responses", Description: "Answers to surveys: each delivery of one takes one answer."},
		{Name: "outbox", Description: "Outcomes that go to other systems, and what became of each at each sink."},
		{Name: "sinks", Description: "Where outcomes go, and the state of each sink."},
		{Name: "secrets", Description: "The secrets of channels. Values are never returned."},
		{Name: "channels", Description: "Channels and their state, and what their providers call back with."},
		{Name: "tick", Description: "Running the engine from outside."},
		{Name: tagSurveys, Description: "The routes of ADP Surveys, in its own words, for callers who know that system."},
		{Name: "status", Description: "How late messages are, and what waits for a person."},
		{Name: "metrics", Description: "The numbers of the process."},
	}
}

// descriptions are what operations do, beyond their summary, by operationId; for those that do not bring one along.
func descriptions() map[string]string {
	return map[string]string{
		"post-events": "One bad event of a list fails no other one: the answer says what became of each, in the order of the request, and " +
			"failed counts those that were refused. A single event that is invalid gets an HTTP error. " +
			"What is accepted is durable when the answer comes.",
		"post-items": "The answer says that the items are stored (202); their topics are found, and messages made, right after it. An item is published once for each id " +
			"and version: a repeat is skipped, and other fields under the same id and version are refused. One bad item of a list fails no other one.",
		"list-items":         "With topic those of one topic, in the order in which they were held against it.",
		"list-next-digests":  "What comes until they are due, and what the contact changes, changes them. Nothing new means no message.",
		"get-item":           "matched says whether its topics were found already.",
		"find-topic":         "A topic is found by its rules and its frequencies, whatever it is called. created says whether it was made. A name that is given must be free.",
		"list-topics":        "Topics that are definitions, and those that programs have made.",
		"get-topic":          "A removed topic is answered too, with the instant of its removal.",
		"post-subscriptions": "Another frequency ends a subscription and begins another one. One bad one of a list fails no other one.",
		"end-subscriptions":  "Nothing of the topic leaves after the answer: a message that waits ends as cancelled, with the reason unsubscribed.",
		"list-subscriptions": "Those that have ended are listed with ended=true, and never begin again.",
		"post-feedback": "A bounce stops the address on the kind of channel of its delivery and, by mail, ends all subscriptions of who has it; a complaint ends them. The rest is " +
			"recorded with the delivery, whose status never moves back. An outcome that was unknown is settled, and a fallback of what has arrived is cancelled. An address " +
			"that nobody has changes nothing and is no error.",
		"post-feedback-mail": "The mail may name several recipients. One that is no such report is refused.",
		"allow-address":      "Subscriptions that have ended stay ended. It is audited.",
		"get-event":          "Returns the event with its payload, and what each trigger made of it.",
		"list-events":        "Events stay as long as the retention keeps them. GET /v1/events/{id} returns one with its payload.",
		"list-decisions": "What was planned is an instance and not listed here: see GET /v1/instances. " +
			"Decisions stay as long as the retention keeps them.",
		"list-definitions": "Returns every definition with its text, as it was applied.",
		"list-reasons":     "Every instance, delivery and attempt names one of these. The list grows; none is renamed within a major version.",

		"post-contacts":  "One bad contact fails no other one: the answer says what became of each, in the order of the request.",
		"put-contact":    "Values that are not mentioned are taken away.",
		"change-contact": "Values that are not mentioned stay. The contact has to exist.",
		"list-contacts":  "Contacts that an event made are listed too, with ids that begin with addr:.",
		"get-contact":    "Returns a contact that was merged into another one too, with merged_into.",
		"contact-limits": "For each kind of channel: every limit, how much of it is used, when it is free, and the messages that wait for it.",
		"merge-contact": "Subscriptions, waiting messages, courses and what counts in limits go to the survivor; of two subscriptions to a topic the more frequent one goes on. " +
			"The survivor keeps its own fields and takes the address for each kind of channel for which it has none; the other addresses are given up. If one of the two " +
			"is suppressed, the survivor is. From then on the merged id names the survivor, in events too, and is not written any more. It is audited and cannot be undone.",
		"suppress-contact":   "What waits for them is cancelled, and nothing new is planned until the suppression ends. It is audited.",
		"unsuppress-contact": "Messages that are planned from now on reach them. It is audited.",

		"post-records":      "One bad record fails no other one: the answer says what became of each, in the order of the request.",
		"put-record":        "Fields that are not mentioned are taken away.",
		"change-record":     "Fields that are not mentioned stay. The record has to exist.",
		"list-record-types": "A type that a definition declares comes with its fields.",
		"list-records":      "Returns the fields of each record; GET /v1/records/{type}/{id} also shows the state of each trigger.",
		"get-record":        "For each trigger that watches records of its type: whether its condition holds, which clauses do not, and when it may fire again.",
		"respond":           "The answers are the person's, or an agent's on their behalf. Reminders end, and other deliveries of the same occasion to the person are cancelled.",
		"surveys-respond":   "The answers follow the same rules as those of POST /v1/deliveries/{id}/responses.",
		"list-sessions":     "A contact has at most one open session on a kind of channel.",
		"get-session":       "What people wrote is kept while a session is open. A message that has not left has no text.",
		"list-responses":    "The answers are those that were taken; carillon responses export writes them as CSV.",
		"list-outbox":       "Every filter narrows the list; without one all are listed. GET /v1/outbox/{id} returns one with its body and its tries.",
		"get-outbox-event":  "Returns what sinks get, how it stands at each sink, and every try that has ended.",
		"redrive-outbox-event": "It gets all its tries again, under the same message id, so that a receiver that has it drops it. What is pending or dispatched stays as it is. A sink that rests is tried at once. " +
			"It is audited.",
		"list-sinks": "Events of a sink that is not active wait, and use up no tries.",
		"get-sink":   "Returns also how many of its events wait or are dead.",
		"pause-sink": "Its events wait and use up no tries. What is on its way is not called back. To pause a sink twice is to pause it once. It is audited.",
		"enable-sink": "Whether a person paused it or it was disabled. What waits is tried at once, and the days for which it has failed are counted from the start again. " +
			"It is audited.",
		"redrive-sink":   "They get all their tries again, and a sink that rests is tried at once. Enable the sink first if it is disabled. It is audited.",
		"list-throttles": "A context is what the cooldown of a trigger is counted by, such as one record with its issues.",

		"list-runs":  "A run is started by an edit of definitions, by a persona that changed, by a repair, or by a retry or cancel of many deliveries.",
		"cancel-run": "What it has done stays. A run that has failed does not wait for a person any more. To cancel a run twice is to cancel it once.",
		"undo-run": "A run of its own takes it back: what the run began ends, and what it ended goes on from where it was. Whom something newer concerns is left alone. " +
			"A run that goes on is cancelled first.",
		"resume-run": "It goes on after the last row that it has done.",

		"list-instances":   "Every filter narrows the list; without one all are listed.",
		"get-instance":     "Returns also why it is held, its last failures, and its first hundred deliveries.",
		"cancel-instance":  "What is on its way to a provider may arrive. It is audited.",
		"retry-instance":   "What has ended is done again as a new occasion, which the answer names. It is audited. The body may be left out.",
		"release-instance": "Its tries are counted from the start again. It is audited.",
		"forget-instance":  "What was sent is not sent again by this; only a later event with the same key is. It is audited.",
		"list-workflows":   "Returns also what waits for a paused workflow.",

		"list-deliveries": "Every filter narrows the list; without one all are listed.",
		"get-delivery":    "Returns every try at a provider, what was rendered where the channel keeps it, and what keeps the message from leaving.",
		"cancel-delivery": "A message that is on its way to a provider may arrive; the answer says so. It is audited.",
		"retry-delivery":  "What has ended is sent again as a new occasion, which the answer names. It is audited.",

		"list-secrets": "Returns when each was set, and whether the server can open it.",

		takeCallback: "The provider of the channel, or a program beside it, posts here. A channel of http, webhook or smtp takes the object Callback, one of Twilio or Telnyx " +
			"what its vendor posts. A callback that comes again is answered as the first time, and does nothing again. An address from which too many callbacks were not " +
			"signed gets 429; one of at most 64 KiB that is signed is taken from there too.",

		"surveys-ingest": "One bad item fails no other one: the answer says what became of each, in the order of the request. " +
			"Keys of an item that are not known are passed over, and named in its warnings.",
		"surveys-tick": "For tests and for engines that are driven from outside; a running server does all this by itself.",
	}
}

// describeOperations gives every operation a description.
func describeOperations(doc *huma.OpenAPI) {
	known := descriptions()
	eachOperation(doc, func(op *huma.Operation) {
		if op.Description == "" {
			op.Description = known[op.OperationID]
		}
	})
}
