package message

import (
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of an address, in bytes (RFC 5321 4.5.3.1). The RFC has no bound for a name; ours keeps the header short.
const (
	maxLocal  = 64
	maxDomain = 253
	maxLabel  = 63
	maxName   = 500
)

// Mailbox is an email address with a display name.
type Mailbox struct {
	Name   string // may be empty
	Local  string // before the @: a dot-atom, never a quoted text
	Domain string // after the @, as it was written
}

// Address returns the address without the name.
func (m Mailbox) Address() string { return m.Local + "@" + m.Domain }

// ParseAddress reads an address without a name: local@example.org.
//
// It accepts less than RFC 5322 does. A local part is a dot-atom, in any script (RFC 6531). Quoted local parts are refused,
// because they may contain characters that end a command or a header, and programs disagree on how to read them. Comments,
// literal IP addresses and control characters are refused too. Errors never repeat the address.
func ParseAddress(s string) (Mailbox, error) {
	local, domain, ok := cutLast(s, "@")
	if !ok {
		return Mailbox{}, errors.New("an address has the form name@example.org")
	}
	if err := checkLocal(local); err != nil {
		return Mailbox{}, err
	}
	if err := checkDomain(domain); err != nil {
		return Mailbox{}, err
	}
	return Mailbox{Local: local, Domain: domain}, nil
}

// ParseMailbox reads an address with or without a name: Support <support@example.org>.
//
// The text before the last < is the display name. A comma, a colon or a bracket in it has no meaning and needs no quotes: the
// mailer adds the quotes to the header. A name that is quoted or encoded already is unquoted and decoded. Blanks at the ends and
// around the address are removed; a run of blanks or line breaks in the name becomes one blank.
func ParseMailbox(s string) (Mailbox, error) {
	if !utf8.ValidString(s) {
		return Mailbox{}, errors.New("this is not valid UTF-8")
	}
	s = strings.TrimSpace(s)
	name, rest, angled := cutLast(s, "<")
	if !angled {
		m, err := ParseAddress(s)
		if err != nil && !strings.Contains(s, `"`) && (!strings.Contains(s, "@") || strings.ContainsAny(s, " ,;")) {
			err = errors.New("this is not of the form Name <name@example.org>")
		}
		return m, err
	}
	address, closed := strings.CutSuffix(rest, ">")
	if !closed {
		return Mailbox{}, errors.New("this is not of the form Name <name@example.org>")
	}
	m, err := ParseAddress(strings.TrimSpace(address))
	if err != nil {
		return Mailbox{}, err
	}
	if m.Name = displayName(name); len(m.Name) > maxName {
		return Mailbox{}, fmt.Errorf("the name before the address is longer than %d bytes", maxName)
	}
	return m, nil
}

// displayName returns a name without quotes and encoding, in one line.
func displayName(s string) string {
	s = OneLine(s)
	if inner, ok := strings.CutPrefix(s, `"`); ok && len(inner) > 0 && strings.HasSuffix(inner, `"`) {
		inner = inner[:len(inner)-1]
		s = inner
		if plain, ok := unquoted(inner); ok {
			s = plain
		}
	}
	if decoded, err := new(mime.WordDecoder).DecodeHeader(s); err == nil && utf8.ValidString(decoded) {
		s = decoded
	}
	return OneLine(s) // again, because the decoded name may have line breaks
}

// unquoted returns the content of a quoted text of RFC 5322. ok is false if it contains a quote that is not escaped.
func unquoted(inner string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"':
			return "", false
		case c == '\\' && i+1 == len(inner):
			return "", false
		case c == '\\':
			i++
		}
		b.WriteByte(inner[i])
	}
	return b.String(), true
}

// OneLine returns a text as one line: a run of line breaks, other control characters and blanks becomes one blank, and none at the
// ends.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func checkLocal(local string) error {
	switch {
	case local == "":
		return errors.New("an address has something before its @")
	case len(local) > maxLocal:
		return fmt.Errorf("the part before the @ is longer than %d bytes", maxLocal)
	case !utf8.ValidString(local):
		return errors.New("the address is not valid UTF-8")
	}
	for atom := range strings.SplitSeq(local, ".") {
		if atom == "" {
			return errors.New("the part before the @ has a dot at an end or two in a row")
		}
		for _, r := range atom {
			if !isAtomRune(r) {
				return errors.New("the part before the @ holds a sign that it must not hold; quoted parts are refused")
			}
		}
	}
	return nil
}

// isAtomRune reports whether a character is atext of RFC 5322 or a letter of another script (RFC 6531).
func isAtomRune(r rune) bool {
	switch {
	case r >= utf8.RuneSelf:
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != utf8.RuneError
	case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return true
	}
	return strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
}

func checkDomain(domain string) error {
	if domain == "" || len(domain) > maxDomain || !utf8.ValidString(domain) {
		return errors.New("the domain of the address is empty, too long or no text")
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || utf8.RuneCountInString(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("the domain of the address has a part that is empty, too long, or begins or ends with -")
		}
		for _, r := range label {
			ascii := r < utf8.RuneSelf && isAtomRune(r) && !strings.ContainsRune("!#$%&'*+/=?^_`{|}~", r)
			other := r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
			if !ascii && !other {
				return errors.New("the domain of the address holds a sign that no domain has")
			}
		}
	}
	return nil
}

// printed returns an error for control characters, which could end a header or a command, and for bytes that are not UTF-8.
func printed(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("this is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return errors.New("this holds a line break or another control character")
		}
	}
	return nil
}
