package chaos

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"hash/fnv"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/carillonhq/carillon/internal/clock"
)

// turn is what the mail server did with one try of one mail.
type turn string

const (
	taken     turn = "taken"      // 250
	takenLost turn = "taken lost" // accepted, and the connection closed instead of answered
	slowly    turn = "slowly"     // 250, late
	later     turn = "later"      // 451 to RCPT
	laterDot  turn = "later dot"  // 451 to the final dot
	away      turn = "away"       // 421 to RCPT
	never     turn = "never"      // 550 to RCPT
	neverDot  turn = "never dot"  // 554 to the final dot
	dropped   turn = "dropped"    // the connection is closed instead of answering RCPT
	cut       turn = "cut"        // the connection is closed in the middle of the mail
)

// turns are how often the server does what, in percent; the rest is taken.
var turns = []struct {
	turn  turn
	share int
}{{takenLost, 7}, {slowly, 5}, {later, 10}, {laterDot, 5}, {away, 4}, {never, 4}, {neverDot, 3}, {dropped, 5}, {cut, 4}}

const (
	// turnedAway is the share of connections that are refused with 421 at EHLO, in percent.
	turnedAway = 5
	// mailSlowest is longer than a beat of the engine and shorter than its patience.
	mailSlowest = 300 * time.Millisecond
	mailLogin   = "carillon"
	mailSecret  = "p4ss word"
)

// mailbox is the server's log of one recipient. Every message of a run has a recipient of its own.
type mailbox struct {
	turns []turn
	mails [][]byte // what was accepted
}

// mailServer is a real mail server in a bad mood, drawn from the recipient and the number of the try.
type mailServer struct {
	*smtp.Server
	address string
	seed    uint64

	mu        sync.Mutex
	chance    *mathrand.Rand
	boxes     map[string]*mailbox
	conns     map[*smtp.Conn]bool // and whether they were turned away
	pipelined int                 // a second MAIL or RCPT in one transaction
}

func newMailServer(seed uint64, cert tls.Certificate) (*mailServer, error) {
	s := &mailServer{
		seed: seed, chance: mathrand.New(mathrand.NewPCG(seed, 3)), boxes: map[string]*mailbox{}, conns: map[*smtp.Conn]bool{},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.address = l.Addr().String()
	s.Server = smtp.NewServer(s)
	s.Domain, s.TLSConfig, s.ErrorLog = "mx.test", &tls.Config{Certificates: []tls.Certificate{cert}}, quiet{}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}

// quiet drops what the server says of connections that it broke itself.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// NewSession is called for every EHLO.
func (s *mailServer) NewSession(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.conns[c]; !known {
		s.conns[c] = s.chance.IntN(100) < turnedAway
	}
	if s.conns[c] {
		return nil, &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "too many of you"}
	}
	return &mailSession{server: s, conn: c}, nil
}

// mailSession is one connection after its EHLO.
type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	login  bool
	to     string
	turn   turn
}

// AuthMechanisms is what the server offers; only over TLS.
func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth logs in.
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != mailLogin || password != mailSecret {
			return smtp.ErrAuthFailed
		}
		s.login = true
		return nil
	}), nil
}

// Mail begins a transaction.
func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.login {
		return smtp.ErrAuthRequired
	}
	s.to = ""
	return nil
}

// Rcpt draws what is to become of this try.
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	if s.to != "" {
		s.server.pipelined++
	}
	box := s.server.boxes[to]
	if box == nil {
		box = &mailbox{}
		s.server.boxes[to] = box
	}
	s.to, s.turn = to, s.server.draw(to, len(box.turns))
	box.turns = append(box.turns, s.turn)
	s.server.mu.Unlock()
	switch s.turn {
	case later:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted,\n  <" + to + ">"}
	case away:
		return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "going down"}
	case never:
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "<" + to + ">: no such user"}
	case dropped:
		return errors.Join(smtp.ErrDataReset, s.conn.Conn().Close())
	case taken, takenLost, slowly, laterDot, neverDot, cut:
	}
	return nil
}

// draw is the same for the same recipient and try in every run of a seed.
func (s *mailServer) draw(to string, try int) turn {
	h := fnv.New64a()
	_, _ = io.WriteString(h, to)
	n := mathrand.New(mathrand.NewPCG(s.seed+uint64(try), h.Sum64())).IntN(100)
	for _, t := range turns {
		if n -= t.share; n < 0 {
			return t.turn
		}
	}
	return taken
}

// Data reads the mail and does what was drawn.
func (s *mailSession) Data(r io.Reader) error {
	if s.turn == cut {
		if _, err := io.CopyN(io.Discard, r, 100); err != nil {
			return err
		}
		return errors.Join(smtp.ErrDataReset, s.conn.Conn().Close())
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	switch s.turn {
	case laterDot:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "disk is full"}
	case neverDot:
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "this looks like spam"}
	case slowly:
		timer := time.NewTimer(mailSlowest)
		<-timer.C
	case taken, takenLost, later, away, never, dropped, cut:
	}
	s.server.mu.Lock()
	s.server.boxes[s.to].mails = append(s.server.boxes[s.to].mails, raw)
	s.server.mu.Unlock()
	if s.turn == takenLost {
		return errors.Join(smtp.ErrDataReset, s.conn.Conn().Close())
	}
	return nil
}

// Reset ends a transaction.
func (s *mailSession) Reset() { s.to = "" }

// Logout ends the connection.
func (s *mailSession) Logout() error { return nil }

// mailKeys are what a run needs of cryptography: a certificate that workers trust by a file, and keys to sign with.
type mailKeys struct {
	cert    tls.Certificate
	roots   string            // file
	private map[string]string // files by selector
	records map[string]string // of the DNS, by selector
}

func newMailKeys(dir string) (k mailKeys, err error) {
	k.private, k.records = map[string]string{}, map[string]string{}
	server, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return k, err
	}
	now := (&clock.System{}).Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, server.Public(), server)
	if err != nil {
		return k, err
	}
	k.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: server}
	k.roots = filepath.Join(dir, "roots.pem")
	if err := writePEM(k.roots, "CERTIFICATE", der); err != nil {
		return k, err
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return k, err
	}
	public, short, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k, err
	}
	spki, err := x509.MarshalPKIXPublicKey(long.Public())
	if err != nil {
		return k, err
	}
	k.records["rsa"] = "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(spki)
	k.records["ed25519"] = "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(public)
	for name, key := range map[string]crypto.Signer{"rsa": long, "ed25519": short} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return k, err
		}
		k.private[name] = filepath.Join(dir, name+".pem")
		if err := writePEM(k.private[name], "PRIVATE KEY", der); err != nil {
			return k, err
		}
	}
	return k, nil
}

func writePEM(name, kind string, der []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
