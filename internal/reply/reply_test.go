package reply_test

import (
	"testing"

	"github.com/carillonhq/carillon/internal/reply"
)

// A keyword stands alone, in any case and notation; what says more is a text.
func TestFind(t *testing.T) {
	t.Parallel()
	own := reply.Words{reply.Help: {"Was ist das?"}}
	for _, c := range []struct {
		text, locale string
		own          reply.Words
		want         reply.Keyword
	}{
		{"STOP", "", nil, reply.Stop},
		{"  Stop. ", "en", nil, reply.Stop},
		{"\"stop\"!!", "en-GB", nil, reply.Stop},
		{"STOP 🛑", "en", nil, reply.Stop},
		{"ＳＴＯＰ", "en", nil, reply.Stop},
		{"opt-out", "en", nil, reply.Stop},
		{"Stop  all", "en", nil, reply.Stop},
		{"stop it please", "en", nil, ""},
		{"please stop", "en", nil, ""},
		{"stopp", "de", nil, reply.Stop},
		{"stopp", "en", nil, ""}, // a word of another language
		{"stop", "de", nil, reply.Stop},
		{"\u200fإيقاف\u200f", "ar-IQ", nil, reply.Stop},
		{"ايقاف.", "ar", nil, reply.Stop},
		{"anza", "sw", nil, reply.Start},
		{"S.T.O.P", "en", nil, reply.Stop},
		{"\"s.t.o.p.\"", "de", nil, reply.Stop},
		{"توق\u0651ف", "ar", nil, reply.Stop},      // with the sign that doubles a letter
		{"ق\u0640\u0640ف", "ar", nil, reply.Stop},  // made longer
		{"ق\u0650ف\u0652", "ar", nil, reply.Stop},  // with vowels
		{"إيق\u0640اف!", "ar-EG", nil, reply.Stop}, // made longer
		{"وق\u0651ف", "ar", nil, ""},               // another word
		{"ابدا\u064b", "ar", nil, ""},              // never
		{"أبد\u064bا", "ar", nil, ""},              // never
		{"aidé", "fr", nil, ""},                    // helped, not help
		{"bajá", "es", nil, ""},                    // a letter with another mark is another letter
		{"i.n.f.o r.m", "en", nil, ""},             // more than one word
		{"e.nd", "en", nil, ""},                    // not spelled
		{"no.stop", "en", nil, ""},                 // two words
		{"start", "xx", nil, reply.Start},
		{"HELP?", "", nil, reply.Help},
		{"was ist das", "de", own, reply.Help},
		{"hilfe", "de", own, ""}, // own words replace the built-in ones
		{"stopp", "de", own, reply.Stop},
		{"yes", "en", nil, ""}, // it answers questions
		{"", "en", nil, ""},
		{" \u200f ", "ar", nil, ""},
		{"\x00", "en", nil, ""},
		{"…", "en", nil, ""},
		{"1", "en", nil, ""},
	} {
		if got := reply.Find(c.text, c.locale, c.own); got != c.want {
			t.Errorf("%q in %q is %q, not %q", c.text, c.locale, got, c.want)
		}
	}
	if !own.Has("was ist das") || own.Has("help") || !reply.Blank(" . ") || reply.Blank("a") {
		t.Error("the words are not compared as messages are")
	}
}

// No built-in word has two meanings for anybody: the language of a person is one, beside English.
func TestWordsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	for _, locale := range []string{"en", "de", "ar", "fr", "es", "pt", "sw"} {
		for word, want := range map[string]reply.Keyword{"stop": reply.Stop, "start": reply.Start, "help": reply.Help} {
			if got := reply.Find(word, locale, nil); got != want {
				t.Errorf("%s in %s is %q", word, locale, got)
			}
		}
	}
}
