package api

import (
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/client"
)

// errEncoding means that a body is not what its Content-Encoding says.
var errEncoding = errors.New("the body cannot be decompressed")

// compressed reports whether the body is declared as gzip.
func compressed(r *http.Request) bool {
	enc := r.Header.Get("Content-Encoding")
	return strings.EqualFold(enc, "gzip") || strings.EqualFold(enc, "x-gzip")
}

// checkEncoding refuses encodings that the route does not read: gzip is read where many items travel.
func checkEncoding(r *http.Request) *client.Problem {
	batch := r.Method == http.MethodPost && (slices.Contains(client.BatchRoutes(), r.URL.Path) || r.URL.Path == surveysTriggersPath+"/ingest")
	enc := r.Header.Values("Content-Encoding")
	if len(enc) == 0 || len(enc) == 1 && (enc[0] == "" || strings.EqualFold(enc[0], "identity") || batch && compressed(r)) {
		return nil
	}
	p := newProblem(http.StatusUnsupportedMediaType, client.CodeMediaType, "this route does not read the Content-Encoding of the request")
	p.Field, p.Hint = "header.Content-Encoding", "leave the header out"
	if batch {
		p.Hint = "gzip is read, and bodies without Content-Encoding"
	}
	return p
}

// decoded reads a body of at most limit bytes, decompressed ones counted. What would become more is given up at the
// limit, however small it travels. A second reader gets the decompressed body. A *client.Problem: the bodies of
// other requests leave no room for it.
func decoded(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if before, ok := r.Body.(*readBefore); ok {
		return before.text, nil
	}
	body := growing{room: roomOf(r)}
	in := http.MaxBytesReader(w, r.Body, limit)
	if !compressed(r) {
		if n := r.ContentLength; n > limit {
			discard(r, limit)
			return nil, &http.MaxBytesError{Limit: limit}
		} else if n > 0 && !body.hold(n+1) { // one more, so that the end is found without moving it
			return nil, body.room.refused(r, limit)
		}
		there, err := body.readFrom(in, limit)
		switch {
		case !there:
			return nil, body.room.refused(r, limit)
		case err != nil:
			return nil, err
		}
		return body.text, body.room.weigh(body.text)
	}
	unzip, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	there, err := body.readFrom(unzip, limit)
	var tooLarge *http.MaxBytesError
	switch {
	case !there:
		return nil, body.room.refused(r, limit)
	case int64(len(body.text)) > limit:
		return nil, &http.MaxBytesError{Limit: limit}
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	r.Header.Del("Content-Encoding")
	return body.text, body.room.weigh(body.text)
}
