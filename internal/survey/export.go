package survey

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Response is the answers to the survey of one delivery, as files hold them: its JSON is that of the API.
type Response struct {
	ID          string         `json:"id"`
	Delivery    string         `json:"delivery"`
	Address     string         `json:"address,omitempty"`      // of the person who was asked
	CustomerRef string         `json:"customer_ref,omitempty"` // of the same
	Workflow    string         `json:"workflow"`
	Survey      string         `json:"survey"`
	Definitions int64          `json:"definitions"` // the number of the set whose questions were answered
	Locale      string         `json:"locale,omitempty"`
	Answers     map[string]any `json:"answers"`            // by the id of the question
	AgentID     string         `json:"agent_id,omitempty"` // who answered on the person's behalf; empty: the person
	CreatedAt   time.Time      `json:"created_at"`
}

// WriteNDJSON writes a line of JSON for each response, every text as it was written. It ends with the first error of all, which it
// returns as it is, or of w.
func WriteNDJSON(w io.Writer, all iter.Seq2[Response, error]) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for r, err := range all {
		if err != nil {
			return err
		}
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("write a response: %w", err)
		}
	}
	return nil
}

// Questions returns the ids of the questions of a survey in a set of definitions, in their order; none: it has no such survey.
type Questions func(survey string, definitions int64) ([]string, error)

// AnsweredQuestions returns the ids of the questions that somebody answered, in the order of their surveys: the columns of WriteCSV. The
// order of a survey is that of the first response to it; a question that only another version of the survey asked follows the one before it
// there. Surveys follow each other by name. It ends with the first error of all or of questions, which it returns as it is.
func AnsweredQuestions(all iter.Seq2[Response, error], questions Questions) ([]string, error) {
	orders := map[string][]string{} // by survey
	answered := map[string]bool{}
	for r, err := range all {
		if err != nil {
			return nil, err
		}
		order := orders[r.Survey]
		ids := slices.Sorted(maps.Keys(r.Answers))
		for _, id := range ids {
			answered[id] = true
		}
		if !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(order, id) }) {
			continue
		}
		asked, err := questions(r.Survey, r.Definitions)
		if err != nil {
			return nil, err
		}
		order = merged(order, asked)
		for _, id := range ids {
			if !slices.Contains(order, id) { // its survey is known no more
				order = append(order, id)
			}
		}
		orders[r.Survey] = order
	}
	var columns []string
	for _, name := range slices.Sorted(maps.Keys(orders)) {
		for _, id := range orders[name] {
			if answered[id] && !slices.Contains(columns, id) {
				columns = append(columns, id)
			}
		}
	}
	return columns, nil
}

// merged adds to a list what it has not, each after the one that it follows in the other list.
func merged(list, other []string) []string {
	at := 0 // where the next one belongs
	for _, id := range other {
		if i := slices.Index(list, id); i >= 0 {
			at = i + 1
			continue
		}
		list = slices.Insert(list, at, id)
		at++
	}
	return list
}

// WriteCSV writes a head, and a row for each response with a column for each of the questions. A text that a spreadsheet would take for a
// formula gets an apostrophe in front. It ends with the first error of all, which it returns as it is, or of w.
func WriteCSV(w io.Writer, questions []string, all iter.Seq2[Response, error]) error {
	table := csv.NewWriter(w)
	row := []string{"created_at", "delivery", "address", "customer_ref", "workflow", "survey", "locale", "agent_id"}
	for _, id := range questions {
		row = append(row, plainCell(id))
	}
	_ = table.Write(row) // Flush reports it
	for r, err := range all {
		if err != nil {
			return err
		}
		row = append(row[:0], r.CreatedAt.UTC().Format(time.RFC3339))
		for _, text := range []string{r.Delivery, r.Address, r.CustomerRef, r.Workflow, r.Survey, r.Locale, r.AgentID} {
			row = append(row, plainCell(text))
		}
		for _, id := range questions {
			row = append(row, answerCell(r.Answers[id]))
		}
		if table.Write(row) != nil {
			break
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return fmt.Errorf("write the responses: %w", err)
	}
	return nil
}

// answerCell is an answer as a cell of CSV.
func answerCell(answer any) string {
	switch answer.(type) {
	case float64, json.Number:
		return AnswerText(answer) // a negative number is no formula
	}
	return plainCell(AnswerText(answer))
}

// formulaStarts are the characters at which spreadsheets begin to read a formula, at the beginning of a cell: the wide ones in countries
// that write them. (OWASP, CSV Injection.)
const formulaStarts = "=+-@\t\r\n＝＋－＠"

// plainCell keeps a spreadsheet from taking a text for a formula: everybody who has a link can write one.
func plainCell(text string) string {
	if first, size := utf8.DecodeRuneInString(text); size > 0 && strings.ContainsRune(formulaStarts, first) {
		return "'" + text
	}
	return text
}
