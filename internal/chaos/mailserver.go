package chaos

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"hash/fnv"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// What the mail server does with a try of a mail beside what every provider does: those refuse a recipient.
const (
	laterDot mood = "later dot" // 451 to the final dot
	away     mood = "away"      // 421 to RCPT
	neverDot mood = "never dot" // 554 to the final dot
	cut      mood = "cut"       // the connection is closed in the middle of the mail
)

// mailMoods are how often the server does what, in percent.
func mailMoods() moods {
	return moods{{takenLost, 7}, {slowly, 5}, {later, 10}, {laterDot, 5}, {away, 4}, {never, 4}, {neverDot, 3}, {dropped, 5}, {cut, 4}}
}

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
	turns []mood   // one for each try
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
	s.Domain, s.TLSConfig = "mx.test", &tls.Config{Certificates: []tls.Certificate{cert}}
	s.ErrorLog = log.New(io.Discard, "", 0) // it would speak of connections that it broke itself
	go func() { _ = s.Serve(l) }()          // ends with Close
	return s, nil
}

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
	turn   mood
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
	default:
	}
	return nil
}

// draw is the same for the same recipient and try in every run of a seed.
func (s *mailServer) draw(to string, try int) mood {
	h := fnv.New64a()
	_, _ = io.WriteString(h, to)
	return mailMoods().draw(mathrand.New(mathrand.NewPCG(s.seed+uint64(try), h.Sum64())))
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
	default:
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

// newMailKeys makes what a run needs of cryptography. It returns the server's certificate and the public keys of DKIM as
// the DNS has them, by selector. The certificate, as roots.pem, and the private keys are files in dir.
func newMailKeys(dir string) (cert tls.Certificate, records map[string]string, err error) {
	server := httptest.NewTLSServer(nil)
	server.Close()
	cert = server.TLS.Certificates[0]
	short := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	records = map[string]string{
		"rsa":     "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(must(x509.MarshalPKIXPublicKey(server.Certificate().PublicKey))),
		"ed25519": "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(short.Public().(ed25519.PublicKey)),
	}
	write := func(name, kind string, der []byte) error {
		return os.WriteFile(filepath.Join(dir, name+".pem"), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return cert, records, errors.Join(
		write("roots", "CERTIFICATE", server.Certificate().Raw),
		write("rsa", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(cert.PrivateKey))),
		write("ed25519", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(short))))
}
