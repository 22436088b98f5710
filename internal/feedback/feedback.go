// Package feedback reads what mail servers and mailbox providers send back about a mail: that it could not be delivered (DSN, RFC 3464), or that its reader
// has complained about it (ARF, RFC 5965). It decides nothing about people.
//
//	mail ─▶ Parse ─▶ reports: status, address, the id of the delivery
//
// A mail that is neither is no report, such as a note that somebody is on holiday: those are not read as failures, whatever their text says.
package feedback

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
)

// Status is what became of a message after its provider had accepted it.
type Status string

// The statuses of a message that its provider accepted.
const (
	Accepted   Status = "accepted"   // its provider has it, and knows no more yet
	Delivered  Status = "delivered"  // it has arrived
	Read       Status = "read"       // it was opened, as far as its provider can tell
	Deferred   Status = "deferred"   // a server will try again, or gave up for a cause that may pass
	Bounced    Status = "bounced"    // it could not be delivered, and its provider does not try again
	Complained Status = "complained" // its reader calls it unwanted
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Accepted, Delivered, Read, Deferred, Bounced, Complained} }

// Name returns what people are shown of a status. A bounce whose cause may pass is a soft one.
func Name(s Status, soft bool) string {
	if s == Bounced && soft {
		return "soft bounce"
	}
	return string(s)
}

// Report is what is said of one message to one address. Address or Delivery may be empty, not both.
type Report struct {
	Status   Status
	Address  string
	Delivery string // the public id that the message had
	Step     int    // of the delivery: 1 = the message, 2 = its first reminder; 0: not known
	Message  string // the provider's id of the message; may be empty
	// Soft says of a bounced message that its cause may pass, such as a telephone that is switched off: its address takes further messages.
	Soft   bool
	Detail string // in the words of who reports it, one line
}

// ErrNoReport: the mail is no report that could be read.
var ErrNoReport = errors.New("the mail reports neither a failed delivery nor a complaint")

const (
	// most bounds a mail, in bytes, and mostParts its parts and the recipients of one report.
	most      = 2 << 20
	mostParts = 100
	// longestDetail bounds the text of a report, in bytes.
	longestDetail = 500
	// headerDelivery is the header of our mails that has the id of the delivery.
	headerDelivery = "X-Carillon-Delivery"
)

// Parse reads the reports of a mail. The error is ErrNoReport, with what is missing.
func Parse(r io.Reader) ([]Report, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the mail: %w", err)
	}
	if len(raw) > most {
		return nil, fmt.Errorf("%w: it is larger than %d MiB", ErrNoReport, most>>20)
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: its header cannot be read", ErrNoReport)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/report" || params["boundary"] == "" {
		return nil, fmt.Errorf("%w: it is not of the type multipart/report", ErrNoReport)
	}
	parts, err := readParts(m.Body, params["boundary"])
	if err != nil {
		return nil, err
	}
	var reports []Report
	switch strings.ToLower(params["report-type"]) {
	case "delivery-status":
		reports = deliveryStatus(parts["message/delivery-status"])
	case "feedback-report":
		reports = complaint(parts["message/feedback-report"], parts)
	default:
		return nil, fmt.Errorf("%w: its report-type is %q", ErrNoReport, params["report-type"])
	}
	id := original(parts).Get(headerDelivery)
	var usable []Report
	for _, one := range reports {
		if one.Delivery = strings.TrimSpace(id); one.Address != "" || one.Delivery != "" {
			usable = append(usable, one)
		}
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("%w: it names no recipient", ErrNoReport)
	}
	return usable, nil
}

// readParts returns the first part of each type, decoded.
func readParts(body io.Reader, boundary string) (map[string][]byte, error) {
	parts := map[string][]byte{}
	reader := multipart.NewReader(body, boundary)
	for range mostParts {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return parts, fmt.Errorf("%w: its parts cannot be read", ErrNoReport)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if _, seen := parts[kind]; err != nil || seen {
			continue
		}
		text, err := io.ReadAll(decoded(part, part.Header.Get("Content-Transfer-Encoding")))
		if err != nil {
			return nil, fmt.Errorf("%w: a part cannot be read", ErrNoReport)
		}
		parts[kind] = text
	}
	return parts, nil
}

func decoded(r io.Reader, encoding string) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		return quotedprintable.NewReader(r)
	}
	return r
}

// groups reads fields in groups that blank lines separate.
func groups(text []byte) (list []textproto.MIMEHeader) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	for _, group := range bytes.Split(text, []byte("\n\n")) {
		if group = bytes.TrimSpace(group); len(group) == 0 || len(list) == mostParts {
			continue
		}
		fields, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(group, "\n\n"...)))).ReadMIMEHeader()
		if err == nil {
			list = append(list, fields)
		}
	}
	return list
}

// deliveryStatus reads the recipients of a DSN. The first group is about the message.
func deliveryStatus(text []byte) (reports []Report) {
	for _, g := range groups(text) {
		recipient := g.Get("Final-Recipient")
		if recipient == "" {
			recipient = g.Get("Original-Recipient")
		}
		status, known := statusOf(g.Get("Action"), g.Get("Status"))
		if recipient == "" || !known {
			continue
		}
		if original := g.Get("Original-Recipient"); original != "" {
			recipient = original // the address that we wrote, not the one to which it was forwarded
		}
		reports = append(reports, Report{Status: status, Address: typed(recipient), Detail: Line(strings.TrimSpace(g.Get("Status") + " " + typed(g.Get("Diagnostic-Code"))))})
	}
	return reports
}

// statusOf is what an action and a status of RFC 3464 mean. A failure is for good if its status says so (RFC 3463: class 5), and if the mailbox is not just full.
func statusOf(action, code string) (Status, bool) {
	class, rest, _ := strings.Cut(strings.TrimSpace(code), ".")
	switch strings.ToLower(strings.TrimSpace(action)) {
	case "failed":
		if class == "5" && rest != "2.2" {
			return Bounced, true
		}
		return Deferred, true
	case "delayed":
		return Deferred, true
	case "delivered":
		return Delivered, true
	}
	return "", false // relayed, expanded: nobody knows yet
}

// complaint reads a report of abuse. Reports of other kinds, such as not-spam, end nothing.
func complaint(text []byte, parts map[string][]byte) []Report {
	all := groups(text)
	if len(all) == 0 {
		return nil
	}
	kind := strings.ToLower(all[0].Get("Feedback-Type"))
	if kind != "abuse" && kind != "fraud" {
		return nil
	}
	to := all[0].Get("Original-Rcpt-To")
	if to == "" {
		if list, err := mail.ParseAddressList(original(parts).Get("To")); err == nil && len(list) == 1 {
			to = list[0].Address
		}
	}
	return []Report{{Status: Complained, Address: strings.Trim(strings.TrimSpace(to), "<>"), Detail: Line(kind)}}
}

// original returns the header of the mail that a report is about.
func original(parts map[string][]byte) mail.Header {
	for _, kind := range []string{"message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"} {
		if text, ok := parts[kind]; ok {
			if m, err := mail.ReadMessage(bytes.NewReader(append(bytes.Clone(text), "\r\n\r\n"...))); err == nil {
				return m.Header
			}
		}
	}
	return mail.Header{}
}

// typed removes the type before the value of a field, such as rfc822; or smtp;.
func typed(value string) string {
	if _, rest, ok := strings.Cut(value, ";"); ok {
		value = rest
	}
	return strings.Trim(strings.TrimSpace(value), "<>")
}

// Line is a text in one line, of bounded length and without control characters.
func Line(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == '\x7f' || r == '\uFFFD' }), " ")
	if len(text) > longestDetail {
		text = strings.ToValidUTF8(text[:longestDetail], "")
	}
	return text
}
