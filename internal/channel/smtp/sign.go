package smtp

import (
	"bytes"
	"crypto"
	"fmt"
	"net/textproto"
	"slices"

	"github.com/emersion/go-msgauth/dkim"
)

// signer signs mails (DKIM, RFC 6376 and 8463).
type signer struct {
	domain, selector string
	key              crypto.Signer
}

// sealed are the headers that are signed once more than they are there, so that nobody adds a second one on the way
// (RFC 6376 8.15).
var sealed = []string{"From", "To", "Subject", "Date", "Reply-To", "Message-Id"}

// sign returns the mail with its signature before it. Every header is covered, List-Unsubscribe among them (RFC 8058).
func (s *signer) sign(raw []byte, headers []string) ([]byte, error) {
	names := slices.Concat(headers, sealed)
	for i := range names {
		names[i] = textproto.CanonicalMIMEHeaderKey(names[i])
	}
	var signed bytes.Buffer
	signed.Grow(len(raw) + 1024)
	err := dkim.Sign(&signed, bytes.NewReader(raw), &dkim.SignOptions{
		Domain: s.domain, Selector: s.selector, Signer: s.key, HeaderKeys: names,
		// Relays fold headers again and cut blanks off lines; relaxed signatures stay valid.
		HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed,
	})
	if err != nil {
		return nil, fmt.Errorf("sign the mail: %w", err)
	}
	return signed.Bytes(), nil
}
