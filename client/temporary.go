package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// RetryAfter is how long a server that answered with an error wishes to be left alone; 0: it did not say.
func RetryAfter(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return p.RetryAfter
	}
	return 0
}

// Temporary reports whether the same call may succeed later: the server did not answer, was interrupted, or said so
// (408, 429, 502, 503, 504). Nothing is said about whether the call took effect.
func Temporary(err error) bool {
	var p *Problem
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &p):
		switch p.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	case errors.As(err, &network):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
