package key_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/key"
)

func linkKeys(t *testing.T, letters string) key.LinkKeys {
	t.Helper()
	var keys []string
	for _, letter := range letters {
		keys = append(keys, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(string(letter)), 32)))
	}
	ring, err := key.ParseLinkKeys(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// A link is valid for its purpose, with its key, until its expiry. With any bit changed it is not valid.
func TestLinks(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC)
	ring := linkKeys(t, "a")
	for _, l := range []key.Link{
		{key.LinkUnsubscribe, 1, "c_0123456789abcdefghjkmnpqrs", time.Time{}},
		{key.LinkManage, 1 << 55, "ada", now.Add(time.Hour)},
		{key.LinkManage, 7, strings.Repeat("x", 256), now.Add(time.Second)},
	} {
		text, err := ring.Sign(l)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ring.Open(l.Purpose, text, now)
		if diff := cmp.Diff(l, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if !l.Expires.IsZero() {
			if _, err := ring.Open(l.Purpose, text, l.Expires.Add(-time.Nanosecond)); err != nil {
				t.Errorf("before its expiry: %v", err)
			}
			if _, err := ring.Open(l.Purpose, text, l.Expires); !errors.Is(err, key.ErrLinkExpired) {
				t.Errorf("at its expiry: %v", err)
			}
		}
		for _, purpose := range []key.LinkPurpose{key.LinkUnsubscribe, key.LinkManage, "", "session"} {
			if _, err := ring.Open(purpose, text, now); purpose != l.Purpose && !errors.Is(err, key.ErrLink) {
				t.Errorf("a link for %s opens for %q: %v", l.Purpose, purpose, err)
			}
		}
		if _, err := linkKeys(t, "b").Open(l.Purpose, text, now); !errors.Is(err, key.ErrLink) {
			t.Errorf("under another key: %v", err)
		}
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(raw) {
			changed := bytes.Clone(raw)
			changed[bit/8] ^= 1 << (bit % 8)
			if _, err := ring.Open(l.Purpose, base64.RawURLEncoding.EncodeToString(changed), now); !errors.Is(err, key.ErrLink) {
				t.Errorf("bit %d changed: %v", bit, err)
			}
		}
		for _, wrong := range []string{"", text[1:], text + "A", text + "=", text + "\n", text[:10] + "\n" + text[10:], strings.ToLower(text)} {
			if _, err := ring.Open(l.Purpose, wrong, now); !errors.Is(err, key.ErrLink) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
	}
}

// Keys are replaced by adding the new key in front. Links of the former key are valid until that key is removed.
func TestLinkKeysAreExchanged(t *testing.T) {
	t.Parallel()
	l := key.Link{Purpose: key.LinkUnsubscribe, Workspace: 1, Subject: "ada"}
	former, err := linkKeys(t, "a").Sign(l)
	if err != nil {
		t.Fatal(err)
	}
	both := linkKeys(t, "ba")
	fresh, err := both.Sign(l)
	if err != nil || fresh == former {
		t.Fatalf("%q, %v", fresh, err)
	}
	for _, tc := range []struct {
		ring, text string
		want       error
	}{{"ba", former, nil}, {"ba", fresh, nil}, {"b", fresh, nil}, {"b", former, key.ErrLink}, {"a", fresh, key.ErrLink}} {
		if _, err := linkKeys(t, tc.ring).Open(l.Purpose, tc.text, time.Unix(0, 0)); !errors.Is(err, tc.want) {
			t.Errorf("keys %s: %v, want %v", tc.ring, err, tc.want)
		}
	}
	for _, l := range []key.Link{{}, {Purpose: "x", Workspace: 1}, {Purpose: "x", Subject: "s"}, {Workspace: 1, Subject: "s"}, {"x", 1, strings.Repeat("x", 257), time.Time{}}, {"x", 1, "s", time.Unix(-5, 0)}} {
		if text, err := both.Sign(l); err == nil {
			t.Errorf("%+v was signed: %s", l, text)
		}
	}
	if text, err := (key.LinkKeys{}).Sign(l); err == nil {
		t.Errorf("signed without a key: %s", text)
	}
	for _, wrong := range []string{"", "  ", "x", base64.StdEncoding.EncodeToString(make([]byte, 31)), "canary"} {
		if _, err := key.ParseLinkKeys(wrong); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
