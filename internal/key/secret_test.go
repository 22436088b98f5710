package key

import (
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var secret = []byte("a secret of a workspace, 32 byte")

// Shows: C15.
func TestPublicIDsRoundTrip(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Kind{KindDelivery, KindInstance, KindEvent, KindContact}).Draw(t, "kind")
		ws := rapid.Int64Range(1, 1<<48).Draw(t, "workspace")
		id := rapid.Int64Range(1, 1<<62).Draw(t, "id")
		for _, text := range []string{ids.Encode(kind, ws, id), ids.UUID(kind, ws, id)} {
			k, w, i, ok := ids.Decode(text)
			if !ok || k != kind || w != ws || i != id {
				t.Fatalf("%s decodes to %c %d %d %t", text, k, w, i, ok)
			}
		}
	})
}

func TestPublicIDsRefuseEveryFlippedBit(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	plain := strings.ReplaceAll(ids.UUID(KindDelivery, 7, 1<<60), "-", "")
	block, err := hex.DecodeString(plain)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 128 {
		flipped := append([]byte(nil), block...)
		flipped[bit/8] ^= 1 << (bit % 8)
		h := hex.EncodeToString(flipped)
		text := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
		if _, ws, _, ok := ids.Decode(text); ok && ws == 7 {
			t.Errorf("bit %d flipped is accepted", bit)
		}
	}
}

func TestPublicIDsOfAnotherWorkspaceDoNotDecode(t *testing.T) {
	t.Parallel()
	text := NewPublicIDs(secret).Encode(KindDelivery, 1, 42)
	if _, ws, _, ok := NewPublicIDs([]byte("another")).Decode(text); ok && ws == 1 {
		t.Error("an id made with another secret is accepted")
	}
}

func TestPublicIDsRefuseOtherSpellings(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	text := ids.Encode(KindDelivery, 1, 42)
	for _, bad := range []string{
		"", "d_", text + "0", text[:27], "i" + text[1:], strings.ToUpper(text), strings.Replace(text, "_", "-", 1),
		strings.Repeat("-", 36), strings.Repeat("0", 36), "d_" + strings.Repeat("z", 26),
	} {
		if kind, ws, id, ok := ids.Decode(bad); ok {
			t.Errorf("%q decodes to %c %d %d", bad, kind, ws, id)
		}
	}
}

func TestKeyedHashes(t *testing.T) {
	t.Parallel()
	k := NewKeyed(secret, PurposeAddress)
	if k.Hash("ab", "c") == k.Hash("a", "bc") {
		t.Error("where a part ends does not count")
	}
	if k.Hash("a") == NewKeyed(secret, PurposeJitter).Hash("a") {
		t.Error("two purposes share their hashes")
	}
	if k.Hash("a") != NewKeyed(secret, PurposeAddress).Hash("a") {
		t.Error("the same part gives two hashes")
	}
	if k.Uniform(0, "x") != 0 {
		t.Error("nothing can be drawn below 0")
	}
	var seen [10]int
	for i := range 10_000 {
		seen[k.Uniform(10, "draw", strings.Repeat("x", i%97), string(rune('a'+i%26)), hex.EncodeToString([]byte{byte(i), byte(i >> 8)}))]++
	}
	for n, count := range seen {
		if count < 800 || count > 1200 {
			t.Errorf("%d was drawn %d times of 10,000", n, count)
		}
	}
}

func FuzzDecode(f *testing.F) {
	ids := NewPublicIDs(secret)
	f.Add(ids.Encode(KindDelivery, 1, 42))
	f.Add(ids.UUID(KindInstance, 1, 42))
	f.Fuzz(func(t *testing.T, text string) {
		if kind, ws, id, ok := ids.Decode(text); ok && ids.Encode(kind, ws, id) != text && ids.UUID(kind, ws, id) != strings.ToLower(text) {
			t.Fatalf("%q decodes and is not what is written for it", text)
		}
	})
}
