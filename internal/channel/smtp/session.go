package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

var (
	errTalks   = errors.New("the server says more than a server says")
	errNoTLS   = errors.New("the server does not offer STARTTLS, and tls is not none")
	errNoUTF8  = errors.New("the server does not take addresses in other scripts (SMTPUTF8)")
	errNoAuth  = errors.New("the server offers no way to log in that the setting auth allows")
	errSwallow = errors.New("the connection broke before the whole mail was with the server")
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// wire is the connection below TLS. It bounds what the other side says and knows whether a write failed.
type wire struct {
	net.Conn
	left   atomic.Int64 // bytes that may still be read
	failed atomic.Bool  // a write was not taken whole
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.left.Add(-int64(n)) < 0 {
		return 0, errTalks
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.failed.Store(true)
	}
	return n, err
}

// until makes reads and writes fail when ctx ends. stop says whether that can no longer happen.
func (w *wire) until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = w.SetDeadline(past) })
}

// dialer opens sessions.
type dialer struct {
	settings
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	tls  *tls.Config
}

// open connects, encrypts and logs in.
func (d *dialer) open(ctx context.Context) (*session, error) {
	raw, err := d.dial(ctx, "tcp", net.JoinHostPort(d.host, d.port))
	if err != nil {
		return nil, &phaseError{phase: "connect", err: causeOr(ctx, err)}
	}
	w := &wire{Conn: raw}
	w.left.Store(maxReplies)
	stop := w.until(ctx)
	s, phase, err := d.greet(ctx, w)
	if err == nil && !stop() {
		phase, err = "connect", context.Cause(ctx)
	}
	if err != nil {
		_ = raw.Close()
		return nil, &phaseError{phase: phase, err: causeOr(ctx, err)}
	}
	return s, nil
}

// greet speaks up to where a mail could follow, and says how far it came.
func (d *dialer) greet(ctx context.Context, w *wire) (s *session, phase string, err error) {
	var conn net.Conn = w
	if d.settings.tls == implicit {
		secure := tls.Client(w, d.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, "TLS", err
		}
		conn = secure
	}
	client, err := smtp.NewClient(conn, d.host)
	if err != nil {
		return nil, "greeting", err
	}
	if err := client.Hello(d.helo); err != nil {
		return nil, "EHLO", err
	}
	if d.settings.tls == startTLS {
		if ok, _ := client.Extension("STARTTLS"); !ok {
			return nil, "STARTTLS", errNoTLS
		}
		if err := client.StartTLS(d.tls); err != nil {
			return nil, "STARTTLS", err
		}
	}
	if d.username != "" {
		auth, err := d.login(client)
		if err != nil {
			return nil, "AUTH", err
		}
		if err := client.Auth(auth); err != nil {
			return nil, "AUTH", err
		}
	}
	return &session{client: client, wire: w}, "", nil
}

// login chooses how to log in. There is TLS by now: settings without it have no username.
func (d *dialer) login(client *smtp.Client) (smtp.Auth, error) {
	_, list := client.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(list))
	for _, m := range []struct {
		name string
		make func() smtp.Auth
	}{
		{"plain", func() smtp.Auth { return smtp.PlainAuth("", d.username, d.password, d.host, false) }},
		{"login", func() smtp.Auth { return smtp.LoginAuth(d.username, d.password, d.host, false) }},
		{"scram-sha-256", func() smtp.Auth { return smtp.ScramSHA256Auth(d.username, d.password) }},
		{"cram-md5", func() smtp.Auth { return smtp.CRAMMD5Auth(d.username, d.password) }},
	} {
		wanted := d.auth == m.name || d.auth == "" || d.auth == "auto"
		if wanted && slices.Contains(offered, strings.ToUpper(m.name)) {
			return m.make(), nil
		}
	}
	return nil, errNoAuth
}

// session is one connection.
type session struct {
	client    *smtp.Client
	wire      *wire
	kept      bool      // it has waited in the pool, and may have died there
	idleSince time.Time // since when it waits
	begun     bool      // the server has taken MAIL: a mail is on its way
	dead      bool      // it can carry no further mail
	data      io.WriteCloser
}

// begin speaks MAIL, RCPT, DATA and the mail, up to the final dot.
func (s *session) begin(ctx context.Context, m mail) error {
	s.begun, s.data = false, nil
	s.wire.left.Store(maxReplies)
	stop := s.wire.until(ctx)
	phase, err := s.speak(m)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	failed := &phaseError{phase: phase, err: causeOr(ctx, err)}
	s.dead = s.dead || failed.reply() == nil || failed.reply().Code == closing || s.data != nil
	if !s.dead {
		s.reset(ctx)
	}
	return failed
}

func (s *session) speak(m mail) (phase string, err error) {
	if m.utf8 {
		if ok, _ := s.client.Extension("SMTPUTF8"); !ok {
			return "MAIL", errNoUTF8
		}
	}
	s.client.SkipSMTPUTF8(!m.utf8)
	if err := s.client.Mail("<" + m.from + ">"); err != nil {
		return "MAIL", err
	}
	s.begun = true
	if err := s.client.Rcpt("<" + m.to + ">"); err != nil {
		return "RCPT", err
	}
	if s.data, err = s.client.Data(); err != nil {
		return "DATA", err
	}
	if _, err := s.data.Write(m.data); err != nil {
		return "DATA", err
	}
	// All but the dot: a connection that breaks until here has certainly not delivered.
	return "DATA", s.client.Text.W.Flush()
}

// reset takes back a mail that was refused, so that the connection can carry the next.
func (s *session) reset(ctx context.Context) {
	stop := s.wire.until(ctx)
	err := s.client.Reset()
	s.dead = !stop() || err != nil
}

// finish sends the final dot and waits for the answer. From here on a failure without an answer is unknown.
func (s *session) finish(ctx context.Context) error {
	stop := s.wire.until(ctx)
	err := s.data.Close()
	inTime := stop()
	if err == nil {
		s.dead = !inTime
		return nil
	}
	failed := &phaseError{phase: "final dot", handed: true, err: causeOr(ctx, err)}
	if s.wire.failed.Load() {
		failed = &phaseError{phase: "DATA", err: errSwallow} // the dot itself did not leave
	}
	s.dead = !inTime || failed.reply() == nil || failed.reply().Code == closing
	return failed
}

// close ends the connection; goodbye says so first.
func (s *session) close(goodbye bool) {
	if goodbye && !s.dead {
		_, _ = s.client.Text.Cmd("QUIT") // nobody waits for the answer
	}
	_ = s.client.Close()
}

// drop ends a connection that was found dead.
func (s *session) drop() { s.close(false) }

// causeOr prefers why ctx ended to what that did to the connection.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
