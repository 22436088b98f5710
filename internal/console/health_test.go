package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/delivery"
	"github.com/carillonhq/carillon/internal/store"
)

// The overview says whether messages pass; workflows and channels have pages with what is in force, counts and what waits.
func TestHealthOfWorkflowsAndChannels(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	says := func(path string, want ...string) {
		t.Helper()
		a := get(t, h, path)
		text := plain(a.body)
		for _, w := range want {
			if a.status != http.StatusOK || !strings.Contains(text, w) {
				t.Errorf("%s (%d) does not say %q:\n%s", path, a.status, w, text)
			}
		}
	}
	says("/", "inbox open for messages")
	says("/workflows", "in force visit survey 1 0 0")
	says("/workflows/visit", "visit in force", "sent 1 delivered", "Nothing that could have left is waiting.", "carillon workflows pause visit", "workflow: visit", "type survey")
	says("/channels", "open for messages inbox:default inbox 1 0 0")
	says("/channels/inbox:default", "sent 1 delivered", "provider inbox", "carillon channels test inbox:default --to ADDRESS", "channel: inbox")
	for _, path := range []string{"/workflows/nothing", "/channels/nothing", "/channels/sms:default"} {
		if a := get(t, h, path); a.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
	b.apply(t, "channel: sms:away\nprovider: away\n---\nworkflow: told\ntype: custom\ntriggers:\n  - {id: t, event: told}\naudience:\n  - to: event.recipient\nchannel: sms:away\nretry: {backoff: [1s]}\nmessage:\n  sms: {text: x}\n")
	for n := range 4 { // the first of them fails twice, and so for good; the breaker opens with the fifth try
		b.post(t, fmt.Sprintf(`{"id":"a%d","kind":"told","recipient":{"address":"+964 770 000 %04d"}}`, n, n))
		b.clock.Set(b.clock.Now().Add(2 * time.Second))
		b.tick(t)
	}
	says("/", "sms:away provider away tried again at 08:12:50", "wait since 08:12:40", "failed in a day, sms:away, retries used up 2", "2 failed", "The next message is tried at 08:12:50 at the earliest: its provider is away.")
	says("/", "carillon deliveries retry --status failed --channel sms:away --reason retries_used_up --since 1d")
	says("/channels", "provider away 08:", "sms:away away")
	says("/channels/sms:away", "found its provider away. It is tried again at", "carillon deliveries retry --status failed --channel sms:away --reason retries_used_up --since 1d")
	failed, err := b.store.Deliveries(t.Context(), b.ws.ID, store.DeliveryFilter{Status: delivery.Failed}, store.Page{Limit: 1})
	if err != nil || len(failed) != 1 { // one of the two
		t.Fatal(failed, err)
	}
	if _, err := b.engine.Operator().RetryDelivery(t.Context(), b.ws.ID, failed[0].ID, "ada", b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.clock.Set(b.clock.Now().Add(time.Minute)) // the numbers of the pages are read again
	if text := plain(get(t, h, "/").body); !strings.Contains(text, "retries used up 1 carillon") || !strings.Contains(text, "for a provider 1 failed") {
		t.Errorf("what was sent again counts as failed: %s", text)
	}
	if _, err := b.engine.Operator().Pause(t.Context(), b.ws.ID, "visit", "a wrong text", "ada", b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	says("/", "visit paused", "carillon workflows resume visit")
	says("/workflows", "paused", "visit survey 1 0 0")
	says("/workflows/visit", "Paused by ada since 08:13:4", "carillon workflows resume visit")
}
