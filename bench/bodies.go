package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	// bodiesAtOnce are the requests that are posted at the same time, and bodiesInLine those that are posted one after the other.
	bodiesAtOnce = 80
	bodiesInLine = 8
	// bodyEvents are the events of a request, of bodyPayload bytes each: about the largest request that is taken.
	bodyEvents  = 1000
	bodyPayload = 16 << 10
)

// bodyKinds are the payloads of events.
func bodyKinds() map[string]string {
	list := func(value string) string {
		return `{"list": [` + strings.TrimSuffix(strings.Repeat(value+",", bodyPayload/(len(value)+1)), ",") + `]}`
	}
	return map[string]string{bodiesOfText: `{"text": "` + strings.Repeat("Text. ", bodyPayload/6) + `", "n": 1}`, bodiesEmpty: list(`{}`), bodiesNested: list(`{"":0}`)}
}

// bodyContenders post large requests to the program itself (T28).
func bodyContenders(b *binary) (all []contender) {
	for name, payload := range bodyKinds() {
		for _, zipped := range []bool{false, true} {
			for _, line := range []bool{false, true} {
				figure := bodiesFigure(name, zipped, line)
				all = append(all, contender{figure, []string{"T28"}, func(ctx context.Context, r *round) error {
					peak, taken, err := postBodies(ctx, b, largeBody(payload), zipped, line)
					if err == nil {
						r.record(figure, peak)
						r.record(figure+bodiesTaken, taken)
					}
					return err
				}})
			}
		}
	}
	return all
}

// bodiesFigure is the name of a figure.
func bodiesFigure(name string, zipped, line bool) string {
	if zipped {
		name += bodiesZipped
	}
	if line {
		name += bodiesInTurn
	}
	return name
}

// largeBody is a request of many events.
func largeBody(payload string) []byte {
	var body bytes.Buffer
	body.WriteString(`{"events": [`)
	for n := range bodyEvents {
		if n > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"id": "%d", "kind": "large", "payload": %s}`, n, payload)
	}
	body.WriteString(`]}`)
	return body.Bytes()
}

// postBodies starts a server on SQLite and posts requests to it. It returns the most memory that it has taken, in MB, and the percentage of the requests that
// were taken.
func postBodies(ctx context.Context, b *binary, body []byte, zipped, line bool) (peak, taken float64, err error) {
	dir, err := os.MkdirTemp("", "carillon-bench-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db := filepath.Join(dir, "bodies.db")
	p, err := b.serve(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	key, err := b.call(ctx, "keys", "create", "--db", db, "--name", "bench", "--scopes", "admin")
	if err != nil {
		return 0, 0, err
	}
	header := http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	if zipped {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		if _, err := w.Write(body); err != nil {
			return 0, 0, err
		}
		if err := w.Close(); err != nil {
			return 0, 0, err
		}
		body = small.Bytes()
		header.Set("Content-Encoding", "gzip")
	}
	requests, at := bodiesAtOnce, bodiesAtOnce
	if line {
		requests, at = bodiesInLine, 1
	}
	var posting errgroup.Group
	var ok atomic.Int64
	posting.SetLimit(at)
	for range requests {
		posting.Go(func() error {
			took, err := postBody(ctx, p.address, header, body)
			if took {
				ok.Add(1)
			}
			return err
		})
	}
	if err := posting.Wait(); err != nil {
		return 0, 0, err
	}
	peak, err = most(p.pid)
	return peak, 100 * float64(ok.Load()) / float64(requests), err
}

// postBody posts one request. It may be refused for the memory that it takes, and for nothing else.
func postBody(ctx context.Context, address string, header http.Header, body []byte) (taken bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/events", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1000))
	switch response.StatusCode {
	case http.StatusOK:
		return true, err
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return false, err
	}
	return false, fmt.Errorf("a request of %d bytes was answered %s: %s", len(body), response.Status, said)
}

// most returns the most memory that a process has had at once, in MB.
func most(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("process %d does not tell its memory", pid)
}
