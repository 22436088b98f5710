package chaos

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"path/filepath"
	"strings"

	"github.com/emersion/go-msgauth/dkim"
	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/client"
)

// mailDefinitions say what is sent by mail.
const mailDefinitions = `
workspace: default
retry: {backoff: [1s, 1s, 1s], jitter: none, then: fail}
cadence: {max_per_day: 0} # no limits
---
template: letter
email:
  subject: "Zähler {{ candidate.id }} läuft"
  headers:
    List-Unsubscribe: "<https://example.org/u/{{ candidate.id }}>"
  text: |
    Hello {{ candidate.id }},
    .
    ..and dots; {{ candidate.long }}
  html: "<p>{{ candidate.id }} &amp; {{ candidate.long }}</p>"
`

// mailChannel is what one half of the mails takes: a channel of some name, sender, port, kind and file of its key, and
// rule for unknown outcomes. No mood of the server takes as long as the timeout, and none is to end for a busy machine:
// then server and attempt would rightly say different things.
const mailChannel = `---
channel: email:%[1]s
provider: smtp
settings:
  host: 127.0.0.1
  from: %[2]s
  port: "%[3]s"
  username: carillon
  password: {env: CHAOS_MAIL_PASSWORD}
  dkim_domain: example.org
  dkim_selector: %[4]s
  dkim_key: {file: %[5]q}
on_unknown: %[6]s
timeout: 5m
---
workflow: to_%[1]s
type: alert
triggers: [{id: t, event: %[1]s}]
audience: [{to: event.recipient}]
channel: email:%[1]s
message: {template: letter}
`

// long is a value that needs folding and encoding.
var long = strings.Repeat("0123456789 über <b> = ", 30)

// mails is the profile Mails.
type mails struct {
	*run
	server  *mailServer
	records map[string]string // public keys
}

func (m *mails) prepare() (string, error) {
	cert, records, err := newMailKeys(m.Dir)
	if err != nil {
		return "", err
	}
	m.records = records
	if m.server, err = newMailServer(m.Seed, cert); err != nil {
		return "", err
	}
	m.closers = append(m.closers, m.server)
	m.Env = []string{"SSL_CERT_FILE=" + filepath.Join(m.Dir, "roots.pem"), "SSL_CERT_DIR=" + m.Dir, "CHAOS_MAIL_PASSWORD=" + mailSecret}
	m.lease = m.Limit
	_, port, err := net.SplitHostPort(m.server.address)
	channel := func(name, from, selector, onUnknown string) string {
		return fmt.Sprintf(mailChannel, name, from, port, selector, filepath.Join(m.Dir, selector+".pem"), onUnknown)
	}
	return mailDefinitions + channel("again", "Größe & Co <hello@example.org>", "rsa", "resend") +
		channel("once", "hello@example.org", "ed25519", "hold"), err
}

// mailID names the i-th message, and its recipient.
func mailID(i int) string { return fmt.Sprintf("m%05d", i) }

// storm posts one event for each message. The trouble is the server's alone.
func (m *mails) storm(ctx context.Context, group *errgroup.Group) error {
	const perBatch = 50
	batches := inBatches(m.Events, perBatch, func(i int) client.Event {
		return client.Event{
			ID: mailID(i), Kind: []string{"again", "once"}[i%2], Payload: map[string]any{"id": mailID(i), "long": long},
			Recipient: &client.Recipient{Address: mailID(i) + "@example.com", Locale: "en"},
		}
	})
	m.poster.start(ctx, group, len(m.slots), batches)
	return nil
}

// rests reports whether no mail is to be tried again. What waits for a person may be left.
func (m *mails) rests(ctx context.Context) (bool, error) {
	return m.idle(ctx, m.clock.Now().Add(m.Limit))
}

func (m *mails) counters() (verdicts, proofs []string) {
	proofs = []string{
		"unknown", "failed", // deliveries
		"copies",      // accepted although one had been accepted before
		"turned away", // connections refused before a mail
		string(taken),
	}
	for _, share := range mailMoods() {
		proofs = append(proofs, string(share.mood))
	}
	return []string{
		"mismatch", // an attempt or a delivery is not what the server's log says
		"unreadable", "forbidden",
	}, proofs
}

// mailRow is an attempt with its delivery.
type mailRow struct{ address, status, outcome, failure string }

// judge compares the attempts of every delivery, one by one, with what the server did.
func (m *mails) judge(ctx context.Context, report *Report) error {
	const query = `SELECT d.address, d.status, a.outcome, a.reason || ': ' || a.error FROM delivery d JOIN attempt a ON a.ws = d.ws AND a.delivery_id = d.id
WHERE a.number > 0 ORDER BY d.id, a.number`
	byMail, atHello, unconnected := map[string][]mailRow{}, 0, 0
	if err := m.db.each(ctx, query, func(r *sql.Rows) error {
		var a mailRow
		err := r.Scan(&a.address, &a.status, &a.outcome, &a.failure)
		if strings.Contains(a.failure, "EHLO: ") {
			atHello++ // the server knows no recipient of it
			a.outcome = ""
		}
		if strings.Contains(a.failure, ": connect: ") { // a busy machine let it wait too long; the server knows of no mail
			unconnected++
			a.outcome = ""
		}
		byMail[a.address] = append(byMail[a.address], a)
		return err
	}); err != nil {
		return err
	}
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	report.count("connections", len(m.server.conns))
	for _, refused := range m.server.conns {
		report.count("turned away", b2i(refused))
	}
	if m.server.pipelined > 0 {
		report.violate("forbidden", "%d transactions had a second recipient", m.server.pipelined)
	}
	if n := int(report.Count("turned away")); atHello > n || atHello+unconnected < n {
		report.violate("mismatch", "%d attempts say that they were turned away, and %d connections were", atHello, n)
	}
	if len(byMail) != m.Events {
		report.violate("mismatch", "%d messages were tried of %d", len(byMail), m.Events)
	}
	for i := range m.Events {
		address := mailID(i) + "@example.com"
		box := m.server.boxes[address]
		if box == nil {
			box = &mailbox{}
		}
		compareMail(report, address, i%2 == 1, box, byMail[address])
		for _, raw := range box.mails {
			if err := checkMail(raw, mailID(i), m.records); err != nil {
				report.violate("unreadable", "%s: %v", address, err)
			} else {
				report.count("signed", 1)
			}
		}
	}
	for address := range m.server.boxes {
		if len(byMail[address]) == 0 {
			report.violate("mismatch", "%s was written to and has no attempt", address)
		}
	}
	return nil
}

// compareMail holds the attempts of one message against the server's turns. Once says that the channel holds it when an
// outcome is unknown.
func compareMail(report *Report, address string, once bool, box *mailbox, attempts []mailRow) {
	unknown, accepted, n := false, false, 0
	status := ""
	for _, a := range attempts {
		status = a.status
		if a.outcome == "" {
			continue // turned away before the server knew what for
		}
		if n++; n > len(box.turns) {
			continue
		}
		t := box.turns[n-1]
		report.count("tries", 1)
		report.count(string(t), 1)
		want := "failed"
		switch t {
		case taken, slowly:
			want, accepted = "delivered", true
		case takenLost:
			want = "unknown"
		case cut:
			// Whether the client sees the end of the connection before it has written the final dot is a race; the
			// outcome of a mail that was not accepted may be unknown, but never the other way round.
			if a.outcome == "unknown" {
				want = "unknown"
			}
		default:
		}
		if a.outcome != want {
			report.violate("mismatch", "%s: the server's turn was %q and the attempt says %s: %s", address, t, a.outcome, a.failure)
		}
		if strings.Contains(a.failure, address) {
			report.violate("forbidden", "%s: an error repeats the address: %s", address, a.failure)
		}
		if once && unknown {
			report.violate("forbidden", "%s: something followed an unknown outcome although the channel holds", address)
		}
		unknown = unknown || want == "unknown"
	}
	if n != len(box.turns) {
		report.violate("mismatch", "%s: %d turns of the server, %d attempts", address, len(box.turns), n)
	}
	report.count("copies", max(len(box.mails)-1, 0))
	want := "failed"
	switch {
	case accepted:
		want = "sent"
	case unknown:
		want = "unknown"
	}
	report.count(want, 1)
	if status != want {
		report.violate("mismatch", "%s is %s, and by the server's log %s (%v)", address, status, want, box.turns)
	}
}

// checkMail reads a mail as its receiver does: signature, headers and both texts.
func checkMail(raw []byte, id string, records map[string]string) error {
	found, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		selector, _, _ := strings.Cut(name, ".")
		return []string{records[selector]}, nil
	}})
	for _, signature := range found {
		err = errors.Join(err, signature.Err)
	}
	if err != nil || len(found) != 1 || found[0].Domain != "example.org" {
		return fmt.Errorf("%d signatures: %w", len(found), err)
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return err
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	var texts []string
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextPart() // it reads quoted-printable
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var body io.Reader = part
		if part.Header.Get("Content-Transfer-Encoding") == "base64" {
			body = base64.NewDecoder(base64.StdEncoding, part)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		texts = append(texts, strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	escaped := strings.ReplaceAll(strings.ReplaceAll(long, "<", "&lt;"), ">", "&gt;")
	got := append([]string{subject, m.Header.Get("To"), m.Header.Get("List-Unsubscribe")}, texts...)
	want := []string{
		"Zähler " + id + " läuft", "<" + id + "@example.com>", "<https://example.org/u/" + id + ">",
		"Hello " + id + ",\n.\n..and dots; " + long + "\n", "<p>" + id + " &amp; " + escaped + "</p>",
	}
	if strings.Join(got, "\x00") != strings.Join(want, "\x00") {
		return fmt.Errorf("it reads %q, want %q", got, want)
	}
	return nil
}
