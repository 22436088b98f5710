package subject

import (
	"strings"
	"testing"
)

func TestNormalizeAddress(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"phone with blanks", "+964 770 000 0001", "+9647700000001"},
		{"phone with brackets and dashes", "(030) 123-456", "030123456"},
		{"mail in capitals", " Ann@Example.ORG ", "ann@example.org"},
		{"a name stays", "U02ABC", "U02ABC"},
		{"letters after digits stay", "12345x", "12345x"},
		{"a short code stays", "12 34", "12 34"},
		{"a plus inside stays", "123+456", "123+456"},
		{"empty", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := NormalizeAddress(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A sender is found by each spelling of a telephone number, and by nothing that is none.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"+254 700-000 (001)": "+254700000001 254700000001 00254700000001",
		"254700000001":       "254700000001 +254700000001 00254700000001",
		"00254700000001":     "00254700000001 +254700000001 254700000001",
		" Ann@Example.org ":  "ann@example.org",
		"12345":              "12345 +12345 0012345",
		"1234":               "1234",
		"CARILLON":           "CARILLON",
		"":                   "",
	} {
		if got := strings.Join(Spellings(in), " "); got != want {
			t.Errorf("%q: %s, not %s", in, got, want)
		}
	}
}

func TestAddressOn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		contact Contact
		kind    string
		want    string
	}{
		{"their own", Contact{Addresses: map[string]string{"sms": "+4930", "email": "a@x.org"}}, "sms", "+4930"},
		{"none of the kind", Contact{Addresses: map[string]string{"email": "a@x.org"}}, "sms", ""},
		{"where they were first met", Contact{Address: "+49301"}, "sms", "+49301"},
		{"where they were first met, by mail", Contact{Address: "a@x.org"}, "sms", ""},
		{"where they were first met, by telephone", Contact{Address: "+49301"}, "email", ""},
		{"where they were first met, by whatever name", Contact{Address: "U02ABC"}, "sms", "U02ABC"},
		{"where they were first met, when it looks like it", Contact{Address: "+49301", Addresses: map[string]string{"email": "a@x.org"}}, "sms", "+49301"},
		{"it looks like another", Contact{Address: "a@x.org", Addresses: map[string]string{"push": "t"}}, "sms", ""},
		{"our own inbox", Contact{ExtID: "ann", Addresses: map[string]string{"email": "a@x.org"}}, "inbox", "ann"},
		{"our own inbox, without any address", Contact{ExtID: "ann"}, "inbox", "ann"},
		{"memory", Contact{Addresses: map[string]string{"push": "t"}}, "memory", "t"},
		{"nothing", Contact{ExtID: "ann"}, "email", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.contact.AddressOn(test.kind); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A contact is found by the id, or else by an address in any notation.
func TestNamed(t *testing.T) {
	t.Parallel()
	contacts := []ContactRow{
		{Contact: Contact{ExtID: "addr:1", Address: "+254700000001"}},
		{Contact: Contact{ExtID: "ann", Addresses: map[string]string{"email": "ann@example.org"}}},
		{Contact: Contact{ExtID: "bob", Addresses: map[string]string{"sms": "+254700000002"}, Address: "ann"}},
	}
	for text, want := range map[string]string{
		"ann": "ann", "Ann@example.org": "ann", "+254 700 000 001": "addr:1", "+254700000002": "bob", "nobody": "nobody", "": "",
	} {
		if got := Named(contacts, text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
