package answer

import (
	"cmp"
	"fmt"

	"github.com/carillonhq/carillon/internal/message"
)

// Texts are the texts of a survey for its contact.
type Texts struct {
	Locale string // the contact's, such as "ar"; empty: not known
	Title  string
	By     map[string]string // by question; by "question=value" the text of an option
}

// Texts renders the texts of the survey in the best of its locales, with the fields of the event or record in them.
func (s Survey) Texts() (Texts, error) {
	out := Texts{Locale: cmp.Or(s.Locales...), By: map[string]string{}}
	vars := s.Reading.Variables()
	reader := message.Reader{Zone: s.Reading.Input().Zone}
	render := func(text message.Text) (string, error) {
		template, locale, ok := text.Pick(s.Locales...)
		if !ok {
			return "", nil
		}
		reader.Locale, reader.Language = locale, cmp.Or(locale, out.Locale)
		written, err := template.RenderFor(reader, vars, message.Limits{})
		if err != nil {
			return "", fmt.Errorf("render the questions of survey %s: %w", s.Name, err)
		}
		return written, nil
	}
	var err error
	if out.Title, err = render(s.Form.Title); err != nil {
		return out, err
	}
	for _, q := range s.Form.Questions {
		if out.By[q.ID], err = render(q.Text); err != nil {
			return out, err
		}
		for _, o := range q.Options {
			if out.By[q.ID+"="+o.Value], err = render(o.Text); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}
