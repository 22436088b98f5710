package smtp

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/message"
)

const (
	// maxLine is the longest line of a mail, in bytes without its end (RFC 5322 2.1.1).
	maxLine = 998
	// chunk is how much of a text goes into one encoded word of at most 75 signs (RFC 2047).
	chunk = 45
)

// mail is what goes over the wire for one message.
type mail struct {
	from, to string // of the envelope
	utf8     bool   // an address needs SMTPUTF8
	id       string // Message-ID without its brackets
	data     []byte
	hide     []string // what a reply may quote and nobody needs to read in an error
}

// compose writes a mail. The same message has the same Message-ID and the same boundary in every try; only its Date
// is that of the try. The error says what it must not hold, never what it held.
func (s *settings) compose(out channel.Outgoing, now time.Time) (mail, error) {
	from, err := s.box("from", out.From, s.from)
	if err != nil {
		return mail{}, err
	}
	replyTo, err := s.box("reply_to", out.ReplyTo, s.replyTo)
	if err != nil {
		return mail{}, err
	}
	to, err := message.ParseAddress(strings.TrimSpace(out.Address))
	if err == nil {
		to.Domain, err = asciiDomain(to.Domain)
	}
	if err != nil {
		return mail{}, fmt.Errorf("the recipient's address: %w", err)
	}
	m := mail{
		from: from.Address(), to: to.Address(), utf8: !ascii(from.Local) || !ascii(to.Local) || !ascii(replyTo.Local),
		id:   digest(out.IdempotencyKey)[:32] + "@" + from.Domain,
		hide: []string{to.Address(), out.Address, s.username, s.password},
	}
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP))
	msg.SetMessageIDWithValue(m.id)
	msg.SetDateWithValue(now)
	msg.SetAddrHeaderFromMailAddress(gomail.HeaderFrom, headerForm(from))
	msg.SetAddrHeaderFromMailAddress(gomail.HeaderTo, headerForm(to))
	if replyTo.Local != "" {
		msg.SetAddrHeaderFromMailAddress(gomail.HeaderReplyTo, headerForm(replyTo))
	}
	if subject := subject(out.Subject); subject != "" {
		msg.SetGenHeader(gomail.HeaderSubject, encoded(subject))
	}
	// A program answers nobody's mail: RFC 3834, and Exchange's own word for it.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader(gomail.HeaderXAutoResponseSuppress, "All")
	if out.DeliveryID != "" {
		msg.SetGenHeader("X-Carillon-Delivery", encoded(subject(out.DeliveryID)))
	}
	if err := setHeaders(msg, out.Headers); err != nil {
		return mail{}, err
	}
	if len(out.Metadata) > 0 {
		text, err := json.Marshal(out.Metadata) // one line, in the order of the names
		if err != nil {
			return mail{}, fmt.Errorf("write metadata: %w", err)
		}
		msg.SetGenHeader("X-Carillon-Metadata", encoded(string(text)))
	}
	setBody(msg, out)
	err = s.write(&m, msg)
	return m, err
}

// box reads the mailbox of a message, or takes the channel's.
func (s *settings) box(what, own string, channels message.Mailbox) (message.Mailbox, error) {
	box := channels
	if own != "" {
		var err error
		if box, err = message.ParseMailbox(strings.TrimSpace(own)); err != nil {
			return box, fmt.Errorf("%s of the message: %w", what, err)
		}
	}
	if box.Local == "" {
		return box, nil
	}
	var err error
	if box.Domain, err = asciiDomain(box.Domain); err != nil {
		return box, fmt.Errorf("%s of the message: %w", what, err)
	}
	return box, nil
}

// setHeaders sets the headers of a definition.
func setHeaders(msg *gomail.Msg, headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if err := message.CheckHeader(name); err != nil {
			return err
		}
		value, err := message.HeaderValue(headers[name])
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		if !structured(name) {
			value = encoded(value)
		}
		msg.SetGenHeader(gomail.Header(name), value)
	}
	return nil
}

// structured headers hold addresses of the web between < and >, which are never encoded.
func structured(name string) bool { return len(name) > 5 && strings.EqualFold(name[:5], "List-") }

// setBody sets the text, and the HTML as the better one of the two (RFC 2046 5.1.4).
func setBody(msg *gomail.Msg, out channel.Outgoing) {
	part := func(text string) (string, gomail.PartOption) {
		text = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(text)
		return text, gomail.WithPartEncoding(encoding(text))
	}
	text, how := part(out.Text)
	html, htmlHow := part(out.HTML)
	switch {
	case out.HTML == "":
		msg.SetBodyString(gomail.TypeTextPlain, text, how)
	case out.Text == "":
		msg.SetBodyString(gomail.TypeTextHTML, html, htmlHow)
	default:
		// Made from what it separates, a boundary cannot occur in it.
		msg.SetBoundary("carillon-" + digest(out.IdempotencyKey, out.Text, out.HTML)[:40])
		msg.SetBodyString(gomail.TypeTextPlain, text, how)
		msg.AddAlternativeString(gomail.TypeTextHTML, html, htmlHow)
	}
}

// encoding takes quoted-printable, which can be read as it is, unless a script makes it three times as long.
func encoding(text string) gomail.Encoding {
	other := 0
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || text[i] < ' ' && text[i] != '\r' && text[i] != '\n' && text[i] != '\t' {
			other++
		}
	}
	if other > len(text)/5 {
		return gomail.EncodingB64
	}
	return gomail.EncodingQP
}

// write puts the mail into bytes and signs it.
func (s *settings) write(m *mail, msg *gomail.Msg) error {
	var raw bytes.Buffer
	if _, err := msg.WriteTo(&raw); err != nil {
		return fmt.Errorf("write the mail: %w", err)
	}
	m.data = raw.Bytes()
	names, err := headerNames(m.data)
	if err != nil {
		return err
	}
	if s.sign != nil {
		if m.data, err = s.sign.sign(m.data, names); err != nil {
			return err
		}
	}
	return nil
}

// headerNames is the last look at what was written: the names of its headers, which every reader must find alike. A
// name that comes twice, a line without one or a line that is too long is a fault here or in what composes, and no
// such mail leaves.
func headerNames(raw []byte) ([]string, error) {
	var names []string
	for line := range bytes.SplitSeq(raw, []byte("\r\n")) {
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line of the mail is longer than %d bytes", maxLine)
		}
		if bytes.ContainsAny(line, "\r\n\x00") {
			return nil, errors.New("a line of the mail holds a stray line break or NUL")
		}
	}
	head, _, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			return nil, errors.New("the mail's head holds a blank line")
		}
		if line[0] == ' ' || line[0] == '\t' {
			continue
		}
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return nil, errors.New("the mail's head holds a line without a name")
		}
		names = append(names, string(name))
	}
	// Read as a receiver reads it.
	h, err := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n")))).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("the mail's head cannot be read: %w", err)
	}
	for name, values := range h {
		if len(values) > 1 {
			return nil, fmt.Errorf("the mail has two headers %s", name)
		}
	}
	return names, nil
}

// subject makes one line of a text.
func subject(s string) string { return message.OneLine(strings.ToValidUTF8(s, "\uFFFD")) }

// encoded encodes what a receiver would not read back as it was written: an ASCII text that looks encoded already, or
// a word too long for a line. Text of other scripts is left to the library.
func encoded(s string) string {
	long := slices.ContainsFunc(strings.Fields(s), func(word string) bool { return len(word) > maxLine-100 })
	decoded, err := new(mime.WordDecoder).DecodeHeader(s)
	if !long && err == nil && decoded == s {
		return s
	}
	var words []string
	for len(s) > 0 {
		n := min(chunk, len(s))
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		words = append(words, "=?UTF-8?B?"+base64.StdEncoding.EncodeToString([]byte(s[:n]))+"?=")
		s = s[n:]
	}
	return strings.Join(words, " ")
}

// headerForm is a mailbox as a header holds it.
func headerForm(m message.Mailbox) *netmail.Address {
	return &netmail.Address{Name: m.Name, Address: m.Address()}
}

// asciiDomain is a domain as the DNS holds it: every server takes it, also one without SMTPUTF8.
func asciiDomain(domain string) (string, error) {
	if domain == "" {
		return "", nil
	}
	if _, err := message.ParseAddress("x@" + domain); err != nil {
		return "", errors.New("this is not a domain")
	}
	a, err := idna.Lookup.ToASCII(domain)
	if err != nil || len(a) > 253 {
		return "", errors.New("this is not a domain")
	}
	return a, nil
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// digest is a name for these texts, in hexadecimal digits.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil))
}
