// Package survey decides about the answers to a form: which questions are asked, and which answers are taken.
//
// Questions are asked in their order. A question with a condition (show_when) is asked if the condition holds for the answers
// before it; an answer that was not taken counts as none. So the answers to the questions before determine which questions are
// asked, on a page as well as in a conversation, and the same answers always give the same result.
//
// The package does not know who answers, when, or in which delivery.
package survey

import (
	"regexp"
	"slices"

	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
)

// Form is what a survey asks.
type Form struct {
	Title     message.Text
	Questions []Question
}

// Type is the kind of answer that a question takes.
type Type string

// The types of questions, each with the JSON value of its answers.
const (
	Choice   Type = "choice"   // text: the value of one option
	Multiple Type = "multiple" // list of texts: the values of some options, in the order of the form
	Number   Type = "number"   // number
	Rating   Type = "rating"   // whole number from Min to Max
	FreeText Type = "text"     // text; its lines end with \n
	Date     Type = "date"     // text: 2026-05-14
	YesNo    Type = "yes_no"   // boolean
)

// Types returns all types of questions.
func Types() []Type { return []Type{Choice, Multiple, Number, Rating, FreeText, Date, YesNo} }

// MaxText is how many characters a text may have if its question does not say it.
const MaxText = 10_000

// Question is one question of a form.
type Question struct {
	ID        string
	Type      Type
	Text      message.Text
	Required  bool
	Options   []Option       // for choice and multiple
	Min, Max  *float64       // for number and rating, inclusive; nil: no bound
	MaxLength int            // for text, in characters; 0: MaxText
	Pattern   *regexp.Regexp // for text: it must match; nil: every text does
	ShowWhen  *expr.Condition
	ValidWhen *expr.Condition
}

// Option is one answer to choose from.
type Option struct {
	Value string
	Text  message.Text
}

// Longest returns how many characters an answer to a text question may have.
func (q *Question) Longest() int {
	if q.MaxLength > 0 {
		return q.MaxLength
	}
	return MaxText
}

// option returns the place of an option in the form; -1: there is none of that value.
func (q *Question) option(value string) int {
	return slices.IndexFunc(q.Options, func(o Option) bool { return o.Value == value })
}

// Question returns the question of that id, nil if there is none.
func (f *Form) Question(id string) *Question {
	if i := slices.IndexFunc(f.Questions, func(q Question) bool { return q.ID == id }); i >= 0 {
		return &f.Questions[i]
	}
	return nil
}
