package public

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/survey"
)

// TestEveryLanguageIsComplete: each language has every text, in its own script, with as many numbers in it as English.
func TestEveryLanguageIsComplete(t *testing.T) {
	t.Parallel()
	all := table()
	if len(all) < 3 || all[0].Locale != "en" {
		t.Fatalf("%d languages, beginning with %s", len(all), all[0].Locale)
	}
	english := texts(reflect.ValueOf(*all[0]), "")
	arabic := regexp.MustCompile(`\p{Arabic}`)
	for _, w := range all {
		for name, text := range texts(reflect.ValueOf(*w), "") {
			switch {
			case strings.TrimSpace(text) == "" || text != strings.TrimSpace(text):
				t.Errorf("%s %s is %q", w.Locale, name, text)
			case strings.Count(text, "%s") != strings.Count(english[name], "%s"):
				t.Errorf("%s %s: %q has other numbers than %q", w.Locale, name, text, english[name])
			case name == "Locale":
			case w.Locale == "ar" && !arabic.MatchString(text):
				t.Errorf("%s %s is not Arabic: %q", w.Locale, name, text)
			case w != all[0] && text == english[name]:
				t.Errorf("%s %s is English: %q", w.Locale, name, text)
			}
		}
	}
}

// texts are the texts of a struct, by the name of their field.
func texts(v reflect.Value, under string) map[string]string {
	found := map[string]string{}
	for i := range v.NumField() {
		name := under + v.Type().Field(i).Name
		if field := v.Field(i); field.Kind() == reflect.Struct {
			for inner, text := range texts(field, name+".") {
				found[inner] = text
			}
		} else {
			found[name] = field.String()
		}
	}
	return found
}

func TestReadDate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ locale, text, want string }{
		{"en", "2026-05-14", "2026-05-14"},
		{"de", "14.05.2026", "2026-05-14"},
		{"de", " 14. 5. 2026 ", "2026-05-14"},
		{"en-GB", "3/4/2026", "2026-04-03"},
		{"en-US", "3/4/2026", "2026-03-04"},
		{"en-US", "14/5/2026", "14/5/2026"},
		{"en", "3/4/2026", "3/4/2026"}, // who knows
		{"en", "4/4/2026", "2026-04-04"},
		{"en", "14/5/2026", "2026-05-14"},
		{"en", "5/14/2026", "2026-05-14"},
		{"", "3/4/2026", "3/4/2026"},
		{"ar", "١٤/٥/٢٠٢٦", "2026-05-14"},
		{"ar-IQ", "\u200f١٤\u200f/٥/٢٠٢٦", "2026-05-14"},
		{"fa", "۲۰۲۶/۵/۱۴", "2026-05-14"},
		{"ja", "2026年5月14日", "2026-05-14"},
		{"de", "31.02.2026", "31.02.2026"},
		{"de", "14.5.26", "14.5.26"},
		{"de", "14.5.", "14.5."},
		{"de", "am 14.5.2026", "am 14.5.2026"},
		{"de", "1.1.1.2026", "1.1.1.2026"},
		{"de", "00014.5.2026", "00014.5.2026"},
		{"de", "", ""},
	} {
		if got := readDate(c.text, c.locale); got != c.want {
			t.Errorf("%q in %q is %q, want %q", c.text, c.locale, got, c.want)
		}
	}
}

// TestNumbersAreReadAsTheyAreWritten: in every locale with a table of its own, and in some with digits of their own.
func TestNumbersAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"en", "de", "ar", "ar-MA", "fa", "hi", "de-CH", "fr", "pt-BR", "bn", "my", "he", "", "nonsense"} {
		for _, n := range []float64{0, 1, -1, 7.5, 0.1, 0.125, 1.125, 1234567.125, -9000.25, 1 << 53, 0.000001} {
			written := digitsOf(locale).write(n)
			if got, err := strconv.ParseFloat(read(written, locale), 64); err != nil || math.Abs(got-n) > 1e-9 {
				t.Errorf("%s: %v is written %q and read as %v", locale, n, written, read(written, locale))
			}
		}
	}
}

// read reads a number as a form does.
func read(text, locale string) string {
	form := survey.Form{Questions: []survey.Question{{ID: "n", Type: survey.Number}}}
	return fmt.Sprint(form.ReadFields(readNumbers(&form, map[string][]string{"n": {text}}, locale))["n"])
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ locale, text, want string }{
		{"en", "1,000", "1000"},
		{"en", "1.000", "1.000"},
		{"en", "1,234,567.5", "1234567.5"},
		{"en", "1,5", "1.5"},
		{"en", "0,125", "0.125"},
		{"en", "-12,500", "-12500"},
		{"en", "1 000", "1000"},
		{"en", "1,000,00", "1,000,00"},
		{"en", "1,000 000", "1,000 000"},
		{"en", "1,000 km", "1,000 km"},
		{"en", ",000", ".000"},
		{"de", "1.000", "1000"},
		{"de", " 1.000,50 ", "1000.50"},
		{"de", "1.5", "1.5"},
		{"de", "12,5", "12.5"},
		{"de-CH", "1’000.50", "1000.50"},
		{"fr", "1\u202f000,5", "1000.5"},
		{"ar", "١٬٠٠٠٫٥", "1000.5"},
		{"ar", "١٢٫٥", "12.5"},
		{"ar", "1,000.5", "1000.5"},
		{"ar", "12.500", "12.500"},
		{"", "1,000", "1000"},
		{"en", "", ""},
		{"en", "abc", "abc"},
		{"en", "\u200e-\u200f5", "-5"},
	} {
		if got := read(c.text, c.locale); got != c.want {
			t.Errorf("%q in %q is %q, want %q", c.text, c.locale, got, c.want)
		}
	}
}

// TestContrast holds every colour of text against every ground it may have, and every edge of a field, in both schemes: WCAG 2.2, 1.4.3 and
// 1.4.11.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(css), "prefers-color-scheme: dark")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6}|[0-9a-f]{3});`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		hold := func(least float64, inks, grounds string) {
			for _, ink := range strings.Fields(inks) {
				for _, ground := range strings.Fields(grounds) {
					a, b := colours[ink], colours[ground]
					if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < least || len(colours) != 12 {
						t.Errorf("%s: %s on %s has a contrast of %.2f", scheme, ink, ground, ratio)
					}
				}
			}
		}
		hold(4.5, "text soft", "ground sheet sunk tint blush")
		hold(4.5, "bad", "sheet ground blush")
		hold(4.5, "sheet", "accent")
		hold(4.5, "good", "ground")
		hold(3, "line accent bad", "sheet ground")
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
