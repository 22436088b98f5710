package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

// recorder answers every request with an empty object and keeps what was asked.
type recorder struct {
	mu    sync.Mutex
	asked []*http.Request
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, req)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// Every route for programs has a method of the client. The metrics are for Prometheus, and the words of ADP Surveys
// are for callers who have a client already.
func TestClientKnowsEveryRoute(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	c, err := client.New("http://server.example", "car_x", client.WithHTTPClient(&http.Client{Transport: seen}))
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(c)
	for i := range value.NumMethod() {
		method := value.Type().Method(i)
		var args []reflect.Value
		for j := range value.Method(i).Type().NumIn() {
			in := value.Method(i).Type().In(j)
			if method.Type.IsVariadic() && j == value.Method(i).Type().NumIn()-1 {
				break
			}
			switch {
			case in == reflect.TypeFor[[]json.RawMessage]():
				args = append(args, reflect.ValueOf([]json.RawMessage{}))
			case in.Kind() == reflect.Interface:
				args = append(args, reflect.ValueOf(t.Context()))
			case in.Kind() == reflect.String:
				args = append(args, reflect.ValueOf("x").Convert(in))
			case in.Kind() == reflect.Struct: // a thing whose id may stand in the path
				thing := reflect.New(in).Elem()
				for k := range thing.NumField() {
					if thing.Field(k).Kind() == reflect.String {
						thing.Field(k).SetString("x")
					}
				}
				args = append(args, thing)
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		results := value.Method(i).Call(args)
		if len(results) == 1 && results[0].Kind() == reflect.Func { // a list of all pages: its first
			yield := reflect.MakeFunc(results[0].Type().In(0), func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(false)} })
			results[0].Call([]reflect.Value{yield})
		}
	}
	mux := http.NewServeMux()
	want := map[string]bool{}
	for _, r := range api.New(api.Deps{}).Routes() {
		if r.Scope == "" || strings.HasPrefix(r.Path, "/api/") || r.Path == "/metrics" {
			continue
		}
		want[r.Method+" "+r.Path] = true
		mux.Handle(r.Method+" "+r.Path, http.NotFoundHandler())
	}
	for _, req := range seen.asked {
		_, pattern := mux.Handler(req)
		if pattern == "" {
			t.Errorf("the client asks %s %s, which is no route", req.Method, req.URL.Path)
		}
		delete(want, pattern)
	}
	for pattern := range want {
		t.Errorf("no method of the client asks %s", pattern)
	}
}
