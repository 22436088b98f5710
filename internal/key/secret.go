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

// Purpose parts the uses of a workspace's secret: no value of one use says anything about another.
type Purpose string

// The purposes.
const (
	PurposePublicID Purpose = "public id"
	PurposeAddress  Purpose = "address"
	PurposeJitter   Purpose = "jitter"
)

// derive makes the key of one purpose (HKDF, RFC 5869). It cannot fail for these lengths.
func derive(secret []byte, purpose Purpose, length int) []byte {
	k, err := hkdf.Key(sha256.New, secret, nil, "carillon "+string(purpose), length)
	if err != nil {
		panic(fmt.Sprintf("key: derive %s: %v", purpose, err))
	}
	return k
}

// Keyed makes hashes that nobody without the workspace's secret can make or check.
type Keyed struct{ key []byte }

// NewKeyed prepares the hashes of one purpose. The secret is the workspace's: 32 random bytes.
func NewKeyed(secret []byte, purpose Purpose) Keyed {
	return Keyed{derive(secret, purpose, sha256.Size)}
}

// Hash is the keyed hash of the parts in hexadecimal; where one part ends and the next begins counts.
func (k Keyed) Hash(parts ...string) string {
	sum := k.sum(parts)
	return hex.EncodeToString(sum[:])
}

// Uniform draws a whole number in [0, limit), the same for the same parts in every replay: jitter and random
// minutes need no random source. A limit of 0 gives 0. No number is preferred by more than limit / 2^64.
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

// Kind says what a public id names.
type Kind byte

// The kinds, which are also the first letter of a public id.
const (
	KindDelivery Kind = 'd'
	KindInstance Kind = 'i'
	KindEvent    Kind = 'e'
	KindContact  Kind = 'c'
	KindRecord   Kind = 'r'
	KindRun      Kind = 'u'
	KindDecision Kind = 'n'
)

// PublicIDs turns row ids into ids for the world and back. An id is one AES block over (kind, workspace, row id):
// it looks random, reveals neither order nor number, and needs no column and no index.
//
// Workspaces are numbered from 1, rows have ids that nearly fill 64 bits. So the proof that an id was made here is its
// workspace: the caller of Decode compares it, and the kind, with the expected ones. A changed or guessed id passes that, with
// a count that its form has, less than once in 2^57 times, and would then have to meet a row.
type PublicIDs struct {
	block   cipher.Block
	letters *base32.Encoding
}

// NewPublicIDs prepares the ids of one workspace from its secret, 32 random bytes.
func NewPublicIDs(secret []byte) PublicIDs {
	block, err := aes.NewCipher(derive(secret, PurposePublicID, 16))
	if err != nil {
		panic(fmt.Sprintf("key: %v", err)) // a key of 16 bytes is always accepted
	}
	return PublicIDs{block, base32.NewEncoding(letters).WithPadding(base32.NoPadding)}
}

// letters is Crockford's base 32: no letter that reads like a digit.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

// Encode writes an id as kind_ and 26 characters, such as d_2x5…. A workspace is in [1, 2^56), a row's id
// greater than 0; others give a public id that Decode refuses. An unknown kind panics.
func (p PublicIDs) Encode(kind Kind, workspace, id int64) string {
	block := p.seal(kind, workspace, id)
	return string(kind) + "_" + p.letters.EncodeToString(block[:])
}

// UUID writes the same 16 bytes in the form of a GUID. Its version and variant bits are whatever they come out as: systems
// that look at them get UUIDv8. It was given out before that was, and is still read.
func (p PublicIDs) UUID(kind Kind, workspace, id int64) string {
	return encoded(p.sealAt(kind, workspace, id, 0))
}

// UUIDv8 writes an id as a UUID of RFC 9562, version 8, for systems that expect one (C15). A workspace is in [1, 2^40). Of the blocks with the counts 0,
// 1, 2 and so on, the first that has the version and the variant in their bits. It takes 64 blocks on average.
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

// Decode reads every form, GUIDs in capitals too. The caller compares kind and workspace with the expected ones.
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
		// Line breaks are skipped, so that fewer bytes may come out than there is room for, never more.
		if n, err := p.letters.Decode(block[:], []byte(text[2:])); err != nil || n != len(block) {
			return 0, 0, 0, false
		}
	default:
		return 0, 0, 0, false
	}
	// Only the forms that Encode, UUID and UUIDv8 write are ids: no other form of the same bits, and no other count.
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

// The block: kind:8 workspace:56 id:64. The upper 16 bits of a workspace are spare; in a UUID they are a count, and its
// workspaces are the smaller for it.
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
		workspace, id = 0, 0 // which open refuses
	}
	binary.BigEndian.PutUint64(block[:8], uint64(kind)<<kindShift|uint64(workspace))
	binary.BigEndian.PutUint64(block[8:], uint64(id))
	p.block.Encrypt(block[:], block[:])
	return block
}

// sealAt is seal for UUIDs, with a count.
func (p PublicIDs) sealAt(kind Kind, workspace, id, count int64) [aes.BlockSize]byte {
	if workspace < 1 || workspace > maxUUIDWorkspace {
		return p.seal(kind, 0, 0)
	}
	return p.seal(kind, count<<countShift|workspace, id)
}

// open is seal backwards. Workspaces are the bits up to most.
func (p PublicIDs) open(block [aes.BlockSize]byte, most uint64) (kind Kind, workspace, id int64, ok bool) {
	p.block.Decrypt(block[:], block[:])
	high := binary.BigEndian.Uint64(block[:8])
	kind, workspace, id = Kind(high>>kindShift), int64(high&most), int64(binary.BigEndian.Uint64(block[8:]))
	return kind, workspace, id, kind.known() && workspace > 0 && id > 0
}

func (k Kind) known() bool {
	switch k {
	case KindDelivery, KindInstance, KindEvent, KindContact, KindRecord, KindRun, KindDecision:
		return true
	}
	return false
}
