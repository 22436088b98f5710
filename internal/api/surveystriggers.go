package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/key"
)

// The routes of this file speak the words of another system, ADP Surveys, so that its callers can be pointed here
// without a change: the same paths, the same bodies (C1, C12, C13, C25, C26; product decisions 41 and 45).

const (
	surveysTriggersPath = "/api/Surveys/Triggers"
	surveysTickPath     = surveysTriggersPath + "/scheduler/tick"
)

// The outcomes of an item, in that system's words.
func surveysOutcome(o ingest.Outcome) string {
	switch o {
	case ingest.Created:
		return "Created"
	case ingest.Skipped:
		return "Skipped"
	case ingest.NoMatch:
		return "NoMatch"
	case ingest.Failed:
	}
	return "Failed"
}

type surveysAnswer struct {
	Created int           `json:"created" doc:"Items of which something new was made."`
	Skipped int           `json:"skipped" doc:"Items whose every occasion existed already."`
	Failed  int           `json:"failed" doc:"Items that were refused; nothing of them is kept."`
	NoMatch int           `json:"no_match,omitempty" doc:"Items that concern no workflow; absent when there are none."` // not said by that system: present only when it counts (product decision 41)
	Items   []surveysItem `json:"items" doc:"One for each item, in the order of the request."`
}

type surveysItem struct {
	Outcome   string            `json:"outcome" doc:"What became of the item."`
	Error     string            `json:"error,omitempty" doc:"Why it was refused."`
	Warnings  []string          `json:"warnings,omitempty" doc:"What was taken and is probably a mistake, such as a field of the dedup recipe that the payload lacks; absent when there is nothing."`
	Instances []surveysInstance `json:"instances" doc:"The occasions that it made or met."`
}

type surveysInstance struct {
	SurveyID  any    `json:"surveyId" doc:"The ext_id of the workflow."` // a number where the workflow's ext_id is one
	TriggerID string `json:"triggerId" doc:"The id of the trigger."`
	PublicID  string `json:"publicId" doc:"The id in the link that the person gets, a UUID."`
}

type surveysTick struct {
	Processed  int `json:"processed" doc:"Deliveries that were taken up."`
	Expired    int `json:"expired" doc:"Deliveries that ended without an answer."`
	Failed     int `json:"failed" doc:"Deliveries and instances that failed."`
	Dispatched int `json:"dispatched" doc:"Outbox events that a sink accepted."`
	Dead       int `json:"dead" doc:"Outbox events for which no try follows at a sink."`
}

func (a *API) surveysTriggers() {
	a.plain(http.MethodPost, surveysTriggersPath+"/ingest", ScopeIngest, a.surveysIngest)
	a.plain(http.MethodPost, surveysTickPath, ScopeOperate, func(w http.ResponseWriter, r *http.Request, _ Caller) error {
		tick, err := a.Engine.Tick(r.Context())
		if err != nil {
			return fmt.Errorf("tick: %w", err)
		}
		return writeJSON(w, http.StatusOK, "application/json", surveysTick{tick.Processed, tick.Expired, tick.Failed, tick.Dispatched, tick.Dead})
	})
}

func (a *API) surveysIngest(w http.ResponseWriter, r *http.Request, c Caller) error {
	raw, err := readBody(w, r, MaxBatchBody)
	if err != nil {
		return err
	}
	fields, err := object(raw, "eventKind", "items")
	if err != nil {
		return err
	}
	var kind string
	if json.Unmarshal(fields["eventKind"], &kind) != nil || kind == "" {
		return invalid("body.eventKind", "it is not a text", "")
	}
	var list []json.RawMessage
	if json.Unmarshal(fields["items"], &list) != nil {
		return invalid("body.items", "it is not a list", "")
	}
	if len(list) > ingest.MaxBatch {
		return invalid("body.items", fmt.Sprintf("it holds more than %d items", ingest.MaxBatch), "send them in parts")
	}
	now := a.Clock.Now()
	items, notes := make([]ingest.Item, len(list)), make([]string, len(list))
	for i, item := range list {
		items[i], notes[i] = surveysParse(kind, item, now)
	}
	x := a.idsOf(c.Workspace)
	wire := func(results []ingest.Result) surveysAnswer { return x.surveysAnswer(results, notes) }
	results, err := a.Engine.Ingest(r.Context(), c.Workspace, items, once(a, c, wire))
	if err != nil {
		return err
	}
	a.logWarnings(r, results, notes)
	return writeJSON(w, http.StatusOK, "application/json", wire(results))
}

// surveysAnswer writes results in that system's words; notes are warnings about the items as they were read.
func (x ids) surveysAnswer(results []ingest.Result, notes []string) surveysAnswer {
	counts := x.eventsAnswer(results)
	answer := surveysAnswer{
		Created: counts.Created, Skipped: counts.Skipped, Failed: counts.Failed, NoMatch: counts.NoMatch,
		Items: make([]surveysItem, len(results)),
	}
	for i, r := range results {
		item := surveysItem{Outcome: surveysOutcome(r.Outcome), Instances: []surveysInstance{}}
		if r.Error != nil {
			item.Error = r.Error.Error()
		}
		if item.Warnings = r.Warnings; notes[i] != "" {
			item.Warnings = append(slices.Clone(r.Warnings), notes[i])
		}
		for _, one := range r.Instances {
			if one.ID == 0 {
				continue
			}
			item.Instances = append(item.Instances, surveysInstance{
				SurveyID: number(one.WorkflowExtID), TriggerID: one.Trigger, PublicID: x.surveysPublicID(one),
			})
		}
		answer.Items[i] = item
	}
	return answer
}

// surveysPublicID is the id in the link that the customer gets: the delivery's. An occasion without one yet is
// named by its own.
func (x ids) surveysPublicID(one ingest.InstanceResult) string {
	if len(one.Deliveries) > 0 {
		return x.uuid(key.KindDelivery, int64(one.Deliveries[0].ID))
	}
	return x.uuid(key.KindInstance, int64(one.ID))
}

// number is the number that a text contains, or the text.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	return text
}
