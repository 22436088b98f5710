package subject

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
)

// MadePrefix begins the ids of contacts that were made for an address and have no id of the caller's (R20).
const MadePrefix = "addr:"

// ContactType stands in place of a type of record where a record depends on a contact: on the zone in which its dates are due. No type of
// record has this name.
const ContactType = "@contact"

// Contact is a person or an address who can be messaged.
type Contact struct {
	ID         ContactID
	ExtID      string
	Address    string // the address by which it was first met in an event; may be empty
	Name       string
	Locale     string
	Timezone   string
	Addresses  map[string]string // by kind of channel, normalised; nil when there are none
	Attributes map[string]any    // JSON values of the caller's; nil when there are none
	Persona    string            // name of the definition; empty when there is none
	Place      string            // name of the place where the person is; empty when there is none
	Cadence    string            // JSON of the person's own limits, in a persona's keys; empty when there are none
	Suppressed bool
	// Within are the names of the place and of the places above it, the nearest first, and PlaceType is the type of the place, if the contact was read
	// for a decision. They are empty if the place does not exist.
	Within     []string
	PlaceType  string
	MergedInto ContactID // of one that was made for an address: the contact that has claimed it since; 0: none has
}

// ContactRow is a contact with the columns that only people read.
type ContactRow struct {
	Contact
	Claimant       string // id of the contact into which it is merged; empty: none
	SuppressReason string
	SuppressedAt   time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time // zero: never updated
}

// AddressKinds are the kinds of channels for which a contact has addresses, in the order in which one of them stands
// for a channel of another kind.
func AddressKinds() []string { return []string{"email", "sms", "whatsapp", "push", "inbox", "webhook"} }

// AddressFields are the fields of a record that hold an address for a kind of channel, in the order of trying. A kind that
// leads nowhere outside takes any; the kind "" stands for all of them.
func AddressFields(kind string) []string {
	switch kind {
	case "email", "push", "webhook":
		return []string{kind}
	case "sms", "whatsapp":
		return []string{kind, "phone"}
	}
	return []string{"email", "sms", "phone", "whatsapp", "push", "webhook"}
}

// AddressOn is the contact's own address for a kind of channel, empty when there is none. A contact without addresses
// by kind is reached where it was first met; that address also serves beside others that it looks unlike. Kinds that lead
// nowhere outside, such as memory, take the first there is; the inbox of who has addresses by kind has the contact's id.
func (c Contact) AddressOn(kind string) string {
	if own := c.Addresses[kind]; own != "" {
		return own
	}
	switch {
	case kind == "inbox" && len(c.Addresses) > 0:
		return c.ExtID // everybody has a place in our own inbox, and it is none where a phone number leads
	case kind == "inbox":
		return cmp.Or(c.Address, c.ExtID)
	case len(c.Addresses) == 0 && unlike(kind, c.Address):
		return ""
	case len(c.Addresses) == 0:
		return c.Address
	case slices.Contains(AddressKinds(), kind):
		if shaped := kind == "email" || kind == "sms" || kind == "whatsapp"; shaped && CheckAddress(kind, c.Address) == nil {
			return c.Address
		}
		return ""
	case c.Address != "":
		return c.Address
	}
	for _, kind := range AddressKinds() {
		if own := c.Addresses[kind]; own != "" {
			return own
		}
	}
	return ""
}

// unlike reports whether an address is plainly for another kind of channel: a telephone number is no e-mail address.
func unlike(kind, address string) bool {
	switch kind {
	case "email":
		return CheckAddress("sms", address) == nil
	case "sms", "whatsapp":
		return CheckAddress("email", address) == nil
	}
	return false
}

// In reports whether a contact that was read for a decision is in a place or, if below is set, in one below it. types are those of the contact's own
// place; none: any.
func (c Contact) In(place string, below bool, types []string) bool {
	at := slices.Index(c.Within, place)
	return at >= 0 && (at == 0 || below) && (len(types) == 0 || slices.Contains(types, c.PlaceType))
}

// Has reports whether an address is one of the contact's own, in any notation.
func (c Contact) Has(address string) bool {
	if address == "" {
		return false
	}
	if address == c.Address {
		return true
	}
	normal := NormalizeAddress(address)
	for _, own := range c.Addresses {
		if own == address || own == normal {
			return true
		}
	}
	return c.Address != "" && NormalizeAddress(c.Address) == normal
}

// Named is the caller's id of the contact among some who has the text as id, or else as address; the text itself if none has.
func Named(contacts []ContactRow, text string) string {
	for _, c := range contacts {
		if c.ExtID == text {
			return text
		}
	}
	for _, c := range contacts {
		if c.Has(text) {
			return c.ExtID
		}
	}
	return text
}

// CheckAddress says what is wrong with an address of a kind. It asks for no more than what every provider does.
func CheckAddress(kind, address string) error {
	if address == "" || strings.ContainsFunc(address, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return fmt.Errorf("is blank or holds a control character")
	}
	normal := NormalizeAddress(address)
	switch kind {
	case "email":
		user, host, ok := strings.Cut(normal, "@")
		if !ok || user == "" || host == "" || strings.ContainsAny(host, "@") || strings.ContainsFunc(normal, unicode.IsSpace) {
			return fmt.Errorf("is not an e-mail address")
		}
	case "sms", "whatsapp":
		digits := strings.TrimPrefix(normal, "+")
		if len(digits) < 5 || len(digits) > 20 || strings.Trim(digits, "0123456789") != "" {
			return fmt.Errorf("is not a telephone number")
		}
	}
	return nil
}

// CheckSignUp says what is wrong with the address that somebody signs up with: an e-mail address, or a telephone number. It asks for more than CheckAddress,
// since nobody has seen a message arrive there: an e-mail address must be one that the whole Internet could write to.
func CheckSignUp(address string) error {
	const longest, longestUser = 254, 64 // octets; RFC 5321, 4.5.3.1
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "@") {
		return CheckAddress("sms", address)
	}
	if err := CheckAddress("email", address); err != nil {
		return err
	}
	user, host, _ := strings.Cut(address, "@")
	switch {
	case len(address) > longest || len(user) > longestUser:
		return fmt.Errorf("is too long for an e-mail address")
	case strings.ContainsAny(user, `",:;<>()[]\`) || strings.HasPrefix(user, ".") || strings.HasSuffix(user, ".") || strings.Contains(user, ".."):
		return fmt.Errorf("is not an e-mail address")
	case !validHost(host):
		return fmt.Errorf("has no domain that mail can be sent to")
	}
	return nil
}

// validHost reports whether a text is a domain of at least two labels, or an address in brackets (RFC 5321, 4.1.3).
func validHost(host string) bool {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		_, err := netip.ParseAddr(strings.TrimPrefix(inner, "IPv6:"))
		return ok && err == nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r != '-' && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
			}) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && last != "invalid" && strings.Trim(last, "0123456789") != ""
}

// ValidLocale reports whether a text is built like a language tag, such as en or ar-IQ.
func ValidLocale(s string) bool {
	for i, part := range strings.FieldsFunc(s, func(c rune) bool { return c == '-' || c == '_' }) {
		if len(part) > 8 || i == 0 && (len(part) < 2 || strings.ContainsAny(part, "0123456789")) {
			return false
		}
	}
	return s != "" && strings.Trim(s, "-_") == s && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
