package client

import (
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"slices"
	"strings"
)

// compressFrom is the size from which a batch is compressed, in bytes: below it fits into a few packets anyway.
const compressFrom = 16 << 10

// batch reports whether a route reads compressed bodies.
func batch(method, path string) bool {
	return method == http.MethodPost && slices.Contains(BatchRoutes(), path)
}

// BatchRoutes are the paths whose POST takes many items and reads bodies with Content-Encoding: gzip.
func BatchRoutes() []string { return []string{"/v1/events", "/v1/contacts", "/v1/records"} }

func compress(raw []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is a valid one
	_, _ = w.Write(raw)                               // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// loopback reports whether a host is this machine, where bytes are cheaper than the time to compress them.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
