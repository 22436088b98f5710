package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
// limit, however small it travels. Whoever reads the body again gets it decompressed.
func decoded(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	in := http.MaxBytesReader(w, r.Body, limit)
	if !compressed(r) {
		var body bytes.Buffer
		body.Grow(int(min(max(r.ContentLength, 0), limit)) + bytes.MinRead) // so that it is not moved while it grows
		_, err := body.ReadFrom(in)
		return body.Bytes(), err
	}
	unzip, err := gzip.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	var body bytes.Buffer
	n, err := body.ReadFrom(io.LimitReader(unzip, limit+1))
	var tooLarge *http.MaxBytesError
	switch {
	case n > limit:
		return nil, &http.MaxBytesError{Limit: limit}
	case errors.As(err, &tooLarge):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errEncoding, err)
	}
	r.Header.Del("Content-Encoding")
	return body.Bytes(), nil
}
