package api

import (
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

// objects say what each schema of the document is. That of a request which answers have too says it with the same words.
func objects() map[string]string {
	page := func(of string) string { return "A page of " + of + ". next_cursor is there when there are more." }
	return map[string]string{
		"Problem": "Why a request was refused or has failed (RFC 9457). code is for programs and stays the same; detail and hint are for people.",

		"Event":           "A fact that happened in another system.",
		"EventBatch":      "Up to 1,000 events.",
		"EventsAnswer":    "What became of each event, in the order of the request, with counts.",
		"EventResult":     "What became of one event.",
		"InstanceRef":     "An occasion that an event made or met.",
		"DeliveryRef":     "A delivery of such an occasion.",
		"Recipient":       "The person whom an event names.",
		"ListedEvent":     "An event without its payload.",
		"EventDetail":     "An event with its payload, and what each trigger made of it.",
		"PageListedEvent": page("events"),
		"Decision":        "Why an occasion made no instance: it was known, throttled, or nothing could be decided.",
		"PageDecision":    page("decisions"),

		"Session":       "A conversation with a contact on a kind of channel.",
		"SessionDetail": "A conversation, with what was said in it.",
		"SessionLine":   "A message of a conversation, or a reply.",
		"PageSession":   page("sessions"),

		"Response":      "The answers to the survey of a delivery.",
		"ResponseInput": "The answers to the survey of a delivery, as they are submitted.",
		"AnswerProblem": "One answer that was refused, and why.",
		"PageResponse":  page("responses"),

		"OutboxEvent":      "An outcome that goes to sinks.",
		"OutboxDetail":     "An outbox event with its body and its tries.",
		"OutboxSink":       "What became of an outbox event at one sink.",
		"OutboxAttempt":    "One try of an outbox event at one sink.",
		"PageOutboxEvent":  page("outbox events"),
		"RedriveEventBody": "Where an outbox event is tried again.",
		"RedrivenEvent":    "Where an outbox event is tried again.",
		"Sink":             "A destination of outcomes.",
		"Sinks":            "The sinks that are defined or have events.",
		"ChangedSink":      "What pausing or enabling a sink did.",
		"RedrivenSink":     "How many events of a sink are tried again.",

		"Applied":           "What a change of the definitions did, or would do.",
		"ApplyFilesBody":    "Definition files. Together they become the next set of definitions, or none of them does.",
		"File":              "One definition file.",
		"Definition":        "A definition with its text, as it was applied.",
		"Definitions":       "The definitions of a set, with its number.",
		"DefinitionChange":  "How one definition changed.",
		"DefinitionHistory": "Sets of definitions that came into force, the newest first.",
		"DefinitionSet":     "A set of definitions that came into force, with what it changed.",
		"DefinitionPreview": "What would follow from a change of the definitions, as far as it is known before.",
		"DefinitionProblem": "A fault of a definition file, with its place and the remedy.",
		"WorkflowEffect":    "What would become of what waits of one workflow. The counts are those of this moment.",
		"Rollback":          "What is to be in force again.",
		"SecretChange":      "A definition that changed in what decides where its secrets go.",

		"Reason":  "One named outcome.",
		"Reasons": "Every named outcome.",

		"Contact":              "A person who gets messages.",
		"ContactInput":         "A person who gets messages, as it is written.",
		"ContactBatch":         "Up to 1,000 contacts.",
		"ContactsAnswer":       "What became of each contact, in the order of the request, with counts.",
		"ContactResult":        "What became of one contact.",
		"PageContact":          page("contacts"),
		"TopContact":           "A contact, and how many of the deliveries were to it.",
		"TopContacts":          "Who got most messages, the one with most first.",
		"Cadence":              "Limits: how often somebody may be messaged. 0 or nothing is no limit.",
		"Limits":               "The limits of one kind of channel.",
		"TotalLimits":          "Limits over all kinds of channels together.",
		"TopicInput":           "A topic as it is asked for: its rules, and what it is called.",
		"TopicRule":            "One way in which an item belongs to a topic: all that it names must fit.",
		"TopicValues":          "Values of which an item needs one of any, and each of all.",
		"Topic":                "What people subscribe to.",
		"PageTopic":            page("topics"),
		"SubscriptionInput":    "A subscription that is to begin, or to end.",
		"SubscriptionBatch":    "Up to 1,000 subscriptions.",
		"SubscriptionsAnswer":  "What became of each subscription, in the order of the request, with counts.",
		"SubscriptionResult":   "What became of one subscription.",
		"Subscription":         "That a person follows a topic, and how often they want to hear of it.",
		"PageSubscription":     page("subscriptions"),
		"ItemBatch":            "Up to 1,000 items.",
		"ItemsAnswer":          "What became of each item, in the order of the request, with counts.",
		"ItemResult":           "What became of one item.",
		"PageItem":             page("items"),
		"NextDigests":          "The next digests of a contact.",
		"NextDigest":           "The next digest of a contact by one trigger, as it would be now.",
		"NextDigestSection":    "What a digest holds of one topic.",
		"NextDigestItem":       "An item of a digest.",
		"Item":                 "What was published, and the topics that it belongs to.",
		"Group":                "A set of contacts that is defined.",
		"Groups":               "The groups that are defined.",
		"GroupPage":            "A group with a page of its contacts.",
		"ContactLimits":        "The limits of a contact, how far they are used up, and what waits for them.",
		"ChannelLimits":        "The limits of one kind of channel. A limit counts every message of the kind, by whatever provider.",
		"LimitUse":             "One limit, and how much of it is used up.",
		"WaitingMessage":       "A message that is planned.",
		"Feedback":             "What is reported of a message after its provider had accepted it.",
		"PostFeedbackMailBody": "A mail that reports a failed delivery or a complaint.",
		"FeedbackAnswer":       "What reports have changed.",
		"FeedbackReport":       "One report, and what it has changed.",
		"AllowAddressBody":     "The address.",
		"Allowed":              "Whether the address was stopped.",
		"Receipt":              "What was reported of a message.",
		"MergeContactBody":     "The contact into which a contact is merged.",
		"StoppedKind":          "A kind of channel on which nothing is sent to a contact.",
		"SuppressContactBody":  "Why a contact gets no more messages.",
		"MergedContact":        "What a merge of two contacts did.",
		"Suppressed":           "What the suppression of a contact, or its end, changed.",

		"Record":        "A thing that workflows watch.",
		"RecordInput":   "A thing that workflows watch, as it is written.",
		"RecordBatch":   "Up to 1,000 records.",
		"RecordsAnswer": "What became of each record, in the order of the request, with counts.",
		"RecordResult":  "What became of one record.",
		"RecordDeleted": "The record that was deleted.",
		"RecordDetail":  "A record, and how each trigger that watches it stands to it.",
		"RecordTrigger": "Why one trigger would fire for the record now, or why not.",
		"RecordType":    "A type of records, with its fields where a definition declares them.",
		"RecordTypes":   "The types of the records that there are.",
		"PageRecord":    page("records"),
		"Clause":        "One line of a condition, judged on its own.",
		"Throttle":      "A context of a workflow that has fired. Until its cooldown is over, it does not fire again.",
		"PageThrottle":  page("throttles"),

		"Run":     "Work over many rows that goes on after a crash.",
		"PageRun": page("runs"),

		"Instance":       "An occasion of a workflow. Each is made once, under its key.",
		"InstanceDetail": "An instance with its deliveries, its last failures, and why it is held.",
		"InstanceCounts": "What has become of the deliveries of an instance so far. Each is counted once: as sent, waiting, unknown, failed or left out.",
		"DigestRun":      "One run of a digest: its window of arrival, and where the run stands.",
		"Without":        "Why somebody got nothing by a run of a digest.",
		"ReasonCount":    "How many deliveries have the same status and reason.",
		"Zone":           "The row of one zone of an occasion that is due by the zone of each person. It is an instance of its own.",
		"PageInstance":   page("instances"),
		"Failure":        "A try at an instance that failed.",
		"InputConflict":  "What an instance was planned by, beside what its trigger says now. To release, retry or cancel the instance accepts the new.",
		"InputField":     "One of the inputs that the key of an instance stands for and does not contain.",
		"ForgetKeyBody":  "The key that is freed.",
		"InstanceRetry":  "For whom an instance is done again; without it, for those who have got nothing of it.",
		"Operated":       "What a person's action on an instance or a delivery did.",

		"Workflow":          "A workflow that is in force.",
		"Workflows":         "The workflows in force.",
		"WorkflowPause":     "Who paused a workflow, and what waits.",
		"Preview":           "What a workflow is going to do if nothing changes.",
		"Occurrence":        "One occasion of a workflow that is to come. Whether it is sent, and to whom, is decided again when it is due.",
		"ClockChange":       "A change of the clocks of a zone.",
		"PreviewTrigger":    "What the list of occurrences leaves open of one trigger.",
		"AudienceMember":    "One person of an audience.",
		"Recipients":        "Who the audience of a workflow is now.",
		"Child":             "A child of a record.",
		"Owner":             "Whose a record is: a contact, a group or a place.",
		"OwnerInput":        "Whose a record is: a contact, a group or a place. null is nobody's.",
		"RecordRef":         "A record, by its type and id.",
		"RecordRefInput":    "A record, by its type and id. It need not exist yet.",
		"PauseWorkflowBody": "Why a workflow is paused.",
		"PausedWorkflow":    "What pausing or resuming a workflow did.",
		"RunWorkflowBody":   "The name of a run by hand.",
		"ManualRun":         "A run of a workflow by hand.",

		"Delivery":                "A message to one person by one channel, with its reminders.",
		"DeliveryDetail":          "A delivery with its attempts, its contents, and what is known about its next message.",
		"PageDelivery":            page("deliveries"),
		"Attempt":                 "One try at a provider.",
		"Content":                 "What was rendered for one step.",
		"Folded":                  "A delivery that is part of one message with another one.",
		"Turn":                    "A message of a conversation.",
		"Outlook":                 "What is known about the next message of a delivery.",
		"Selection":               "The deliveries that are retried or cancelled together. At least one field is set.",
		"BulkSubscriptions":       "A change of the subscriptions of many people, or a message to them.",
		"BulkSubscriptionsAnswer": "Whom such a change is about, and the run that does it.",
		"SubscriptionChange":      "What a run makes of the subscriptions of a person.",
		"FollowedTopic":           "A topic, and how often a person hears of it.",
		"BulkAnswer":              "Which deliveries a retry or a cancel is about, and the run that does it.",

		"Secret":        "A secret of channels by its name. Its value is never answered.",
		"Secrets":       "The secrets of channels by their names.",
		"SecretChanged": "The secret that was set or removed.",
		"SetSecretBody": "The value of a secret.",

		"Callback":         "What the provider of a channel reports of messages, and what people have written back. At least one of the two.",
		"CallbackReply":    "What somebody has written back.",
		"CallbackRequest":  "What a provider calls back with: an object Callback, or what Telnyx posts.",
		"CallbackOfTelnyx": "An event, as Telnyx documents it.",
		"CallbackOfTwilio": "The fields of a form, as Twilio documents them.",

		"Channel":       "A way by which messages leave.",
		"Channels":      "The channels that are defined.",
		"ChannelState":  "What one process knows of a channel, from its start or from the channel's last change.",
		"ChannelTest":   "A message that is sent through a channel at once, outside of all limits.",
		"ChannelTested": "What came of the test of a channel.",

		"Status":     "How a workspace does: its channels, what is late, and what waits for a person.",
		"StatusLine": "One thing to know about a workspace, with the command that acts on it.",

		"Tick": "What one run of every pass did.",

		"SurveysRequest":     "Events of one kind, in the words of ADP Surveys.",
		"SurveysRequestItem": "One event, in the words of ADP Surveys. Keys that are not known are passed over.",
		"SurveysRecipient":   "The person who gets the survey, in the words of ADP Surveys.",
		"SurveysAnswer":      "What became of each item, in the order of the request, with counts.",
		"SurveysItem":        "What became of one item.",
		"SurveysInstance":    "An occasion that an item made or met.",
		"SurveysResponse":    "The answers to a survey, in the words of ADP Surveys.",
		"SurveysTick":        "What one run of every pass did, in the words of ADP Surveys.",
	}
}

// describeObjects gives every schema a description, where it does not bring one along.
func describeObjects(schemas huma.Registry) {
	known := objects()
	for name, s := range schemas.Map() {
		if s.Description == "" {
			s.Description = known[name]
		}
		if s.Description == "" {
			s.Description = known[strings.TrimSuffix(name, inputSuffix)]
		}
	}
}

// describeHeaders names the headers that answers have beside those of any HTTP server.
func describeHeaders(doc *huma.OpenAPI) {
	header := func(res *huma.Response, name, description string, s *huma.Schema) {
		if res == nil {
			return
		}
		if res.Headers == nil {
			res.Headers = map[string]*huma.Param{}
		}
		res.Headers[name] = &huma.Param{Description: description, Schema: s}
	}
	text := func(example string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Examples: []any{example}}
	}
	eachOperation(doc, func(op *huma.Operation) {
		for status, res := range op.Responses {
			header(res, "Cache-Control", "Always no-store: an answer holds what only its caller may read.", text("no-store"))
			if n, err := strconv.Atoi(status); err == nil && n == 401 {
				header(res, "WWW-Authenticate", "The scheme by which a key is sent: Bearer.", text("Bearer"))
			}
			if strings.Contains(res.Description, "`"+client.CodeBusy+"`") {
				header(res, "Retry-After", "After how many seconds the request may be sent again.", &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64(1))})
			}
		}
		for _, p := range op.Parameters {
			if p.In == "header" && p.Name == client.IdempotencyKey {
				for _, status := range []string{"200", "202"} {
					header(op.Responses[status], client.IdempotencyReplayed,
						"true where the same request was answered before under its Idempotency-Key: this is that answer, and nothing was done again.", text("true"))
				}
			}
		}
	})
}
