package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/service/ingest"
	"github.com/carillonhq/carillon/internal/strictjson"
)

// unmarshal reads a JSON body strictly: valid UTF-8, no doubled or unknown keys, no U+0000, bounded depth, nothing
// after it. Its errors are for the caller and hold no values.
func unmarshal(data []byte, v any) error {
	if err := checkJSON(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, generic := v.(*any); !generic {
		d.DisallowUnknownFields()
	}
	err := d.Decode(v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s cannot be a JSON %s", wrong.Field, strings.Fields(wrong.Value)[0])
	}
	return err
}

// checkJSON looks at what the decoder lets pass.
func checkJSON(data []byte) error {
	_, err := strictjson.Parse(data, ingest.MaxDepth)
	if err == nil {
		return nil
	}
	switch err.Kind {
	case strictjson.NotUTF8:
		return errors.New("the text is not valid UTF-8")
	case strictjson.Twice:
		return errors.New("duplicate key in one object")
	case strictjson.Zero, strictjson.ZeroKey:
		return errors.New("a text holds the character U+0000")
	case strictjson.Half, strictjson.HalfKey:
		where := "the body"
		if err.Path != "" {
			where = err.Path
		}
		return fmt.Errorf("%s holds half of a surrogate pair: write a character beyond U+FFFF as two \\u, or as itself", where)
	case strictjson.TooDeep:
		return fmt.Errorf("it is nested deeper than %d levels", ingest.MaxDepth)
	case strictjson.Behind:
		return errors.New("there is more text after the JSON value")
	case strictjson.Syntax:
	}
	return malformed(json.Unmarshal(data, new(any)))
}

func malformed(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if strings.Contains(syntax.Error(), "max depth") {
			return fmt.Errorf("it is nested deeper than %d levels", ingest.MaxDepth)
		}
		return fmt.Errorf("it is not valid JSON, at byte %d", syntax.Offset)
	}
	return errors.New("it is not valid JSON: it ends too early")
}

// readAll reads a bounded body.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := decoded(w, r, limit)
	var tooLarge *http.MaxBytesError
	var refused *client.Problem
	switch {
	case errors.As(err, &refused):
		return nil, err
	case errors.Is(err, errEncoding):
		p := newProblem(http.StatusBadRequest, client.CodeEncoding, "the body is not what its Content-Encoding says")
		p.Field = "body"
		return nil, p
	case errors.As(err, &tooLarge):
		p := newProblem(http.StatusRequestEntityTooLarge, client.CodeTooLarge, fmt.Sprintf("the request is larger than %d MiB", limit>>20))
		p.Field, p.Hint = "body", "send it in parts"
		return nil, p
	case err != nil:
		return nil, newProblem(http.StatusBadRequest, client.CodeInvalidJSON, "the body could not be read")
	}
	return body, nil
}

// readText reads a bounded body that is not blank.
func readText(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := readAll(w, r, limit)
	if err == nil && len(bytes.TrimSpace(body)) == 0 {
		p := newProblem(http.StatusBadRequest, client.CodeInvalidJSON, "the body is missing")
		p.Field = "body"
		return nil, p
	}
	return body, err
}

// readBody reads a bounded body of JSON.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := readText(w, r, limit)
	if err == nil {
		err = checkSyntax(body)
	}
	return body, err
}

// checkSyntax says where a text stops being JSON.
func checkSyntax(text []byte) error {
	r := strictjson.NewReader(text, strictjson.MaxDepth)
	wrong := r.Skip()
	if wrong == nil {
		wrong = r.End()
	}
	if wrong == nil {
		return nil
	}
	p := newProblem(http.StatusBadRequest, client.CodeInvalidJSON, malformed(json.Unmarshal(text, new(any))).Error())
	p.Field = "body"
	return p
}

// object splits a JSON object into its fields, each key once and each known. The JSON is valid.
func object(body []byte, keys ...string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	token, err := d.Token()
	if err != nil || token != json.Delim('{') {
		return nil, invalid("body", "it is not a JSON object", "")
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, invalid("body", "it is not a JSON object", "")
		}
		name, _ := token.(string)
		known := false
		for _, key := range keys {
			known = known || key == name
		}
		if !known {
			return nil, invalid("body."+shortened(name), "unknown key", "the keys are "+strings.Join(keys, ", "))
		}
		if _, twice := fields[name]; twice {
			return nil, invalid("body."+name, "it is listed twice", "")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, invalid("body."+name, "it cannot be read", "")
		}
		fields[name] = value
	}
	return fields, nil
}
