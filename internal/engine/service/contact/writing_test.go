package contact

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/key"
	"github.com/carillonhq/carillon/internal/subject"
)

// A change of any one field is noticed, and an item that repeats what is stored changes nothing.
func TestEachChangedFieldIsNoticed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 14, 9, 0, 0, 0, time.UTC)
	stored := map[string]subject.ContactRow{"ada": {Contact: subject.Contact{
		ID: 1, ExtID: "ada", Name: "Ada", Locale: "en", Timezone: "Europe/London", Cadence: `{"max_per_day":3}`,
		Addresses: map[string]string{"email": "ada@x.org"}, Attributes: map[string]any{"vip": true},
	}}}
	w := &writing{hashes: key.NewKeyed(make([]byte, 32), key.PurposeAddress), mode: upsert.Merge, now: at, stored: stored}
	for text, want := range map[string]upsert.Outcome{
		`{}`:                                      upsert.Unchanged,
		`{"name": "Ada"}`:                         upsert.Unchanged,
		`{"name": "Ann"}`:                         upsert.Changed,
		`{"locale": "en"}`:                        upsert.Unchanged,
		`{"locale": "de"}`:                        upsert.Changed,
		`{"timezone": "Europe/London"}`:           upsert.Unchanged,
		`{"timezone": "Asia/Baghdad"}`:            upsert.Changed,
		`{"cadence": {"max_per_day": 3}}`:         upsert.Unchanged,
		`{"cadence": {"max_per_day": 4}}`:         upsert.Changed,
		`{"addresses": {"email": "ADA@x.org"}}`:   upsert.Unchanged,
		`{"addresses": {"email": "ann@x.org"}}`:   upsert.Changed,
		`{"addresses": {"sms": "+44 20 000001"}}`: upsert.Changed,
		`{"attributes": {"vip": true}}`:           upsert.Unchanged,
		`{"attributes": {"vip": false}}`:          upsert.Changed,
		`{"attributes": {"vip": null}}`:           upsert.Changed,
	} {
		results, written, err := upsert.Apply(w, w.mode, stored, []Item{Parse(json.RawMessage(text), "ada")})
		if err != nil || results[0].Outcome != want || results[0].Error != nil || len(written) != map[upsert.Outcome]int{upsert.Changed: 1}[want] {
			t.Errorf("%s: %+v, %d written, %v; want %s", text, results[0], len(written), err, want)
		}
	}
}
