// Package allowance limits how often a sender may do something, or fail at it: so many times at once, and once more after each interval.
//
// A Limit counts by sender, such as a network address, and remembers a bounded number of them. The package computes with instants that
// its callers pass. It knows neither requests nor what is limited, and holds no lock: a caller with several goroutines guards its limits.
package allowance

import (
	"net/netip"
	"time"
)

// Rate is how much is allowed.
type Rate struct {
	// Most is how often at once, and Every the interval after which once more is allowed.
	Most  int
	Every time.Duration
	// Owed is how many times beyond Most are counted too, so that the sender waits for longer. 0: what is refused is not counted.
	Owed int
}

// Allowance is what is left to one sender: the instant at which it is whole again. The zero value is whole.
type Allowance time.Time

// whole is the instant, of now or later. An instant that no allowance can have means that the clock was set back: what was counted before
// is forgotten, because how long ago it was is not known.
func (r Rate) whole(a Allowance, now time.Time) time.Time {
	whole := time.Time(a)
	if whole.Before(now) || whole.After(now.Add(r.longest())) {
		return now
	}
	return whole
}

func (r Rate) longest() time.Duration { return time.Duration(r.Most+r.Owed) * r.Every }

// Wait is how long it takes until something is left; 0: there is something.
func (r Rate) Wait(a Allowance, now time.Time) time.Duration {
	return max(0, r.whole(a, now).Add(r.Every).Sub(now)-time.Duration(r.Most)*r.Every)
}

// Take uses the allowance once. If nothing was left, wait says when there is something; that use is counted as far as Owed goes.
func (r Rate) Take(a Allowance, now time.Time) (next Allowance, wait time.Duration) {
	wait = r.Wait(a, now)
	whole := r.whole(a, now).Add(r.Every)
	if whole.Sub(now) > r.longest() {
		return a, wait
	}
	return Allowance(whole), wait
}

// Refund takes one use back.
func (r Rate) Refund(a Allowance) Allowance { return Allowance(time.Time(a).Add(-r.Every)) }

// Limit holds the allowances of many senders.
type Limit[K comparable] struct {
	rate       Rate
	remembered int
	of         map[K]Allowance
}

// NewLimit returns a limit that remembers so many senders. Beyond them those are forgotten that have most left.
func NewLimit[K comparable](rate Rate, remembered int) *Limit[K] {
	return &Limit[K]{rate, remembered, map[K]Allowance{}}
}

// Wait is how long a sender has to wait until something is left; 0: there is something.
func (l *Limit[K]) Wait(k K, now time.Time) time.Duration { return l.rate.Wait(l.of[k], now) }

// Take uses the allowance of a sender once; see Rate.Take.
func (l *Limit[K]) Take(k K, now time.Time) (wait time.Duration) {
	next, wait := l.rate.Take(l.of[k], now)
	if _, known := l.of[k]; !known && len(l.of) >= l.remembered {
		l.forget(now)
	}
	l.of[k] = next
	return wait
}

// Refund takes one use of a sender back.
func (l *Limit[K]) Refund(k K) {
	if a, known := l.of[k]; known {
		l.of[k] = l.rate.Refund(a)
	}
}

// forget makes room: all that are whole again are forgotten, or else the one that is next.
func (l *Limit[K]) forget(now time.Time) {
	var next K
	var at time.Time
	for k, a := range l.of {
		whole := l.rate.whole(a, now)
		if !whole.After(now) {
			delete(l.of, k)
			continue
		}
		if at.IsZero() || whole.Before(at) {
			next, at = k, whole
		}
	}
	if len(l.of) >= l.remembered {
		delete(l.of, next)
	}
}

// Address is where a request came from, as far as addresses are counted: one of IPv6 stands for its network of 64 bits, which one
// household has. An address that cannot be read counts as one and the same.
func Address(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return address
}
