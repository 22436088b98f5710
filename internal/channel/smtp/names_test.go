package smtp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/channel"
)

// Reliability 38: what could smuggle a header or a command is refused and reaches no server.
func TestInjectionRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ch := open(t, s.address, s.roots, nil)
	for name, change := range map[string]func(*channel.Outgoing){
		"parameter in a quoted local part": func(o *channel.Outgoing) { o.Address = `"x> ORCPT=rfc822;evil"@b.c` },
		"quoted local part":                func(o *channel.Outgoing) { o.Address = `"alice"@example.com` },
		"line break in the address":        func(o *channel.Outgoing) { o.Address = "alice@example.com\r\nRCPT TO:<evil@b.c>" },
		"two addresses":                    func(o *channel.Outgoing) { o.Address = "alice@example.com,bob@example.com" },
		"name and address":                 func(o *channel.Outgoing) { o.Address = "Alice <alice@example.com>" },
		"blank":                            func(o *channel.Outgoing) { o.Address = "alice @example.com" },
		"literal address":                  func(o *channel.Outgoing) { o.Address = "alice@[127.0.0.1]" },
		"no domain":                        func(o *channel.Outgoing) { o.Address = "alice" },
		"empty":                            func(o *channel.Outgoing) { o.Address = "" },
		"dots":                             func(o *channel.Outgoing) { o.Address = "a..b@example.com" },
		"line break in from":               func(o *channel.Outgoing) { o.From = "a@b.c\nBcc: evil@b.c" },
		"line break in reply_to":           func(o *channel.Outgoing) { o.ReplyTo = "a@b.c\r\nBcc: evil@b.c" },
		"NUL in a header":                  func(o *channel.Outgoing) { o.Headers = map[string]string{"X-A": "b\x00c"} },
		"line break in a name":             func(o *channel.Outgoing) { o.Headers = map[string]string{"X-A: b\r\nBcc": "evil@b.c"} },
		"our header":                       func(o *channel.Outgoing) { o.Headers = map[string]string{"bcc": "evil@b.c"} },
		"a header twice":                   func(o *channel.Outgoing) { o.Headers = map[string]string{"X-A": "b", "x-a": "c"} },
	} {
		out := outgoing()
		change(&out)
		_, err := ch.Send(t.Context(), out)
		var refused *channel.SendError
		if !errors.As(err, &refused) || refused.Retry || refused.Unknown {
			t.Errorf("%s: got %v", name, err)
		} else if strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: %q repeats it", name, err)
		}
	}
	if len(s.sessions) > 0 {
		t.Errorf("%d connections were made", len(s.sessions))
	}
	out := outgoing()
	out.Subject = "Hello\r\nBcc: evil@b.c\r\n\r\nbody\x00"
	out.From = "=?utf-8?q?a=0d=0aBcc:_evil@b.c?= b\r\nBcc: evil@b.c <a@b.c>"
	out.Headers = map[string]string{"X-A": "b\r\nBcc: evil@b.c\r\n\r\nbody"}
	if _, err := ch.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	p := parse(t, s.mails[0].raw)
	if p.subject != "Hello Bcc: evil@b.c body" || p.header.Get("Bcc") != "" {
		t.Errorf("subject %q, Bcc %q", p.subject, p.header.Get("Bcc"))
	}
	from, err := p.header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "a Bcc: evil@b.c b Bcc: evil@b.c" || from[0].Address != "a@b.c" {
		t.Errorf("from %v, %v", from, err)
	}
	if got := p.header.Get("X-A"); got != "b Bcc: evil@b.c body" {
		t.Errorf("X-A: %q", got)
	}
}

// Whatever a display name contains, a receiver reads it as it was written, before exactly one address.
func TestNamesBeforeAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	ch := open(t, s.address, s.roots, nil)
	for i, name := range []string{
		"Smith, Jones & Partners", "Klinik: Süd", "A;B", "Acme [EU]", "Praxis (Nord)", "a@b", "evil@b.c, x", `Dr. "Bob" O'Neil \ Co`, "A <b@c.d> C",
		"عيادة الشمال، بغداد", "=?us-ascii?q?half", "Dr.", ".", "group: x;", strings.Repeat("Ä, (b) ", 60) + "c", strings.Repeat("a, ", 160) + "b", strings.Repeat("x", 499),
	} {
		out := outgoing()
		out.IdempotencyKey, out.Address = name, " \talice@example.com\r\n"
		out.From, out.ReplyTo = " "+name+" <\tclinic@example.org > ", name+"<desk@example.org>"
		if _, err := ch.Send(t.Context(), out); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := s.mails[len(s.mails)-1]
		if got.from != "clinic@example.org" || got.to != "alice@example.com" {
			t.Errorf("%s: from %s to %s", name, got.from, got.to)
		}
		h := parse(t, got.raw).header
		for key, address := range map[string]string{"From": "clinic@example.org", "Reply-To": "desk@example.org"} {
			list, err := h.AddressList(key)
			if err != nil || len(list) != 1 || list[0].Name != name || list[0].Address != address {
				t.Errorf("%d %s: %s is %v, %v, as %q", i, name, key, list, err, h.Get(key))
			}
		}
	}
}

// Domains in other scripts travel as the DNS holds them; other local parts need a server that takes them.
func TestOtherScripts(t *testing.T) {
	t.Parallel()
	for _, takes := range []bool{false, true} {
		s := serve(t, func(s *server) { s.EnableSMTPUTF8 = takes })
		ch := open(t, s.address, s.roots, map[string]string{"from": "hallo@bücher.example"})
		out := outgoing()
		out.Address = "alice@例え.テスト"
		if _, err := ch.Send(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		if got := s.mails[0]; got.to != "alice@xn--r8jz45g.xn--zckzah" || got.from != "hallo@xn--bcher-kva.example" || s.utf8 {
			t.Errorf("from %s to %s, SMTPUTF8 %v", got.from, got.to, s.utf8)
		}
		out.Address = "josé@bücher.example"
		_, err := ch.Send(t.Context(), out)
		if !takes {
			var refused *channel.SendError
			if !errors.As(err, &refused) || refused.Retry || !strings.Contains(err.Error(), "SMTPUTF8") {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, s.mails[1].raw)
		if got := s.mails[1]; got.to != "josé@xn--bcher-kva.example" || !s.utf8 || p.header.Get("To") != "<josé@xn--bcher-kva.example>" {
			t.Errorf("to %s, SMTPUTF8 %v, header %q", got.to, s.utf8, p.header.Get("To"))
		}
	}
}
