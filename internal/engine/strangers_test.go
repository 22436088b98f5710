package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/contact"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// in is the same world with another workspace for its writes.
func (w world) in(ws store.Workspace) neighbour { return neighbour{w, ws} }

type neighbour struct {
	world
	ws store.Workspace
}

func (n neighbour) apply(definitions string) {
	n.Helper()
	applied, err := n.Engine.Apply(n.Context(), n.ws, []definition.File{{Name: "test.yaml", Text: []byte(definitions)}}, "test")
	if err != nil || definition.HasErrors(applied.Problems) {
		n.Fatalf("definitions of %s: %v, %v", n.ws.Name, err, applied.Problems)
	}
}

func (n neighbour) put(name, props string) {
	n.Helper()
	typ, id, _ := strings.Cut(name, "/")
	item := record.Parse(json.RawMessage(`{"props": `+props+`}`), typ, id)
	results, err := n.Records().Write(n.Context(), n.ws, upsert.Merge, []record.Item{item}, "test", n.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		n.Fatalf("%s: %v, %v", name, err, results)
	}
}

// person writes a contact whose address names its workspace.
func (n neighbour) person(name, persona string) {
	n.Helper()
	body := fmt.Sprintf(`{"addresses": {"inbox": "%s@%s"}, "persona": "%s"}`, name, n.ws.Name, persona)
	results, err := n.Contacts().Write(n.Context(), n.ws, upsert.Replace, []contact.Item{contact.Parse(json.RawMessage(body), name)}, n.Clock.Now(), nil)
	if err != nil || results[0].Error != nil {
		n.Fatalf("%s: %v, %v", name, err, results)
	}
}

// sent returns the addresses of messages since the last call, each with the workspace that sent them.
func (n neighbour) sent() []string {
	n.Helper()
	var list []string
	for _, out := range n.Provider.Sent() {
		list = append(list, out.Workspace+" to "+out.Address)
	}
	slices.Sort(list)
	return list
}

// Two workspaces have the same definitions, the same contacts by name and the same records. An audience consists of its own workspace's contacts,
// whether it names everybody, a persona or a contact; and a firing starts the cooldown in its own workspace only.
//
// Shows: A15, A16.
func TestAudiencesAndThrottlesOfTwoWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		definitions := "workspace: WS\ncadence: {max_per_month: 10000}\n---\n"
		for _, w := range []struct{ name, audience string }{{"all", "everyone: true"}, {"managers", "persona: Manager"}, {"ann", `to: '"ann"'`}} {
			definitions += fmt.Sprintf(`
workflow: %s
type: alert
triggers: {id: low, record: kiosk, check: [change], when: record.battery_level < 20, cooldown: {length: 2h}}
audience: [{%s}]
limits: {critical: true}
channel: inbox
message: {inbox: {subject: s, text: t}}
---
`, w.name, w.audience)
		}
		definitions += "persona: Manager\ncadence: {max_per_month: 10000}\n---\nchannel: inbox\nprovider: inbox\n"
		w := newWorld(t, s, "")
		second, err := s.EnsureWorkspace(t.Context(), "other", []byte(strings.Repeat("o", 32)), w.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		one, two := w.in(w.Workspace), w.in(second)
		for _, n := range []neighbour{one, two} {
			n.apply(strings.Replace(definitions, "WS", n.ws.Name, 1))
			n.person("ann", "")
			n.put("kiosk/1", `{"battery_level": 80}`)
		}
		one.person("bob", "Manager") // a manager in the first workspace only
		two.person("bob", "")
		two.person("eve", "Manager")
		w.live("10:05")
		one.sent()

		one.put("kiosk/1", `{"battery_level": 10}`)
		w.live("10:10")
		// Everybody is ann and bob, the manager is bob, and ann is ann.
		w.mustBe("the first fires", one.sent(), []string{"default to ann@default", "default to ann@default", "default to bob@default", "default to bob@default"})

		two.put("kiosk/1", `{"battery_level": 10}`)
		w.live("10:15")
		w.mustBe("the second fires for the same context", two.sent(), []string{"other to ann@other", "other to ann@other", "other to bob@other", "other to eve@other", "other to eve@other"})

		for i, n := range []neighbour{one, two} {
			n.put("kiosk/1", `{"battery_level": 80}`)
			w.live(fmt.Sprintf("10:%d", 20+10*i))
			n.put("kiosk/1", `{"battery_level": 10}`)
			w.live(fmt.Sprintf("10:%d", 25+10*i))
			w.mustBe("throttled in "+n.ws.Name, n.sent(), nil)
			rows, err := s.Throttles(t.Context(), n.ws.ID, store.ThrottleFilter{})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != 3 {
				t.Errorf("%s has %d contexts that fired, want 3", n.ws.Name, len(rows))
			}
		}
	})
}
