package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
)

// A run by hand is made once for its id, and refused where it could reach nobody.
//
// Shows: B15, B46.
func TestRunByHand(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		b.apply(strings.TrimPrefix(byHand("notice", "inbox"), "---\n") + strings.Replace(byHand("paused", "inbox"), "type:", "enabled: false\ntype:", 1))
		run, err := b.RunWorkflow(ctx, "notice", "2026-19")
		if err != nil || !run.Created || run.Key != "custom:notice:manual:2026-19" {
			t.Fatalf("got %+v, %v", run, err)
		}
		again, err := b.RunWorkflow(ctx, "notice", "2026-19")
		if err != nil || again.Created || again.Instance != run.Instance {
			t.Errorf("again: got %+v, %v", again, err)
		}
		if _, err := b.Tick(ctx); err != nil {
			t.Fatal(err)
		}
		one, err := b.Instance(ctx, run.Instance)
		if err != nil || one.Status != "completed" || one.Reason != "no_recipient" {
			t.Errorf("got %+v, %v", one, err)
		}
		again, err = b.RunWorkflow(ctx, "notice", "2026-19")
		if err != nil || again.Created || again.Instance != run.Instance {
			t.Errorf("when it is over: got %+v, %v", again, err)
		}
		for workflow, want := range map[string]string{
			"nobody":  "404 not_found",
			"paused":  "409 not_possible",
			"welcome": "422 not_by_hand",
		} {
			_, err := b.RunWorkflow(ctx, workflow, "1")
			var p *client.Problem
			if !errors.As(err, &p) || fmt.Sprint(p.Status, " ", p.Code) != want {
				t.Fatalf("%s: got %v, want %s", workflow, err, want)
			}
			if workflow == "welcome" && (!strings.Contains(p.Detail, "its audience is the recipient of an event") || p.Hint == "") {
				t.Errorf("%s: got %q, %q", workflow, p.Detail, p.Hint)
			}
		}
	})
}

// A pause needs no reason, and so no body.
func TestPauseWithoutABody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bundle) {
		b.apply(strings.TrimPrefix(byHand("notice", "inbox"), "---\n"))
		for body, want := range map[string]string{"": "", "{}": "", `{"reason": "a wrong text"}`: "a wrong text"} {
			if status, text := b.ask(http.MethodPost, "/v1/workflows/notice/pause", body); status != http.StatusOK {
				t.Fatalf("%q: %d %s", body, status, text)
			}
			list, err := b.Workflows(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(list.Workflows, func(w client.Workflow) bool { return w.Workflow == "notice" })
			if w := list.Workflows[i]; !w.Paused || w.Pause.Reason != want {
				t.Errorf("%q: %+v", body, w.Pause)
			}
			if _, err := b.ResumeWorkflow(t.Context(), "notice"); err != nil {
				t.Fatal(err)
			}
			b.tick()
		}
	})
}
