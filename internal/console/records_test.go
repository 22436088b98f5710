package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/console"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// keep keeps a few records, one of them with a name that a URL has to escape.
func (b *bundle) keep(t *testing.T) {
	t.Helper()
	var items []record.Item
	for _, raw := range []string{
		`{"type": "kiosk", "id": "123", "props": {"name": "Main <hall>", "battery_level": 15, "charging": false, "tags": ["a", 1]}}`,
		`{"type": "kiosk", "id": "a/b %2F?..", "closed": true}`, `{"type": "kiosk", "id": "gone"}`,
	} {
		items = append(items, record.Parse(json.RawMessage(raw), "", ""))
	}
	if _, err := b.engine.Records().Write(t.Context(), b.ws, upsert.Merge, items, "probe", b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	gone := []record.Item{{Type: "kiosk", ID: "gone"}}
	if _, err := b.engine.Records().Write(t.Context(), b.ws, upsert.Delete, gone, "probe", b.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
}

func TestRecordPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		h := lived(t, s).handler(t, console.Deps{Guest: "default"})
		for path, want := range map[string][]string{
			"/records":                          {`href="/records/kiosk"`, "open"},
			"/records/kiosk":                    {`href="/records/kiosk/123"`, `href="/records/kiosk/a%2Fb%20%252F%3F.."`, "closed", "probe", "battery_level"},
			"/records/kiosk/123":                {"Main &lt;hall&gt;", "15", "[&#34;a&#34;,1]", "revision", "Nothing was made about it yet."},
			"/records/kiosk/a%2Fb%20%252F%3F..": {"a/b %2F?..", "It has no fields.", "closed"},
			"/records/none":                     {"There is no record of this type.", "carillon records put none ID"},
		} {
			a := get(t, h, path)
			wellFormed(t, path, a.body)
			for _, text := range want {
				if a.status != http.StatusOK || !strings.Contains(a.body, text) {
					t.Errorf("%s (%d) does not say %q", path, a.status, text)
				}
			}
		}
		if a := get(t, h, "/records/kiosk"); strings.Contains(a.body, "gone") {
			t.Error("a deleted one is listed")
		}
		for _, path := range []string{"/records/kiosk/gone", "/records/hub/123", "/records/kiosk/123/x"} {
			if a := get(t, h, path); a.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, a.status)
			}
		}
	})
}
