package smtp_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/smtp"
	"github.com/carillonhq/carillon/internal/clock"
	"github.com/carillonhq/carillon/internal/outbound"
	"github.com/carillonhq/carillon/internal/reason"
)

var now = time.Date(2026, time.May, 14, 5, 12, 34, 0, time.UTC)

// server is a real mail server that keeps what it accepts.
type server struct {
	*gosmtp.Server
	address string
	roots   *x509.CertPool

	mu       sync.Mutex
	mails    []received
	sessions map[*gosmtp.Conn]bool
	resets   int
	rcpt     func(to string) error
	utf8     bool
}

type received struct {
	from, to string
	raw      []byte
}

// serve starts a server: with STARTTLS and a login, or with what change makes of it.
func serve(t *testing.T, change func(*server)) *server {
	t.Helper()
	cert, roots := certificate(t)
	s := &server{roots: roots, sessions: map[*gosmtp.Conn]bool{}}
	s.Server = gosmtp.NewServer(s)
	s.Domain, s.TLSConfig, s.ErrorLog = "mx.test", &tls.Config{Certificates: []tls.Certificate{cert}}, silent{}
	if change != nil {
		change(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { s.Close() })
	return s
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

func (s *server) NewSession(c *gosmtp.Conn) (gosmtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[c] = true // a connection with STARTTLS begins two
	return &visit{server: s}, nil
}

type visit struct {
	*server
	loggedIn bool
	now      received
}

func (v *visit) AuthMechanisms() []string { return []string{"PLAIN"} }

func (v *visit) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != "carillon" || password != "hunter2" {
			return &gosmtp.SMTPError{Code: 535, EnhancedCode: gosmtp.EnhancedCode{5, 7, 8}, Message: "no such login: " + username + " " + password}
		}
		v.loggedIn = true
		return nil
	}), nil
}

func (v *visit) Mail(from string, o *gosmtp.MailOptions) error {
	if !v.loggedIn {
		return gosmtp.ErrAuthRequired
	}
	v.now = received{from: from}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.utf8 = o.UTF8
	return nil
}

func (v *visit) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	v.now.to = to
	if v.rcpt != nil {
		return v.rcpt(to)
	}
	return nil
}

func (v *visit) Data(r io.Reader) (err error) {
	if v.now.raw, err = io.ReadAll(r); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mails = append(v.mails, v.now)
	return nil
}

func (v *visit) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.resets++
}

func (v *visit) Logout() error { return nil }

func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mx.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// open opens a channel to a server, with these settings beside the usual ones; an empty one is left out.
func open(t testing.TB, address string, roots *x509.CertPool, settings map[string]string) channel.Channel {
	t.Helper()
	ch, err := tryOpen(t, address, roots, settings)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func tryOpen(t testing.TB, address string, roots *x509.CertPool, settings map[string]string) (channel.Channel, error) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"host": host, "port": port, "username": "carillon", "password": "hunter2", "from": "Größe & Co <hello@example.org>",
	}
	maps.Copy(all, settings)
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	client := outbound.New(outbound.Options{Policy: outbound.Policy{Allow: outbound.Loopback()}})
	t.Cleanup(client.Close)
	ch, err := smtp.Provider(smtp.Options{Dial: client.Dial, Clock: clock.NewManual(now), Roots: roots}).Open(all)
	if err == nil {
		t.Cleanup(func() { ch.(io.Closer).Close() })
	}
	return ch, err
}

func outgoing() channel.Outgoing {
	return channel.Outgoing{
		DeliveryID: "d_1", IdempotencyKey: "key-1", Address: "alice@example.com", Subject: "Zähler für “Ålice” ist fällig",
		Text: "Hello,\n.\n\n..dots and a very long line: " + strings.Repeat("0123456789 ", 200) + "\nüber",
		HTML: "<p>Hello &amp; <b>über</b></p>\n" + strings.Repeat("x", 3000),
	}
}

// parsed is a mail as a receiver reads it.
type parsed struct {
	header     mail.Header
	subject    string
	text, html string
}

func parse(t testing.TB, raw []byte) parsed {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	p := parsed{header: m.Header}
	if p.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	keep := func(kind, encoding string, body io.Reader) {
		switch encoding {
		case "quoted-printable":
			body = quotedprintable.NewReader(body)
		case "base64":
			body = base64.NewDecoder(base64.StdEncoding, body)
		default:
			t.Fatalf("encoding %q", encoding)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), "\r\n", "\n")
		switch kind, params, err := mime.ParseMediaType(kind); {
		case err != nil || params["charset"] != "UTF-8":
			t.Fatalf("part %s %v: %v", kind, params, err)
		case kind == "text/plain":
			p.text = text
		case kind == "text/html":
			p.html = text
		}
	}
	if kind != "multipart/alternative" {
		keep(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
		return p
	}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		keep(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part)
	}
}

// Shows: C49.
func TestSend(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"starttls", "implicit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(s *server) {
				if how == "implicit" {
					s.address = "implicit"
				}
			})
			address := s.address
			if how == "implicit" {
				l, err := tls.Listen("tcp", "127.0.0.1:0", s.TLSConfig)
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = s.Serve(l) }()
				address = l.Addr().String()
			}
			ch := open(t, address, s.roots, map[string]string{"tls": how, "reply_to": "answers@example.org"})
			out := outgoing()
			out.Headers = map[string]string{"List-Unsubscribe": "<https://example.org/u/" + strings.Repeat("a", 200) + ">", "X-Team": "Ops  süd\n"}
			out.Metadata = map[string]string{"ward": "3 <b>", "campaign": "spring"}
			receipt, err := ch.Send(t.Context(), out)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.mails) != 1 {
				t.Fatalf("%d mails arrived", len(s.mails))
			}
			got := s.mails[0]
			if got.from != "hello@example.org" || got.to != "alice@example.com" {
				t.Errorf("envelope %q to %q", got.from, got.to)
			}
			p := parse(t, got.raw)
			if p.subject != out.Subject || p.text != out.Text || p.html != out.HTML {
				t.Errorf("it reads %q\n%s", p.subject, cmp.Diff(p.text+p.html, out.Text+out.HTML))
			}
			for name, want := range map[string]string{
				"From":                     "=?utf-8?b?R3LDtsOfZSAmIENv?= <hello@example.org>",
				"To":                       "<alice@example.com>",
				"Reply-To":                 "<answers@example.org>",
				"Date":                     "Thu, 14 May 2026 05:12:34 +0000",
				"Message-Id":               "<" + receipt.ProviderID + ">",
				"Auto-Submitted":           "auto-generated",
				"X-Auto-Response-Suppress": "All",
				"X-Carillon-Delivery":      "d_1",
				"X-Carillon-Metadata":      `{"campaign":"spring","ward":"3 \u003cb\u003e"}`,
				"List-Unsubscribe":         out.Headers["List-Unsubscribe"],
				"X-Team":                   "=?UTF-8?q?Ops_s=C3=BCd?=",
				"User-Agent":               "",
			} {
				if got := p.header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if len(receipt.ProviderID) != 32+len("@example.org") || !strings.HasSuffix(receipt.ProviderID, "@example.org") {
				t.Errorf("Message-ID %q", receipt.ProviderID)
			}
		})
	}
}

// The same step has the same Message-ID in every try, another one has another (P4).
func TestMessageID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ch := open(t, s.address, s.roots, nil)
	id := func(key string, attempt int) string {
		out := outgoing()
		out.IdempotencyKey, out.Attempt = key, attempt
		receipt, err := ch.Send(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ProviderID
	}
	first := id("a", 1)
	if again := id("a", 2); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if other := id("b", 1); other == first {
		t.Errorf("two messages are %s", other)
	}
	if len(s.sessions) != 1 {
		t.Errorf("three mails took %d connections", len(s.sessions))
	}
}

func TestDKIM(t *testing.T) {
	t.Parallel()
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]any{"rsa": long, "ed25519": edwards} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			record := "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(edwards.Public().(ed25519.PublicKey))
			if name == "rsa" {
				spki, err := x509.MarshalPKIXPublicKey(long.Public())
				if err != nil {
					t.Fatal(err)
				}
				record = "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(spki)
			}
			s := serve(t, nil)
			ch := open(t, s.address, s.roots, map[string]string{
				"dkim_domain": "example.org", "dkim_selector": "mail",
				"dkim_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
			})
			out := outgoing()
			out.Headers = map[string]string{"List-Unsubscribe": "<https://example.org/u>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
			if _, err := ch.Send(t.Context(), out); err != nil {
				t.Fatal(err)
			}
			raw := string(s.mails[0].raw)
			verify := func(raw string) error {
				found, err := dkim.VerifyWithOptions(strings.NewReader(raw), &dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
					if name != "mail._domainkey.example.org" {
						t.Errorf("looked up %s", name)
					}
					return []string{record}, nil
				}})
				if err != nil || len(found) != 1 {
					t.Fatalf("%d signatures, error %v", len(found), err)
				}
				for _, must := range []string{"List-Unsubscribe", "List-Unsubscribe-Post", "Mime-Version", "Content-Type", "Date"} {
					if !strings.Contains(strings.Join(found[0].HeaderKeys, ":"), must) {
						t.Errorf("%s is not signed, only %v", must, found[0].HeaderKeys)
					}
				}
				return found[0].Err
			}
			if err := verify(raw); err != nil {
				t.Error(err)
			}
			for what, forged := range map[string]string{
				"body":          strings.Replace(raw, "dots", "dolts", 1),
				"unsubscribe":   strings.Replace(raw, "example.org/u>", "evil.example/u>", 1),
				"second from":   "From: <ceo@example.org>\r\n" + raw,
				"added replies": "Reply-To: <evil@example.org>\r\n" + raw,
			} {
				if verify(forged) == nil {
					t.Errorf("a forged mail passes: %s", what)
				}
			}
		})
	}
}

// No mail leaves over a connection that is not what the settings say.
func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		change   func(*server)
		settings map[string]string
		trust    bool
		want     string
	}{
		{"unknown certificate", nil, nil, false, "STARTTLS: tls: failed to verify certificate"},
		{"no STARTTLS", func(s *server) { s.TLSConfig = nil; s.AllowInsecureAuth = true }, nil, true, "does not offer STARTTLS"},
		{"wrong password", nil, map[string]string{"password": "secret-9"}, true, "AUTH: the server answered 535"},
		{"no such login", nil, map[string]string{"auth": "cram-md5"}, true, "AUTH: the server offers no way to log in"},
		{"login missing", nil, map[string]string{"username": "", "password": ""}, true, "MAIL: the server answered 502"},
		{"forbidden address", nil, map[string]string{"host": "169.254.169.254"}, true, "connect: 169.254.169.254 is not allowed"},
		{"nobody listens", nil, map[string]string{"port": "1"}, true, "connect: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.change)
			roots := x509.NewCertPool()
			if tt.trust {
				roots = s.roots
			}
			_, err := open(t, s.address, roots, tt.settings).Send(t.Context(), outgoing())
			var refused *channel.SendError
			if !errors.As(err, &refused) || refused.Reason != reason.TemporaryError || !refused.Retry || refused.Unknown {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want %q in it", err, tt.want)
			}
			for _, secret := range []string{"hunter2", "secret-9"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q repeats a secret", err)
				}
			}
			if len(s.mails) > 0 {
				t.Error("a mail arrived")
			}
		})
	}
}

// A connection that was refused one mail carries the next; ten at most are open at once.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *server) {
		s.rcpt = func(to string) error {
			if strings.HasPrefix(to, "nobody") {
				return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "<Nobody@Example.com>: no such user\x07"}
			}
			return nil
		}
	})
	ch := open(t, s.address, s.roots, nil)
	refused, good := outgoing(), outgoing()
	refused.Address = "nobody@example.com"
	_, err := ch.Send(t.Context(), refused)
	if want := "permanent_error: RCPT: the server answered 550 5.1.1 <***>: no such user"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := ch.Send(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	if len(s.sessions) != 1 {
		t.Errorf("two mails took %d connections", len(s.sessions))
	}
	var senders sync.WaitGroup
	for range 64 {
		senders.Go(func() {
			if _, err := ch.Send(context.Background(), good); err != nil {
				t.Error(err)
			}
		})
	}
	senders.Wait()
	if len(s.sessions) > 10 || len(s.mails) != 65 {
		t.Errorf("%d mails over %d connections", len(s.mails), len(s.sessions))
	}
}
