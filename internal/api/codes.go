package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillonhq/carillon/client"
)

// commonCodes are those that every route may answer; forbidden only one with a key.
func commonCodes() []client.Code {
	return only(
		client.CodeUnauthorized, client.CodeForbidden, client.CodeURITooLong, client.CodeHeadersTooLarge,
		client.CodeInvalidRequest, client.CodeInternal, client.CodeUnavailable,
	)
}

// codesOf are the further codes that an operation may answer.
func codesOf(op *huma.Operation) []client.Code {
	var may []string
	if op.RequestBody != nil {
		may = append(may, client.CodeInvalidJSON, client.CodeTooLarge, client.CodeMediaType, client.CodeEncoding, client.CodeRequestTimeout, client.CodeBusy)
	}
	for _, p := range op.Parameters {
		switch p.In {
		case "path":
			may = append(may, client.CodeNotFound)
		case "header":
			if p.Name == client.IdempotencyKey {
				may = append(may, client.CodeIdempotencyKey, client.CodeKeyReused, client.CodeInProgress)
			}
		}
	}
	switch {
	case op.OperationID == "post-events":
		may = append(may, client.CodeInvalidEvent, client.CodeDedupMissing, client.CodeNoRecipient)
	case op.OperationID == "apply-definitions", op.OperationID == "rollback-definitions":
		may = append(may, client.CodeNotFound, client.CodeDefinitions, client.CodeWorkflowLocked)
	case op.OperationID == takeCallback:
		may = append(may, client.CodeTooManyFailures, client.CodeKeyReused, client.CodeInProgress)
	case op.OperationID == "definition-history", op.OperationID == "list-definitions", op.OperationID == "list-deliveries", op.OperationID == "list-outbox":
		may = append(may, client.CodeNotFound)
	case op.OperationID == "delete-definition":
		may = append(may, client.CodeNotPossible, client.CodeWorkflowLocked)
	case op.OperationID == "run-workflow":
		may = append(may, client.CodeNotPossible, client.CodeNotByHand)
	case op.OperationID == "count-recipients":
		may = append(may, client.CodeNotByHand)
	case op.OperationID == "forget-instance":
		may = append(may, client.CodeNotFound, client.CodeNotPossible, client.CodeConflict)
	case op.OperationID == "respond", op.OperationID == "surveys-respond":
		may = append(may, client.CodeAnswered, client.CodeClosed, client.CodeInvalidAnswers)
	case op.OperationID == "change-subscriptions":
		may = append(may, client.CodeNotFound, client.CodeNotPossible)
	case op.OperationID == "retry-deliveries", op.OperationID == "cancel-deliveries":
		may = append(may, client.CodeNotFound)
	case op.Method == http.MethodPost && strings.Contains(op.Path, "{id}"):
		may = append(may, client.CodeNotPossible, client.CodeConflict)
	}
	return only(may...)
}

// only picks codes from the list, in its order.
func only(names ...string) []client.Code {
	var list []client.Code
	for _, c := range client.Codes() {
		if slices.Contains(names, c.Code) {
			list = append(list, c)
		}
	}
	return list
}

// addProblems says for every operation with which status and codes it is refused.
func (a *API) addProblems() {
	eachOperation(a.huma.OpenAPI(), func(op *huma.Operation) {
		for _, c := range append(commonCodes(), codesOf(op)...) {
			if c.Code == client.CodeForbidden && op.OperationID == takeCallback {
				continue // it carries no key that could lack a scope
			}
			status := strconv.Itoa(c.Status)
			text := "`" + c.Code + "`: " + c.Meaning
			if have := op.Responses[status]; have != nil {
				if !strings.Contains(have.Description, "`"+c.Code+"`") {
					have.Description += " " + text
				}
				continue
			}
			res := problemResponse()
			res.Description = text
			op.Responses[status] = res
		}
	})
}
