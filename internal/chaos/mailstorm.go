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
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"

	"github.com/emersion/go-msgauth/dkim"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/clock"
)

// mailDefinitions say what is sent by mail: one half may be sent twice when its outcome is unknown, the other not. No turn of the server takes as long
// as the timeouts, and none is to end for a busy machine: then server and attempt would rightly say different things.
const mailDefinitions = `
workspace: default
retry: {backoff: [1s, 1s, 1s], jitter: none, then: fail}
cadence: {max_per_day: 0} # no limits
---
channel: email:again
provider: smtp
settings:
  host: 127.0.0.1
  port: "%[1]s"
  username: carillon
  password: {env: CHAOS_MAIL_PASSWORD}
  from: Größe & Co <hello@example.org>
  dkim_domain: example.org
  dkim_selector: rsa
  dkim_key: {file: %[2]q}
on_unknown: resend
timeout: 5m
---
channel: email:once
provider: smtp
settings:
  host: 127.0.0.1
  port: "%[1]s"
  username: carillon
  password: {env: CHAOS_MAIL_PASSWORD}
  from: hello@example.org
  dkim_domain: example.org
  dkim_selector: ed25519
  dkim_key: {file: %[3]q}
on_unknown: hold
timeout: 5m
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
---
workflow: repeated
type: alert
triggers: [{id: t, event: again}]
audience: [{to: event.recipient}]
channel: email:again
message: {template: letter}
---
workflow: single
type: alert
triggers: [{id: t, event: once}]
audience: [{to: event.recipient}]
channel: email:once
message: {template: letter}
`

// long is a value that needs folding and encoding.
var long = strings.Repeat("0123456789 über <b> = ", 30)

// MailReport is what a run of mails came to, counted by the server's log.
type MailReport struct {
	Mails       int // messages
	Tries       int
	Connections int
	TurnedAway  int // connections refused before a mail
	Turns       map[string]int
	Copies      int // accepted although one had been accepted before
	Sent        int
	Failed      int
	Unknown     int
	Signed      int // mails whose signature holds
	Seconds     float64
	Violations  []string
}

func (r *MailReport) violate(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// MailStorm sends mails by several processes to a server that refuses, drops and delays; then it holds every attempt
// and every delivery against the server's own log.
func MailStorm(ctx context.Context, o Options) (report MailReport, err error) {
	elapsed := clock.Monotonic()
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run took longer than %s", o.Limit))
	defer cancel()
	keys, err := newMailKeys(o.Dir)
	if err != nil {
		return report, err
	}
	server, err := newMailServer(o.Seed, keys.cert)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	o.Env, o.Lease = []string{"SSL_CERT_FILE=" + keys.roots, "SSL_CERT_DIR=" + o.Dir, "CHAOS_MAIL_PASSWORD=" + mailSecret}, o.Limit
	r := &run{Options: o}
	defer func() { err = errors.Join(err, r.close()) }()
	_, port, err := net.SplitHostPort(server.address)
	if err != nil {
		return report, err
	}
	definitions := fmt.Sprintf(mailDefinitions, port, keys.private["rsa"], keys.private["ed25519"])
	if r.db, err = prepare(ctx, o, definitions); err != nil {
		return report, err
	}
	for i := range o.Workers {
		s, err := newSlot(r, i+1)
		if err != nil {
			return report, err
		}
		r.slots = append(r.slots, s)
		if err := s.start(); err != nil {
			return report, err
		}
	}
	if err := r.postMails(ctx); err != nil {
		return report, err
	}
	const left = `SELECT count(*) FROM delivery WHERE status NOT IN ('sent', 'failed', 'unknown')`
	if err := r.until(ctx, func() (bool, error) {
		n := 0
		err := r.db.raw.QueryRowContext(ctx, left).Scan(&n)
		return n == 0, err
	}); err != nil {
		return report, err
	}
	for _, s := range r.slots {
		if err := s.stop(); err != nil {
			return report, err
		}
	}
	report, err = r.judgeMails(context.WithoutCancel(ctx), server, keys)
	report.Seconds = elapsed().Seconds()
	return report, err
}

// mailID names the i-th message, and its recipient.
func mailID(i int) string { return fmt.Sprintf("m%05d", i) }

// postMails posts one event for each message, to the workers in turn.
func (r *run) postMails(ctx context.Context) error {
	for i := 0; i < r.Events; i += perBatch {
		var batch []client.Event
		for n := i; n < min(i+perBatch, r.Events); n++ {
			batch = append(batch, client.Event{
				ID: mailID(n), Kind: []string{"again", "once"}[n%2], Payload: map[string]any{"id": mailID(n), "long": long},
				Recipient: &client.Recipient{Address: mailID(n) + "@example.com", Locale: "en"},
			})
		}
		c, err := client.New(r.slots[i/perBatch%len(r.slots)].url, r.db.key)
		if err != nil {
			return err
		}
		if _, err := c.PostEvents(ctx, batch...); err != nil {
			return fmt.Errorf("post events: %w", err)
		}
	}
	return nil
}

// mailRow is an attempt with its delivery.
type mailRow struct{ id, status, outcome, failure string }

// judgeMails compares the attempts of every delivery, one by one, with what the server did.
func (r *run) judgeMails(ctx context.Context, server *mailServer, keys mailKeys) (report MailReport, err error) {
	const query = `SELECT d.address, d.status, a.outcome, a.reason || ': ' || a.error FROM delivery d JOIN attempt a ON a.ws = d.ws AND a.delivery_id = d.id
WHERE a.number > 0 ORDER BY d.id, a.number`
	all, err := rows(ctx, r.db.raw, query, func(rs *sql.Rows) (m mailRow, err error) {
		return m, rs.Scan(&m.id, &m.status, &m.outcome, &m.failure)
	})
	if err != nil {
		return report, err
	}
	report = MailReport{Mails: r.Events, Turns: map[string]int{}, Violations: []string{}}
	server.mu.Lock()
	defer server.mu.Unlock()
	report.Connections = len(server.conns)
	for _, refused := range server.conns {
		report.TurnedAway += b2i(refused)
	}
	if server.pipelined > 0 {
		report.violate("%d transactions had a second recipient", server.pipelined)
	}
	byMail, atHello := map[string][]mailRow{}, 0
	for _, row := range all {
		if strings.Contains(row.failure, "EHLO: ") {
			atHello++ // the server knows no recipient of it
			row.outcome = ""
		}
		byMail[row.id] = append(byMail[row.id], row)
	}
	if atHello != report.TurnedAway {
		report.violate("%d attempts say that they were turned away, and %d connections were", atHello, report.TurnedAway)
	}
	if len(byMail) != r.Events {
		report.violate("%d messages were tried of %d", len(byMail), r.Events)
	}
	for i := range r.Events {
		address := mailID(i) + "@example.com"
		box := server.boxes[address]
		if box == nil {
			box = &mailbox{}
		}
		report.compare(address, i%2 == 1, box, byMail[address])
		for _, raw := range box.mails {
			if err := checkMail(raw, mailID(i), keys.records); err != nil {
				report.violate("%s: %v", address, err)
			} else {
				report.Signed++
			}
		}
	}
	for address := range server.boxes {
		if len(byMail[address]) == 0 {
			report.violate("%s was written to and has no attempt", address)
		}
	}
	return report, nil
}

// compare holds the attempts of one message against the server's turns.
func (r *MailReport) compare(address string, once bool, box *mailbox, attempts []mailRow) {
	unknown, accepted, n := false, false, 0
	status := ""
	for _, a := range attempts {
		status = a.status
		if a.outcome == "" {
			continue // turned away before the server knew what for
		}
		r.Tries++
		if n == len(box.turns) {
			r.violate("%s: %d attempts, and the server saw %d: %s", address, len(attempts), len(box.turns), a.failure)
			return
		}
		t := box.turns[n]
		n++
		r.Turns[string(t)]++
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
		case later, laterDot, away, never, neverDot, dropped:
		}
		if a.outcome != want {
			r.violate("%s: the server's turn was %q and the attempt says %s: %s", address, t, a.outcome, a.failure)
		}
		if strings.Contains(a.failure, address) {
			r.violate("%s: an error repeats the address: %s", address, a.failure)
		}
		if once && unknown {
			r.violate("%s: something followed an unknown outcome although the channel holds", address)
		}
		unknown = unknown || want == "unknown"
	}
	if n != len(box.turns) {
		r.violate("%s: %d turns of the server, %d attempts", address, len(box.turns), n)
	}
	r.Copies += max(len(box.mails)-1, 0)
	want := "failed"
	switch {
	case accepted:
		want = "sent"
		r.Sent++
	case unknown:
		want = "unknown"
		r.Unknown++
	default:
		r.Failed++
	}
	if status != want {
		r.violate("%s is %s, and by the server's log %s (%v)", address, status, want, box.turns)
	}
}

// checkMail reads a mail as its receiver does: signature, headers and both texts.
func checkMail(raw []byte, id string, records map[string]string) error {
	found, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		selector, _, _ := strings.Cut(name, ".")
		return []string{records[selector]}, nil
	}})
	if err != nil || len(found) != 1 || found[0].Err != nil || found[0].Domain != "example.org" {
		return fmt.Errorf("signatures %+v: %w", found, err)
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
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var body io.Reader = quotedprintable.NewReader(part)
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
