package message_test

import (
	"net/mail"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/message"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"a@b", "alice@example.org", "o'neil+tag@example.co.uk", "josé@bücher.example", "用户@例え.テスト", "x@xn--bcher-kva.example",
		strings.Repeat("a", 64) + "@example.org",
	} {
		m, err := message.ParseAddress(good)
		if err != nil || m.Address() != good || m.Name != "" {
			t.Errorf("%s: got %+v, %v", good, m, err)
		}
	}
	for _, bad := range []string{
		"", "@", "a@", "@b", "alice", "a@b@c", "a b@c", ".a@b", "a.@b", "a..b@c", `"a"@b`, `"x> ORCPT=rfc822;evil"@b.c`, "a<b@c", "a>@c",
		"a@b.", "a@.b", "a@b..c", "a@-b", "a@b-", "a@b_c", "a@[127.0.0.1]", "a@b c", "a@b\n", "a\r\n@b", "a\x00@b", "a@b>", "a@b,c@d",
		"<a@b>", "A <a@b>", "a(comment)@b", "a@b。c", "a\u2028@b", "a\u00a0@b", "\xff@b", "a@\xff", strings.Repeat("a", 65) + "@b",
		"a@" + strings.Repeat("b", 64), "a@" + strings.Repeat("b.", 130) + "c",
	} {
		if m, err := message.ParseAddress(bad); err == nil {
			t.Errorf("%q: got %+v", bad, m)
		}
	}
}

func TestParseMailbox(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]message.Mailbox{
		"a@b.c":                               {Local: "a", Domain: "b.c"},
		"<a@b.c>":                             {Local: "a", Domain: "b.c"},
		"Support <a@b.c>":                     {Name: "Support", Local: "a", Domain: "b.c"},
		`"Doe,  Jane" <a@b.c>`:                {Name: "Doe, Jane", Local: "a", Domain: "b.c"},
		"Größe <a@b.c>":                       {Name: "Größe", Local: "a", Domain: "b.c"},
		"=?utf-8?q?Gr=C3=B6=C3=9Fe?= <a@b.c>": {Name: "Größe", Local: "a", Domain: "b.c"},
		// Names as people write them: no part of them is an address, a comment or a list.
		"Smith, Jones & Partners <a@b.c>": {Name: "Smith, Jones & Partners", Local: "a", Domain: "b.c"},
		"Klinik: Süd <a@b.c>":             {Name: "Klinik: Süd", Local: "a", Domain: "b.c"},
		"A;B <a@b.c>":                     {Name: "A;B", Local: "a", Domain: "b.c"},
		"Acme [EU] <a@b.c>":               {Name: "Acme [EU]", Local: "a", Domain: "b.c"},
		"Praxis (Nord) <a@b.c>":           {Name: "Praxis (Nord)", Local: "a", Domain: "b.c"},
		"x@y.z <a@b.c>":                   {Name: "x@y.z", Local: "a", Domain: "b.c"},
		`Dr. "Bob" O'Neil \ Co <a@b.c>`:   {Name: `Dr. "Bob" O'Neil \ Co`, Local: "a", Domain: "b.c"},
		`"Dr. "Bob" O'Neil" <a@b.c>`:      {Name: `Dr. "Bob" O'Neil`, Local: "a", Domain: "b.c"},
		`"A \"B\" C" <a@b.c>`:             {Name: `A "B" C`, Local: "a", Domain: "b.c"},
		"A <B> C <a@b.c>":                 {Name: "A <B> C", Local: "a", Domain: "b.c"},
		" \t<a@b.c> ":                     {Local: "a", Domain: "b.c"},
		" A  B < a@b.c > ":                {Name: "A B", Local: "a", Domain: "b.c"},
		"S\r\nBcc: d@e.f <a@b.c>\n":       {Name: "S Bcc: d@e.f", Local: "a", Domain: "b.c"},
		"S\x00\u2028T <a@b.c>":            {Name: "S T", Local: "a", Domain: "b.c"},
		"=?utf-8?q?a=0d=0ab?= <a@b.c>":    {Name: "a b", Local: "a", Domain: "b.c"},
		"=?utf-8?q?half <a@b.c>":          {Name: "=?utf-8?q?half", Local: "a", Domain: "b.c"},
	} {
		if got, err := message.ParseMailbox(in); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", in, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "Support", "Support <>", "a@b.c, d@e.f", "Support <a b@c>", `"a b"@c.d`, `S <"x> ORCPT=rfc822;evil"@b.c>`,
		"S <a@b.c>\r\nBcc: d@e.f", "S <a\n@b.c>", "a@b.c (S)", "S <a@b.c", strings.Repeat("n", 501) + " <a@b.c>",
	} {
		if m, err := message.ParseMailbox(bad); err == nil {
			t.Errorf("%q: got %+v", bad, m)
		}
	}
}

// The standard library writes every accepted mailbox and reads it back unchanged.
func FuzzParseMailbox(f *testing.F) {
	for _, s := range []string{"a@b.c", "Größe, Co <a@b.c>", `"x> ORCPT=rfc822;evil"@b.c`, "=?utf-8?q?a=0d=0ab?= <a@b.c>", `"\"a\\" <a@b>`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := message.ParseMailbox(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(m.Name+m.Address(), "\r\n\x00") || strings.ContainsAny(m.Address(), `<>" ,;:()[]\`) {
			t.Fatalf("%q holds what ends a header or a command", m)
		}
		written := (&mail.Address{Name: m.Name, Address: m.Address()}).String()
		again, err := message.ParseMailbox(written)
		if err != nil || again != m {
			t.Fatalf("%+v is written %q and read as %+v, %v", m, written, again, err)
		}
	})
}

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"List-Unsubscribe", "List-Id", "X-Team", "Precedence", "References", "Feedback-ID", "Contentious"} {
		if err := message.CheckHeader(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "From", "from", "TO", "bcc", "Content-Type", "content-anything", "DKIM-Signature", "Received", "Received-SPF", "Resent-From",
		"X-Carillon-Delivery", "X Team", "X:Team", "X-Team\r\nBcc", "-X", "1X", "Tëam", strings.Repeat("x", 77),
	} {
		if err := message.CheckHeader(bad); err == nil {
			t.Errorf("%q may be set", bad)
		}
	}
}

func TestHeaderValue(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", " a\tb  c\n": "a b c", "über": "über", "a\nb": "a b", "a\r\n Bcc: b": "a Bcc: b", "a\u2028b\u0085c": "a b c"} {
		if got, err := message.HeaderValue(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for _, bad := range []string{"a\x00b", "a\x7fb", "a\xffb", strings.Repeat("x", 5000)} {
		if got, err := message.HeaderValue(bad); err == nil || strings.Contains(err.Error(), "a") && err.Error() == bad {
			t.Errorf("%q: got %q, %v", bad, got, err)
		}
	}
}
