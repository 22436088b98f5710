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
