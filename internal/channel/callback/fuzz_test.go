package callback_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
)

// FuzzRead: whatever comes signed is refused with the field, or read; what is read says of somebody, can be stored, and is read alike when it is
// written again.
func FuzzRead(f *testing.F) {
	f.Add(`{"feedback": [{"status": "bounced", "soft": true, "address": " ann@example.org ", "step": 2, "message": "m", "detail": "550"}, {"status": "delivered", "delivery": "d_1"}]}`)
	f.Add(`{"replies": [{"id": "m-1", "from": " +254700000001 ", "text": "\\u0000 🙏", "at": "2026-05-14T12:05:00.5+03:00"}, {"id": "m-2", "from": "bob"}]}`)
	f.Add(`{"feedback": null, "replies": [null]} `)
	in := open(f, map[string]string{callback.SettingSecret: secret("new")})
	f.Fuzz(func(t *testing.T, body string) {
		got, err := in.Inbound(signed(t, secret("new"), body))
		var wrong *channel.CallbackError
		if err != nil {
			if !errors.As(err, &wrong) || wrong.Field == "" {
				t.Error(err)
			}
			return
		}
		written := map[string][]map[string]any{}
		for _, r := range got.Reports {
			if r.Status == "" || r.Address == "" && r.Delivery == "" || r.Step < 0 || strings.ContainsRune(r.Address+r.Message+r.Detail, 0) {
				t.Errorf("%+v", r)
			}
			written["feedback"] = append(written["feedback"], map[string]any{
				"status": r.Status, "soft": r.Soft, "address": r.Address, "delivery": r.Delivery, "step": r.Step, "message": r.Message, "detail": r.Detail,
			})
		}
		for _, r := range got.Replies {
			if r.ID == "" || r.From == "" || strings.ContainsRune(r.From, 0) {
				t.Errorf("%+v", r)
			}
			one := map[string]any{"id": r.ID, "from": r.From, "text": r.Text}
			if !r.At.IsZero() {
				one["at"] = r.At.Format(time.RFC3339Nano)
			}
			written["replies"] = append(written["replies"], one)
		}
		text, err := json.Marshal(written)
		if err != nil {
			t.Fatal(err)
		}
		again, err := in.Inbound(signed(t, secret("new"), string(text)))
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Errorf("%s: (-first +again) %s, %v", text, diff, err)
		}
	})
}
