package subject_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/subject"
)

// Who signs up writes an address that mail can reach from everywhere: more than an address of a contact must be.
func TestCheckSignUp(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"email@example.com", "firstname+lastname@example.com", "email@[123.123.123.123]", "email@[IPv6:2001:db8::1]", "_______@example.com", " Ann@Example.ORG ",
		"o'brien@example.co.uk", "a@bücher.example", "a@xn--bcher-kva.example", strings.Repeat("a", 64) + "@example.com", "+44 20 7946 0000",
	} {
		if err := subject.CheckSignUp(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "not an email address", "me@localhost", "me@.invalid", "me@mail.invalid", "foo@bar.com\nfoo@baz.com", "foo @ bar.com", "foo@bar.com,foo@baz.com", "a@b@example.com",
		"<a@example.com>", `"a b"@example.com`, "a@example.com.", "a@-example.com", "a@exam_ple.com", "a@192.0.2.1", "a@[192.0.2]", "a@[::1", ".a@example.com", "a..b@example.com",
		strings.Repeat("a", 65) + "@example.com", "a@" + strings.Repeat("b.", 130) + "com", "a@" + strings.Repeat("b", 64) + ".com", "@example.com", "a@", "12", "call me",
	} {
		if subject.CheckSignUp(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
