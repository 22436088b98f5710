package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/secret"
)

func key(fill byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32)) }

func ring(t *testing.T, keys ...string) *secret.Keyring {
	t.Helper()
	r, err := secret.ParseKeyring(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// However a value is written, nothing of it is seen.
func TestValueIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const canary = "hunter2-canary"
	v := secret.New(canary)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("secret", "value", v, "pointer", &v, "inside", struct{ V secret.Value }{v}, "list", []secret.Value{v})
	}
	raw, err := json.Marshal(map[string]any{"v": v, "p": &v, "s": struct{ V secret.Value }{v}})
	if err != nil {
		t.Fatal(err)
	}
	text := log.String() + string(raw) + fmt.Errorf("with %w and %v", errors.New("x"), v).Error()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s"} {
		text += fmt.Sprintf(verb, v) + fmt.Sprintf(verb, &v) + fmt.Sprintf(verb, struct{ V secret.Value }{v}) + fmt.Sprintf(verb, []secret.Value{v})
	}
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary))} {
		if strings.Contains(text, form) {
			t.Errorf("the value is seen as %s:\n%s", form, text)
		}
	}
	if v.Reveal() != canary || !strings.Contains(text, secret.Stars) {
		t.Error("the value is lost")
	}
}

func TestSeal(t *testing.T) {
	t.Parallel()
	at := secret.Place{Workspace: 1, Name: "SMS_TOKEN"}
	r := ring(t, key(1))
	for _, text := range []string{"x", "hunter2", strings.Repeat("ü", 5000), "with\nlines\n"} {
		one, two := r.Seal(at, secret.New(text)), r.Seal(at, secret.New(text))
		if one == two {
			t.Error("two envelopes of one value are the same")
		}
		if got, err := r.Open(at, one); err != nil || got.Reveal() != text {
			t.Errorf("got %q, error %v", got.Reveal(), err)
		}
		if len(text) > 3 && strings.Contains(one, text) {
			t.Error("the envelope shows the value")
		}
	}
}

// A moved, changed or cut envelope does not open.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	at := secret.Place{Workspace: 1, Name: "A"}
	r := ring(t, key(1))
	envelope := r.Seal(at, secret.New("hunter2"))
	for _, other := range []secret.Place{{Workspace: 2, Name: "A"}, {Workspace: 1, Name: "B"}, {Workspace: 1, Name: "a"}, {Workspace: 11, Name: "A"}} {
		if v, err := r.Open(other, envelope); !errors.Is(err, secret.ErrBroken) {
			t.Errorf("%+v: got %q, %v", other, v.Reveal(), err)
		}
	}
	if v, err := ring(t, key(2)).Open(at, envelope); !errors.Is(err, secret.ErrKey) {
		t.Errorf("another key: got %q, %v", v.Reveal(), err)
	}
	raw, err := base64.StdEncoding.DecodeString(envelope)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 {
		changed := bytes.Clone(raw)
		changed[bit/8] ^= 1 << (bit % 8)
		if v, err := r.Open(at, base64.StdEncoding.EncodeToString(changed)); err == nil {
			t.Errorf("bit %d flipped: got %q", bit, v.Reveal())
		}
	}
	for n := range raw {
		if v, err := r.Open(at, base64.StdEncoding.EncodeToString(raw[:n])); err == nil {
			t.Errorf("cut to %d bytes: got %q", n, v.Reveal())
		}
	}
	if _, err := r.Open(at, "no base64!"); !errors.Is(err, secret.ErrBroken) {
		t.Errorf("got %v", err)
	}
}

// Keys are exchanged by putting the new one in front.
func TestKeyring(t *testing.T) {
	t.Parallel()
	at := secret.Place{Workspace: 1, Name: "A"}
	old := ring(t, key(1)).Seal(at, secret.New("hunter2"))
	both := ring(t, key(2), key(1))
	if v, err := both.Open(at, old); err != nil || v.Reveal() != "hunter2" || both.Sealed(old) {
		t.Errorf("got %q, %v", v.Reveal(), err)
	}
	again := both.Seal(at, secret.New("hunter2"))
	if _, err := ring(t, key(2)).Open(at, again); err != nil || !both.Sealed(again) {
		t.Errorf("not sealed by the first key: %v", err)
	}
	for _, text := range []string{"", " , ", "short", key(1) + ",short", base64.StdEncoding.EncodeToString([]byte("16 bytes are few"))} {
		if _, err := secret.ParseKeyring(text); err == nil || strings.Contains(err.Error(), "short") && text != "" {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"SMS_TOKEN": true, "a.b-c": true, "": false, "a b": false, "a/b": false, "ä": false, strings.Repeat("a", 101): false} {
		if got := secret.CheckName(name) == nil; got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
	for text, want := range map[string]bool{"x": true, "": false, "a\x00b": false, strings.Repeat("x", secret.MaxValue+1): false} {
		if got := secret.CheckValue(secret.New(text)) == nil; got != want {
			t.Errorf("%d bytes: got %v", len(text), got)
		}
	}
}
