package survey

import (
	"slices"

	"github.com/carillonhq/carillon/internal/civil"
	"github.com/carillonhq/carillon/internal/expr"
	"github.com/carillonhq/carillon/internal/message"
)

// Conversation says how a survey is asked by messages, one question each.
type Conversation struct {
	Invalid     message.Text     // the answer to what is no answer; none: the question is asked once more
	Closing     message.Text     // the answer to the last answer; none: nothing is said
	Reminders   []civil.Duration // of each question, each from the message before it
	ExpireAfter civil.Duration   // from the first question on; zero: as the workflow says
	Drop        bool             // what was answered of a conversation that did not reach its end is dropped (partial: drop)
}

// MostRepeats is how often a question is repeated because of answers that are none, at most: two machines that answer each other come to an end.
const MostRepeats = 5

// Next returns the question that is asked of somebody after one of them, by the answers so far; after is empty for the first. nil: none is left.
func (f *Form) Next(after string, answers map[string]any, in expr.Input) *Question {
	in.Answers = answers
	from := 0
	if after != "" {
		from = slices.IndexFunc(f.Questions, func(q Question) bool { return q.ID == after }) + 1
	}
	for i := from; i < len(f.Questions); i++ {
		if q := &f.Questions[i]; q.ShowWhen.Holds(in) {
			return q
		}
	}
	return nil
}

// Hear returns the answer to a question that somebody means, by the answers before it. nil without a problem: they leave it out, and they may.
func (q *Question) Hear(said Said, answers map[string]any, in expr.Input) (any, *Problem) {
	value, problem := q.Read(said)
	switch {
	case problem != nil:
		return nil, problem
	case value == nil && q.Required:
		return nil, &Problem{Code: Missing, Question: q.ID}
	case value == nil:
		return nil, nil //nolint:nilnil // left out
	}
	with := make(map[string]any, len(answers)+1)
	for id, answer := range answers {
		with[id] = answer
	}
	with[q.ID] = value
	if in.Answers = with; !q.ValidWhen.Holds(in) {
		return nil, &Problem{Code: NotValid, Question: q.ID}
	}
	return value, nil
}
