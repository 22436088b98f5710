package console

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// A key has 256 bits and cannot be guessed. Failed sign-ins are limited so that trying costs this server next to nothing and
// fills no log, by address and over all of them.
const (
	// failuresOfOne is how often one address may fail in a row: people mistype, and a password manager may fill in the wrong key.
	failuresOfOne = 10
	// oneEvery is how soon it may try again after that, and how fast its failures are forgotten.
	oneEvery = 30 * time.Second
	// failuresOfAll and allEvery are the same over all addresses.
	failuresOfAll = 100
	allEvery      = time.Second
	// maxAddresses bounds the addresses that are remembered. Beyond it those that may try again soonest are forgotten; the limit
	// over all of them stays.
	maxAddresses = 4096
)

// allowance is a number of failures that grows back with time: the instant at which it is whole again. The zero value is whole.
type allowance time.Time

// take uses one failure up, unless there is none left: then it says when there is one.
func (a allowance) take(now time.Time, most int, every time.Duration) (next allowance, at time.Time, ok bool) {
	whole := time.Time(a)
	if whole.Before(now) {
		whole = now
	}
	if latest := now.Add(time.Duration(most) * every); whole.After(latest) {
		whole = latest // the clock was set back
	}
	whole = whole.Add(every)
	if over := whole.Sub(now) - time.Duration(most)*every; over > 0 {
		return a, now.Add(over), false
	}
	return allowance(whole), time.Time{}, true
}

// signInLimit counts failed sign-ins. Who signs in gets the failure back that their try had taken, so that what is tried at once
// counts too.
type signInLimit struct {
	mu   sync.Mutex
	all  allowance
	ones map[netip.Addr]allowance
}

// try takes a failure up for a try from an address. Until says when one is possible again.
func (l *signInLimit) try(from netip.Addr, now time.Time) (until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, until, ok := l.ones[from].take(now, failuresOfOne, oneEvery)
	if !ok {
		return until, false
	}
	all, until, ok := l.all.take(now, failuresOfAll, allEvery)
	if !ok {
		return until, false
	}
	if l.ones == nil {
		l.ones = map[netip.Addr]allowance{}
	}
	if _, known := l.ones[from]; !known && len(l.ones) >= maxAddresses {
		l.forget(now)
	}
	l.all, l.ones[from] = all, one
	return time.Time{}, true
}

// back gives a try back that was none of a stranger.
func (l *signInLimit) back(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = allowance(time.Time(l.all).Add(-allEvery))
	if one, known := l.ones[from]; known {
		l.ones[from] = allowance(time.Time(one).Add(-oneEvery))
	}
}

// forget makes room for an address: of all that are whole again, else of the one that is next.
func (l *signInLimit) forget(now time.Time) {
	var next netip.Addr
	for address, one := range l.ones {
		whole := time.Time(one)
		if !whole.After(now) {
			delete(l.ones, address)
			continue
		}
		if !next.IsValid() || whole.Before(time.Time(l.ones[next])) {
			next = address
		}
	}
	if len(l.ones) >= maxAddresses {
		delete(l.ones, next)
	}
}

// addressOf is where a request came from, as far as addresses are counted: one of IPv6 stands for its network of 64 bits, which
// one household has. An address that cannot be read counts as one and the same.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		network, err := address.Prefix(64)
		if err == nil {
			return network.Addr()
		}
	}
	return address
}
