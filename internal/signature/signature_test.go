package signature

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func secret(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "no prefix": strings.TrimPrefix(secret(1), "whsec_"), "short": "whsec_aGVsbG8=",
		"long": "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), "no base64": "whsec_" + strings.Repeat("ü", 20),
	} {
		if _, err := Parse(text); err == nil || len(text) > 6 && strings.Contains(err.Error(), text[6:]) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever stands in an id and a body: what is signed verifies with each secret, what is changed does not, and no
// header holds what could begin another one.
func FuzzSign(f *testing.F) {
	f.Add("0f6b870a8", []byte(`{"type":"message.send"}`), int64(1700000000), byte(0))
	f.Add("a.b", []byte{}, int64(0), byte(1))
	f.Add("a\r\nX-Evil: 1", []byte("\r\n"), int64(-1), byte(255))
	f.Fuzz(func(t *testing.T, id string, body []byte, seconds int64, flip byte) {
		var keys []Key
		for _, s := range []string{secret(1), secret(2)} {
			key, err := Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		header, err := Sign(keys, id, time.Unix(seconds, 0), body)
		if err != nil {
			return
		}
		for name, values := range header {
			if len(values) != 1 || strings.ContainsFunc(values[0], func(r rune) bool { return r < ' ' || r >= 0x7f }) {
				t.Errorf("header %s: %q", name, values)
			}
		}
		if header.Get("webhook-id") != id {
			t.Errorf("webhook-id is %q, not %q", header.Get("webhook-id"), id)
		}
		other := append(bytes.Clone(body), flip)
		for _, s := range keys {
			if err := s.hook.VerifyIgnoringTimestamp(body, header); err != nil {
				t.Error(err)
			}
			if s.hook.VerifyIgnoringTimestamp(other, header) == nil {
				t.Error("a longer body verifies")
			}
			moved := header.Clone()
			moved.Set("webhook-id", id+"x")
			if s.hook.VerifyIgnoringTimestamp(body, moved) == nil {
				t.Error("another id verifies")
			}
		}
		if stranger, err := Parse(secret(3)); err != nil || stranger.hook.VerifyIgnoringTimestamp(body, header) == nil {
			t.Errorf("another secret verifies (%v)", err)
		}
	})
}
