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
	PurposeSession  Purpose = "session"
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

// NewKeyed prepares the hashes of one purpose.
func NewKeyed(secret []byte, purpose Purpose) Keyed {
	return Keyed{derive(secret, purpose, sha256.Size)}
}

// Hash is the keyed hash of the parts in hexadecimal; where one part ends and the next begins counts.
func (k Keyed) Hash(parts ...string) string {
	sum := k.sum(parts)
	return hex.EncodeToString(sum[:])
}

// Equal compares a hash in constant time.
func (k Keyed) Equal(hash string, parts ...string) bool {
	return hmac.Equal([]byte(k.Hash(parts...)), []byte(hash))
}

// Uniform draws a whole number in [0, limit), the same for the same parts in every replay: jitter and random
// minutes need no random source. A limit of 0 gives 0.
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
)

// PublicIDs turns row ids into ids for the world and back. An id is one AES block over (kind, workspace, row id):
// it looks random, tells nothing of order or number, and cannot be guessed, since of all 2^128 blocks only those
// with the right kind and workspace decode. It needs no column and no index.
type PublicIDs struct{ block cipher.Block }

// NewPublicIDs prepares the ids of one workspace.
func NewPublicIDs(secret []byte) PublicIDs {
	block, err := aes.NewCipher(derive(secret, PurposePublicID, 16))
	if err != nil {
		panic(fmt.Sprintf("key: %v", err)) // a key of 16 bytes is always accepted
	}
	return PublicIDs{block}
}

// letters is Crockford's base 32: no letter that reads like a digit.
const letters = "0123456789abcdefghjkmnpqrstvwxyz"

func encoding() *base32.Encoding { return base32.NewEncoding(letters).WithPadding(base32.NoPadding) }

// Encode writes an id as kind_ and 26 characters, such as d_2x5…. Workspace and id are positive.
func (p PublicIDs) Encode(kind Kind, workspace, id int64) string {
	block := p.seal(kind, workspace, id)
	return string(kind) + "_" + encoding().EncodeToString(block[:])
}

// UUID writes the same 16 bytes in the form of a GUID, for systems that expect one (C15).
func (p PublicIDs) UUID(kind Kind, workspace, id int64) string {
	block := p.seal(kind, workspace, id)
	h := hex.EncodeToString(block[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Decode reads either form. Ok is false for everything that Encode and UUID of this workspace do not write.
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
		n, err := encoding().Decode(block[:], []byte(text[2:]))
		if err != nil || n != len(block) {
			return 0, 0, 0, false
		}
	default:
		return 0, 0, 0, false
	}
	p.block.Decrypt(block[:], block[:])
	kind, block[0] = Kind(block[0]), 0
	workspace = int64(binary.BigEndian.Uint64(block[:8]))
	id = int64(binary.BigEndian.Uint64(block[8:]))
	switch kind {
	case KindDelivery, KindInstance, KindEvent, KindContact:
	default:
		return 0, 0, 0, false
	}
	if workspace <= 0 || id <= 0 {
		return 0, 0, 0, false
	}
	if again := p.Encode(kind, workspace, id); len(text) == 28 && again != text {
		return 0, 0, 0, false // other spellings of the same bits
	}
	if len(text) == 36 && p.UUID(kind, workspace, id) != strings.ToLower(text) {
		return 0, 0, 0, false
	}
	return kind, workspace, id, true
}

func (p PublicIDs) seal(kind Kind, workspace, id int64) (block [aes.BlockSize]byte) {
	binary.BigEndian.PutUint64(block[:8], uint64(workspace))
	block[0] = byte(kind)
	binary.BigEndian.PutUint64(block[8:], uint64(id))
	p.block.Encrypt(block[:], block[:])
	return block
}
