package api_test

import (
	"encoding/json"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/api"
)

// The page shows every route with its scope, its errors and a command; every link leads somewhere on it; it has no
// script, and what it loads is ours.
func TestPage(t *testing.T) {
	t.Parallel()
	routes := api.New(api.Deps{Version: "1.2.3", Log: slog.New(slog.DiscardHandler)})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	w := get("/docs")
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'; img-src 'self';") {
		t.Fatalf("%d, %s", w.Code, w.Header())
	}
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
	for _, r := range routes.Routes() {
		if r.Scope == "" && !r.Signed {
			continue
		}
		needs := string(r.Scope)
		if r.Signed {
			needs = "signed"
		}
		if !strings.Contains(text, r.Method+" "+r.Path+" "+needs) {
			t.Errorf("%s %s with its scope %s is not on the page", r.Method, r.Path, r.Scope)
		}
	}
	for _, c := range client.Codes() {
		if !strings.Contains(page, `id="error-`+c.Code+`"`) {
			t.Errorf("%s is not on the page", c.Code)
		}
	}
	var ids []string
	for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if slices.Contains(ids, m[1]) {
			t.Errorf("the id %s is listed twice", m[1])
		}
		ids = append(ids, m[1])
	}
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if to, inside := strings.CutPrefix(m[1], "#"); inside && !slices.Contains(ids, to) {
			t.Errorf("%s leads nowhere", m[1])
		} else if !inside && !strings.HasPrefix(m[1], "/") {
			t.Errorf("%s leads elsewhere", m[1])
		}
	}
	for _, foreign := range []string{"<script", "style=", "onclick", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page holds %s", foreign)
		}
	}
	if css := get("/docs/page.css"); css.Code != http.StatusOK || strings.Contains(css.Body.String(), "url(") || strings.Contains(css.Body.String(), "@import") {
		t.Errorf("the stylesheet: %d, or it loads something", css.Code)
	}
}

// The examples of the description are bodies that the server takes.
func TestExamplesAreTaken(t *testing.T) {
	t.Parallel()
	b := setup(t, "sqlite")
	raw, err := api.New(api.Deps{}).Description()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for path, ops := range d.Paths {
		for method, op := range ops {
			if op.RequestBody == nil || len(op.RequestBody.Content["application/json"].Example) == 0 {
				continue
			}
			taken++
			status, text := b.ask(strings.ToUpper(method), strings.NewReplacer("{name}", "NAME", "{type}", "kiosk").Replace(path), string(op.RequestBody.Content["application/json"].Example))
			if status/100 != 2 && status != http.StatusNotFound && status != http.StatusConflict {
				t.Errorf("%s %s: the example is answered %d %s", method, path, status, text)
			}
		}
	}
	if taken < 4 {
		t.Errorf("found %d examples", taken)
	}
}
