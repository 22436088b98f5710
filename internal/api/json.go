package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/engine/intake"
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
	if !utf8.Valid(data) {
		return errors.New("the text is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := checkValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more text after the JSON value")
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	token, err := d.Token()
	if err != nil {
		return malformed(err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return checkText(token)
	}
	if depth >= intake.MaxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", intake.MaxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return malformed(err)
			}
			name, _ := key.(string)
			if err := checkText(key); err != nil {
				return err
			}
			if seen[name] {
				return errors.New("a key stands twice in one object")
			}
			seen[name] = true
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed(err)
	}
	return nil
}

func checkText(token json.Token) error {
	if text, ok := token.(string); ok && strings.ContainsRune(text, 0) {
		return errors.New("a text holds the character U+0000")
	}
	return nil
}

func malformed(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if strings.Contains(syntax.Error(), "max depth") {
			return fmt.Errorf("it is nested deeper than %d levels", intake.MaxDepth)
		}
		return fmt.Errorf("it is not valid JSON, at byte %d", syntax.Offset)
	}
	return errors.New("it is not valid JSON: it ends too early")
}

// readAll reads a bounded body.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := decoded(w, r, limit)
	var tooLarge *http.MaxBytesError
	switch {
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

// readBody reads a bounded body of JSON.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := readAll(w, r, limit)
	switch {
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(body)) == 0:
		p := newProblem(http.StatusBadRequest, client.CodeInvalidJSON, "the body is missing")
		p.Field = "body"
		return nil, p
	case !json.Valid(body):
		p := newProblem(http.StatusBadRequest, client.CodeInvalidJSON, malformed(json.Unmarshal(body, new(any))).Error())
		p.Field = "body"
		return nil, p
	}
	return body, nil
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
			return nil, invalid("body", "it holds an unknown key", "the keys are "+strings.Join(keys, ", "))
		}
		if _, twice := fields[name]; twice {
			return nil, invalid("body."+name, "it stands twice", "")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, invalid("body."+name, "it cannot be read", "")
		}
		fields[name] = value
	}
	return fields, nil
}
