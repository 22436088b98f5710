package subject

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"c-17": "", "José  Ñ": "", strings.Repeat("x", MaxName): "", strings.Repeat("x", MaxName+1): "is longer than 256 bytes",
		"": "is blank", " \t": "is blank", "a\x00": "holds a control or an invalid character", "a\u2028b": "holds a control or an invalid character",
		"a\xffb": "holds a control or an invalid character",
	} {
		if got, _ := CheckName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
