package outbound

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// target is one row of the decision table: a URL of a definition, and the addresses to which its name resolves.
type target struct {
	url     string
	answers []string // of the resolver, if the host is a name; none: the name does not exist
}

// forbiddenV4 returns addresses that are tried in every notation.
func forbiddenV4() []string {
	return []string{
		"127.0.0.1", "127.1.2.3", "127.255.255.254", "0.0.0.0", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254",
		"192.168.0.1", "192.168.255.255", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "168.63.129.16",
		"192.0.0.192", "198.18.0.1", "192.0.2.1", "224.0.0.251", "240.0.0.1", "255.255.255.255",
	}
}

// notations returns an IPv4 address in notations that pass filters of texts. Notations that are not IP literals (RFC 3986) are names for Go.
// The C library of some systems resolves them to the address, so the resolver of these tests does too.
func notations(v4 string) []target {
	b := netip.MustParseAddr(v4).As4()
	n := binary.BigEndian.Uint32(b[:])
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	literal := func(host string) target { return target{url: "http://" + host + "/"} }
	named := func(host string) target { return target{"http://" + host + "/", []string{v4}} }
	wide := strings.NewReplacer("0", "０", "1", "１", "2", "２", "3", "３", "4", "４", "5", "５", "6", "６", "7", "７", "8", "８",
		"9", "９", ".", "。").Replace(v4)
	return []target{
		literal(v4),
		literal(v4 + ":8080"),
		{url: "https://" + v4 + ":443/latest/meta-data/"},
		literal("[::ffff:" + v4 + "]"),
		literal("[0:0:0:0:0:ffff:" + hex + "]"),
		literal("[::" + v4 + "]"),
		literal("[64:ff9b::" + v4 + "]"),
		literal("[64:ff9b:1::" + hex + "]"),
		literal("[2002:" + hex + "::1]"),
		literal("[2001:0:" + hex + "::]"),
		literal("[::ffff:0:" + hex + "]"),
		literal(wide), // full-width digits and dots, which IDN converts to ASCII
		named(fmt.Sprint(n)),
		named(fmt.Sprintf("0x%08x", n)),
		named(fmt.Sprintf("0%o", n)),
		named(fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3])),
		named(fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3])),
		named(fmt.Sprintf("%d.%d", b[0], n&0xffffff)),
		named(fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff)),
		named(v4 + "."),
		named(v4 + ".nip.test"),
	}
}

// forbidden is the decision table of targets to which no connection may be made.
func forbidden() []target {
	var all []target
	for _, v4 := range forbiddenV4() {
		all = append(all, notations(v4)...)
	}
	for _, a := range addresses() {
		if a.why == "" {
			continue
		}
		if addr := netip.MustParseAddr(a.addr); addr.Is6() && addr.Zone() == "" {
			all = append(all, target{url: "https://[" + a.addr + "]/"})
		}
		all = append(all, target{"https://a.name.test/", []string{a.addr}})
	}
	return append(all,
		target{"http://localhost/", []string{"127.0.0.1", "::1"}},
		target{"http://LOCALHOST:6379/", []string{"::1", "127.0.0.1"}},
		target{"http://localhost./", []string{"127.0.0.1"}},
		target{"http://any.sub.localhost/", []string{"127.0.0.1"}},
		target{"http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", []string{"127.0.0.1"}},
		target{"http://①②⑦.⓪.⓪.①/", nil},
		target{"http://metadata.google.internal/computeMetadata/v1/", []string{"169.254.169.254"}},
		target{"http://metadata/", []string{"169.254.169.254"}},
		target{"http://instance-data/latest/", []string{"169.254.169.254"}},
		target{"http://[fd00:ec2::254]/latest/meta-data/", nil},
		target{"http://[fe80::1%25eth0]/", nil},
		target{"http://[::1%25lo]/", nil},
		target{"http://[0000:0000:0000:0000:0000:0000:0000:0001]/", nil},
		target{"http://[::]:80/", nil},
		target{"http://[::1]:22/", nil},
		target{"http://internal.test/", []string{"10.0.0.1", "172.16.0.1", "192.168.0.1", "fc00::1"}},
		target{"http://bücher.test/", []string{"192.168.1.1"}},
		target{"http://xn--bcher-kva.test/", []string{"::ffff:192.168.1.1"}},
		target{"http://rebind.test:25/", []string{"127.0.0.1"}},
		target{"http://empty.test/", []string{}},
		target{"http://nowhere.test/", nil},
		// URLs that parsers read differently: one finds a public host, another one a private host.
		target{"http://public.test@127.0.0.1/", nil},
		target{"http://127.0.0.1@public.test/", []string{"8.8.8.8"}},
		target{"http://public.test:80@127.0.0.1:80/", nil},
		target{"http://public.test#@127.0.0.1/", []string{"127.0.0.1"}},
		target{"http://127.0.0.1#@public.test/", nil},
		target{"http://127.0.0.1?@public.test/", nil},
		target{"http://127.0.0.1\\@public.test/", []string{"8.8.8.8"}},
		target{"http://public.test\\@127.0.0.1/", nil},
		target{"http://127.0.0.1%00.public.test/", []string{"8.8.8.8"}},
		target{"http://127.0.0.1%2f@public.test/", []string{"8.8.8.8"}},
		target{"http://127.0.0.1\tpublic.test/", []string{"8.8.8.8"}},
		target{"http://127.0.0.1 .public.test/", []string{"8.8.8.8"}},
		target{"http://[127.0.0.1]/", nil},
		target{"http://[::1/", nil},
		target{"http://127.0.0.1:80:80/", nil},
		target{"http://127.0.0.1:99999999/", nil},
		target{"http://:80/", nil},
		target{"http:///etc/passwd", nil},
		target{"http:127.0.0.1/", nil},
		target{"//127.0.0.1/", nil},
		target{"127.0.0.1:80", nil},
		target{"file:///etc/passwd", nil},
		target{"gopher://127.0.0.1:6379/_FLUSHALL", nil},
		target{"ftp://127.0.0.1/", nil},
		target{"unix:///var/run/docker.sock", nil},
		target{"http+unix://%2fvar%2frun%2fdocker.sock/", nil},
		target{"dict://127.0.0.1:11211/stats", nil},
		target{"ws://127.0.0.1/", nil},
		target{"javascript:alert(1)", nil},
		target{"", nil},
	)
}

// network is a resolver and a dialer that make no connections and record the addresses to dial.
type network struct {
	answers []string
	serve   func(net.Conn) // nil: every connection is refused

	mu      sync.Mutex
	dialled []string
}

func (n *network) client(p Policy) *Client {
	c := New(Options{Policy: p})
	c.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if addr, err := netip.ParseAddr(host); err == nil {
			return []netip.Addr{addr}, nil
		}
		if n.answers == nil {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		var all []netip.Addr
		for _, a := range n.answers {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
	c.connect = func(_ context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		n.dialled = append(n.dialled, address)
		n.mu.Unlock()
		if n.serve == nil {
			return nil, io.EOF
		}
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}
	return c
}

// No notation, name or answer of the resolver leads to a forbidden address: neither in a call with a body, nor in a call without one, nor in
// a connection for another protocol. (Without the check in Dial 1,700 of these tries connected.)
//
// Shows: C46.
func TestNeverConnectsToForbidden(t *testing.T) {
	t.Parallel()
	table := forbidden()
	distinct := map[string]bool{}
	for _, tt := range table {
		distinct[tt.url+strings.Join(tt.answers, " ")] = true
		features := map[string]func(*Client) error{}
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			features[method] = func(c *Client) error {
				_, err := c.Do(t.Context(), Request{Method: method, URL: tt.url, Body: []byte("{}")})
				return err
			}
		}
		for _, address := range dialAddresses(tt.url) {
			features["Dial "+address] = func(c *Client) error {
				conn, err := c.Dial(t.Context(), "tcp", address)
				if err == nil {
					conn.Close()
				}
				return err
			}
		}
		for name, use := range features {
			n := &network{answers: tt.answers}
			err := use(n.client(Policy{}))
			public := len(tt.answers) == 1 && tt.answers[0] == "8.8.8.8" && strings.HasPrefix(name, "Dial ")
			if err == nil || len(n.dialled) > 0 && !public {
				t.Errorf("%q %v by %s: dialled %v, error %v", tt.url, tt.answers, name, n.dialled, err)
			}
		}
	}
	if len(distinct) < 200 {
		t.Errorf("the table has %d rows", len(distinct))
	}
	t.Logf("%d of %d refused", len(distinct), len(distinct))
}

// dialAddresses returns the addresses for the same text in a host setting: as written, and with a port.
func dialAddresses(text string) []string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return []string{text, text + ":25"}
	}
	return []string{u.Host, net.JoinHostPort(u.Hostname(), "25")}
}

// Public targets are reachable, and the connection is made to the address that was checked.
func TestConnectsToPublic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target
		want []string
	}{
		{target{"http://8.8.8.8/", nil}, []string{"8.8.8.8:80"}},
		{target{"https://[2606:4700::1111]:8443/", nil}, []string{"[2606:4700::1111]:8443"}},
		{target{"http://[::ffff:8.8.8.8]/", nil}, []string{"8.8.8.8:80"}},
		{target{"https://api.vendor.test/v1", []string{"1.1.1.1"}}, []string{"1.1.1.1:443"}},
		{target{"https://bücher.test/", []string{"1.1.1.1"}}, []string{"1.1.1.1:443"}},
		{target{"http://mixed.test/", []string{"10.0.0.1", "8.8.8.8", "169.254.169.254", "1.1.1.1"}}, []string{"8.8.8.8:80", "1.1.1.1:80"}},
		{target{"http://mixed.test/", []string{"::1", "::ffff:127.0.0.1", "2606:4700::1111"}}, []string{"[2606:4700::1111]:80"}},
	} {
		n := &network{answers: tt.answers}
		if _, err := n.client(Policy{}).Do(t.Context(), Request{Method: http.MethodGet, URL: tt.url}); err == nil || !slices.Equal(n.dialled, tt.want) {
			t.Errorf("%s: dialled %v, want %v (%v)", tt.url, n.dialled, tt.want, err)
		}
	}
}

// Policy.Allow opens only the networks that it names.
func TestLeaveOpensNothingElse(t *testing.T) {
	t.Parallel()
	policy := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for _, tt := range forbidden() {
		n := &network{answers: tt.answers}
		_, _ = n.client(policy).Do(t.Context(), Request{Method: http.MethodPost, URL: tt.url})
		if len(n.dialled) > 0 {
			t.Errorf("%q: dialled %v", tt.url, n.dialled)
		}
	}
	n := &network{answers: []string{"10.0.0.1", "10.1.2.3"}}
	_, _ = n.client(policy).Do(t.Context(), Request{Method: http.MethodPost, URL: "http://gateway.test:8080"})
	if want := []string{"10.1.2.3:8080"}; !slices.Equal(n.dialled, want) {
		t.Errorf("dialled %v, want %v", n.dialled, want)
	}
}

// A name is checked for every connection: it may resolve to a public address at one time and to a private one at the next.
func TestRebinding(t *testing.T) {
	t.Parallel()
	n := &network{answers: []string{"8.8.8.8"}}
	c := n.client(Policy{})
	post := Request{Method: http.MethodPost, URL: "http://rebind.test/"}
	_, _ = c.Do(t.Context(), post)
	n.answers = []string{"127.0.0.1"}
	var refused *Forbidden
	if _, err := c.Do(t.Context(), post); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	if want := []string{"8.8.8.8:80"}; !slices.Equal(n.dialled, want) {
		t.Errorf("dialled %v, want %v", n.dialled, want)
	}
}

// A public endpoint cannot redirect a call to a private address: no redirect and no alternative service is followed.
func TestRedirectsLeadNowhere(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, tt := range forbidden()[:40] {
			rows++
			n := &network{answers: []string{"8.8.8.8"}, serve: func(conn net.Conn) {
				defer conn.Close()
				if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
				}
				fmt.Fprintf(conn, "HTTP/1.1 %d Go\r\nLocation: %s\r\nRefresh: 0; url=%s\r\nAlt-Svc: h2=\"127.0.0.1:443\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
					status, tt.url, tt.url)
			}}
			c := n.client(Policy{})
			for _, method := range []string{http.MethodPost, http.MethodGet} {
				n.dialled = nil
				got, err := c.Do(t.Context(), Request{Method: method, URL: "http://public.test/", Body: []byte("{}")})
				if err != nil || got.Status != status || slices.ContainsFunc(n.dialled, func(a string) bool { return a != "8.8.8.8:80" }) {
					t.Errorf("%d to %s: got %d, error %v, dialled %v", status, tt.url, got.Status, err, n.dialled)
				}
			}
		}
	}
	t.Logf("%d redirects", rows)
}

// A proxy that the environment names is not used, because it could connect to forbidden addresses.
func TestNoProxyIsAsked(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "http://1.1.1.1:3128")
	}
	for url, want := range map[string]string{"http://public.test/": "8.8.8.8:80", "https://public.test/": "8.8.8.8:443"} {
		n := &network{answers: []string{"8.8.8.8"}}
		if _, err := n.client(Policy{}).Do(t.Context(), Request{Method: http.MethodPost, URL: url}); err == nil || !slices.Equal(n.dialled, []string{want}) {
			t.Errorf("%s: dialled %v, want %s (%v)", url, n.dialled, want, err)
		}
	}
}
