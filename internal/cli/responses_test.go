package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/survey"
)

// The lines of an export are those that the API answers: a response of the client is one of a file, and its JSON is the same.
func TestResponsesOfFilesAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	r := client.Response{
		ID: "s_1", Delivery: "d_1", Address: "+1", CustomerRef: "c-1", Workflow: "w", Survey: "s", Definitions: 7, Locale: "ar", Answers: map[string]any{"q": 1.0}, AgentID: "anna", CreatedAt: time.Unix(1, 5000).UTC(),
	}
	for _, one := range []client.Response{r, {Answers: map[string]any{}}} {
		api, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		if file, err := json.Marshal(survey.Response(one)); err != nil || string(file) != string(api) {
			t.Errorf("%s, %v, in the API %s", file, err, api)
		}
	}
}
