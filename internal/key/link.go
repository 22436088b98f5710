package key

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// LinkPurpose is the only action that a signed link allows.
type LinkPurpose string

// The values of LinkPurpose.
const (
	LinkUnsubscribe LinkPurpose = "unsubscribe"
	LinkManage      LinkPurpose = "manage"
	LinkConfirm     LinkPurpose = "confirm"
)

// Link is the content of a signed link. Its holder may make one action on one subject of one workspace, until it expires. A public id only
// names a row; a link allows an action without a sign-in. So its key is not in the database, and a copy of the database cannot make links.
type Link struct {
	Purpose   LinkPurpose
	Workspace int64
	Subject   string    // for example the id of a contact
	Expires   time.Time // in whole seconds; zero: never
}

// Errors of Open.
var (
	// ErrLink means that the link was not made here, was changed, or has another purpose. The error does not tell these apart.
	ErrLink = errors.New("the link is not valid")
	// ErrLinkExpired means that the link was valid and has expired.
	ErrLinkExpired = errors.New("the link has expired")
)

const (
	linkVersion = 1
	linkKeySize = 32
	linkIDSize  = 4
	linkHead    = 1 + linkIDSize + 8 + 8
	// maxLinkSubject bounds the subject, in bytes, so that mail programs do not break the link.
	maxLinkSubject = 256
)

// LinkKeys sign and check links. The first key signs, and all keys check, so that keys can be replaced.
type LinkKeys struct{ keys []linkKey }

type linkKey struct {
	id     [linkIDSize]byte
	secret []byte
}

// ParseLinkKeys reads keys of 32 bytes in base64, separated by commas or blanks. Its errors never repeat a key.
func ParseLinkKeys(text string) (LinkKeys, error) {
	var ring LinkKeys
	for i, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r <= ' ' }) {
		raw, err := base64.StdEncoding.DecodeString(field)
		if err != nil || len(raw) != linkKeySize {
			return LinkKeys{}, fmt.Errorf("key %d is not 32 bytes in base64: openssl rand -base64 32 makes one", i+1)
		}
		sum := sha256.Sum256(append([]byte("carillon link key id "), raw...))
		ring.keys = append(ring.keys, linkKey{[linkIDSize]byte(sum[:linkIDSize]), raw})
	}
	if len(ring.keys) == 0 {
		return LinkKeys{}, errors.New("there is no key: openssl rand -base64 32 makes one")
	}
	return ring, nil
}

// Any reports whether there is a key to sign links with.
func (r LinkKeys) Any() bool { return len(r.keys) > 0 }

// Sign writes a link as a text for a path: version, key id, workspace, expiry, subject and a MAC over these and the purpose.
func (r LinkKeys) Sign(l Link) (string, error) {
	if len(r.keys) == 0 {
		return "", errors.New("there is no key for links")
	}
	if l.Purpose == "" || l.Workspace < 1 || l.Subject == "" || len(l.Subject) > maxLinkSubject {
		return "", fmt.Errorf("a link has a purpose, a workspace and a subject of 1 to %d bytes", maxLinkSubject)
	}
	var expires uint64
	if !l.Expires.IsZero() {
		if l.Expires.Unix() <= 0 {
			return "", errors.New("a link expires after 1970")
		}
		expires = uint64(l.Expires.Unix())
	}
	signer := r.keys[0]
	b := append([]byte{linkVersion}, signer.id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Workspace))
	b = binary.BigEndian.AppendUint64(b, expires)
	b = append(b, l.Subject...)
	return base64.RawURLEncoding.EncodeToString(append(b, signer.mac(l.Purpose, b)...)), nil
}

// Open reads a link that was signed for purpose. The error is ErrLink or ErrLinkExpired.
func (r LinkKeys) Open(purpose LinkPurpose, text string, now time.Time) (Link, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= linkHead+sha256.Size || len(b) > linkHead+maxLinkSubject+sha256.Size || b[0] != linkVersion ||
		base64.RawURLEncoding.EncodeToString(b) != text { // only one form is valid: the decoder skips line breaks
		return Link{}, ErrLink
	}
	body, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	for _, k := range r.keys {
		if k.id != [linkIDSize]byte(body[1:1+linkIDSize]) || !hmac.Equal(mac, k.mac(purpose, body)) {
			continue
		}
		l := Link{Purpose: purpose, Workspace: int64(binary.BigEndian.Uint64(body[1+linkIDSize:])), Subject: string(body[linkHead:])}
		if at := binary.BigEndian.Uint64(body[1+linkIDSize+8:]); at != 0 {
			l.Expires = time.Unix(int64(at), 0).UTC()
			if !now.Before(l.Expires) {
				return Link{}, ErrLinkExpired
			}
		}
		return l, nil
	}
	return Link{}, ErrLink
}

// mac uses a key that is derived for the purpose (HKDF, RFC 5869), so that a link of one purpose is not valid for another.
func (k linkKey) mac(purpose LinkPurpose, body []byte) []byte {
	derived, err := hkdf.Key(sha256.New, k.secret, nil, "carillon link "+string(purpose), sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("key: derive the key of a link: %v", err)) // it cannot fail for this length
	}
	m := hmac.New(sha256.New, derived)
	m.Write(body)
	return m.Sum(nil)
}
