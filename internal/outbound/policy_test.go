package outbound

import (
	"errors"
	"net/netip"
	"testing"
)

type address struct{ addr, why string }

// addresses is the decision table; an empty why means that the address is public.
func addresses() []address {
	const (
		machine    = "it is this machine"
		private    = "it is a private network"
		link       = "it is link-local, where clouds keep their metadata"
		carrierNAT = "it is a carrier's private network"
		cloud      = "it is a cloud's control address"
		translated = "it is translated to an IPv4 address"
		reserved   = "it is reserved"
		documents  = "it stands in documentation only"
		group      = "it is a group of machines"
		other      = "it is not public"
	)
	return []address{
		{"8.8.8.8", ""},
		{"1.1.1.1", ""},
		{"9.255.255.255", ""},
		{"11.0.0.0", ""},
		{"100.63.255.255", ""},
		{"100.128.0.0", ""},
		{"172.15.255.255", ""},
		{"172.32.0.0", ""},
		{"169.253.255.255", ""},
		{"169.255.0.0", ""},
		{"192.167.255.255", ""},
		{"192.169.0.0", ""},
		{"198.17.255.255", ""},
		{"198.20.0.0", ""},
		{"223.255.255.255", ""},
		{"168.63.129.15", ""},
		{"2606:4700::1111", ""},
		{"2001:4860:4860::8888", ""},
		{"2a00:1450::1", ""},
		{"::ffff:8.8.8.8", ""},
		{"127.0.0.1", machine},
		{"127.255.255.255", machine},
		{"0.0.0.0", machine},
		{"0.1.2.3", machine},
		{"::", machine},
		{"::1", machine},
		{"::ffff:127.0.0.1", machine},
		{"::ffff:0.0.0.0", machine},
		{"10.0.0.0", private},
		{"10.255.255.255", private},
		{"172.16.0.1", private},
		{"172.31.255.255", private},
		{"192.168.0.1", private},
		{"::ffff:10.0.0.1", private},
		{"::ffff:192.168.1.1", private},
		{"fc00::1", private},
		{"fd00:ec2::254", private},
		{"fdff:ffff::1", private},
		{"fec0::1", private},
		{"169.254.169.254", link},
		{"169.254.170.2", link},
		{"::ffff:169.254.169.254", link},
		{"fe80::1", link},
		{"fe80::1%eth0", "it belongs to one link"},
		{"100.64.0.1", carrierNAT},
		{"100.100.100.200", carrierNAT},
		{"100.127.255.255", carrierNAT},
		{"::ffff:100.64.0.1", carrierNAT},
		{"168.63.129.16", cloud},
		{"64:ff9b::7f00:1", translated},
		{"64:ff9b::a9fe:a9fe", translated},
		{"64:ff9b::808:808", translated},
		{"64:ff9b:1::a00:1", translated},
		{"2002:7f00:1::", translated},
		{"2002:a9fe:a9fe::", translated},
		{"2001::7f00:1", translated},
		{"192.88.99.1", translated},
		{"::7f00:1", translated},
		{"::ffff:0:7f00:1", translated},
		{"192.0.0.192", reserved},
		{"198.18.0.1", reserved},
		{"198.19.255.255", reserved},
		{"240.0.0.1", reserved},
		{"255.255.255.255", reserved},
		{"100::1", reserved},
		{"2001:10::1", reserved},
		{"2001:20::1", reserved},
		{"5f00::1", reserved},
		{"192.0.2.1", documents},
		{"198.51.100.1", documents},
		{"203.0.113.1", documents},
		{"2001:db8::1", documents},
		{"3fff::1", documents},
		{"224.0.0.1", group},
		{"239.255.255.250", group},
		{"ff02::1", group},
		{"4000::1", other},
		{"1::1", other},
		{"200::1", other},
	}
}

func TestPolicyAllowed(t *testing.T) {
	t.Parallel()
	for _, tt := range addresses() {
		t.Run(tt.addr, func(t *testing.T) {
			t.Parallel()
			err := Policy{}.Allowed(netip.MustParseAddr(tt.addr))
			var refused *Forbidden
			switch {
			case tt.why == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.why != "" && !errors.As(err, &refused):
				t.Errorf("allowed, want %q", tt.why)
			case tt.why != "" && refused.Why != tt.why:
				t.Errorf("got %q, want %q", refused.Why, tt.why)
			}
		})
	}
	if err := (Policy{}).Allowed(netip.Addr{}); err == nil {
		t.Error("no address at all is allowed")
	}
}

func TestPolicyAllow(t *testing.T) {
	t.Parallel()
	policy := Policy{Allow: append(Loopback(), netip.MustParsePrefix("10.1.0.0/16"))}
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "::ffff:10.1.2.3": true,
		"10.2.0.1": false, "169.254.169.254": false, "0.0.0.0": false, "8.8.8.8": true, "::1%lo": false,
	} {
		if got := policy.Allowed(netip.MustParseAddr(addr)) == nil; got != want {
			t.Errorf("%s: got %v, want %v", addr, got, want)
		}
	}
}
