package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
)

const surveysBody = `{"eventKind":"service-visit-closed","items":[{"payload":{"wip":"40956","dealerId":"1","jobType":"GR",` +
	`"VIN":"JTMABBBJ2N4024400","CustomerName":"Kadhem Owaid"},"recipient":{"address":"+964 770 000 0001","locale":"ar","customerRef":"cust-123"}}]}`

// The other system's bodies, to the byte: created, the same again, filtered out, refused, all together.
// Shows: C1, C2, C11, C12, C13, C26.
func TestSurveysIngestBodies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		const path = "/api/Surveys/Triggers/ingest"
		var id string
		post := func(name, body, want string) {
			t.Helper()
			status, got := b.ask(http.MethodPost, path, body)
			if id == "" {
				var answer struct {
					Items []struct {
						Instances []struct{ PublicID string }
					}
				}
				if err := json.Unmarshal([]byte(got), &answer); err != nil {
					t.Fatalf("%s: %s", name, got)
				}
				id = answer.Items[0].Instances[0].PublicID
			}
			if want = strings.ReplaceAll(want, "$P", id); status != http.StatusOK || got != want {
				t.Errorf("%s: got %d\n%s\nwant\n%s", name, status, got, want)
			}
		}
		const instance = `"instances":[{"surveyId":4523,"triggerId":"csi-gr-trigger","publicId":"$P"}]`
		post("created", surveysBody, `{"created":1,"skipped":0,"failed":0,"items":[{"outcome":"Created",`+instance+`}]}`)
		post("the same again", surveysBody, `{"created":0,"skipped":1,"failed":0,"items":[{"outcome":"Skipped",`+instance+`}]}`)
		post("filtered out", strings.Replace(surveysBody, `"GR"`, `"PM"`, 1),
			`{"created":0,"skipped":0,"failed":0,"no_match":1,"items":[{"outcome":"NoMatch","instances":[]}]}`)
		post("refused", `{"eventKind":"service-visit-closed","items":[{"payload":[]},{"recipient":{"address":7}},"x"]}`,
			`{"created":0,"skipped":0,"failed":3,"items":[`+
				`{"outcome":"Failed","error":"payload: is not an object","instances":[]},`+
				`{"outcome":"Failed","error":"recipient.address: is not a text","instances":[]},`+
				`{"outcome":"Failed","error":"an event is a JSON object","instances":[]}]}`)
		post("nothing", `{"eventKind":"service-visit-closed","items":[]}`, `{"created":0,"skipped":0,"failed":0,"items":[]}`)
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
			t.Errorf("the public id is %q, not a UUID of RFC 9562", id)
		}
		// Both forms of an id name the same thing.
		if d, err := b.Delivery(t.Context(), id); err != nil || d.Address != "+964 770 000 0001" {
			t.Errorf("by its GUID: %+v, %v", d, err)
		}
		status, got := b.ask(http.MethodPost, "/api/Surveys/Triggers/scheduler/tick", "")
		if want := `{"processed":1,"expired":0,"failed":0,"dispatched":0,"dead":0}`; status != http.StatusOK || got != want {
			t.Errorf("tick: got %d %s, want %s", status, got, want)
		}
	})
}

// An item may say when it happened; ours is the time of the request otherwise (product decision 38).
func TestSurveysOccurredAt(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	body := strings.Replace(surveysBody, `"payload"`, `"occurredAt":"2026-05-14T05:00:00Z","unknown":{},"payload"`, 1)
	if status, text := b.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", body); status != http.StatusOK || !strings.HasPrefix(text, `{"created":1,`) {
		t.Fatalf("got %d %s", status, text)
	}
	list, err := b.Deliveries(t.Context(), client.DeliveryQuery{})
	if err != nil || len(list.Items) != 1 || !list.Items[0].NotBefore.Equal(start.Add(-754*time.Second)) {
		t.Errorf("got %+v, %v", list.Items, err)
	}
}

func TestSurveysProblems(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	for body, field := range map[string]string{
		`{"items":[]}`:                           "body.eventKind",
		`{"eventKind":7,"items":[]}`:             "body.eventKind",
		`{"eventKind":"x"}`:                      "body.items",
		`{"eventKind":"x","items":{}}`:           "body.items",
		`{"eventKind":"x","items":[],"more":1}`:  "body.more",
		`{"eventKind":"x","items":[],"items":1}`: "body.items",
		`[]`:                                     "body",
	} {
		status, text := b.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", body)
		if p := problemOf(t, text); status != http.StatusUnprocessableEntity || p.Field != field {
			t.Errorf("%s: got %d %s, want field %s", body, status, text, field)
		}
	}
}

// What is taken and is probably a mistake is said in the answer of the item, and in the log; what is refused is said in the
// words of that system (product decision 40).
func TestSurveysWarnings(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	item := func(fields string) string {
		return `{"eventKind":"service-visit-closed","items":[{` + fields + `}]}`
	}
	const recipient = `"recipient":{"address":"+964 770 000 0001"}`
	tests := []struct{ name, body, error, warnings string }{
		{"all there", item(`"payload":{"jobType":"GR","dealerId":"1","wip":"1"},` + recipient), "", ""},
		{"a path of the recipe is missing", item(`"payload":{"jobType":"GR","dealerId":"1"},` + recipient), "", "csi-gr: dedup without a value: candidate.wip; it counts as empty"},
		{
			"keys that are not known", item(`"payload":{"jobType":"PM"},"occured":1,"recipient":{"address":"a@example.org","customer_ref":"7"}`), "",
			"unknown keys, passed over: occured, recipient.customer_ref; an item has payload, occurredAt and recipient, a recipient address, locale and customerRef",
		},
		{"keys in capitals", item(`"Payload":{"jobType":"PM"},"Recipient":{"Address":"a@example.org","CustomerRef":"7"}`), "", ""},
		{"no instant", item(`"payload":{},"occurredAt":"yesterday"`), "occurredAt: is not an instant", ""},
		{"far away", item(`"payload":{},"occurredAt":"9999-01-01T00:00:00Z"`), "occurredAt: lies outside the years 1970 to 2200", ""},
		{"a reference that is none", item(`"payload":{},"recipient":{"address":"x","customerRef":{}}`), "recipient.customerRef: is not a text", ""},
		{"nobody", item(`"payload":{},"recipient":{}`), "recipient: the recipient has neither an address nor a customerRef", ""},
		{"a recipient that is none", item(`"payload":{},"occurredAt":"2026-05-14T05:00:00Z","recipient":7`), "recipient: is not an object", ""},
	}
	for _, test := range tests {
		status, text := b.ask(http.MethodPost, "/api/Surveys/Triggers/ingest", test.body)
		var answer struct {
			Items []struct {
				Error    string
				Warnings []string
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK || len(answer.Items) != 1 {
			t.Fatalf("%s: %d %s", test.name, status, text)
		}
		if got := answer.Items[0]; got.Error != test.error || strings.Join(got.Warnings, "\n") != test.warnings {
			t.Errorf("%s: error %q, warnings %q\nwant %q, %q", test.name, got.Error, got.Warnings, test.error, test.warnings)
		}
		if test.warnings == "" && strings.Contains(text, "warnings") {
			t.Errorf("%s: without a warning the answer is that system's: %s", test.name, text)
		}
	}
}
