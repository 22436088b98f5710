// Package secret keeps the secrets of channels unreadable wherever they are not needed: sealed at rest, and printed as
// three stars in between.
//
//	Value    a secret in the process; only Reveal gives it out
//	Keyring  the server's keys: the first seals, every one opens, so that keys can be exchanged
//
// An envelope is base64 over version (1 byte), key id (4 bytes), nonce (12 bytes) and AES-256-GCM of the value. The
// workspace and the name are the additional data: an envelope opens only where it was put. A key id is the beginning
// of a hash of the key; it says nothing about the key, and which one of several opens an envelope.
//
// It knows no database, no file and no environment.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Stars is what a secret looks like everywhere.
const Stars = "***"

// Value is a secret. However it is printed, logged or written as JSON, it is three stars.
type Value struct{ text string }

// New hides a text.
func New(text string) Value { return Value{text} }

// Reveal gives the text out, to be sealed or handed to a provider.
func (v Value) Reveal() string { return v.text }

// Format prints the stars for every verb.
func (Value) Format(f fmt.State, _ rune) {
	// What cannot be printed is not worth telling.
	_, _ = f.Write([]byte(Stars))
}

// String is the stars.
func (Value) String() string { return Stars }

// MarshalJSON writes the stars.
func (Value) MarshalJSON() ([]byte, error) { return json.Marshal(Stars) }

// LogValue logs the stars.
func (Value) LogValue() slog.Value { return slog.StringValue(Stars) }

// Place is where a secret belongs.
type Place struct {
	Workspace int64
	Name      string
}

func (p Place) bytes() []byte { return fmt.Appendf(nil, "carillon secret %d %s", p.Workspace, p.Name) }

// maxName bounds a name, in bytes.
const maxName = 100

// CheckName says why a text cannot name a secret.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	}
	if !ok {
		return fmt.Errorf("a secret's name has 1 to %d letters, digits, - _ and dots", maxName)
	}
	return nil
}

// MaxValue bounds a secret, in bytes: a private key fits.
const MaxValue = 16 << 10

// CheckValue says why a text cannot be a secret.
func CheckValue(v Value) error {
	if v.text == "" || len(v.text) > MaxValue {
		return fmt.Errorf("a secret has 1 to %d bytes", MaxValue)
	}
	if strings.ContainsRune(v.text, 0) {
		return errors.New("a secret holds no zero byte")
	}
	return nil
}

// What may be wrong with an envelope.
var (
	// ErrKey: none of the keys made it.
	ErrKey = errors.New("it was sealed with a key that this server does not have")
	// ErrBroken: it was changed, or belongs to another place.
	ErrBroken = errors.New("it cannot be opened")
)

const (
	keySize  = 32 // AES-256
	idSize   = 4
	version1 = 1
)

// Keyring is a list of keys; the first seals.
type Keyring struct{ keys []sealer }

type sealer struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// ParseKeyring reads keys of 32 bytes in base64, parted by commas or blanks. Its errors never repeat any.
func ParseKeyring(text string) (*Keyring, error) {
	var ring Keyring
	for i, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r <= ' ' }) {
		raw, err := base64.StdEncoding.DecodeString(field)
		if err != nil || len(raw) != keySize {
			return nil, fmt.Errorf("key %d is not 32 bytes in base64: openssl rand -base64 32 makes one", i+1)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("carillon secret key id "), raw...))
		ring.keys = append(ring.keys, sealer{[idSize]byte(sum[:idSize]), aead})
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("there is no key: openssl rand -base64 32 makes one")
	}
	return &ring, nil
}

// Seal makes an envelope with the first key.
func (r *Keyring) Seal(at Place, v Value) string {
	key := r.keys[0]
	envelope := append([]byte{version1}, key.id[:]...)
	return base64.StdEncoding.EncodeToString(key.aead.Seal(envelope, nil, []byte(v.text), at.bytes()))
}

// Open opens an envelope of that place. ErrKey, ErrBroken: it cannot.
func (r *Keyring) Open(at Place, envelope string) (Value, error) {
	raw, err := base64.StdEncoding.DecodeString(envelope)
	if err != nil || len(raw) < 1+idSize || raw[0] != version1 {
		return Value{}, ErrBroken
	}
	known := false
	for _, key := range r.keys {
		if key.id != [idSize]byte(raw[1:1+idSize]) {
			continue
		}
		known = true
		if text, err := key.aead.Open(nil, nil, raw[1+idSize:], at.bytes()); err == nil {
			return Value{string(text)}, nil
		}
	}
	if !known {
		return Value{}, ErrKey
	}
	return Value{}, ErrBroken
}

// Sealed reports whether the first key made the envelope; false: it still waits for the exchange of keys.
func (r *Keyring) Sealed(envelope string) bool {
	raw, err := base64.StdEncoding.DecodeString(envelope)
	return err == nil && len(raw) > 1+idSize && [idSize]byte(raw[1:1+idSize]) == r.keys[0].id
}
