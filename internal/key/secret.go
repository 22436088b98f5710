package key

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
)

// Purpose separates the uses of a workspace's secret: a value of one purpose reveals nothing about the values of another.
type Purpose string

// The values of Purpose.
const (
	PurposePublicID Purpose = "public id"
	PurposeAddress  Purpose = "address"
	PurposeJitter   Purpose = "jitter"
)

// derive derives the key of one purpose (HKDF, RFC 5869). It cannot fail for these lengths.
func derive(secret []byte, purpose Purpose, length int) []byte {
	k, err := hkdf.Key(sha256.New, secret, nil, "carillon "+string(purpose), length)
	if err != nil {
		panic(fmt.Sprintf("key: derive %s: %v", purpose, err))
	}
	return k
}

// Keyed makes hashes that cannot be made or checked without the workspace's secret.
type Keyed struct{ key []byte }

// NewKeyed returns the keyed hashes of one purpose. The secret is that of the workspace: 32 random bytes.
func NewKeyed(secret []byte, purpose Purpose) Keyed {
	return Keyed{derive(secret, purpose, sha256.Size)}
}

// Hash returns the keyed hash of the parts in hexadecimal. It depends on the bounds between the parts.
func (k Keyed) Hash(parts ...string) string {
	sum := k.sum(parts)
	return hex.EncodeToString(sum[:])
}

// Uniform returns a whole number in [0, limit) that is always the same for the same parts, so that jitter and random minutes need no
// random source. A limit of 0 gives 0. The probabilities of two numbers differ by at most limit / 2^64.
func (k Keyed) Uniform(limit uint64, parts ...string) uint64 {
	sum := k.sum(parts)
	high, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), limit)
	return high
}

func (k Keyed) sum(parts []string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, k.key)
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	mac.Sum(sum[:0])
	return sum
}

// Kind is the kind of row that a public id names.
type Kind byte

// The values of Kind, which are also the first letter of a public id.
const (
	KindDelivery Kind = 'd'
	KindInstance Kind = 'i'
	KindEvent    Kind = 'e'
	KindContact  Kind = 'c'
	KindRecord   Kind = 'r'
	KindRun      Kind = 'u'
	KindDecision Kind = 'n'
	KindResponse Kind = 's'
	KindOutbox   Kind = 'o'
	KindTopic    Kind = 't'
	// KindSubscription names a subscription in cursors.
	KindSubscription Kind = 'b'
)

// PublicIDs converts row ids to public ids and back. A public id is one encrypted AES block of (kind, workspace, row id). It looks random,
// reveals neither the order nor the number of rows, and needs no column and no index.
//
// Row ids use nearly all of their 64 bits, while workspaces are numbered from 1. So the workspace shows that an id was made here: the
// caller of Decode compares it, and the kind, with the expected ones. A changed or guessed id, with a valid count, passes this test less
// than once in 2^57 times, and would then also have to be the id of a row.
type PublicIDs struct {
	block   cipher.Block
	letters *base32.Encoding
}

// NewPublicIDs returns the public ids of the workspace with that secret, 32 random bytes.
func NewPublicIDs(secret []byte) PublicIDs {
	block, err := aes.NewCipher(derive(secret, PurposePublicID, 16))
	if err != nil {
		panic(fmt.Sprintf("key: %v", err)) // a key of 16 bytes is always accepted
	}
	return PublicIDs{block, base32.NewEncoding(letters).WithPadding(base32.NoPadding)}
}

// letters is Crockford's base 32, which has no letter that looks like a digit.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

// Encode writes an id as kind_ and 26 characters, such as d_2x5…. The workspace must be in [1, 2^56) and the row's id greater than 0; for
// others Decode refuses the result. Encode panics on an unknown kind.
func (p PublicIDs) Encode(kind Kind, workspace, id int64) string {
	block := p.seal(kind, workspace, id)
	return string(kind) + "_" + p.letters.EncodeToString(block[:])
}

// UUID writes the same 16 bytes in the form of a GUID, with arbitrary version and variant bits. Systems that check these bits get UUIDv8.
// Earlier versions used UUID only, and Decode still reads its form.
func (p PublicIDs) UUID(kind Kind, workspace, id int64) string {
	return encoded(p.sealAt(kind, workspace, id, 0))
}

// UUIDv8 writes an id as a UUID of RFC 9562, version 8, for systems that expect one (C15). The workspace must be in [1, 2^40). UUIDv8 tries
// blocks with the counts 0, 1, 2 and so on, and takes the first one whose bits have this version and variant: 64 blocks on average.
func (p PublicIDs) UUIDv8(kind Kind, workspace, id int64) string {
	for count := range int64(counts) {
		if block := p.sealAt(kind, workspace, id, count); versionEight(block) {
			return encoded(block)
		}
	}
	return p.UUID(kind, workspace, id) // once in 10^448
}

// versionEight reports whether a block is a UUID of version 8 and of the variant of RFC 9562.
func versionEight(block [aes.BlockSize]byte) bool { return block[6]>>4 == 8 && block[8]>>6 == 0b10 }

func encoded(block [aes.BlockSize]byte) string {
	h := hex.EncodeToString(block[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Decode reads all forms, also GUIDs in capital letters. The caller compares the kind and the workspace with the expected ones.
func (p PublicIDs) Decode(text string) (kind Kind, workspace, id int64, ok bool) {
	var block [aes.BlockSize]byte
	switch {
	case len(text) == 36:
		plain := strings.ReplaceAll(text, "-", "")
		if len(plain) != hex.EncodedLen(len(block)) {
			return 0, 0, 0, false
		}
		if _, err := hex.Decode(block[:], []byte(plain)); err != nil {
			return 0, 0, 0, false
		}
	case len(text) == 28 && text[1] == '_':
		// The decoder skips line breaks, so that n may be smaller than the block, but not larger.
		if n, err := p.letters.Decode(block[:], []byte(text[2:])); err != nil || n != len(block) {
			return 0, 0, 0, false
		}
	default:
		return 0, 0, 0, false
	}
	// Only the forms that Encode, UUID and UUIDv8 write are valid: no other form of the same bits, and no other count.
	if len(text) == 36 {
		if kind, workspace, id, ok = p.open(block, maxUUIDWorkspace); !ok {
			return 0, 0, 0, false
		}
		lower := strings.ToLower(text)
		return kind, workspace, id, lower == p.UUID(kind, workspace, id) || lower == p.UUIDv8(kind, workspace, id)
	}
	if kind, workspace, id, ok = p.open(block, maxWorkspace); !ok {
		return 0, 0, 0, false
	}
	return kind, workspace, id, text == p.Encode(kind, workspace, id)
}

// The layout of the block: kind:8 workspace:56 id:64. In a UUIDv8 the upper 16 bits of the workspace are a count, so that its workspaces
// have 40 bits.
const (
	maxWorkspace     = 1<<56 - 1
	maxUUIDWorkspace = 1<<countShift - 1
	counts           = 1 << (kindShift - countShift)
	countShift       = 40
	kindShift        = 56
)

func (p PublicIDs) seal(kind Kind, workspace, id int64) (block [aes.BlockSize]byte) {
	if !kind.known() {
		panic(fmt.Sprintf("key: public id of an unknown kind %q", byte(kind)))
	}
	if workspace < 1 || workspace > maxWorkspace || id < 1 {
		workspace, id = 0, 0 // open refuses these
	}
	binary.BigEndian.PutUint64(block[:8], uint64(kind)<<kindShift|uint64(workspace))
	binary.BigEndian.PutUint64(block[8:], uint64(id))
	p.block.Encrypt(block[:], block[:])
	return block
}

// sealAt is seal with a count, for UUIDv8.
func (p PublicIDs) sealAt(kind Kind, workspace, id, count int64) [aes.BlockSize]byte {
	if workspace < 1 || workspace > maxUUIDWorkspace {
		return p.seal(kind, 0, 0)
	}
	return p.seal(kind, count<<countShift|workspace, id)
}

// open decrypts a block. most has the bits of the workspace; the other bits, of a count, are ignored.
func (p PublicIDs) open(block [aes.BlockSize]byte, most uint64) (kind Kind, workspace, id int64, ok bool) {
	p.block.Decrypt(block[:], block[:])
	high := binary.BigEndian.Uint64(block[:8])
	kind, workspace, id = Kind(high>>kindShift), int64(high&most), int64(binary.BigEndian.Uint64(block[8:]))
	return kind, workspace, id, kind.known() && workspace > 0 && id > 0
}

func (k Kind) known() bool {
	switch k {
	case KindDelivery, KindInstance, KindEvent, KindContact, KindRecord, KindRun, KindDecision, KindResponse, KindOutbox, KindTopic, KindSubscription:
		return true
	}
	return false
}
