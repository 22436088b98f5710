package client

import "net/http"

// Code is one code of problems, with what it means and what to do about it.
type Code struct {
	Code    string `json:"code"`
	Status  int    `json:"status"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// Codes lists every code that a server answers, by status. The page of errors and the description of the API are made
// from this list.
func Codes() []Code {
	return []Code{
		{CodeInvalidJSON, http.StatusBadRequest, "The body is missing, is not JSON in UTF-8, is nested deeper than 32 levels, holds U+0000 or half of a surrogate pair, or holds a key twice in one object.", "Correct the body; the detail says what is wrong and where."},
		{CodeEncoding, http.StatusBadRequest, "The body is not what its header Content-Encoding says.", "Compress it with gzip, whole, or leave the header out."},
		{CodeIdempotencyKey, http.StatusBadRequest, "The Idempotency-Key is not 1 to 255 visible ASCII characters, or came twice.", "Send one key, such as a UUID made for this request."},
		{CodeUnauthorized, http.StatusUnauthorized, "No API key came with the request, or one that is unknown or revoked; a callback is not signed as its channel asks for.", "Send Authorization: Bearer car_…; carillon keys create makes a key. Sign a callback as the hint says."},
		{CodeForbidden, http.StatusForbidden, "The API key lacks the scope of the route.", "Make a key with that scope; the detail names it."},
		{CodeNotFound, http.StatusNotFound, "There is no such route, or no such object in this workspace.", "Check the path and the id. The id of an object in another workspace gets the same answer."},
		{CodeNotAllowed, http.StatusMethodNotAllowed, "The route takes other methods.", "The header Allow names them."},
		{CodeRequestTimeout, http.StatusRequestTimeout, "The body took longer than 30 seconds to arrive.", "Send it again, in smaller parts."},
		{CodeNotPossible, http.StatusConflict, "The state of the object does not allow this.", "The detail names the state; the hint says what is possible."},
		{CodeConflict, http.StatusConflict, "Somebody else changed it meanwhile.", "Read it again, then decide."},
		{CodeWorkflowLocked, http.StatusConflict, "The workflow was edited, and a run evaluates all its records. It cannot be edited again before the run ends.", "Wait for the run, which GET /v1/runs shows, or cancel it: POST /v1/runs/{id}/cancel."},
		{CodeInProgress, http.StatusConflict, "A request with the same Idempotency-Key is still under way.", "Send it again later, under the same key."},
		{CodeAnswered, http.StatusConflict, "The survey has been answered, in this delivery or in another one of its occasion.", "GET /v1/responses shows the answer; a second one is not taken."},
		{CodeClosed, http.StatusGone, "The survey has ended without an answer: it expired, or its delivery was cancelled, skipped or superseded.", "accept_late: true in the workflow's timing takes answers after the end."},
		{CodeTooLarge, http.StatusRequestEntityTooLarge, "The request holds more than 1 MiB (16 MiB on the routes for batches), or an event of more than 256 KiB.", "Send it in parts; keep large documents elsewhere and send their address."},
		{CodeURITooLong, http.StatusRequestURITooLong, "Path and query are longer than 8 KiB.", "Send fewer or shorter parameters."},
		{CodeMediaType, http.StatusUnsupportedMediaType, "The body has an encoding that the route does not read.", "Leave out the header Content-Encoding; the routes for batches read gzip."},
		{CodeInvalidRequest, http.StatusUnprocessableEntity, "A parameter or a field of the body is wrong.", "Send what the description of the route allows: /docs shows it, /openapi.json says it."},
		{CodeInvalidEvent, http.StatusUnprocessableEntity, "The event is not valid; nothing of it is kept.", "An event has id, kind, occurred_at, payload and recipient. In a batch this is an item's reason, and the others are accepted."},
		{CodeDedupMissing, http.StatusUnprocessableEntity, "The event lacks a value that names its occasion, and the trigger rejects such events.", "Send the value; the field names it."},
		{CodeNoRecipient, http.StatusUnprocessableEntity, "The event is for its recipient and has none.", "Send recipient with an address or a customer_ref."},
		{CodeNotByHand, http.StatusUnprocessableEntity, "The workflow cannot be run by hand: its audience or its texts need an event or a record.", "Post the event or write the record instead, or give the workflow a trigger with a schedule."},
		{CodeKeyReused, http.StatusUnprocessableEntity, "The Idempotency-Key was sent with another request before.", "Send a new key with a new request, and an old one with exactly the old request."},
		{CodeDefinitions, http.StatusUnprocessableEntity, "The definitions have errors; nothing was changed.", "problems lists every error with its place. carillon check finds them without a server."},
		{CodeInvalidAnswers, http.StatusUnprocessableEntity, "Some answers are not taken; nothing was stored.", "answers lists each with its question and the reason. Correct them and send all answers again."},
		{CodeBusy, http.StatusTooManyRequests, "The requests in progress use all the memory that the server allows for bodies.", "Wait for as long as the header Retry-After says, and send it again; send smaller batches, or fewer at once."},
		{CodeTooManyFailures, http.StatusTooManyRequests, "Too many callbacks from the address of the caller were not signed as they have to be.", "Sign them: a callback of at most 64 KiB that is signed is taken all the same. A larger one is read after as long as the header Retry-After says."},
		{CodeHeadersTooLarge, http.StatusRequestHeaderFieldsTooLarge, "The headers hold more than 32 KiB.", "Send fewer: no route needs more than Authorization."},
		{CodeInternal, http.StatusInternalServerError, "Something went wrong in the server.", "The server's log says what. Repeat a read or a post of events. Check the state before you repeat anything else."},
		{CodeUnavailable, http.StatusServiceUnavailable, "The database does not answer, the server is stopping, or definitions are changed again and again.", "Send it again later."},
	}
}
