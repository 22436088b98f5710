package app

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// transportSecurity has browsers use HTTPS alone for a year.
const transportSecurity = "max-age=31536000"

// behind takes the address of the client, and whether it used HTTPS, from the headers of a trusted proxy; the scheme of the request's
// URL is set accordingly. Such headers of other clients are ignored. A browser that came by HTTPS is asked to keep using it.
func behind(trusted []netip.Prefix, https bool, next http.Handler) http.Handler {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure := https || r.TLS != nil
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && isTrusted(peer.Addr()) {
			forwarded := *r
			if from, ok := forwardedFor(r.Header.Values("X-Forwarded-For"), isTrusted); ok {
				forwarded.RemoteAddr = net.JoinHostPort(from.String(), "0")
			}
			if r.Header.Get("X-Forwarded-Proto") == "https" {
				address := *r.URL
				address.Scheme = "https"
				forwarded.URL, secure = &address, true
			}
			defer func() { r.Pattern = forwarded.Pattern }() // the request counter reads it
			r = &forwarded
		}
		if secure {
			w.Header().Set("Strict-Transport-Security", transportSecurity)
		}
		next.ServeHTTP(w, r)
	})
}

// forwardedFor returns the last address of the header that is not a trusted proxy. Each proxy appends the address that it
// sees; a client can forge the addresses before it.
func forwardedFor(values []string, isTrusted func(netip.Addr) bool) (netip.Addr, bool) {
	hops := strings.Split(strings.Join(values, ","), ",")
	for _, hop := range slices.Backward(hops) {
		at, ok := hopAddress(strings.TrimSpace(hop))
		if !ok {
			return netip.Addr{}, false
		}
		if !isTrusted(at) {
			return at, true
		}
	}
	return netip.Addr{}, false
}

// hopAddress reads an address with or without its port: proxies write both.
func hopAddress(hop string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(hop); err == nil {
		return at.Addr(), true
	}
	at, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return at, err == nil
}
