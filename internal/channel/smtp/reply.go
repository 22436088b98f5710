package smtp

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/carillonhq/carillon/internal/channel"
)

const (
	// closing is the code with which a server ends the connection, whatever was asked (RFC 5321 3.8).
	closing = 421
	// maxText is how much of a reply is kept, in bytes.
	maxText = 300
)

// phaseError says how far a mail came and what stopped it.
type phaseError struct {
	phase  string
	handed bool // the final dot may have been read
	err    error
}

func (e *phaseError) Error() string { return e.phase + ": " + e.err.Error() }

func (e *phaseError) Unwrap() error { return e.err }

// reply is what the server answered; nil when it did not.
func (e *phaseError) reply() *textproto.Error {
	var r *textproto.Error
	if errors.As(e.err, &r) {
		return r
	}
	return nil
}

// refused says what a failure means for the message.
//
//   - Before the final dot nothing was accepted: temporary, unless the server refused this mail for good (5xx to
//     MAIL, RCPT or DATA).
//   - After MAIL a 5xx may pass all the same, if its enhanced code says that the mailbox is full (x.2.2), or that it is the
//     server, the network or a policy that stands in the way (x.3, x.4, x.7): that is repaired without another address.
//   - What goes wrong before MAIL is about us and not about the message: a wrong password, an expired certificate, a
//     server that refuses this client. It is temporary, whatever its code, so that messages wait for the
//     repair instead of failing by the thousand.
//   - After the final dot an answer decides, and without one the outcome is unknown.
func (m *mail) refused(err error) *channel.SendError {
	var failed *phaseError
	if !errors.As(err, &failed) {
		return channel.Temporary(err)
	}
	r := failed.reply()
	switch {
	case errors.Is(err, errNoUTF8):
		return channel.Permanent(err)
	case r == nil && failed.handed:
		return channel.Lost(fmt.Errorf("%s: no answer: %s", failed.phase, m.clean(failed.err.Error())))
	case r == nil:
		return channel.Away(fmt.Errorf("%s: %s", failed.phase, m.clean(failed.err.Error())))
	}
	answered := fmt.Errorf("%s: the server answered %d %s", failed.phase, r.Code, m.clean(r.Msg))
	switch {
	case failed.handed && r.Code < 400:
		// Neither 250, which is no error, nor a refusal: nobody can say what it means.
		return channel.Lost(answered)
	case failed.phase == "AUTH":
		return channel.Away(fmt.Errorf("%w: look at username and password", answered))
	case r.Code >= 500 && r.Code < 600 && failed.phase != "MAIL" && failed.aboutMail(r.Code) && passes(r.Msg):
		return channel.Temporary(answered)
	case r.Code >= 500 && r.Code < 600 && failed.aboutMail(r.Code):
		return channel.Permanent(answered)
	case r.Code == closing, !failed.aboutMail(r.Code):
		return channel.Away(answered)
	}
	return channel.Temporary(answered)
}

// aboutMail says whether a refusal is about this mail. To ask for a login, for TLS or for another order of commands is
// not, at whatever command it comes.
func (e *phaseError) aboutMail(code int) bool {
	switch code {
	case 500, 502, 503, 504, 530, 534, 535, 538:
		return false
	}
	return e.handed || e.phase == "MAIL" || e.phase == "RCPT" || e.phase == "DATA"
}

// passes reports whether the enhanced code at the beginning of a reply (RFC 3463) names what may pass.
func passes(text string) bool {
	code, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	parts := strings.Split(strings.TrimSpace(code), ".")
	if len(parts) != 3 || parts[0] != "4" && parts[0] != "5" {
		return false
	}
	switch parts[1] {
	case "3", "4", "7":
		return true
	}
	return parts[1] == "2" && parts[2] == "2"
}

// clean makes one printable line of what a server said, without the address and the login that it may have repeated.
func (m *mail) clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	s = strings.Join(strings.Fields(s), " ")
	for _, secret := range m.hide {
		if secret != "" {
			s = replaceFold(s, secret, "***")
		}
	}
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

// replaceFold replaces without regard to case: servers write addresses in small letters.
func replaceFold(s, old, by string) string {
	low, lowOld := strings.ToLower(s), strings.ToLower(old)
	if len(low) != len(s) {
		return strings.ReplaceAll(s, old, by)
	}
	var b strings.Builder
	for {
		i := strings.Index(low, lowOld)
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i] + by)
		s, low = s[i+len(lowOld):], low[i+len(lowOld):]
	}
}
