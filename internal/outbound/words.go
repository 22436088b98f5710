package outbound

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

const (
	// maxWords is how much of a refusal's text is kept, in characters.
	maxWords = 200
	// maxRead is how much of it is read, in bytes.
	maxRead = 4096
	// minHidden is the length from which a value is hidden: shorter ones are no secret, and part of any text.
	minHidden = 3
)

// Words makes one printable line of at most 200 characters of what another system said of a refusal, without the values to hide, which it
// may have repeated.
func Words(body []byte, hide []string) string {
	said := string(body)
	if len(said) > maxRead {
		// The end may be half of a secret, which would not be found.
		said = said[:maxRead]
		said = said[:strings.LastIndexFunc(said, unicode.IsSpace)+1]
	}
	hidden := hiding(hide)
	said = hidden(line(unescape(hidden(line(said)))))
	if all := []rune(said); len(all) > maxWords {
		said = string(all[:maxWords]) + "…"
	}
	return said
}

// line makes one line of valid UTF-8 of a text: what is not printed is taken out.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.Join(strings.Fields(s), " ")
}

var escaped = regexp.MustCompile(`(?:\\u[0-9a-fA-F]{4})+|\\[/nrt]`)

// unescape reads the escapes of JSON, in which letters may stand and secrets hide.
func unescape(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(code string) string {
		switch code[1] {
		case '/':
			return "/"
		case 'u':
			var units []uint16
			for unit := range strings.SplitSeq(code[2:], `\u`) {
				n, _ := strconv.ParseUint(unit, 16, 16) // the pattern lets only digits through
				units = append(units, uint16(n))
			}
			return string(utf16.Decode(units))
		}
		return " "
	})
}

// hiding replaces values by three stars, in large and small letters and as they stand in an address.
func hiding(hide []string) func(string) string {
	var forms []string
	for _, value := range hide {
		value = line(value)
		if len(value) < minHidden {
			continue
		}
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value)} {
			forms = append(forms, regexp.QuoteMeta(form))
		}
	}
	if len(forms) == 0 {
		return func(s string) string { return s }
	}
	// The longest first: of two that begin at one place, it is the one that is there.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	pattern := regexp.MustCompile("(?i)" + strings.Join(slices.Compact(forms), "|"))
	return func(s string) string { return pattern.ReplaceAllString(s, "***") }
}
