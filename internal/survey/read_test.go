package survey_test

import (
	"fmt"
	"testing"
	"time"

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
		{survey.YesNo, "en", "yes\u200e", "true"},
		{survey.YesNo, "es", "si\u0301", "true"}, // the accent as a character of its own
		{survey.YesNo, "ar", "أيوة", "true"},
		{survey.YesNo, "tr", "Hayır", "false"},
		{survey.YesNo, "tr", "HAYIR", "false"},
		{survey.YesNo, "hi", "जी हाँ", "true"},
		{survey.YesNo, "bn", "না", "false"},
		{survey.YesNo, "ur", "ہاں", "true"},
		{survey.YesNo, "ur", "نہیں", "false"},
		{survey.YesNo, "fa", "بلي", "true"}, // on an Arabic keyboard
		{survey.YesNo, "am", "አዎ", "true"},
		{survey.YesNo, "ha", "a’a", "false"},
		{survey.YesNo, "yo", "Bẹ́ẹ̀ni", "true"},
		{survey.YesNo, "zu", "yebo", "true"},
		{survey.YesNo, "id", "tidak", "false"},
		{survey.YesNo, "vi", "Không", "false"},
		{survey.YesNo, "ru", "Да", "true"},
		{survey.YesNo, "uk", "ні", "false"},
		{survey.YesNo, "it", "sì", "true"},
		{survey.YesNo, "nl", "nee", "false"},
		{survey.YesNo, "pl", "tak", "true"},
		{survey.YesNo, "pl", "nie", "false"},
		{survey.YesNo, "pl", "no", "wrong_type"}, // among friends it says yes
		{survey.YesNo, "zh-Hant", "是的", "true"},
		{survey.YesNo, "ja", "いいえ", "false"},
		{survey.YesNo, "no", "nei", "false"},
		{survey.YesNo, "en", "1️⃣", "true"},

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
		{survey.Number, "en", "1,2,3", "wrong_type"}, // a list
		{survey.Number, "en", "1.2.3", "wrong_type"},
		{survey.Number, "en", "14.5.2026", "wrong_type"}, // a date
		{survey.Number, "de", "14.5.2026", "wrong_type"},
		{survey.Number, "en", "1,234,5", "wrong_type"},
		{survey.Number, "en", "1,2.3", "wrong_type"},
		{survey.Number, "en", "1,234.567,890", "wrong_type"},
		{survey.Number, "en", "-'234", "wrong_type"},
		{survey.Number, "no", "1,234", "1.234"},
		{survey.Number, "en", "0,234,567", "wrong_type"},
		{survey.Number, "en", "1234,567,890", "wrong_type"},
		{survey.Number, "en", "1, 234", "wrong_type"},
		{survey.Number, "de", "1.234.567", "1.234567e+06"},
		{survey.Number, "en-IN", "12,34,567", "1.234567e+06"},
		{survey.Number, "en-IN", "1,23,456.5", "123456.5"},
		{survey.Number, "en", "1.23.456", "wrong_type"},
		{survey.Number, "en", "123,45,678", "wrong_type"},
		{survey.Number, "en", "5'6", "wrong_type"}, // five feet and six inches
		{survey.Number, "en", "5’10", "wrong_type"},
		{survey.Number, "en", "5'10\"", "wrong_type"},
		{survey.Number, "de-CH", "1'234", "1234"},
		{survey.Number, "de-CH", "12’345.5", "12345.5"},
		{survey.Number, "en", "10²", "wrong_type"},
		{survey.Number, "en", "5½", "wrong_type"},
		{survey.Number, "en", "⑦", "wrong_type"},
		{survey.Number, "en", "10 m²", "10"},
		{survey.Number, "en", "𝟟", "7"},
		{survey.Number, "ja", "７．５", "7.5"},
		{survey.Number, "en", "3 million", "wrong_type"},
		{survey.Number, "en", "3 million people", "wrong_type"},
		{survey.Number, "en", "3 km away", "wrong_type"},
		{survey.Number, "en", "5 thousand", "wrong_type"},
		{survey.Number, "en", "3 Dozen.", "wrong_type"},
		{survey.Number, "en", "1.5k", "wrong_type"},
		{survey.Number, "de", "20 k€", "wrong_type"},
		{survey.Number, "en", "2M", "wrong_type"}, // a million, or meters
		{survey.Number, "hi", "२ लाख", "wrong_type"},
		{survey.Number, "ja", "3万円", "wrong_type"},
		{survey.Number, "en", "7 kg", "7"},
		{survey.Number, "en", "7 tablets", "7"},
		{survey.Number, "en", "7-8", "wrong_type"},
		{survey.Number, "en", "5-", "wrong_type"},
		{survey.Number, "en", "7/10", "wrong_type"},
		{survey.Number, "en", "−5", "-5"},
		{survey.Number, "en", ".5", "0.5"},
		{survey.Number, "tr", "%7", "7"},
		{survey.Number, "en", "140 100", "wrong_type"}, // a blood pressure
		{survey.Number, "en", "1 234", "wrong_type"},
		{survey.Number, "fr", "12 000", "12000"}, // as the language writes it
		{survey.Number, "fr", "140 80", "wrong_type"},
		{survey.Number, "ru", "1 234 567", "1.234567e+06"},
		{survey.Rating, "fr", "140 100", "too_large"},
		{survey.Number, "es-MX", "1,234", "1234"}, // not as in Spain
		{survey.Number, "es-ES", "1,234", "1.234"},
		{survey.Number, "id", "1.234", "1234"},
		{survey.Number, "fr", "1.234", "wrong_type"}, // it is neither mark of French
		{survey.Number, "fr", "1.23", "1.23"},
		{survey.Number, "ar", "١٬٢٣٤٫٥", "1234.5"},
		{survey.Number, "ar", "٧،٥", "7.5"},
		{survey.Number, "ar", "١،٢٣٤", "1234"},
		{survey.Number, "ar", "١٫٢٣٤", "1.234"},
		{survey.Number, "ar", "١٫٢٫٣", "wrong_type"},
		{survey.Number, "ar", "١٫٢٣٤٫٥٦٧", "wrong_type"},
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

		{survey.Date, "en", "14/05/62", "1962-05-14"}, // at most ten years ahead
		{survey.Date, "en", "14/05/36", "2036-05-14"},
		{survey.Date, "en", "14/05/37", "1937-05-14"},
		{survey.Date, "en", "14 May 62", "1962-05-14"},
		{survey.Date, "en", "1/1/202", "not_a_date"},
		{survey.Date, "en", "1.1.0", "not_a_date"},
		{survey.Date, "en", "14 May 20266", "not_a_date"},
		{survey.Date, "en", "14 May 02026", "not_a_date"},
		{survey.Date, "ar", "14/5/1447", "not_a_date"}, // of another calendar
		{survey.Date, "ar", "1447-05-14", "not_a_date"},
		{survey.Date, "th", "14/5/2569", "not_a_date"},
		{survey.Date, "en", "31/12/1899", "not_a_date"},
		{survey.Date, "en", "1/1/1900", "1900-01-01"},
		{survey.Date, "en", "31/12/2199", "2199-12-31"},
		{survey.Date, "en", "14 May May", "not_a_date"},
		{survey.Date, "en", "14/5/20²6", "not_a_date"},
		{survey.Date, "fr", "14 jui 2026", "not_a_date"}, // juin or juillet
		{survey.Date, "ar", "14 آب 2026", "2026-08-14"},  // a short name
		{survey.Date, "en", "14 Fe 2026", "not_a_date"},
		{survey.Date, "fr", "14 juin 2026", "2026-06-14"},
		{survey.Date, "fr", "14 juil. 2026", "2026-07-14"},
		{survey.Date, "en", "14 ju 2026", "not_a_date"},
		{survey.Date, "fr", "1er mai 2026", "2026-05-01"},
		{survey.Date, "es", "1º de mayo de 2026", "2026-05-01"},
		{survey.Date, "fr", "aujourd’hui", "2026-05-12"},
		{survey.Date, "fr", "aujourd'hui", "2026-05-12"},
		{survey.Date, "ar", "غد\u064bا", "2026-05-13"},
		{survey.Date, "ar", "غدا\u064b", "2026-05-13"},
		{survey.Date, "en-CA", "5/6/2026", "not_a_date"}, // both orders are written there
		{survey.Date, "en-CA", "14/5/2026", "2026-05-14"},
		{survey.Date, "en-CA", "5/14/2026", "2026-05-14"},
		{survey.Date, "en-CA", "5/5/2026", "2026-05-05"},
		{survey.Date, "en-CA", "03/02/01", "not_a_date"},
		{survey.Date, "en-CA", "26/05/31", "not_a_date"},
		{survey.Date, "en", "5.6.2026", "2026-06-05"},
		{survey.Date, "tl", "5/6/2026", "2026-05-06"},
		{survey.Date, "en-PH", "5/6/2026", "2026-05-06"},
		{survey.Date, "es-US", "5/6/2026", "not_a_date"},
		{survey.Date, "ja", "5/6/2026", "not_a_date"},
		{survey.Date, "ja", "26/5/31", "not_a_date"},
		{survey.Date, "ja", "2026/5/6", "2026-05-06"},
		{survey.Date, "sw-KE", "5/6/2026", "2026-06-05"},
		{survey.Date, "de", "26-05-14", "not_a_date"},
		{survey.Date, "", "5/6/2026", "not_a_date"},

		{survey.Choice, "en", "1", "good"},
		{survey.Choice, "en", "1.", "good"},
		{survey.Choice, "ar", "٣", "bad"}, // a number that is shown goes before a value
		{survey.Choice, "en", "3️⃣", "bad"},
		{survey.Choice, "en", "+3", "not_an_option"},
		{survey.Choice, "en", "1. Very good", "good"},
		{survey.Choice, "en", "1) very good", "good"},
		{survey.Choice, "en", "1 - Very good", "good"},
		{survey.Choice, "en", "(1) Very good", "good"},
		{survey.Choice, "en", "1 very good!", "good"},
		{survey.Choice, "ar", "٣. سيئ", "bad"},
		{survey.Choice, "en", "1. Bad", "not_an_option"}, // number and text of two options
		{survey.Choice, "en", "9. Bad", "not_an_option"},
		{survey.Choice, "en", "1 or 2", "not_an_option"},
		{survey.Choice, "en", "1 and 2", "not_an_option"},
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
		{survey.Multiple, "en", "1 and 3", "[good bad]"},
		{survey.Multiple, "en", "1, 2 and 3", "[good 3 bad]"},
		{survey.Multiple, "en", "very good and bad", "[good bad]"},
		{survey.Multiple, "en", "1. Very good, 3. Bad", "[good bad]"},
		{survey.Multiple, "fr", "1 et 3", "[good bad]"},
		{survey.Multiple, "de", "1 und 3", "[good bad]"},
		{survey.Multiple, "es", "1 y 3", "[good bad]"},
		{survey.Multiple, "sw", "1 na 3", "[good bad]"},
		{survey.Multiple, "ar", "١ و ٣", "[good bad]"},
		{survey.Multiple, "ar", "١ و٣", "[good bad]"},
		{survey.Multiple, "zh", "1和3", "[good bad]"},
		{survey.Multiple, "zh", "1、3", "[good bad]"},
		{survey.Multiple, "en", "1 not 3", "not_an_option"},
		{survey.Multiple, "en", "1 and", "not_an_option"},
		{survey.Multiple, "en", "and 1", "not_an_option"},
		{survey.Multiple, "en", "1-3", "not_an_option"},
		{survey.Multiple, "en", "1x3", "not_an_option"},
		{survey.Multiple, "ar", "و٣", "not_an_option"},
		{survey.Multiple, "en", "1and9", "not_an_option"},
		{survey.Multiple, "en", "1and3", "[good bad]"},
		{survey.Multiple, "en", "1and", "not_an_option"},
		{survey.Multiple, "en", "1 and and 3", "not_an_option"},
		{survey.Multiple, "en", ",", "not_an_option"},
		{survey.FreeText, "en", " Fine, thanks 🙂 ", "Fine, thanks 🙂"},
		{survey.FreeText, "en", "a\x00b", "ab"},
		{survey.FreeText, "en", "a\x07b", "not_text"},
		{survey.FreeText, "fa", "می\u200cخواهم", "می\u200cخواهم"}, // as it was written
		{survey.FreeText, "en", "10²", "10²"},
		{survey.FreeText, "en", "30 m² ™ ½ ﬁ", "30 m² ™ ½ ﬁ"},
		{survey.FreeText, "en", "cafe\u0301", "cafe\u0301"},
		{survey.FreeText, "en", " ❤️ ", "❤️"},
		{survey.FreeText, "en", "👍🏽", "👍🏽"},
		{survey.FreeText, "en", "👩\u200d⚕️", "👩\u200d⚕️"},
		{survey.FreeText, "ar", "\u200fنعم أو لا\u200f\n", "نعم أو لا"},
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

// A reply that says nothing answers nothing, and leaves nothing out.
func TestReadNothing(t *testing.T) {
	t.Parallel()
	for _, of := range survey.Types() {
		q := survey.Question{Type: of, Options: []survey.Option{{Value: "…"}, {Value: "a", Text: written(t, map[string]string{"": "A"})}}}
		for _, text := range []string{"", "  \n", "\u200f", "\ufe0f", "🏽", "\u200d", "\u0301", "\u3164", "\u2800 ", "\x00", "\u00ad"} {
			if got, problem := q.Hear(survey.Said{Text: text}, nil, expr.Input{}); problem == nil {
				t.Errorf("%s %q is %v", of, text, got)
			}
		}
		if of == survey.FreeText {
			continue
		}
		for _, text := range []string{"❤️", "🙂", "?", "…", "—", "©"} {
			if got, problem := q.Read(survey.Said{Text: text}); problem == nil {
				t.Errorf("%s %q is %v", of, text, got)
			}
		}
		for _, text := range []string{"-", " skip ", "Skip 🙂", "-\u200f"} {
			if got, problem := q.Read(survey.Said{Text: text}); problem != nil || got != nil {
				t.Errorf("%s %q is %v, %v: it leaves the question out", of, text, got, problem)
			}
		}
	}
}

// What the message shows decides: the number first, then the text, then the value.
func TestReadShownOptions(t *testing.T) {
	t.Parallel()
	options := func(pairs ...string) []survey.Option {
		var all []survey.Option
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, survey.Option{Value: pairs[i], Text: written(t, map[string]string{"en": pairs[i+1]})})
		}
		return all
	}
	days := options("0", "Never", "1", "Some days", "2", "Most days", "3", "Every day")
	turned := options("a", "3", "b", "2", "c", "1")
	doctors := options("a", "Dr. {{ event.name }}", "b", "Dr. {{ event.other }}", "c", "{{ event.none }}", "d", "Dr. {{ survey.link }}", "e", "On {{ event.at | date: '%H:%M' }}")
	same := options("a", "{{ event.name }}", "b", "{{ event.name }}", "c", "b")
	both := []survey.Option{
		{Value: "x", Text: written(t, map[string]string{"en": "Gift", "de": "Geschenk"})}, {Value: "y", Text: written(t, map[string]string{"en": "Poison", "de": "Gift"})},
	}
	words := options("a", "A", "b", "B", "s", "Skip", "d", "-", "y", "Y", "p", "Salt and pepper")
	month := []survey.Option{{Value: "m", Text: written(t, map[string]string{"fr": "En {{ event.at | date: '%B' }}"})}}
	vars := map[string]any{"event": map[string]any{"name": "You", "other": "Who", "none": nil, "at": time.Date(2026, 5, 12, 7, 0, 0, 0, time.UTC)}}
	for _, c := range []struct {
		options      []survey.Option
		locale, text string
		want         string
	}{
		{days, "en", "1", "0"},
		{days, "en", "2", "1"},
		{days, "en", "4", "3"},
		{days, "en", "0", "0"}, // no number that is shown
		{days, "en", "1. Never", "0"},
		{days, "en", "2 Some days", "1"},
		{days, "en", "1 Some days", "not_an_option"},
		{turned, "en", "1", "a"},
		{turned, "en", "3", "c"},
		{turned, "en", "1. 3", "a"},
		{doctors, "en", "dr. you", "a"},
		{doctors, "en", "2. Dr. Who", "b"},
		{doctors, "en", "Dr. {{ event.name }}", "not_an_option"},
		{doctors, "en", "Dr. {{ survey.link }}", "not_an_option"}, // it could not be rendered
		{doctors, "en", "4", "d"},
		{doctors, "en", "d", "d"},
		{doctors, "en", "?", "not_an_option"},
		{doctors, "en", "on 10:00", "e"}, // in the zone of the person
		{same, "en", "you", "not_an_option"},
		{same, "en", "2", "b"},
		{same, "en", "b", "c"}, // a text goes before a value
		{both, "en", "gift", "x"},
		{both, "de", "gift", "y"}, // as it is shown to the person
		{both, "fr", "poison", "y"},
		{words, "en", "skip", "s"}, // an option goes before leaving out
		{words, "en", "-", "d"},
		{month, "fr", "en mai", "m"},
	} {
		q := survey.Question{Type: survey.Choice, Options: c.options}
		got, problem := q.Read(survey.Said{Text: c.text, Locale: c.locale, Vars: vars, Zone: time.FixedZone("", 3*3600)})
		is := fmt.Sprint(got)
		if problem != nil {
			is = string(problem.Code)
		}
		if is != c.want {
			t.Errorf("%s %q: %s, want %s", c.locale, c.text, is, c.want)
		}
	}
	for _, c := range []struct {
		options []survey.Option
		text    string
		want    string
	}{
		{turned, "1 3", "[a c]"}, // not the first option as it is shown
		{turned, "1. 3", "[a]"},
		{words, "b y a", "[a b y]"}, // a word such as and may be an option
		{words, "salt and pepper, a", "[a p]"},
		{words, "a and salt and pepper", "[]"},
	} {
		q := survey.Question{Type: survey.Multiple, Options: c.options}
		if got, _ := q.Read(survey.Said{Text: c.text}); fmt.Sprint(got) != c.want && (got != nil || c.want != "[]") {
			t.Errorf("%q: %v, want %s", c.text, got, c.want)
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
