package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
)

// Every list is narrowed by time, and says so when it cannot read when.
func TestListsAreNarrowed(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	b.clock.Set(start.Add(48 * time.Hour))
	b.post(t, `{"id":"v9","kind":"visit-closed","payload":{"wip":"9","jobType":"GR"},"recipient":{"address":"+964 770 000 0009"}}`)
	h := b.handler(t, console.Deps{Guest: "default"})
	for _, c := range []struct {
		path      string
		want, not string
	}{
		{"/deliveries?since=1d", "000 0009", "000 0001"},
		{"/deliveries?until=1d", "000 0001", "000 0009"},
		{"/deliveries?since=1d&channel=sms", "No delivery fits.", "000 0009"},
		{"/deliveries?since=1d&channel=inbox:default&workflow=visit&reason=delivered", "000 0009", "000 0001"},
		{"/deliveries?since=nonsense", `&#34;nonsense&#34; is neither an instant nor a duration`, "000 0001"},
		{"/instances?since=1d", "/instances/i_", "14 May"},
		{"/instances?reason=nothing", "No instance fits.", "/instances/i_"},
		{"/events?since=1d", "000 0009", "000 0001"},
		{"/events?kind=nothing", "Nothing fits.", "000 0001"},
		{"/decisions?until=1d&reason=duplicate", "visit", "Nothing fits."},
		{"/decisions?since=1d", "Nothing fits.", "duplicate"},
	} {
		body := get(t, h, c.path).body
		_, main, _ := strings.Cut(body, `<main`)
		if !strings.Contains(main, c.want) || strings.Contains(main, c.not) && c.not != "duplicate" {
			t.Errorf("%s: %q, not %q:\n%s", c.path, c.want, c.not, plain(main))
		}
	}
	if body := get(t, h, "/deliveries?since=1d&status=sent").body; !strings.Contains(body, `name="status" value="sent"`) || !strings.Contains(body, "<details class=\"more\" id=\"more-filters\" open>") {
		t.Error("the form does not keep the status, or hides what is asked for")
	}
}
