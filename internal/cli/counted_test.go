package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// The instance of a digest's run says what its window was, and why it had nothing for the contact that is asked for.
func TestTheRunOfADigestIsShown(t *testing.T) {
	t.Setenv("CARILLON_KEY", "car_x")
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = io.WriteString(w, `{"id":"i_1","key":"digest:news:schedule:daily","workflow":"news","status":"completed","created_at":"2026-05-14T08:30:00Z","counts":{},"deliveries":[],
"digest_run":{"status":"done","window_start":"2026-05-13T08:00:00Z","window_end":"2026-05-14T08:00:00Z","begun_at":"2026-05-14T08:30:00Z","expanded_at":"2026-05-14T08:30:01Z","over_at":"2026-05-14T08:31:00Z"},
"without":{"contact":"bob","reason":"nothing_new","message":"nothing was new"}}`)
	}))
	defer server.Close()
	t.Setenv("CARILLON_SERVER", server.URL)
	var out, errs bytes.Buffer
	if status := cli.Run(t.Context(), strings.Fields("instances show i_1 --contact bob"), cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &errs}); status != cli.ExitOK {
		t.Fatal(status, errs.String())
	}
	if asked != "/v1/instances/i_1?contact=bob" {
		t.Error(asked)
	}
	for _, want := range []string{"status\tdone\nwindow_start\t2026-05-13", "over_at\t2026-05-14", "nothing for bob", "reason\tnothing_new"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q in\n%s", want, out.String())
		}
	}
	errs.Reset()
	if status := cli.Run(t.Context(), strings.Fields("instances show i_1 --contact bob --count-all"), cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &errs}); status == cli.ExitOK {
		t.Error("the deliveries to one contact are counted with those to all")
	}
}

// A number at which counting has stopped is marked as so many or more; one that is exact is not.
func TestCountsThatHaveStoppedAtALimit(t *testing.T) {
	t.Setenv("CARILLON_KEY", "car_x")
	for _, tc := range []struct {
		name, command, answer string
		want                  []string
	}{
		{
			"status", "status",
			`{"at":"2026-05-14T05:12:34Z","items":[
{"what":"copy","reason":"its tables were created again","since":"2026-05-14T05:00:00Z","n":0,"command":"carillon accept-restore"},
{"what":"waiting","name":"sms:a","n":10000,"more":true},{"what":"held","n":3},
{"what":"paused","name":"news","n":20000,"more":true},{"what":"sink","name":"s","state":"paused","n":100000,"more":true},{"what":"sink","name":"u","state":"paused","n":7}]}`,
			[]string{"copy\t-\t-\t", "its tables were created again\t-\tcarillon accept-restore", "waiting\tsms:a\t10000+\t", "held\t-\t3\t", "paused\tnews\t20000+\t", "sink\ts\tpaused, 100000+ pending\t", "sink\tu\tpaused, 7 pending\t"},
		},
		{
			"workflows", "workflows list",
			`{"workflows":[{"workflow":"news","type":"alert","version":1,"enabled":true,"paused":true,"pause":{"paused_at":"2026-05-14T05:12:34Z","actor":"ann","stopped":20000,"due":12,"more":true}},
{"workflow":"tips","type":"alert","version":1,"enabled":true,"paused":true,"pause":{"paused_at":"2026-05-14T05:12:34Z","actor":"ann","stopped":5,"due":2}}]}`,
			[]string{"20000+ (12+ due)", "5 (2 due)"},
		},
		{
			"sinks", "sinks list",
			`{"items":[{"name":"s","provider":"file","state":"paused","pending":100000,"dead":4}]}`,
			[]string{"s\tfile\tpaused\t100000+\t4\t"},
		},
		{
			"an instance", "instances show i_1",
			`{"id":"i_1","key":"custom:w:1","workflow":"w","status":"completed","created_at":"2026-05-14T05:12:34Z","counts":{"deliveries":100000,"sent":5,"waiting":0,"left_out":7,"more":true,"reasons":[{"status":"skipped","reason":"no_address","message":"x","count":7}]},"deliveries":[],"failures":[]}`,
			[]string{"deliveries\t100000 counted, and there are more: --count-all counts them\nsent\t5+\nleft_out\t7+\n", "7+\tskipped\tno_address"},
		},
		{
			"a record", "records show ward w",
			`{"type":"ward","id":"w","props":{},"children":[{"type":"bed","id":"1","name":"ward"},{"type":"bed","id":"2","name":"ward"}],"more_children":true,"triggers":[]}`,
			[]string{"bed/1, bed/2, and more\n"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.answer) }))
			defer server.Close()
			t.Setenv("CARILLON_SERVER", server.URL)
			var out, errs bytes.Buffer
			status := cli.Run(t.Context(), strings.Fields(tc.command), cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &errs})
			if status != cli.ExitOK {
				t.Fatalf("status %d, %s", status, errs.String())
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q in\n%s", want, out.String())
				}
			}
		})
	}
}
