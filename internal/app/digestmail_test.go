package app_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-smtp"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/clock"
)

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	mu    sync.Mutex
	mails [][]byte
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &letter{box: m}, nil }

type letter struct{ box *mailbox }

func (*letter) Mail(string, *smtp.MailOptions) error { return nil }
func (*letter) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (*letter) Reset()                               {}
func (*letter) Logout() error                        { return nil }

func (l *letter) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	l.box.mu.Lock()
	defer l.box.mu.Unlock()
	l.box.mails = append(l.box.mails, raw)
	return err
}

// taken returns the mails since the last call.
func (m *mailbox) taken() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	mails := m.mails
	m.mails = nil
	return mails
}

// verifyApart has dkimpy verify the signatures of a mail, which shares no code with what signs it here. record is the public key's, as DNS has it.
func verifyApart(t *testing.T, raw []byte, record string) {
	t.Helper()
	const script = "import sys, dkim; sys.exit(0 if dkim.verify(sys.stdin.buffer.read(), dnsfunc=lambda *name, **more: sys.argv[1].encode()) else 1)"
	python := "/usr/bin/python3" // Debian's, where another one may stand before it
	if _, err := os.Stat(python); err != nil {
		python = "python3"
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import dkim, nacl").CombinedOutput(); err != nil {
		t.Fatalf("dkimpy verifies the mail: install Debian's python3-dkim and python3-nacl, or dkimpy and PyNaCl of another source: %v\n%s", err, out)
	}
	for name, tt := range map[string]struct {
		mail  []byte
		valid bool
	}{
		"as it came":        {raw, true},
		"another link":      {bytes.Replace(raw, []byte("/u/"), []byte("/v/"), 1), false},
		"another one-click": {bytes.Replace(raw, []byte("One-Click"), []byte("Two-Click"), 1), false},
	} {
		verify := exec.CommandContext(t.Context(), python, "-c", script, record)
		verify.Stdin = bytes.NewReader(tt.mail)
		out, err := verify.CombinedOutput()
		var refused *exec.ExitError
		if err != nil && (!errors.As(err, &refused) || len(out) > 0) {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		if (err == nil) != tt.valid {
			t.Errorf("%s: dkimpy finds the mail valid: %v", name, err == nil)
		}
	}
}

const aDigest = `
workspace: default
base_url: %[1]s
cadence: {max_per_day: 0}
---
workflow: news
type: digest
triggers:
  - id: daily
    schedule: {every: 1d, at: "08:30", period: 1d, period_end: "08:00"}
    audience: {topics: all, frequency: daily}
channel: email
message:
  email:
    subject: Your daily update
    text: "{%% for s in digest.sections %%}{{ s.topic.title }}: {%% for i in s.items %%}{{ i.title }} {%% endfor %%}{{ s.unsubscribe_link }}\n{%% endfor %%}"
    html: "{%% for s in digest.sections %%}<h2>{{ s.topic.title }}</h2>{%% for i in s.items %%}<p>{{ i.title }}</p>{%% endfor %%}{%% endfor %%}"
---
topic: tax
title: Tax & customs
---
topic: visas
title: Visas
---
channel: email
provider: smtp
settings:
  host: 127.0.0.1
  port: "%[2]s"
  tls: none
  from: News <news@example.org>
  dkim_domain: example.org
  dkim_selector: mail
  dkim_key: {file: %[3]q}
`

// A digest as a mail server gets it: its headers offer to unsubscribe by one click (RFC 8058), its signature covers them, and the click of a mail program ends
// what the digest serves.
//
// Shows: E1, E15.
func TestDigestByMail(t *testing.T) {
	t.Parallel()
	box := &mailbox{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mx := smtp.NewServer(box)
	mx.Domain = "mx.test"
	go func() { _ = mx.Serve(listener) }()
	t.Cleanup(func() { _ = mx.Close() })
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "dkim.pem")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := server(filepath.Join(t.TempDir(), "carillon.db"))
	settings.Work = false
	at := clock.NewManual(time.Date(2026, 5, 14, 10, 0, 0, 0, time.UTC))
	a := start(t, app.Config{Server: settings, Clock: at})
	c := admin(t, a)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), []client.File{{Name: "a.yaml", Text: fmt.Sprintf(aDigest, a.URL(), port, keyFile)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PostContacts(t.Context(), client.ContactInput{ID: "ann", Addresses: map[string]string{"email": "ann@example.org"}}); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"tax", "visas"} {
		if _, err := c.Subscribe(t.Context(), client.SubscriptionInput{Contact: "ann", Topic: topic, Frequency: "daily"}); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(id, title string, topics ...string) {
		t.Helper()
		if _, err := c.Publish(t.Context(), map[string]any{"id": id, "title": title, "topics": topics}); err != nil {
			t.Fatal(err)
		}
	}
	tick := func(now time.Time) {
		t.Helper()
		at.Set(now)
		for range 6 {
			if _, err := c.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("1", "Rates <2026>", "tax")
	publish("2", "Work visas", "visas")
	tick(at.Now())
	tick(time.Date(2026, 5, 15, 8, 30, 0, 0, time.UTC))
	mails := box.taken()
	if len(mails) != 1 {
		t.Fatalf("%d mails", len(mails))
	}
	m, err := mail.ReadMessage(bytes.NewReader(mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"List-Unsubscribe-Post": "List-Unsubscribe=One-Click", "List-Id": "<daily.news.127.0.0.1>", "Subject": "Your daily update"} {
		if got := m.Header[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q", name, got)
		}
	}
	offers := m.Header["List-Unsubscribe"]
	if len(offers) != 1 || !strings.HasPrefix(offers[0], "<"+a.URL()+"/u/") {
		t.Fatalf("List-Unsubscribe is %q", offers)
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"multipart/alternative", "<h2>Tax &amp; customs</h2>", "<p>Rates &lt;2026&gt;</p>", "Tax & customs: Rates <2026>", "Visas: Work visas"} {
		if !strings.Contains(m.Header.Get("Content-Type")+strings.ReplaceAll(strings.ReplaceAll(string(body), "=\r\n", ""), "=3D", "="), part) {
			t.Errorf("there is no %q in\n%s", part, mails[0])
		}
	}
	record := "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)
	verifyApart(t, mails[0], record)
	signed, err := dkim.VerifyWithOptions(bytes.NewReader(mails[0]), &dkim.VerifyOptions{LookupTXT: func(string) ([]string, error) { return []string{record}, nil }})
	if err != nil || len(signed) != 1 || signed[0].Err != nil {
		t.Fatalf("%+v %v", signed, err)
	}
	for _, name := range []string{"List-Unsubscribe", "List-Unsubscribe-Post", "List-Id"} {
		if !slices.ContainsFunc(signed[0].HeaderKeys, func(key string) bool { return strings.EqualFold(key, name) }) {
			t.Errorf("%s is not signed: %q", name, signed[0].HeaderKeys)
		}
	}

	// The click of a mail program: no cookie, no referrer, no browser.
	link := strings.Trim(offers[0], "<>")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, link, strings.NewReader("List-Unsubscribe=One-Click"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the click is answered %d", answer.StatusCode)
	}
	publish("3", "Allowances", "tax")
	tick(time.Date(2026, 5, 15, 12, 0, 0, 0, time.UTC))
	tick(time.Date(2026, 5, 16, 8, 30, 0, 0, time.UTC))
	if mails := box.taken(); len(mails) != 0 {
		t.Errorf("after the click there came\n%s", mails[0])
	}
}
