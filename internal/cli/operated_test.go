package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
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
