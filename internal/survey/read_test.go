package survey_test

import (
	"fmt"
	"testing"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
	"github.com/carillonhq/carillon/internal/survey"
)

func written(t *testing.T, texts map[string]string) message.Text {
	t.Helper()
	by := map[string]*message.Template{}
	for locale, text := range texts {
		tpl, err := message.Parse(text, message.Plain)
		if err != nil {
			t.Fatal(err)
		}
		by[locale] = tpl
	}
	return message.Localized(by)
}

// People answer in their own words; what could be two things is none.
func TestRead(t *testing.T) {
	t.Parallel()
	ten, zero := 10.0, 0.0
	choice := []survey.Option{
		{Value: "good", Text: written(t, map[string]string{"en": "Very good", "ar": "جيد جدا"})},
		{Value: "3", Text: written(t, map[string]string{"en": "Three"})},
		{Value: "bad", Text: written(t, map[string]string{"en": "Bad", "ar": "سيئ"})},
	}
	questions := map[survey.Type]*survey.Question{
		survey.YesNo: {Type: survey.YesNo}, survey.Number: {Type: survey.Number}, survey.Rating: {Type: survey.Rating, Min: &zero, Max: &ten}, survey.Date: {Type: survey.Date},
		survey.Choice: {Type: survey.Choice, Options: choice}, survey.Multiple: {Type: survey.Multiple, Options: choice}, survey.FreeText: {Type: survey.FreeText},
	}
	for _, c := range []struct {
		of           survey.Type
		locale, text string
		want         string // the answer, or the code of the problem
	}{
		{survey.YesNo, "en", "1", "true"},
		{survey.YesNo, "en", "2", "false"},
		{survey.YesNo, "sw", " Ndiyo! ", "true"},
		{survey.YesNo, "sw", "YES", "true"},
		{survey.YesNo, "sw", "hapana.", "false"},
		{survey.YesNo, "de-AT", "Nein", "false"},
		{survey.YesNo, "es", "Sí", "true"},
		{survey.YesNo, "es", "no", "false"},
		{survey.YesNo, "pt", "NÃO", "false"},
		{survey.YesNo, "ar", "\u200fنعم\u200f", "true"},
		{survey.YesNo, "ar", "١", "true"},
		{survey.YesNo, "ar", "٢", "false"},
		{survey.YesNo, "en", "👍", "true"},
		{survey.YesNo, "en", "👍🏽", "true"},
		{survey.YesNo, "en", "No 🙂!", "false"},
		{survey.Number, "en", "7 🙂", "7"},
		{survey.Choice, "en", "1 👍", "good"},
		{survey.YesNo, "en", "maybe", "wrong_type"},
		{survey.YesNo, "en", "yes and no", "wrong_type"},
		{survey.YesNo, "en", "skip", "<nil>"},
		{survey.YesNo, "en", "  ", "<nil>"},

		{survey.Number, "en", "7", "7"},
		{survey.Number, "en", "+7", "7"},
		{survey.Number, "en", "-7.5", "-7.5"},
		{survey.Number, "en", "7,5", "7.5"},
		{survey.Number, "de", "7,5", "7.5"},
		{survey.Number, "en", "1,234", "1234"},
		{survey.Number, "de", "1,234", "1.234"},
		{survey.Number, "de", "1.234", "1234"},
		{survey.Number, "en", "1.234", "1.234"},
		{survey.Number, "de", "1.234,5", "1234.5"},
		{survey.Number, "de", "1,234.5", "1234.5"},
		{survey.Number, "en", "1,234,567", "1.234567e+06"},
		{survey.Number, "fr", "1\u202f234,5", "1234.5"},
		{survey.Number, "de", "0,125", "0.125"},
		{survey.Number, "en", "0.125", "0.125"},
		{survey.Number, "ar", "٧٫٥", "7.5"},
		{survey.Number, "ar", "١٢٣٤", "1234"},
		{survey.Number, "fa", "۷", "7"},
		{survey.Number, "hi", "७", "7"},
		{survey.Number, "en", "7 km", "7"},
		{survey.Number, "en", "7kg.", "7"},
		{survey.Number, "en", "38.5°", "38.5"},
		{survey.Number, "en", "50 %", "50"},
		{survey.Number, "en", "Seven", "7"},
		{survey.Number, "ar", "سبعة", "7"},
		{survey.Number, "sw", "saba", "7"},
		{survey.Number, "en", "7 or 8", "wrong_type"},
		{survey.Number, "en", "7 8", "wrong_type"},
		{survey.Number, "en", "about 7", "wrong_type"},
		{survey.Number, "en", "1e9", "wrong_type"},
		{survey.Number, "en", "0x10", "wrong_type"},
		{survey.Number, "en", "inf", "wrong_type"},
		{survey.Number, "en", "1.2.3,4,5", "wrong_type"},
		{survey.Number, "en", "--7", "wrong_type"},
		{survey.Number, "en", "99999999999999999999", "too_large"},
		{survey.Rating, "en", "11", "too_large"},
		{survey.Rating, "en", "7.5", "not_whole"},
		{survey.Rating, "ar", "١٠", "10"},

		{survey.Date, "en", "2026-05-14", "2026-05-14"},
		{survey.Date, "de", "14.5.2026", "2026-05-14"},
		{survey.Date, "de", "14.05.26", "2026-05-14"},
		{survey.Date, "en-GB", "5/6/2026", "2026-06-05"},
		{survey.Date, "en-US", "5/6/2026", "2026-05-06"},
		{survey.Date, "en", "5/6/2026", "not_a_date"},
		{survey.Date, "en", "5/14/2026", "2026-05-14"},
		{survey.Date, "en", "14/5/2026", "2026-05-14"},
		{survey.Date, "en-US", "14/5/2026", "not_a_date"},
		{survey.Date, "en", "14 May 2026", "2026-05-14"},
		{survey.Date, "en", "May 14th, 2026", "2026-05-14"},
		{survey.Date, "en", "2026/5/14", "2026-05-14"},
		{survey.Date, "de", "14. Mai 2026", "2026-05-14"},
		{survey.Date, "fr", "14 août 2026", "2026-08-14"},
		{survey.Date, "fr", "14 aout 2026", "2026-08-14"},
		{survey.Date, "es", "14 de mayo de 2026", "2026-05-14"},
		{survey.Date, "ar", "١٤ مايو ٢٠٢٦", "2026-05-14"},
		{survey.Date, "sw", "14 mei 2026", "2026-05-14"},
		{survey.Date, "en", "today", "2026-05-12"},
		{survey.Date, "de", "Gestern", "2026-05-11"},
		{survey.Date, "sw", "kesho", "2026-05-13"},
		{survey.Date, "en", "31 February 2026", "not_a_date"},
		{survey.Date, "en", "14 May", "not_a_date"},
		{survey.Date, "en", "soon", "not_a_date"},

		{survey.Choice, "en", "1", "good"},
		{survey.Choice, "en", "1.", "good"},
		{survey.Choice, "ar", "٣", "3"}, // a value goes before a number
		{survey.Choice, "en", "very GOOD", "good"},
		{survey.Choice, "en", "جيد جدا", "good"},
		{survey.Choice, "en", "good", "good"},
		{survey.Choice, "en", "4", "not_an_option"},
		{survey.Choice, "en", "0", "not_an_option"},
		{survey.Choice, "en", "fine", "not_an_option"},
		{survey.Multiple, "en", "1, bad", "[good bad]"},
		{survey.Multiple, "en", "bad 1", "[good bad]"},
		{survey.Multiple, "ar", "سيئ، ١", "[good bad]"},
		{survey.Multiple, "en", "very good", "[good]"},
		{survey.Multiple, "en", "Very good; Three", "[good 3]"},
		{survey.Multiple, "en", "1 9", "not_an_option"},
		{survey.Multiple, "en", ",", "not_an_option"},
		{survey.FreeText, "en", " Fine, thanks 🙂 ", "Fine, thanks 🙂"},
		{survey.FreeText, "en", "a\x00b", "ab"},
		{survey.FreeText, "en", "skip", "<nil>"},
	} {
		got, problem := questions[c.of].Read(survey.Said{Text: c.text, Locale: c.locale, Today: civil.Date{Year: 2026, Month: 5, Day: 12}})
		is := fmt.Sprint(got)
		if problem != nil {
			is = string(problem.Code)
		}
		if is != c.want {
			t.Errorf("%s %s %q: %s, want %s", c.of, c.locale, c.text, is, c.want)
		}
	}
}

// FuzzRead: whatever somebody writes is an answer that a page would take, or a problem.
func FuzzRead(f *testing.F) {
	f.Add("7,5", "de")
	f.Add("١٤ مايو ٢٠٢٦", "ar")
	f.Add("1 2 3", "en-US")
	ten := 10.0
	f.Fuzz(func(t *testing.T, text, locale string) {
		for _, of := range survey.Types() {
			q := survey.Question{ID: "q", Type: of, Min: &ten, Options: []survey.Option{{Value: "a"}, {Value: "b"}}}
			form := survey.Form{Questions: []survey.Question{q}}
			got, problem := q.Read(survey.Said{Text: text, Locale: locale})
			if problem == nil && got != nil {
				if r := form.Check(map[string]any{"q": got}, expr.Input{}); len(r.Problems) > 0 {
					t.Errorf("%s %q: %v is refused: %v", of, text, got, r.Problems)
				}
			}
		}
	})
}
