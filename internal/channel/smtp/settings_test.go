package smtp_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/smtp"
)

// A mistake in what is written literally is found when definitions are checked, and is named without its value.
func TestCheck(t *testing.T) {
	t.Parallel()
	provider := smtp.Provider(smtp.Options{})
	names := map[string]bool{}
	for _, s := range provider.Settings {
		names[s.Name] = true
	}
	for _, tt := range []struct {
		name     string
		settings map[string]string // "" = kept elsewhere
		setting  string            // that the error names; empty: it is good
	}{
		{"least", nil, ""},
		{"everything", map[string]string{
			"port": "2525", "tls": "implicit", "username": "u", "password": "", "auth": "login", "helo": "mail.example.org",
			"reply_to": "Desk <desk@bücher.example>", "dkim_domain": "example.org", "dkim_selector": "s1.mail", "dkim_key": "",
		}, ""},
		{"signed", map[string]string{"dkim_domain": "bücher.example", "dkim_selector": "mail2026", "dkim_key": ""}, ""},
		{"all from the environment", map[string]string{"host": "", "from": "", "username": "", "password": ""}, ""},
		{"relay", map[string]string{"tls": "none"}, ""},
		{"port", map[string]string{"port": "0"}, "port"},
		{"port as text", map[string]string{"port": "secret-smtp"}, "port"},
		{"tls", map[string]string{"tls": "secret-yes"}, "tls"},
		{"host with port", map[string]string{"host": "secret.example:25"}, "host"},
		{"host of the web", map[string]string{"host": "smtp://secret.example"}, "host"},
		{"host with a line break", map[string]string{"host": "secret\r\nX"}, "host"},
		{"login in the clear", map[string]string{"tls": "none", "username": "secret", "password": ""}, "tls"},
		{"login without password", map[string]string{"username": "secret"}, "password"},
		{"auth", map[string]string{"username": "u", "password": "", "auth": "secret-ntlm"}, "auth"},
		{"auth without login", map[string]string{"auth": "plain"}, "auth"},
		{"from", map[string]string{"from": "secret"}, "from"},
		{"from with a quoted part", map[string]string{"from": `"secret x"@example.org`}, "from"},
		{"reply_to", map[string]string{"reply_to": "secret@exa mple.org"}, "reply_to"},
		{"helo", map[string]string{"helo": "secret host"}, "helo"},
		{"helo with a command", map[string]string{"helo": "a\r\nMAIL FROM:<secret@x>"}, "helo"},
		{"half of DKIM", map[string]string{"dkim_domain": "secret.example"}, "dkim_key"},
		{"domain of DKIM", map[string]string{"dkim_domain": "secret;d=x", "dkim_selector": "a", "dkim_key": ""}, "dkim_domain"},
		{"selector", map[string]string{"dkim_domain": "x.y", "dkim_selector": "secret;", "dkim_key": ""}, "dkim_selector"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := map[string]string{"host": "smtp.example.org", "from": "Support <support@example.org>"}
			maps.Copy(all, tt.settings)
			for name := range all {
				if !names[name] {
					t.Fatalf("there is no setting %s", name)
				}
			}
			wrong(t, provider.Check(all), tt.setting)
		})
	}
}

// wrong says whether an error names a setting and keeps its value to itself.
func wrong(t *testing.T, err error, setting string) {
	t.Helper()
	var named *channel.SettingError
	switch {
	case err == nil && setting == "":
	case !errors.As(err, &named) || named.Setting != setting:
		t.Errorf("got %v, want an error of %q", err, setting)
	case strings.Contains(err.Error(), "secret"):
		t.Errorf("%q repeats the value", err)
	}
}

// What secrets hold is found when a channel is opened.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		settings map[string]string
		setting  string
	}{
		"good":             {map[string]string{"dkim_domain": "example.org", "dkim_selector": "a", "dkim_key": good}, ""},
		"no PEM":           {map[string]string{"dkim_domain": "example.org", "dkim_selector": "a", "dkim_key": "secret"}, "dkim_key"},
		"public key":       {map[string]string{"dkim_domain": "example.org", "dkim_selector": "a", "dkim_key": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))}, "dkim_key"},
		"no sender":        {map[string]string{"from": ""}, "from"},
		"no server":        {map[string]string{"host": ""}, "host"},
		"password alone":   {map[string]string{"password": "secret"}, "password"},
		"broken key":       {map[string]string{"dkim_domain": "example.org", "dkim_selector": "a", "dkim_key": strings.Replace(good, "MII", "MIJ", 1)}, "dkim_key"},
		"key with no name": {map[string]string{"dkim_domain": "example.org", "dkim_key": good}, "dkim_key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := map[string]string{"host": "smtp.example.org", "from": "support@example.org"}
			maps.Copy(all, tt.settings)
			_, err := smtp.Provider(smtp.Options{}).Open(all)
			wrong(t, err, tt.setting)
		})
	}
}
