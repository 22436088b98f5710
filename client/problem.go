package client

import "time"

// ProblemType is the media type of errors (RFC 9457).
const ProblemType = "application/problem+json"

// Codes of problems, on which programs branch; Codes says what each means. An event that is refused alone has its reason
// as the code.
const (
	CodeUnauthorized    = "unauthorized"            // 401: no key, or one that is unknown or revoked
	CodeForbidden       = "forbidden"               // 403: the key lacks the scope
	CodeNotFound        = "not_found"               // 404
	CodeNotAllowed      = "method_not_allowed"      // 405
	CodeNotByHand       = "not_by_hand"             // 422: a workflow that needs an event or a record
	CodeNotPossible     = "not_possible"            // 409: not in this state; the detail says which
	CodeConflict        = "conflict"                // 409: somebody else changed it meanwhile; ask again
	CodeTooLarge        = "request_too_large"       // 413
	CodeURITooLong      = "uri_too_long"            // 414
	CodeMediaType       = "unsupported_media_type"  // 415
	CodeInvalidJSON     = "invalid_json"            // 400
	CodeEncoding        = "invalid_encoding"        // 400: the body is not what its Content-Encoding says
	CodeIdempotencyKey  = "invalid_idempotency_key" // 400: not 1 to 255 visible ASCII characters
	CodeKeyReused       = "idempotency_key_reused"  // 422: the key belongs to another request
	CodeWorkflowLocked  = "workflow_locked"         // 409: a run goes over what the last edit has changed
	CodeInProgress      = "request_in_progress"     // 409: a request with the same key takes long; send it again later
	CodeInvalidRequest  = "invalid_request"         // 422: a field is wrong; the field says which
	CodeInvalidEvent    = "invalid_event"           // 422
	CodeDedupMissing    = "dedup_missing"           // 422
	CodeNoRecipient     = "no_recipient"            // 422
	CodeDefinitions     = "invalid_definitions"     // 422: the list of problems says what
	CodeBusy            = "server_busy"             // 429: requests in flight hold too much; Retry-After says when to come back
	CodeTooManyFailures = "too_many_failures"       // 429: too many callbacks of the address were not signed; see Retry-After
	CodeInvalidAnswers  = "invalid_answers"         // 422: the list of answers says which, and why
	CodeAnswered        = "already_answered"        // 409: the survey has its answer
	CodeClosed          = "survey_closed"           // 410: the survey has ended without one
	CodeHeadersTooLarge = "headers_too_large"       // 431
	CodeRequestTimeout  = "request_timeout"         // 408
	CodeInternal        = "internal"                // 500: details are in the server's log
	CodeUnavailable     = "unavailable"             // 503: try again
	problemTypePrefix   = "urn:carillon:problem:"
)

// Problem is an error as the API says it. It never repeats values of the request.
type Problem struct {
	Type     string              `json:"type" doc:"A name of the kind of error; urn:carillon:problem: and the code."`
	Title    string              `json:"title" doc:"The status in words."`
	Status   int                 `json:"status" doc:"The HTTP status."`
	Code     string              `json:"code" doc:"What went wrong, for programs."`
	Detail   string              `json:"detail,omitempty" doc:"What went wrong, for people."`
	Field    string              `json:"field,omitempty" doc:"The field of the request that is wrong, such as body.files[0].name."`
	Hint     string              `json:"hint,omitempty" doc:"What to do."`
	Problems []DefinitionProblem `json:"problems,omitempty" doc:"Every fault of the definitions."`
	Answers  []AnswerProblem     `json:"answers,omitempty" doc:"Every answer that was refused."`

	// RetryAfter is how long the server wishes to be left alone; 0 = it did not say.
	RetryAfter time.Duration `json:"-"`
}

// NewProblem makes a problem with this status and code.
func NewProblem(status int, title, code, detail string) *Problem {
	return &Problem{Type: problemTypePrefix + code, Title: title, Status: status, Code: code, Detail: detail}
}

// Error is the detail with its field and hint.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type in which a problem is written.
func (p *Problem) ContentType(string) string { return ProblemType }

// DefinitionProblem is one fault of a definition file.
type DefinitionProblem struct {
	File    string `json:"file" doc:"The name of the file."`
	Line    int    `json:"line" doc:"From 1."`
	Column  int    `json:"column" doc:"From 1."`
	Code    string `json:"code" doc:"The kind of fault, such as unknown_key."`
	Message string `json:"message" doc:"What is wrong."`
	Hint    string `json:"hint,omitempty" doc:"What to write instead."`
	Warning bool   `json:"warning,omitempty" doc:"It can be used as it is."`
}
