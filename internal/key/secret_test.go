package key

import (
	"encoding/hex"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var secret = []byte("a secret of a workspace, 32 byte")

// row draws the id of a row: a small one, one of any size, or one that is made from the time.
func row() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(1, 100), rapid.Int64Range(1, math.MaxInt64),
		rapid.Map(rapid.Int64Range(1_700_000_000_000_000, 4_400_000_000_000_000), func(micros int64) int64 { return micros << 10 }),
	)
}

func TestPublicIDsRoundTrip(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	type public struct {
		kind   Kind
		ws, id int64
	}
	draw := rapid.Custom(func(t *rapid.T) public {
		return public{Kind(rapid.SampledFrom([]byte("deic")).Draw(t, "kind")), rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, maxUUIDWorkspace), rapid.Int64Range(maxUUIDWorkspace-3, maxUUIDWorkspace)).Draw(t, "workspace"), row().Draw(t, "id")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		for _, text := range []string{ids.Encode(a.kind, a.ws, a.id), ids.UUID(a.kind, a.ws, a.id), strings.ToUpper(ids.UUID(a.kind, a.ws, a.id)), ids.UUIDv8(a.kind, a.ws, a.id)} {
			if k, w, i, ok := ids.Decode(text); !ok || (public{k, w, i}) != a {
				t.Fatalf("%s decodes to %c %d %d %t, want %c %d %d", text, k, w, i, ok, a.kind, a.ws, a.id)
			}
		}
		if got, want := ids.UUID(a.kind, a.ws, a.id) == ids.UUID(b.kind, b.ws, b.id), a == b; got != want {
			t.Fatalf("%+v and %+v: equal %t, want %t", a, b, got, want)
		}
	})
}

func TestPublicIDsHaveTheirForm(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	if text := ids.Encode(KindDelivery, 1, 42); !regexp.MustCompile(`^d_[0-9a-hjkmnp-tv-z]{26}$`).MatchString(text) {
		t.Errorf("an id is %q", text)
	}
	if text := ids.UUID(KindDelivery, 1, 42); !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(text) {
		t.Errorf("a GUID is %q", text)
	}
}

// accepts decodes an id and compares the kind and the workspace, as every caller does.
func accepts(ids PublicIDs, text string, kind Kind, ws int64) bool {
	k, w, _, ok := ids.Decode(text)
	return ok && k == kind && w == ws
}

func TestPublicIDsRefuseEveryFlippedBit(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	for _, kind := range []Kind{KindDelivery, KindInstance, KindEvent, KindContact} {
		for _, ws := range []int64{1, 7, maxUUIDWorkspace} {
			const id = 1_795_175_000_000_001<<10 | 3
			if !accepts(ids, ids.Encode(kind, ws, id), kind, ws) || !accepts(ids, ids.UUID(kind, ws, id), kind, ws) {
				t.Fatalf("an id of workspace %d is refused", ws)
			}
			block := ids.seal(kind, ws, id)
			for bit := range 8 * len(block) {
				flipped := block
				flipped[bit/8] ^= 1 << (bit % 8)
				h := hex.EncodeToString(flipped[:])
				guid := h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
				for _, text := range []string{guid, string(kind) + "_" + ids.letters.EncodeToString(flipped[:])} {
					if accepts(ids, text, kind, ws) {
						t.Errorf("%s, workspace %d: bit %d flipped is accepted", text, ws, bit)
					}
				}
			}
		}
	}
}

func TestPublicIDsRefuseEveryOtherCharacter(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	for _, text := range []string{ids.Encode(KindEvent, 7, 42), ids.UUID(KindEvent, 7, 42)} {
		for i := range len(text) {
			for c := range 256 {
				changed := text[:i] + string([]byte{byte(c)}) + text[i+1:]
				if !strings.EqualFold(changed, text) && accepts(ids, changed, KindEvent, 7) {
					t.Errorf("%q is accepted for %q", changed, text)
				}
			}
		}
	}
}

func TestPublicIDsOfNoRowAreRefused(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	for _, test := range []struct{ ws, id int64 }{
		{0, 1},
		{1, 0},
		{-1, 1},
		{1, -1},
		{math.MinInt64, 1},
		{1, math.MinInt64},
		{maxWorkspace + 1, 1},
		{math.MaxInt64, 1},
	} {
		for _, text := range []string{ids.Encode(KindEvent, test.ws, test.id), ids.UUID(KindEvent, test.ws, test.id), ids.UUIDv8(KindEvent, test.ws, test.id)} {
			if kind, ws, id, ok := ids.Decode(text); ok {
				t.Errorf("%+v became %s, which decodes to %c %d %d", test, text, kind, ws, id)
			}
		}
	}
}

func TestPublicIDsOfAnotherWorkspaceAreRefused(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	if accepts(NewPublicIDs([]byte("another secret of a workspace 32")), ids.Encode(KindDelivery, 1, 42), KindDelivery, 1) {
		t.Error("an id made with another secret is accepted")
	}
	if accepts(ids, ids.Encode(KindDelivery, 2, 42), KindDelivery, 1) {
		t.Error("an id of another workspace is accepted")
	}
}

func TestPublicIDsRefuseOtherSpellings(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	text := ids.Encode(KindDelivery, 1, 42)
	for _, bad := range []string{
		"", "d_", text + "0", text[:27], "i" + text[1:], strings.ToUpper(text), strings.Replace(text, "_", "-", 1),
		text[:10] + "\n" + text[11:], strings.ReplaceAll(ids.UUID(KindDelivery, 1, 42), "-", "") + "----",
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
}

func TestKeyedHashesTellPartsApart(t *testing.T) {
	t.Parallel()
	k := NewKeyed(secret, PurposeAddress)
	lists := rapid.SliceOfN(anyText(), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		a, b := lists.Draw(t, "a"), lists.Draw(t, "b")
		if got, want := k.Hash(a...) == k.Hash(b...), slices.Equal(a, b); got != want {
			t.Fatalf("%q and %q: equal %t, want %t", a, b, got, want)
		}
	})
}

func TestUniform(t *testing.T) {
	t.Parallel()
	k := NewKeyed(secret, PurposeJitter)
	for limit := range uint64(2) {
		if got := k.Uniform(limit, "x"); got != 0 {
			t.Errorf("below %d: got %d, want 0", limit, got)
		}
	}
	if k.Uniform(math.MaxUint64, "x") != NewKeyed(secret, PurposeJitter).Uniform(math.MaxUint64, "x") {
		t.Error("the same parts give two numbers")
	}
	// 10,000 draws of ten numbers: 1,000 of each, with a standard deviation of 30. The draws are always the same.
	var seen [10]int
	for i := range 10_000 {
		seen[k.Uniform(10, "draw", strconv.Itoa(i))]++
	}
	for n, count := range seen {
		if count < 880 || count > 1120 {
			t.Errorf("%d was drawn %d times of 10,000", n, count)
		}
	}
}

func FuzzDecode(f *testing.F) {
	ids := NewPublicIDs(secret)
	f.Add(ids.Encode(KindDelivery, 1, 42))
	f.Add(ids.UUID(KindInstance, 1, 42))
	f.Add(ids.Encode(KindContact, 1_795_175_000_000_000<<10, 1_795_175_000_000_001<<10))
	f.Add("e_" + strings.Repeat("\n", 26))
	f.Fuzz(func(t *testing.T, text string) {
		if kind, ws, id, ok := ids.Decode(text); ok && ids.Encode(kind, ws, id) != text && ids.UUID(kind, ws, id) != strings.ToLower(text) {
			t.Fatalf("%q decodes and is not what is written for it", text)
		}
	})
}

// rfc9562 matches a UUID of version 8.
var rfc9562 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestUUIDv8(t *testing.T) {
	t.Parallel()
	ids := NewPublicIDs(secret)
	seen := map[string]bool{}
	for id := int64(1); id <= 3000; id++ {
		text := ids.UUIDv8(KindDelivery, 7, id)
		if !rfc9562.MatchString(text) {
			t.Fatalf("row %d is %s", id, text)
		}
		for _, form := range []string{text, strings.ToUpper(text), ids.UUID(KindDelivery, 7, id), ids.Encode(KindDelivery, 7, id)} {
			if kind, ws, got, ok := ids.Decode(form); !ok || kind != KindDelivery || ws != 7 || got != id {
				t.Fatalf("%s decodes to %c %d %d %t, want row %d", form, kind, ws, got, ok, id)
			}
		}
		if seen[text] {
			t.Fatalf("%s names two rows", text)
		}
		seen[text] = true
	}
	// A row has one id of each form. Of the counts, only the first one that fits is accepted.
	accepted := map[string]int{}
	for count := range int64(1 << 16) {
		block := ids.sealAt(KindDelivery, 7, 42, count)
		if accepts(ids, encoded(block), KindDelivery, 7) {
			accepted["uuid"]++
		}
		if accepts(ids, "d_"+ids.letters.EncodeToString(block[:]), KindDelivery, 7) {
			accepted["letters"]++
		}
	}
	if accepted["uuid"] != 2 || accepted["letters"] != 1 {
		t.Errorf("accepted forms: %v, want the old and the new UUID, and one of letters", accepted)
	}
}

func BenchmarkUUIDv8(b *testing.B) {
	ids := NewPublicIDs(secret)
	for id := int64(1); b.Loop(); id++ {
		ids.UUIDv8(KindDelivery, 1, id)
	}
}
