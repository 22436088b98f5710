package survey

import "strconv"

// Code names why an answer is not taken. The API answers the code, and pages put it into the words of their language.
type Code string

// The codes of problems.
const (
	Missing         Code = "missing"          // a required question has no answer, or a reply says nothing
	UnknownQuestion Code = "unknown_question" // the form has no such question
	NotAsked        Code = "not_asked"        // the question's show_when does not hold for these answers
	WrongType       Code = "wrong_type"       // Want says what is wanted
	NotAnOption     Code = "not_an_option"
	TooSmall        Code = "too_small" // Limit is the smallest answer
	TooLarge        Code = "too_large" // Limit is the largest answer
	NotWhole        Code = "not_whole" // a rating with decimals
	TooLong         Code = "too_long"  // Limit is the number of characters
	NotText         Code = "not_text"  // control characters, or no UTF-8
	NotADate        Code = "not_a_date"
	NotMatching     Code = "not_matching" // the question's pattern does not match
	NotValid        Code = "not_valid"    // the question's valid_when does not hold
)

// Problem is an answer that is not taken. It does not hold the answer, so that none gets into a log.
type Problem struct {
	Question string
	Code     Code
	Want     string  // for WrongType: what is wanted
	Limit    float64 // the bound that the answer is beyond
}

// Error says in English what is wrong and what to do.
func (p Problem) Error() string {
	limit := strconv.FormatFloat(p.Limit, 'f', -1, 64)
	switch p.Code {
	case Missing:
		return "this question needs an answer"
	case UnknownQuestion:
		return "the survey has no such question"
	case NotAsked:
		return "this question is not asked when the others are answered like this: leave it out"
	case WrongType:
		return "the answer must be " + p.Want
	case NotAnOption:
		return "the answer is not one of the options"
	case TooSmall:
		return "the answer must be " + limit + " or more"
	case TooLarge:
		return "the answer must be " + limit + " or less"
	case NotWhole:
		return "the answer must be a whole number"
	case TooLong:
		return "the answer must have at most " + limit + " characters"
	case NotText:
		return "the answer has characters that are not text"
	case NotADate:
		return "the answer is not a date: write 2026-05-14"
	case NotMatching:
		return "the answer does not have the form that the question asks for"
	case NotValid:
		return "this answer is not accepted here"
	}
	panic("survey: problem " + string(p.Code))
}
