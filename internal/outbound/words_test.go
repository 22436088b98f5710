package outbound

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What another system says of a refusal is kept as one short line, without what is secret, however it is written.
func TestWords(t *testing.T) {
	t.Parallel()
	const token = "s3cr+t/Token=="
	hide := []string{token, "https://x.test/hooks/T0/abc", "/hooks/T0/abc", "+493012345", "https://x.test/s/77"}
	for name, tt := range map[string]struct{ body, want string }{
		"nothing":             {"", ""},
		"blanks":              {" \r\n\t", ""},
		"JSON":                {`{"error":"unknown subscriber"}`, `{"error":"unknown subscriber"}`},
		"lines":               {"no such\r\n  subscriber\n", "no such subscriber"},
		"escapes":             {`{"error":"unbekannt: \u00fcber\nviele\/zwei"}`, `{"error":"unbekannt: über viele/zwei"}`},
		"beyond 16 bits":      {`\ud83d\ude00 \ud83d`, "😀 \uFFFD"},
		"control characters":  {"a\x00b\x1b[31mc\u202ed\u0000e", "ab[31mcde"},
		"escaped control":     {`a\u0000b\u001b[1mc`, "ab[1mc"},
		"not UTF-8":           {"a\xff\xfeb", "ab"},
		"a secret":            {"the token " + token + " is unknown", "the token *** is unknown"},
		"a secret, escaped":   {`{"token":"s3cr\u002bt\/Token=="}`, `{"token":"***"}`},
		"a secret in capital": {"TOKEN S3CR+T/TOKEN==", "TOKEN ***"},
		"a secret in a query": {"token=s3cr%2Bt%2FToken%3D%3D&x=1", "token=***&x=1"},
		"a secret, broken":    {"s3cr+t/\x00Token==", "***"},
		"the address":         {"+493012345 has left", "*** has left"},
		"the place":           {"Cannot POST /hooks/T0/abc", "Cannot POST ***"},
		"the link":            {`{"link":"https:\/\/x.test\/s\/77"}`, `{"link":"***"}`},
		"long":                {strings.Repeat("ä", 300), strings.Repeat("ä", 200) + "…"},
		"long, then a secret": {strings.Repeat("x", 198) + " " + token, strings.Repeat("x", 198) + " *…"},
		"a secret at the end": {strings.Repeat(" ", maxRead-7) + "no " + token, "no"},
	} {
		if got := Words([]byte(tt.body), hide); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// Whatever another system answers, its words are a line of at most 200 characters that every database takes.
func FuzzWords(f *testing.F) {
	f.Add([]byte(`{"error":"\u0000\ud800 x"}`), "secret")
	f.Add([]byte("\xff\x00s\u00adecret"), "secret")
	f.Fuzz(func(t *testing.T, body []byte, secret string) {
		got := Words(body, []string{secret})
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\r\n\x1b") || utf8.RuneCountInString(got) > maxWords+1 {
			t.Errorf("got %q", got)
		}
		if len(secret) > 3 && line(secret) == secret && !strings.Contains(secret, "*") && strings.Contains(got, secret) {
			t.Errorf("%q holds the secret %q", got, secret)
		}
	})
}
