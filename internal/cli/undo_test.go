package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/internal/cli"
)

// With --wait the command ends when the run that takes another one back has ended.
func TestUndoWaits(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
	const going, over = `{"id": "u_2", "kind": "undo", "status": "running", "done": 0, "total": 2}`, `{"id": "u_2", "kind": "undo", "status": "done", "done": 2, "total": 2, "changed": 2}`
	mux.HandleFunc("POST /v1/runs/u_1/undo", func(w http.ResponseWriter, _ *http.Request) { answer(w, going) })
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			answer(w, `{"items": [`+going+`]}`)
			return
		}
		answer(w, `{"items": [`+over+`]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	var out, problems bytes.Buffer
	status := cli.Run(t.Context(), []string{"runs", "undo", "u_1", "--wait", "--server", server.URL, "--key", "car_test"}, cli.Stdio{In: &bytes.Buffer{}, Out: &out, Err: &problems})
	if got, want := out.String(), "done: 2 of 2, 2 changed\n"; status != cli.ExitOK || got != want || asked.Load() != 2 {
		t.Errorf("status %d, %q instead of %q after %d looks: %s", status, got, want, asked.Load(), problems.String())
	}
}
