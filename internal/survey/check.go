package survey

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon/internal/expr"
)

// Result is what Check decides about the answers of one person.
type Result struct {
	Answers  map[string]any // the answers that are taken, by question
	Asked    []string       // the questions that are asked of somebody who gives these answers, in the order of the form
	Problems []Problem      // in the order of the form, then unknown questions by name; empty: the answers are complete
}

// Check decides about answers, JSON values by question. Missing values, null, blank texts and empty lists are no answers. in holds
// what conditions read besides the answers.
func (f *Form) Check(given map[string]any, in expr.Input) Result {
	r := Result{Answers: make(map[string]any, len(given)), Asked: make([]string, 0, len(f.Questions))}
	refused := map[string]bool{} // questions whose answer was not taken
	for i := range f.Questions {
		q := &f.Questions[i]
		in.Answers = r.Answers
		value, answered := given[q.ID]
		answered = answered && !blank(value)
		if !q.ShowWhen.Holds(in) {
			if answered && !readsAny(q.ShowWhen, refused) { // else the other problem is mended first
				r.Problems = append(r.Problems, Problem{Question: q.ID, Code: NotAsked})
			}
			continue
		}
		r.Asked = append(r.Asked, q.ID)
		if !answered {
			if q.Required {
				r.Problems = append(r.Problems, Problem{Question: q.ID, Code: Missing})
			}
			continue
		}
		value, problem := q.take(value)
		if problem == nil {
			r.Answers[q.ID] = value
			if !q.ValidWhen.Holds(in) {
				problem = &Problem{Code: NotValid}
				delete(r.Answers, q.ID)
			}
		}
		if problem != nil {
			problem.Question = q.ID
			refused[q.ID] = true
			r.Problems = append(r.Problems, *problem)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		if f.Question(id) == nil {
			r.Problems = append(r.Problems, Problem{Question: clip(id), Code: UnknownQuestion})
		}
	}
	return r
}

// readsAny reports whether a condition reads the answer to one of the questions, or all answers.
func readsAny(c *expr.Condition, questions map[string]bool) bool {
	return slices.ContainsFunc(c.Paths(), func(p expr.Path) bool {
		return len(p) > 0 && p[0] == "answers" && (len(p) == 1 && len(questions) > 0 || len(p) > 1 && questions[p[1]])
	})
}

// Unasked returns given without the answers to questions that are not asked, and to unknown ones. A page without script shows a
// question until the next submit, so its answers are cleared before they are checked; a program's are not.
func (f *Form) Unasked(given map[string]any, in expr.Input) map[string]any {
	asked := f.Check(given, in).Asked
	out := make(map[string]any, len(asked))
	for _, id := range asked {
		if value, ok := given[id]; ok {
			out[id] = value
		}
	}
	return out
}
