package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/config"
)

// Shows: reliability 44.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8")}
	for _, tc := range []struct {
		name, peer, forwarded, proto string
		public                       bool // the settings' address begins with https
		from, scheme                 string
		hsts                         bool
	}{
		{name: "directly", peer: "192.0.2.1:5", from: "192.0.2.1:5"},
		{name: "a stranger who calls himself another", peer: "192.0.2.1:5", forwarded: "198.51.100.1", proto: "https", from: "192.0.2.1:5"},
		{name: "through the proxy", peer: "10.1.1.1:5", forwarded: "192.0.2.1", proto: "https", from: "192.0.2.1:0", scheme: "https", hsts: true},
		{name: "through the proxy, without TLS", peer: "10.1.1.1:5", forwarded: "192.0.2.1", proto: "http", from: "192.0.2.1:0"},
		{name: "through two proxies", peer: "127.0.0.1:5", forwarded: "192.0.2.1, 10.1.1.1", proto: "https", from: "192.0.2.1:0", scheme: "https", hsts: true},
		{name: "what the stranger wrote stands first", peer: "10.1.1.1:5", forwarded: "203.0.113.9, 192.0.2.1", proto: "https", from: "192.0.2.1:0", scheme: "https", hsts: true},
		{name: "what cannot be read", peer: "10.1.1.1:5", forwarded: "192.0.2.1, unknown", from: "10.1.1.1:5"},
		{name: "nothing but proxies", peer: "10.1.1.1:5", forwarded: "10.1.1.2", from: "10.1.1.1:5"},
		{name: "IPv6", peer: "[::ffff:10.1.1.1]:5", forwarded: "2001:db8::1", from: "[2001:db8::1]:0"},
		{name: "with the port, as some proxies write it", peer: "10.1.1.1:5", forwarded: "192.0.2.1:49152, 10.1.1.2:443", from: "192.0.2.1:0"},
		{name: "IPv6 with the port", peer: "10.1.1.1:5", forwarded: "[2001:db8::1]:49152", from: "[2001:db8::1]:0"},
		{name: "a stranger's port does not make it another hop", peer: "10.1.1.1:5", forwarded: "10.9.9.9:1, 192.0.2.1", from: "192.0.2.1:0"},
		{name: "no header", peer: "10.1.1.1:5", from: "10.1.1.1:5"},
		{name: "the public address is HTTPS", peer: "192.0.2.1:5", public: true, from: "192.0.2.1:5", hsts: true},
	} {
		var got *http.Request
		h := behind(proxies, tc.public, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = tc.peer
		if tc.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tc.forwarded)
		}
		if tc.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tc.proto)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if hsts := w.Header().Get("Strict-Transport-Security") == transportSecurity; got.RemoteAddr != tc.from || got.URL.Scheme != tc.scheme || hsts != tc.hsts {
			t.Errorf("%s: from %s by %q, HSTS %v; want %s by %q, %v", tc.name, got.RemoteAddr, got.URL.Scheme, hsts, tc.from, tc.scheme, tc.hsts)
		}
	}
}

// A process behind a proxy that it trusts marks the cookie of the console for HTTPS, and asks browsers to stay with it.
func TestCookieBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		c := Config{Server: config.Server{Database: config.Database{DB: filepath.Join(t.TempDir(), "carillon.db")}, Listen: "127.0.0.1:0", Migrate: true}}
		if trusted {
			c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		a, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		key, err := CreateKey(t.Context(), a.Store(), a.Workspace(), "reader", []string{"read"}, a.Engine().Now())
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL()+"/signin", strings.NewReader("key="+key))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-Proto", "https")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(answer.Body.Close(), a.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
		cookies, hsts := answer.Cookies(), answer.Header.Get("Strict-Transport-Security") != ""
		if len(cookies) != 1 || cookies[0].Secure != trusted || hsts != trusted {
			t.Errorf("trusted %v: cookies %v, HSTS %v", trusted, cookies, hsts)
		}
	}
}
