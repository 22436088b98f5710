package outbound

import (
	"fmt"
	"net/netip"
)

// Policy decides to which addresses connections may be made. The zero value allows only public addresses.
type Policy struct {
	// Allow lists ranges that are allowed although they are not public, such as the network of a private gateway. It is a setting of
	// the operator; definitions cannot change it.
	Allow []netip.Prefix
}

// Forbidden is the error for an address that is not allowed.
type Forbidden struct {
	Addr netip.Addr
	Why  string
}

func (e *Forbidden) Error() string {
	return fmt.Sprintf("%s is not allowed: %s (the setting outbound_allow says which networks are)", e.Addr.Unmap(), e.Why)
}

// Loopback returns the loopback ranges, which lead to this machine only.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Allowed returns nil if connections to addr are allowed, else a *Forbidden. An IPv4 address that is written as an IPv6 address is treated as
// IPv4. An address that is not known to be public is refused.
func (p Policy) Allowed(addr netip.Addr) error {
	if addr.Zone() != "" {
		return &Forbidden{addr, "it belongs to one link"}
	}
	bare := addr.Unmap()
	for _, prefix := range p.Allow {
		if prefix.Contains(bare) {
			return nil
		}
	}
	for _, r := range special() {
		if r.prefix.Contains(bare) {
			return &Forbidden{addr, r.why}
		}
	}
	if !bare.IsValid() || bare.Is6() && !public6().Contains(bare) {
		return &Forbidden{addr, "it is not public"}
	}
	return nil
}

type specialRange struct {
	prefix netip.Prefix
	why    string
}

// public6 returns the only part of IPv6 that has public addresses (RFC 4291).
func public6() netip.Prefix { return netip.MustParsePrefix("2000::/3") }

// special lists the ranges that are not public: the special-purpose registries of IANA (RFC 6890), and ranges that a translator maps to IPv4
// addresses, which may be private.
func special() []specialRange {
	list := []specialRange{}
	add := func(why string, prefixes ...string) {
		for _, p := range prefixes {
			list = append(list, specialRange{netip.MustParsePrefix(p), why})
		}
	}
	add("it is this machine", "127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128")
	add("it is a private network", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")
	add("it is link-local, where clouds keep their metadata", "169.254.0.0/16", "fe80::/10")
	add("it is a carrier's private network", "100.64.0.0/10")
	add("it is a cloud's control address", "168.63.129.16/32")
	add("it is translated to an IPv4 address", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32",
		"192.88.99.0/24", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96")
	add("it is reserved", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "100::/64", "100:0:0:1::/64", "2001::/23",
		"5f00::/16")
	add("it stands in documentation only", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32",
		"3fff::/20")
	add("it is a group of machines", "224.0.0.0/4", "ff00::/8")
	return list
}
