package subject

import "testing"

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
