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

// A cancel that came too late for a message says so, and does not call it cancelled.
func TestCancelOfWhatIsBeingSent(t *testing.T) {
	t.Setenv("CARILLON_KEY", "car_x")
	for _, tc := range []struct{ name, answer, want string }{
		{
			"all of it", `{"changed":false,"reason":"being_sent","message":"…","instance":"i_1","deliveries":[],"being_sent":["d_1"]}`,
			"! being sent\td_1\tit may arrive, and nothing follows it\n",
		},
		{
			"one of two", `{"changed":true,"instance":"i_1","deliveries":["d_2"],"being_sent":["d_1"]}`,
			"! being sent\td_1\tit may arrive, and nothing follows it\n~ cancelled\ti_1\td_2\n",
		},
		{
			"large", `{"changed":true,"instance":"i_1","deliveries":[],"run":"r_1"}`,
			"~ cancelled\ti_1\t-\n~ run\tr_1\tends its deliveries; nothing of it is sent meanwhile\n",
		},
		{
			"large, again", `{"changed":false,"instance":"i_1","deliveries":[],"run":"r_1"}`,
			"=\ti_1\tcancelled already; run r_1 ends its deliveries\n",
		},
		{"several", `{"changed":true,"instance":"i_1","deliveries":["d_1","d_2","d_3"]}`, "~ cancelled\ti_1\t3 deliveries\n"},
		{"cancelled before", `{"changed":false,"instance":"i_1","deliveries":[]}`, "=\ti_1\tit was so already\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.answer) }))
			defer server.Close()
			t.Setenv("CARILLON_SERVER", server.URL)
			var out, errs bytes.Buffer
			status := cli.Run(t.Context(), []string{"instances", "cancel", "i_0123456789abcdefghjkmnpqrs"}, cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &errs})
			if status != cli.ExitOK || out.String() != tc.want {
				t.Errorf("status %d, got %q %s, want %q", status, out.String(), errs.String(), tc.want)
			}
		})
	}
}

// An occasion that was cancelled with its deliveries is cancelled where it is shown, though they were made.
func TestACancelledOccasionIsShown(t *testing.T) {
	t.Setenv("CARILLON_KEY", "car_x")
	const one = `{"id":"i_1","key":"custom:w:1","workflow":"w","status":"completed","created_at":"2026-05-14T05:12:34Z","completed_at":"2026-05-14T05:12:35Z","cancelled_at":"2026-05-14T06:00:00Z"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/instances" {
			_, _ = io.WriteString(w, `{"items":[`+one+`}]}`)
			return
		}
		_, _ = io.WriteString(w, one+`,"deliveries":[],"failures":[]}`)
	}))
	defer server.Close()
	t.Setenv("CARILLON_SERVER", server.URL)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"instances", "list"}, []string{"completed,cancelled"}},
		{[]string{"instances", "show", "i_0123456789abcdefghjkmnpqrs"}, []string{"status\tcompleted,cancelled\n", "cancelled_at\t2026-05-14"}},
		{[]string{"instances", "show", "i_0123456789abcdefghjkmnpqrs", "--json"}, []string{`"cancelled_at": "2026-05-14T06:00:00Z"`}},
	} {
		var out, errs bytes.Buffer
		status := cli.Run(t.Context(), tc.args, cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &errs})
		for _, want := range tc.want {
			if status != cli.ExitOK || !strings.Contains(out.String(), want) {
				t.Errorf("%v: status %d, %q lacks %q; %s", tc.args, status, out.String(), want, errs.String())
			}
		}
	}
}
