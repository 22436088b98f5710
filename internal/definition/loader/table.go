package loader

import (
	"github.com/carillonhq/carillon/internal/cadence"
	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/digest"
	"github.com/carillonhq/carillon/internal/subject"
	"github.com/carillonhq/carillon/internal/survey"
)

// The tables of this file are the whole vocabulary of definitions (docs/reference/definitions.md, Keys): the keys of each block, the shapes of their
// values, and which of them have an effect in this release. The loader refuses everything else, and the JSON Schema is generated from
// the tables. A release that adds support for a key changes its line here.

// entry is one key of a block.
type entry struct {
	name     string
	value    shape
	required bool
	later    bool   // known, and refused with code not_supported_yet
	hint     string // for a later key: what to do instead
	doc      string // for people, in editors and on the reference page, where the part after "Default: " has a column of its own
}

// block describes the keys of one map.
type block struct {
	name    string // the name in error messages
	entries []entry
}

func (b *block) entry(name string) *entry {
	for i := range b.entries {
		if b.entries[i].name == name {
			return &b.entries[i]
		}
	}
	return nil
}

func (b *block) names() []string {
	names := make([]string, len(b.entries))
	for i, e := range b.entries {
		names[i] = e.name
	}
	return names
}

// supported returns the names that are not refused with "not supported yet".
func (b *block) supported() []string {
	var names []string
	for _, e := range b.entries {
		if !e.later {
			names = append(names, e.name)
		}
	}
	return names
}

func built(name string, value shape, doc string) entry {
	return entry{name: name, value: value, doc: doc}
}

func required(name string, value shape, doc string) entry {
	return entry{name: name, value: value, doc: doc, required: true}
}

func later(name, hint string) entry {
	if hint == "" {
		hint = "leave it out for now"
	}
	return entry{name: name, later: true, hint: hint}
}

func builtKinds() []definition.Kind {
	return []definition.Kind{
		definition.KindWorkflow, definition.KindSurvey, definition.KindTemplate, definition.KindPersona, definition.KindGroup, definition.KindTopic, definition.KindRecordType, definition.KindChannel, definition.KindSink, definition.KindWorkspace, definition.KindScenario,
	}
}

// tables returns all blocks by their name in the schema. The block of a kind has the kind's name.
type tables map[string]*block

func newTables() tables {
	return tables{
		"workflow": {"a workflow", []entry{
			required("workflow", aSlug, "Its name, part of every key."),
			required("type", oneOf(WorkflowTypes()...), "The type that limits count by, and the prefix of every key."),
			built("description", aText, "For people."),
			built("enabled", aBool, "false: nothing new is made, deliveries that wait are kept, and what a record has planned ahead is withdrawn; true brings it back. Default: true."),
			built("ext_id", aText, "Its id in another system: templateId in dedup, surveyId in the answer to an ingest. Default: its name."),
			built("locale", aLocale, "The text for people without a locale of their own. Default: the workspace's."),
			built("vars", anyMap, "Constants, read as vars.NAME."),
			required("triggers", listOf(ref("trigger")), "What makes an occasion."),
			built("timing", ref("timing"), "When a message is due and what follows it. Default: at once."),
			built("audience", listOf(ref("audience")), "Who gets the message; here or in every trigger."),
			built("channel", aChannel, "Where it leaves, here or in every trigger: email stands for email:default."),
			built("fallback", listOf(aChannel), "Tried in this order when the channel before has no address, is at its limit at the send, or has failed for good."),
			built("message", ref("message"), "What it says; here or in every trigger."),
			built("resolved", ref("message"), "The message once the condition has cleared, to those who were notified; for triggers on records."),
			built("limits", ref("limits"), "How its messages meet the limits of people, and how many people and messages are too many."),
			built("sinks", listOf(ref("sink_ref")), "Where its outcomes go. A sink may stand here several times: an outcome goes there once if one of them fits. Default: nowhere."),
			built("retry", ref("retry"), "What follows a failed try. Default: the workspace's."),
			built("pin", aBool, "An occasion keeps the version of its moment. Default: true with an event, else false; one whose audience is taken up in several steps, of 500 people each, keeps the version with which it began."),
			built("priority", oneOf(priorities()...), "Which messages go first when not all that are due can leave. Default: digest for digests, else transactional."),
			built("digest", ref("digest"), "Of type digest: what one message holds."),
		}},
		"trigger": {"a trigger", []entry{
			built("id", aSlug, "Its name, part of keys and of the answer to an ingest. Only a sole trigger with a schedule may do without."),
			built("enabled", aBool, "false: it makes no new occasions, and what it has planned ahead is withdrawn; true brings it back. Default: true."),
			built("description", aText, "For people."),
			built("event", aName, "The kind of event that makes an occasion. A trigger has an event, a record or a schedule."),
			built("record", aSlug, "The type of records that it evaluates."),
			built("schedule", ref("schedule"), "The days and times of the calendar that make its occasions."),
			built("when", ref("condition"), "It is an occasion only if this holds; with a schedule it is evaluated when the occasion is due."),
			built("issues", byName("conditions by name", ref("condition")), "Of records, instead of when: an occasion if any of them holds. Those that hold are issues in texts and in cooldown.per."),
			built("for", aDuration, "Of records: the condition, or the issue, must have held this long without a break. Default: at once."),
			built("check", listOf(aCheck), "Of records: change (when a record is written, and when time alone changes the answer), an interval such as 5m (counted from midnight UTC), or both. Default: change."),
			built("cooldown", ref("cooldown"), "Of records: it fires again while the condition holds, but not sooner. Default: on with issues; with when it must be written."),
			built("metric", ref("metric"), "Of records: a number that is held against thresholds. It fires when one is reached."),
			built("fire", oneOf(fireWords()...), "Of records, instead of a cooldown: within what it fires once. Default: by a date for each date and offset, else once_per_source."),
			built("reconcile", ref("reconcile"), "Of records, without issues and a cooldown: what should be planned and is not, because somebody deleted it, is planned again. Default: off."),
			built("dedup", listOf(aText), "Of events: paths whose values make an event the same event. Default: its id, else its content."),
			built("dedup_scope", oneOf(definition.DedupWorkflow, definition.DedupWorkspace), "Where an event is the same event. Default: workflow."),
			built("dedup_missing", oneOf(definition.DedupAllow, definition.DedupReject), "What follows a path without a value. Default: allow."),
			built("timing", ref("timing"), "Replaces the workflow's."),
			built("audience", listOf(ref("audience")), "Replaces the workflow's."),
			built("channel", aChannel, "Replaces the workflow's."),
			built("fallback", listOf(aChannel), "Replaces the workflow's."),
			built("message", ref("message"), "Replaces the workflow's."),
			built("resolved", ref("message"), "Replaces the workflow's."),
			built("limits", ref("limits"), "Replaces the workflow's, but for max_sends_per_hour."),
			built("priority", oneOf(priorities()...), "Replaces the workflow's."),
		}},
		"digest": {"a digest", []entry{
			built("bundle", oneOf(string(digest.BundleContact), string(digest.BundleSubscription)), "What one message is about: contact, all topics of a person; subscription, one topic. Default: contact."),
			built("duplicates", oneOf(string(digest.DuplicatesOnce), string(digest.DuplicatesEach)), "An item of several topics of a message stands in the first of their sections, and the others refer to it (once), or in each (each). Default: once."),
			built("catch_up", oneOf(string(digest.CatchUpMerge), string(digest.CatchUpSkip), string(digest.CatchUpSend)), "What becomes of the window of a run that was missed: the next run holds it (merge), nobody hears of it (skip), or it gets a run of its own, late (send). Default: merge."),
			built("max_items", aCount, "How many items a message holds; digest.more says how many others there are. Default: 100."),
		}},
		"metric": {"a metric", []entry{
			required("name", aSlug, "Its name, part of every key."),
			required("value", anExpression, "The number, such as 100 * record.booked / record.capacity."),
			required("thresholds", listOf(aNumber), "Reached from this value on, ascending."),
		}},
		"reconcile": {"a repair", []entry{
			required("every", aDuration, "How often the records are gone over, in batches: 1h or longer."),
			built("due_within", aDuration, "With a date: of records that were not written since the last time, what is due within this time is looked for. Default: 30d."),
			built("where", ref("condition"), "Only records for which this holds. Default: all that are neither closed nor deleted."),
			built("batch", aCount, "How many records a step reads, at most 5000. Default: 500."),
		}},
		"schedule": {"a schedule", []entry{
			built("every", aDuration, "How often: 1d, 2w, 1mo or 1y. Exactly one of every, rrule and cron is written."),
			built("rrule", aText, "A recurrence rule of RFC 5545 for the days, such as FREQ=MONTHLY;BYDAY=1MO."),
			built("cron", aText, "A cron expression of five fields for days and times, such as 30 8 * * mon-fri, due at most once an hour."),
			built("days", listOf(aText), "With every in weeks: mon tue wed thu fri sat sun; in months: 1 to 31, or from the end -1 to -28. Default: that of from."),
			built("at", aText, "The time of day, with every and rrule; random 09:00-11:00 draws a minute for each day, which stays."),
			built("timezone", listOf(aText), "Where dates and times are meant, a name of the tz database; contact.timezone for that of each contact, with a second one for people without a zone. Default: the workspace's."),
			built("from", aText, "The first day that counts, and from which every is counted. Default: it is counted from Monday, 1 January 2001."),
			built("until", aText, "The first day that no longer counts. Default: none."),
			built("times", aCount, "How many there are in all, counted from from, at most 1000000. Default: no end."),
			built("period", aDuration, "The span that is reported on, period.start to period.end in texts and expressions. Default: none."),
			built("period_end", aTimeOfDay, "When it ends on the day of the run. Default: 00:00."),
			built("dst", ref("dst"), "A time of day that does not exist, or comes twice."),
			built("missing_day", oneOf(string(civil.MissingDayLast), string(civil.MissingDaySkip)), "A day that a month does not have: its last one, or none. Default: last."),
		}},
		"dst": {"dst", []entry{
			built("gap", oneOf(string(civil.GapForward), string(civil.GapSkip)), "A time of day that the clocks leave out: later by as much as they jump, or not at all. Default: forward."),
			built("overlap", oneOf(string(civil.OverlapFirst), string(civil.OverlapSecond)), "A time of day that comes twice. Default: first."),
		}},
		"cooldown": {"a cooldown", []entry{
			built("length", aCooldown, "A duration, or persona for the shortest cooldown among the personas of the audience, an hour if they have none. Default: persona."),
			built("per", listOf(anExpression), "What makes a context, each with a cooldown of its own; [] is one for the whole trigger. Default: [record.id, issues], without issues [record.id]."),
			built("issues", byName("durations by name", aDuration), "The length for single issues. Of several issues the shortest counts."),
			built("reset_on_clear", aBool, "A cooldown ends when the condition has cleared; for a cooldown of one record, so with record.id in per. Default: false."),
		}},
		"limits": {"limits", []entry{
			built("critical", aBool, "Passes the cooldown, the limits and the quiet hours of people, never a suppression. Default: false."),
			built("counts", aBool, "Uses up the limits of people. Default: true."),
			built("at_create", oneOf(definition.LimitDefer, definition.LimitSkip, definition.LimitFallback), "When a person is at a limit: the message waits for the next instant, or is left out. With fallback it leaves by the first fallback channel that is free at once, and waits where none is. Default: defer."),
			built("at_send", oneOf(definition.LimitDefer, definition.LimitFail, definition.LimitFold), "When that shows only at the send and no fallback is free: it waits, or fails. With fold what waits, since its creation too, leaves as one message with whatever else waits for the person on the channel, or with their next digest. Default: defer."),
			built("supersede", aBool, "A newer message about the same context replaces one that still waits. Default: true."),
			built("revalidate", aBool, "What no longer holds at the send is dropped; for triggers on records. Default: true for reminders, else false."),
			built("send_window", aSpan, "It leaves only then, in the recipient's zone. Default: at any time."),
			built("max_recipients_per_run", aCount, "How many people an occasion takes up. With more it is held with the reason too_many_recipients until a person releases it; then it takes up all of them. Default: any number."),
			built("max_sends_per_hour", aCount, "Of the workflow, not of a trigger: how many messages all its triggers together send in an hour. What would go beyond pauses the workflow with the reason too_fast until a person resumes it. Default: any number."),
		}},
		"timing": {"timing", []entry{
			built("anchor", anExpression, "A date, now, or an expression that gives a date or an instant. Default: event.occurred_at; with a record the moment at which it fires."),
			built("offset", listOf(anOffset), "From the anchor to the message: -2d is two days before. With a date of a record several, each an occasion of its own. Default: 0d."),
			built("at", aText, "With a date of a record, an event, or a course: a time of day, random 09:00-11:00 for a minute that is drawn once, or an expression that gives one. Default: 09:00, with an instant its own; without a date messages count from the moment."),
			built("timezone", listOf(aText), "With a date of a record, an event, or a course: where it is meant. Zones of the tz database and expressions such as record.centre_zone, tried in this order; contact.timezone first: the zone of the one contact of the audience, such as the recipient of an event, or a row for each zone of its people, and the others for those without one; with a course only of one contact. Default, and last: the record's timezone, then the workspace's."),
			built("follow_zone", aBool, "With a date of a record, or a course of one: what is pending moves when the zone changes. Default: true."),
			built("dst", ref("dst"), "With a date of a record, an event, or a course: a time of day that does not exist, or comes twice."),
			built("stop_when", ref("condition"), "With a record, and neither issues nor a cooldown: once this holds, what is pending is withdrawn and the reminders end. With a schedule: once this holds when it is due, the series ends."),
			built("reminders", listOf(aDuration), "After the message, as long as there is no answer."),
			built("reminders_from", oneOf("previous", "anchor"), "Whence a reminder counts: from the message before it, or from anchor and offset. Default: previous."),
			built("expire_after", aDuration, "How long after the last message an answer is awaited. Default: 30d."),
			built("accept_late", aBool, "With a survey: an answer is taken after expire_after, too. Default: false."),
			built("catch_up", aText, "How late a message is still sent: a duration, never or forever. Default: 48h."),
			built("sequence", someOf(ref("sequence")), "Of events, and of records without issues and a cooldown: several messages, in this order. With sequence, repeat, start_on, first or reset_on a course of messages begins. Default: one message."),
			built("repeat", ref("repeat"), "Of events, and of records without issues and a cooldown: the messages come again in rounds, counted from the beginning of the course and never from the last send. Default: one round."),
			built("start_on", oneOf(weekdaysInOrder()...), "Of a course: it begins on the first such day on or after anchor and offset. Default: any day."),
			built("first", oneOf(firstNext, firstWhole), "Of a course that begins when its condition is met, or its event has happened, and whose messages have times of day: the next message that is not past; or whole: it waits for a day, week or month whose first message is not past. Default: next."),
			built("missing_day", oneOf(string(civil.MissingDayLast), string(civil.MissingDaySkip)), "Of a course in rounds of months: a day that a month does not have is its last one, or none. With a schedule it stands below schedule. Default: last."),
			built("reset_on", anExpression, "Of a course of a record: it begins again when the value of this expression changes. Default: never."),
			built("backlog", oneOf(backlogs()...), "With a schedule or a course, of several that are overdue at once: the latest that is within catch_up; first: the oldest decides, and the rest is dropped; all: each that is within catch_up. Default: latest."),
			built("late_joiner", oneOf(lateJoiners()...), "Of a course of a record: what becomes of people who come into the audience of a course after its first message: join: they get its next message; skip: they get nothing of this course; fresh: they get a course of their own, from its first message on. Default: join."),
		}},
		"sequence": {"an entry of the sequence", []entry{
			built("day", aDay, "The day of the round on which it is due, 0 the first one; in rounds of months the day of the month, -1 its last one. An entry has day or after."),
			built("after", aDuration, "How long it is due after the message before it; of the first one after the beginning of the round, 0m at once."),
			built("at", aText, "With day, and in the first entry: the time of day, written as the timing's. Default: the timing's."),
			built("message", ref("message"), "What this message says. Default: the trigger's, or the workflow's."),
			built("audience", listOf(ref("audience")), "Who gets this message. Default: the trigger's, or the workflow's."),
			built("channel", aChannel, "Where this message leaves; without fallback. Default: the trigger's, or the workflow's."),
		}},
		"repeat": {"a repeat", []entry{
			required("every", aDuration, "How long a round is, in days, weeks, months or years: 1d, 2w, 1mo or 1y."),
			built("days", someOf(aText), "Without a sequence, the days of a round on which the message is due. With every in weeks: mon tue wed thu fri sat sun, of its first week; in months: 1 to 31, or from the end -1 to -28. Default: the day on which the course begins."),
			built("times", aTimes, "How many rounds there are, at most 1000000. Default: forever."),
			built("until", anExpression, "A date, or an expression that gives a date or an instant: nothing is due then or later; of a date, from its first midnight in the workspace's zone. Default: no end."),
			built("count", oneOf(countMessages, countAll), "Which rounds times counts: those that have a message; or all, also months that do not have the day. Default: messages."),
		}},
		"audience": {"an entry of the audience", []entry{
			built("to", anExpression, "event.recipient, or an expression that gives records or ids of contacts, one or a list. A record is reached as the contact of its id, else by its own address."),
			built("address", anExpression, "An expression that gives an address or a list of them. A value that is no address of its kind names nobody."),
			built("kind", oneOf(addressKinds()...), "What kind of address it is; needed with address, which serves on channels of that kind."),
			built("where", ref("condition"), "Only people for whom this holds."),
			built("persona", aName, "Everybody with that persona."),
			built("group", aName, "Everybody in that group."),
			built("everyone", aTrue, "All contacts."),
			built("place", someOf(aText), "Everybody in that place, or in one of several. A place is a record of the type place; one that does not exist has nobody."),
			built("below", aBool, "With place: and everybody in the places below it. Default: false."),
			built("place_above", anExpression, "Everybody in the place above the one that the expression gives: a place, or an owner, who is a place or a contact with one."),
			built("place_types", someOf(aText), "With below: only people whose own place has one of these types. With place_above: the nearest place above of one of these types, in place of the next one above. Default: any."),
			built("topics", someOf(aName), "Everybody who subscribes to one of these topics; all: to any topic; matched, with event: item.published: to a topic of the item."),
			built("frequency", aSlug, "With topics: only subscriptions with this frequency, such as immediate. Default: any."),
			built("function", aName, "Whom a function of a binary of your own names when it is due."),
		}},
		"message": {"a message", []entry{
			built("email", ref("email"), "What it says by email."),
			built("sms", ref("sms"), "What it says by SMS."),
			built("whatsapp", ref("whatsapp"), "What it says by WhatsApp."),
			built("push", ref("push"), "What it says as a push notification."),
			built("inbox", ref("inbox"), "What it says in the inbox."),
			built("webhook", ref("webhook"), "What it says to a program."),
			built("template", aName, "Takes the texts of a template."),
			built("survey", aName, "Sends the invitation of a survey."),
			built("mode", oneOf(modeLink, modeConversation), "How a survey is asked: link, by a page that the message leads to; conversation, by messages of one question each, which people reply to. Default: link."),
			built("data", byName("data by name", ref("data")), "What it reads when it is written, as data.NAME in its texts."),
			later("function", ""),
			built("metadata", metadata, "Values by name that go with the message to its provider: metadata in the request of http, data.metadata in that of webhook, the header X-Carillon-Metadata of an email. The inbox and memory keep none."),
		}},
		"data": {"data", []entry{
			built("records", aSlug, "The type of records that it reads. Data has records or http."),
			built("where", ref("condition"), "Only records for which this holds; in it and below, record is each of them. Default: all."),
			built("group_by", anExpression, "What makes a row of several records, row.group in texts. Default: each record is a row."),
			built("sum", anExpression, "A number that is added up, row.sum. Without group_by it is data.NAME.sum, of all of them."),
			built("count", aTrue, "How many there are, row.count; without group_by data.NAME.count."),
			built("order_by", aText, "group, sum or count, or of single records an expression such as record.due_on; desc behind it turns the order round. Default: by group, or by id."),
			built("limit", aCount, "The first so many rows, at most 1000. Default: all of them; more than 1000 are refused."),
			built("http", aText, "Where a JSON document is, http or https: data.NAME is that document."),
			built("timeout", aDuration, "How long it is waited for, at most 1m. Default: 10s."),
		}},
		"template": {"a template", []entry{
			required("template", aName, "Its name."),
			built("email", ref("email"), "What it says by email."),
			built("sms", ref("sms"), "What it says by SMS."),
			built("whatsapp", ref("whatsapp"), "What it says by WhatsApp."),
			built("push", ref("push"), "What it says as a push notification."),
			built("inbox", ref("inbox"), "What it says in the inbox."),
			built("webhook", ref("webhook"), "What it says to a program."),
		}},
		"email": {"email", []entry{
			required("subject", localized, "The subject."),
			built("text", localized, "The plain text."),
			built("html", localized, "Values are escaped."),
			built("markdown", localized, "Stands for text and html: HTML is made of it (CommonMark), the text is as it is written. Values are escaped."),
			built("from", localized, "The sender, such as Support <support@example.org>. Default: the channel's."),
			built("reply_to", localized, "Where answers go. Default: the channel's."),
			built("headers", headers, "Further headers by name, such as List-Id; not those that the mailer writes itself."),
		}},
		"sms":      {"sms", []entry{required("text", localized, "The text.")}},
		"whatsapp": {"whatsapp", []entry{required("text", localized, "The text.")}},
		"push":     {"push", []entry{built("subject", localized, "The heading."), required("text", localized, "The text.")}},
		"inbox":    {"inbox", []entry{built("subject", localized, "The heading."), required("text", localized, "The text.")}},
		"webhook": {"webhook", []entry{
			built("subject", localized, "The heading: subject of the request's data."),
			built("text", localized, "The text: text of the request's data."),
			built("body", localized, "The same as text."),
		}},
		"retry": {"retry", []entry{
			built("backoff", listOf(aDuration), "Waits between tries. Default: 5m, 15m, 1h of an instance and of a delivery that has a further fallback channel; 5m, 15m, 1h, 2h, 4h, 8h, 12h of other deliveries."),
			built("jitter", aText, "Up to this much longer: none, or a percentage such as 20%. Default: 20%."),
			built("then", oneOf(definition.RetryFail, definition.RetryHold, definition.RetryDaily, definition.RetryForever), "After the last wait. A delivery fails, with forever it goes on with the last wait; an instance is held, with daily it is tried once a day at the same time. fail and hold say the default of both."),
			built("on_crash", oneOf(definition.CrashNow, definition.CrashLadder), "When an instance brings its worker down: now tries it again at once the first time, and then by the waits; ladder by the waits from the first time. The third time it is held. Default: now."),
			built("lease", aDuration, "How long a worker leases an instance before it processes it, from 1s to 1h, so that a worker that dies meanwhile is noticed. Default: no lease; an instance is claimed and processed in one transaction, which rolls back if the worker dies."),
		}},
		"sink_ref": {"a sink of the workflow", []entry{
			required("sink", aName, "The sink's name."),
			built("events", someOf(oneOf(definition.Outcomes()...)), "Which outcomes. Default: response.completed."),
			built("when", ref("condition"), "Only outcomes for which this holds. Default: always."),
		}},
		"survey": {"a survey", []entry{
			required("survey", aName, "Its name."),
			required("title", localized, "The heading of the form, and the subject of the invitation."),
			built("invitation", ref("invitation"), "What a message with this survey says."),
			required("questions", listOf(ref("question")), "In the order of asking."),
			built("conversation", ref("conversation"), "How it is asked by messages, with mode: conversation."),
		}},
		"conversation": {"a conversation", []entry{
			built("invalid", localized, "The message to somebody whose reply is no answer. Default: the question once more."),
			built("reminders", listOf(aDuration), "When an unanswered question is repeated, each from the message before it. Default: never."),
			built("expire_after", aDuration, "How long after the first question it ends. Default: the workflow's, else 30 days."),
			built("partial", oneOf(partialSubmit, partialDrop), "What becomes of answers when not all questions were answered. Default: submit."),
			built("closing", localized, "The message after the last answer. Default: none."),
		}},
		"invitation": {"an invitation", []entry{required("text", localized, "{{ survey.link }} is the link to the form.")}},
		"question": {"a question", []entry{
			required("id", aSlug, "Its name, read as answers.NAME."),
			required("type", oneOf(questionTypes()...), "What kind of answer it takes."),
			required("text", localized, "The question."),
			built("required", aBool, "It must be answered. Default: false."),
			built("options", listOf(ref("option")), "The answers to choose from."),
			built("min", aNumber, "The smallest answer."),
			built("max", aNumber, "The largest answer."),
			built("max_length", aCount, "The longest answer, in characters."),
			built("pattern", aText, "A regular expression that the answer must match."),
			built("show_when", ref("condition"), "It is asked only if this holds."),
			built("valid_when", ref("condition"), "An answer is taken only if this holds."),
		}},
		"option": {"an option", []entry{
			required("value", aText, "What the answer holds."),
			required("text", localized, "What people read."),
		}},
		"channel": {"a channel", []entry{
			required("channel", aChannel, "KIND:NAME, or KIND for KIND:default."),
			required("provider", aName, "What sends the messages."),
			built("settings", ref("settings"), "The provider's."),
			built("on_unknown", oneOf(definition.OnUnknownResend, definition.OnUnknownHold, definition.OnUnknownVerify), "What follows a send of unknown outcome: another try under the same key, a wait for a person, or a question to the provider and another try if it has nothing. Default: resend; hold for a provider without idempotency keys."),
			built("idempotency_ttl", aDuration, "How long the provider knows a key: what may have arrived is sent again within it only. With on_unknown: resend. Default: for ever."),
			built("rate", aRate, "How many messages leave at most in any second, minute or hour, counted over all processes. Default: no bound."),
			built("concurrency", aCount, "How many requests a process has in flight at once, at most 1000. Default: 64."),
			built("timeout", aDuration, "How long a request may take, at most 5m. Default: 20s."),
			built("only_to", listOf(aText), "Addresses, or patterns such as *@example.org: messages to others are skipped. Default: everybody."),
			built("keywords", ref("keywords"), "The words by which people stop and start what they get and ask for help, in place of the built-in ones. A reply that is one of them, whatever its case, is that."),
			later("send_window", ""),
			later("retry", "a workflow's or the workspace's retry is used"),
		}},
		"keywords": {"keywords", []entry{
			built("stop", listOf(aText), "Nothing more on this kind of channel. Default: stop, unsubscribe, cancel, end, quit and others, in English and in the language of the person."),
			built("start", listOf(aText), "Messages again. Default: start, unstop, subscribe and others."),
			built("help", listOf(aText), "What this is. Default: help, info and others."),
		}},
		"sink": {"a sink", []entry{
			required("sink", aName, "Its name."),
			required("provider", aName, "What carries the outcomes."),
			built("settings", ref("settings"), "The provider's."),
			built("events", someOf(oneOf(definition.Outcomes()...)), "Which outcomes it takes of those that workflows route to it. Default: all of them."),
			built("when", ref("condition"), "Of those, only outcomes for which this holds. Default: always."),
			built("retry", ref("sink_retry"), "What follows a failed try."),
		}},
		"sink_retry": {"retry", []entry{
			built("backoff", listOf(aDuration), "Waits between tries; the last one repeats. Default: 10s, then each time four times as long, at most 12h."),
			built("jitter", aText, "Up to this much longer: none, or a percentage such as 20%. Default: 20%."),
			built("attempts", aCount, "After so many tries an outcome is dead. Default: 8."),
		}},
		"workspace": {"a workspace", []entry{
			required("workspace", aName, "Its name."),
			built("timezone", aText, "A name of the tz database. Default: UTC."),
			built("locale", aLocale, "The text for people and workflows without a locale. Default: en."),
			built("base_url", aText, "Public links begin with it."),
			built("retry", ref("retry"), "For workflows without one."),
			built("cadence", ref("cadence"), "The limits of people who have none of their own and none by a persona; {max_per_day: 0} is none. Default: of the types report, alert, story_so_far and custom one message a day, two a week, an hour apart."),
		}},
		"persona": {"a persona", []entry{
			required("persona", aName, "Its name."),
			built("cadence", ref("cadence"), "The limits of people with this persona. Default: the workspace's."),
		}},
		"group": {"a group", []entry{
			required("group", aName, "Its name."),
			built("members", someOf(aText), "The ids of its contacts. One that no contact has yet joins when the contact is made. A group has members or where."),
			built("where", ref("condition"), "Contacts for whom this holds. It reads nothing but contact, and not contact.groups."),
		}},
		"topic": {"a topic", []entry{
			required("topic", aName, "Its name."),
			built("title", localized, "What people read. Default: its name."),
			built("description", aText, "For people."),
			built("match", someOf(ref("match")), "Which items belong to it: those that any of these entries fits. Default: only items that name it."),
			built("frequencies", someOf(aSlug), "The frequencies on offer, such as immediate. Default: any."),
			built("confirm", aBool, "Whether a subscription begins only when its contact confirms it (double opt-in), by the link in a message that listens to event: subscription.requested. Default: false."),
		}},
		"match": {"an entry of match", []entry{
			built("tags", byName("values by name", ref("match_values")), "Tags of the item; it needs each of these."),
			built("links", byName("values by name", ref("match_values")), "Links of the item; it needs each of these."),
			built("fields", byName("values by name", aText), "Values of its fields; it needs each of these."),
			built("content_id", aText, "Its content id."),
			built("when", ref("condition"), "A condition on item. It reads nothing else."),
		}},
		"match_values": {"values of a tag or a link", []entry{
			built("any", someOf(aText), "The item has one of these."),
			built("all", someOf(aText), "The item has each of these."),
		}},
		"cadence": {"cadence", append(policyKeys(),
			built("channels", byName("cadence by kind of channel", ref("channel_cadence")), "For one kind of channel, such as sms: the same keys, instead of all of the ones above."),
			built("total", ref("total"), "Over all kinds of channels together, beside the limits of each kind; channels does not replace it. It counts as window, count and types beside it say."))},
		"total": {"a total", []entry{
			built("max_per_day", aLimit, "Messages in a day, over all kinds of channels. Default: no limit."),
			built("max_per_week", aLimit, "Messages in a week, over all kinds of channels. Default: no limit."),
			built("max_per_month", aLimit, "Messages in a month, over all kinds of channels. Default: no limit."),
		}},
		"channel_cadence": {"the cadence of a kind of channel", policyKeys()},
		"record_type": {"a record type", []entry{
			required("record_type", aSlug, "Its name."),
			required("fields", byName("types by name", aFieldType), "What its records hold: text, number, bool, date, datetime, time, contact, place, list, object or record(TYPE)."),
		}},
		"condition": {"a condition", []entry{
			built("all", listOf(ref("condition")), "Every one must hold."),
			built("any", listOf(ref("condition")), "At least one must hold."),
			built("field", aText, "A field such as candidate.jobType."),
			built("op", aText, "How it is compared."),
			built("value", anything, "With what."),
		}},
	}
}

// policyKeys are the limits of a contact, for all kinds of channels or for one.
func policyKeys() []entry {
	return []entry{
		built("cooldown", aGap, "The least time between two moments at which messages reach a person. Default: none."),
		built("max_per_day", aLimit, "Messages in a calendar day of the person's zone. Default: no limit."),
		built("max_per_week", aLimit, "Messages from Monday to Sunday. Default: no limit."),
		built("max_per_month", aLimit, "Messages in a calendar month. Default: no limit."),
		built("max_per_slot", aLimit, "Messages that may come at the same moment. Default: no limit."),
		built("type_limits", byName("limits by type", aLimit), "Messages in a day, by the workflow's type. Default: no limit."),
		built("quiet_hours", aSpan, "Nothing leaves then, in the person's zone. Default: none."),
		built("resume_at", aTimeOfDay, "The earliest time of day at which a wait for another day, week or month ends. A message with an at of its own does not come before that. Default: 00:00."),
		built("types", listOf(oneOf(WorkflowTypes()...)), "The types that meet the limits and use them up. Default: all."),
		built("window", oneOf(definition.WindowCalendar, definition.WindowRolling), "Whether days, weeks and months are those of the calendar, or the last 24 hours, 7 and 30 days. Default: calendar."),
		built("count", oneOf(string(cadence.CountCommitted), string(cadence.CountSent)), "Whether messages that wait count too, or only those sent. Default: committed."),
		built("slot_grace", aDuration, "How late a message may leave without asking again. Default: 1m."),
	}
}

// WorkflowTypes are the types that a workflow may have.
func WorkflowTypes() []string {
	return []string{"alert", "reminder", "report", "survey", "broadcast", "digest", "story_so_far", "notice", "custom"}
}

func questionTypes() []string { return words(survey.Types()) }

func words(types []survey.Type) []string {
	all := make([]string, len(types))
	for i, t := range types {
		all[i] = string(t)
	}
	return all
}

// addressKinds are the kinds of channels that have texts and addresses of their own.
func addressKinds() []string { return subject.AddressKinds() }
