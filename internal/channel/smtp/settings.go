package smtp

import (
	"crypto"
	"crypto/rsa"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/callback"
	"github.com/carillonhq/carillon/internal/message"
)

// The values of the setting tls.
const (
	startTLS = "starttls"
	implicit = "implicit"
	noTLS    = "none"
)

// minRSA is the shortest key that receivers accept, in bits (RFC 8301).
const minRSA = 1024

// settings are what a channel's definition says.
type settings struct {
	host, port         string
	tls                string
	username, password string
	auth               string
	helo               string
	from               message.Mailbox
	replyTo            message.Mailbox // zero: none
	sign               *signer         // nil: mails are not signed here
}

func settingList() []channel.Setting {
	return append([]channel.Setting{
		{Name: "host", Required: true, Doc: "The mail server's name."},
		{Name: "port", Doc: "Default: 587, with `tls: implicit` 465, with `tls: none` 25."},
		{Name: "tls", Doc: "`starttls` (required of the server), `implicit` (from the first byte on) or `none`. Default: starttls."},
		{Name: "username", Doc: "Whom to log in as. Never without TLS."},
		{Name: "password", Secret: true, Doc: "Needed with `username`."},
		{Name: "auth", Doc: "`auto`, `plain`, `login`, `scram-sha-256` or `cram-md5`. Default: auto, the first of these that the server has."},
		{Name: "from", Required: true, Free: true, Doc: "The sender, such as Support <support@example.org>, where a message names none; also whom bounces go to."},
		{Name: "reply_to", Free: true, Doc: "Where answers go, where a message does not say it."},
		{Name: "helo", Free: true, Doc: "The name by which this client introduces itself. Default: the domain of `from`."},
		{Name: "dkim_domain", Doc: "Signs every mail for this domain (DKIM); needs the next two."},
		{Name: "dkim_selector", Doc: "Names the public key in DNS: SELECTOR._domainkey.DOMAIN."},
		{Name: "dkim_key", Secret: true, Doc: "The private key, RSA or Ed25519, as PEM."},
	}, callback.Settings()...)
}

// parse reads settings. When definitions are checked, secrets and what comes from the environment are empty and only
// settings that are present are checked; complete is for opening. Errors name the setting and never repeat a value.
func parse(given map[string]string, complete bool) (settings, error) {
	s := settings{
		host: given["host"], port: given["port"], tls: given["tls"], username: given["username"], password: given["password"],
		auth: given["auth"], helo: given["helo"],
	}
	has := func(name string) bool { _, ok := given[name]; return ok }
	if err := s.server(); err != nil {
		return s, err
	}
	switch {
	case complete && s.host == "":
		return s, wrong("host", "must be the name of the mail server")
	case complete && given["from"] == "":
		return s, wrong("from", "must be the sender's address")
	case !slices.Contains([]string{"", "auto", "plain", "login", "scram-sha-256", "cram-md5"}, s.auth):
		return s, wrong("auth", "must be auto, plain, login, scram-sha-256 or cram-md5")
	case has("username") != has("password") && (complete || has("username")):
		return s, wrong("password", "username and password go together")
	case has("username") && s.tls == noTLS:
		return s, wrong("tls", "without TLS a password would be readable on its way; write starttls or implicit")
	case has("auth") && !has("username"):
		return s, wrong("auth", "needs username and password")
	}
	if err := s.sender(given); err != nil {
		return s, err
	}
	return s, s.dkim(given, complete)
}

// server reads where the server is and how it is reached.
func (s *settings) server() error {
	switch s.tls {
	case "":
		s.tls = startTLS
	case startTLS, implicit, noTLS:
	default:
		return wrong("tls", "must be starttls, implicit or none")
	}
	if strings.ContainsAny(s.host, "/@ \t\r\n\x00") || strings.Contains(s.host, ":") && net.ParseIP(s.host) == nil {
		return wrong("host", "must be the name of a host alone; the port is a setting of its own")
	}
	if s.port == "" {
		s.port = map[string]string{startTLS: "587", implicit: "465", noTLS: "25"}[s.tls]
	}
	if n, err := strconv.ParseUint(s.port, 10, 16); err != nil || n == 0 {
		return wrong("port", "must be a number from 1 to 65535")
	}
	return nil
}

// sender reads who sends.
func (s *settings) sender(given map[string]string) (err error) {
	for _, box := range []struct {
		name string
		into *message.Mailbox
	}{{"from", &s.from}, {"reply_to", &s.replyTo}} {
		if given[box.name] == "" {
			continue
		}
		if *box.into, err = message.ParseMailbox(given[box.name]); err != nil {
			return &channel.SettingError{Setting: box.name, Err: err}
		}
		if _, err := asciiDomain(box.into.Domain); err != nil {
			return &channel.SettingError{Setting: box.name, Err: err}
		}
	}
	if s.helo == "" {
		s.helo, err = asciiDomain(s.from.Domain)
	} else if s.helo, err = asciiDomain(s.helo); err != nil {
		err = &channel.SettingError{Setting: "helo", Err: err}
	}
	return err
}

// dkim reads how mails are signed.
func (s *settings) dkim(given map[string]string, complete bool) error {
	names := []string{"dkim_domain", "dkim_selector", "dkim_key"}
	n := 0
	for _, name := range names {
		if _, ok := given[name]; ok {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if n < len(names) {
		return wrong("dkim_key", "%s go together", strings.Join(names, ", "))
	}
	domain, selector := given["dkim_domain"], given["dkim_selector"]
	if domain != "" {
		var err error
		if domain, err = asciiDomain(domain); err != nil {
			return &channel.SettingError{Setting: "dkim_domain", Err: err}
		}
	}
	if _, err := asciiDomain(selector); selector != "" && err != nil {
		return wrong("dkim_selector", "must be a name such as mail2026")
	}
	if !complete && given["dkim_key"] == "" {
		return nil
	}
	key, err := gomail.PrivKeyFromPEM([]byte(given["dkim_key"]))
	if err != nil {
		return wrong("dkim_key", "must be an RSA or Ed25519 private key as PEM (PKCS #1 or #8)")
	}
	if err := longEnough(key); err != nil {
		return err
	}
	s.sign = &signer{domain: domain, selector: selector, key: key}
	return nil
}

func longEnough(key crypto.Signer) error {
	if k, ok := key.(*rsa.PrivateKey); ok && k.N.BitLen() < minRSA {
		return wrong("dkim_key", "an RSA key needs %d bits, better 2048", minRSA)
	}
	return nil
}

func wrong(setting, format string, args ...any) error {
	return &channel.SettingError{Setting: setting, Err: fmt.Errorf(format, args...)}
}
