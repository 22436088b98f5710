package public

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// An id has 128 bits and cannot be guessed. The limits keep one sender from using up what all others share. They are wide, because
// the people of a company, or of a telephone network, have one address.
const (
	// burstOfAddress is how many requests one address may send at once, and addressEvery how soon each is possible again.
	burstOfAddress = 300
	addressEvery   = 100 * time.Millisecond
	// burstOfLink and linkEvery are the same for one link: a page that is typed into keeps a draft once in a second or two.
	burstOfLink = 60
	linkEvery   = time.Second
	// burstOfAsks and askEvery are those of the form that sends a link to an address which anybody can write.
	burstOfAsks = 10
	askEvery    = time.Minute
	// maxRemembered bounds the addresses, and the links, that are remembered. Beyond it those that have most left are forgotten.
	maxRemembered = 8192
	// longestID is how much of an id counts; those that lead somewhere are shorter.
	longestID = 64
)

// allowance is a number of requests that grows back with time: the instant at which it is whole again. The zero value is whole.
type allowance time.Time

// take uses one request up. If there is none left, wait is how long it takes until there is.
func (a allowance) take(now time.Time, burst int, every time.Duration) (next allowance, wait time.Duration) {
	whole := time.Time(a)
	if whole.Before(now) || whole.After(now.Add(time.Duration(burst)*every)) { // the second: the clock was set back
		whole = now
	}
	whole = whole.Add(every)
	if over := whole.Sub(now) - time.Duration(burst)*every; over > 0 {
		return a, over
	}
	return allowance(whole), 0
}

// limit holds the allowances of many senders.
type limit[K comparable] struct {
	burst int
	every time.Duration
	of    map[K]allowance
}

func (l *limit[K]) take(k K, now time.Time) time.Duration {
	next, wait := l.of[k].take(now, l.burst, l.every)
	if wait > 0 {
		return wait
	}
	if _, known := l.of[k]; !known && len(l.of) >= maxRemembered {
		l.forget(now)
	}
	l.of[k] = next
	return 0
}

// forget makes room: all that are whole again are forgotten, or else the one that is next.
func (l *limit[K]) forget(now time.Time) {
	var next K
	var at time.Time
	for k, a := range l.of {
		whole := time.Time(a)
		if !whole.After(now) {
			delete(l.of, k)
			continue
		}
		if at.IsZero() || whole.Before(at) {
			next, at = k, whole
		}
	}
	if len(l.of) >= maxRemembered {
		delete(l.of, next)
	}
}

// limits are those of addresses and links.
type limits struct {
	mu      *sync.Mutex
	address *limit[netip.Addr]
	link    *limit[string]
	ask     *limit[netip.Addr]
}

func newLimits() limits {
	return limits{
		&sync.Mutex{},
		&limit[netip.Addr]{burstOfAddress, addressEvery, map[netip.Addr]allowance{}},
		&limit[string]{burstOfLink, linkEvery, map[string]allowance{}},
		&limit[netip.Addr]{burstOfAsks, askEvery, map[netip.Addr]allowance{}},
	}
}

// take counts a request. wait is 0 if it may go on, else how long its sender has to wait.
func (l limits) take(r *http.Request, id string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.address.take(addressOf(r), now); wait > 0 {
		return wait
	}
	return l.link.take(id[:min(len(id), longestID)], now)
}

// asks counts a request that sends a link to an address.
func (l limits) asks(r *http.Request, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ask.take(addressOf(r), now)
}

// addressOf is where a request came from, as far as addresses are counted: one of IPv6 stands for its network of 64 bits, which one
// household has. An address that cannot be read counts as one and the same.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
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
