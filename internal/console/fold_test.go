package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// The pages of messages that leave as one lead to one another.
func TestPagesOfWhatIsFolded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		b := setup(t, s)
		folding := ""
		for _, name := range []string{"one", "two"} {
			folding += fmt.Sprintf("---\nworkflow: %s\ntype: alert\ntriggers:\n  - {id: t, event: %[1]s}\naudience:\n  - to: event.recipient\n"+
				"channel: inbox\nmessage:\n  inbox: {subject: s, text: %[1]s}\nlimits: {at_send: fold}\n", name)
		}
		b.apply(t, strings.TrimPrefix(folding, "---\n"))
		ann := contact.Parse(json.RawMessage(`{"addresses": {"inbox": "ann"}, "cadence": {"cooldown": "1h"}}`), "ann")
		if _, err := b.engine.Contacts().Write(t.Context(), b.ws, upsert.Merge, []contact.Item{ann}, start, nil); err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i, kind := range []string{"one", "one", "two"} {
			b.clock.Set(start.Add(time.Duration(i) * time.Minute))
			made := b.post(t, fmt.Sprintf(`{"id": "%d", "kind": %q, "recipient": {"address": "ann@example.org", "customer_ref": "ann"}}`, i, kind))
			id := made.Instances[0].Deliveries[0].ID
			paths = append(paths, "/deliveries/"+engine.PublicIDs(b.ws).Encode(key.KindDelivery, int64(b.ws.ID), int64(id)))
		}
		h := b.handler(t, console.Deps{Guest: "default"})
		for _, state := range []string{"scheduled", "skipped"} {
			for i, path := range paths {
				page := get(t, h, path).body
				wellFormed(t, path, page)
				if together := strings.Contains(page, "In the same message"); together != (i > 0) {
					t.Errorf("%s: page %d: %v", state, i, together)
				}
			}
			if !strings.Contains(get(t, h, paths[1]).body, paths[2]) || !strings.Contains(get(t, h, paths[2]).body, paths[1]) {
				t.Errorf("%s: they do not lead to one another", state)
			}
			b.clock.Set(start.Add(time.Hour))
			b.tick(t)
		}
	})
}
