package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/importer"
	"github.com/carillonhq/carillon/internal/rowreader"
)

// importKind is what the commands that import files differ in.
type importKind struct {
	shape    rowreader.Shape
	needs    []neededField
	outcomes []string                            // in the order in which they are counted
	finish   func(rowreader.Row, map[string]any) // completes the object of a row; nil: nothing is missing
	send     func(ctx context.Context, api *client.Client, objects []json.RawMessage) ([]importer.Verdict, error)
	one      func(ctx context.Context, api *client.Client, object json.RawMessage) (importer.Verdict, error) // in place of send: an object a request
	lines    string                                                                                          // why a file cannot be CSV; empty: it can
}

// post sends the objects of a batch under its idempotency key.
func (k importKind) post(ctx context.Context, api *client.Client, key string, objects []json.RawMessage) ([]importer.Verdict, error) {
	if k.one == nil {
		return k.send(ctx, api.WithIdempotencyKey(key), objects)
	}
	verdicts := make([]importer.Verdict, len(objects))
	for i, object := range objects {
		var err error
		if verdicts[i], err = k.one(ctx, api.WithIdempotencyKey(fmt.Sprintf("%s-%d", key, i)), object); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// neededField is a field that every row must have, in place of which another one may stand, and the error when none of the columns of a CSV file goes there.
type neededField struct{ name, missing, or string }

// lacks returns the error for the first field that neither a column nor a flag gives.
func (k importKind) lacks(mapped []string, constants map[string]string) error {
	for _, field := range k.needs {
		if constants[field.name] == "" && !slices.Contains(mapped, field.name) && (field.or == "" || !slices.Contains(mapped, field.or)) {
			return errors.New(field.missing)
		}
	}
	return nil
}

// given returns the field that a flag gives to all rows, nil when it does not.
func given(field, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{field: value}
}

func importOfEvents() importKind {
	return importKind{
		shape:    rowreader.Events(),
		needs:    []neededField{{"kind", "what happened? --kind KIND says it for all rows, --map kind=COLUMN for each", ""}},
		outcomes: []string{"created", "skipped", "no_match"},
		finish: func(row rowreader.Row, event map[string]any) {
			if event["id"] == nil {
				identity := row.Identity()
				event["id"] = fmt.Sprintf("row-%x", identity[:16])
			}
		},
		send: func(ctx context.Context, api *client.Client, objects []json.RawMessage) ([]importer.Verdict, error) {
			answer, err := api.PostRawEvents(ctx, objects)
			return verdictsOf(answer.Items, func(r client.EventResult) importer.Verdict {
				return verdictOf(r.Outcome, r.Reason, r.Field, r.Message, r.Hint)
			}), err
		},
	}
}

func importOfContacts() importKind {
	return importKind{
		shape:    rowreader.Contacts(),
		needs:    []neededField{{"id", "no id column: name it with --id COLUMN: it holds your id of each person", ""}},
		outcomes: []string{"created", "changed", "unchanged"},
		send: func(ctx context.Context, api *client.Client, objects []json.RawMessage) ([]importer.Verdict, error) {
			answer, err := api.PostRawContacts(ctx, objects)
			return verdictsOf(answer.Items, func(r client.ContactResult) importer.Verdict {
				return verdictOf(r.Outcome, r.Reason, r.Field, r.Message, r.Hint)
			}), err
		},
	}
}

func importOfRecords() importKind {
	return importKind{
		shape: rowreader.Records(),
		needs: []neededField{
			{"id", "which record is it? --id COLUMN names the column with your id of each record", ""},
			{"type", "what is it? --type TYPE says it for all rows, --map type=COLUMN for each", ""},
		},
		outcomes: []string{"created", "changed", "unchanged"},
		send: func(ctx context.Context, api *client.Client, objects []json.RawMessage) ([]importer.Verdict, error) {
			answer, err := api.PostRawRecords(ctx, objects)
			return verdictsOf(answer.Items, func(r client.RecordResult) importer.Verdict {
				return verdictOf(r.Outcome, r.Reason, r.Field, r.Message, r.Hint)
			}), err
		},
	}
}

func importOfSubscriptions() importKind {
	return importKind{
		shape: rowreader.Subscriptions(),
		needs: []neededField{
			{"contact", "who subscribes? --map contact=COLUMN names the column with your id of each person, --map address=COLUMN the one with their address", "address"},
			{"topic", "to which topic? --topic NAME says it for all rows, --map topic=COLUMN for each", ""},
			{"frequency", "how often? --frequency NAME says it for all rows, --map frequency=COLUMN for each", ""},
		},
		outcomes: []string{"created", "changed", "unchanged", "pending"},
		send: func(ctx context.Context, api *client.Client, objects []json.RawMessage) ([]importer.Verdict, error) {
			answer, err := api.ImportRawSubscriptions(ctx, objects)
			return verdictsOf(answer.Items, func(r client.SubscriptionResult) importer.Verdict {
				return verdictOf(r.Outcome, r.Reason, r.Field, r.Message, r.Hint)
			}), err
		},
	}
}

func importOfTopics() importKind {
	return importKind{
		shape: rowreader.Topics(), outcomes: []string{"created", "unchanged"}, lines: "the rules of a topic are lists, which NDJSON can hold: write one topic on each line",
		one: func(ctx context.Context, api *client.Client, object json.RawMessage) (importer.Verdict, error) {
			found, err := api.FindRawTopic(ctx, object)
			var refused *client.Problem
			switch {
			case errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity:
				return verdictOf("failed", refused.Code, strings.TrimPrefix(refused.Field, "body."), refused.Detail, refused.Hint), nil
			case err != nil:
				return importer.Verdict{}, err
			case found.Created:
				return verdictOf("created", "", "", "", ""), nil
			}
			return verdictOf("unchanged", "", "", "", ""), nil
		},
	}
}

func verdictsOf[R any](results []R, of func(R) importer.Verdict) []importer.Verdict {
	all := make([]importer.Verdict, len(results))
	for i, r := range results {
		all[i] = of(r)
	}
	return all
}

func verdictOf(outcome, reason, field, message, hint string) importer.Verdict {
	return importer.Verdict{Outcome: outcome, Failed: outcome == "failed", Reason: reason, Field: field, Message: message, Hint: hint}
}
