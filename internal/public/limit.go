package public

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/allowance"
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

// limits are those of addresses and links.
type limits struct {
	mu      *sync.Mutex
	address *allowance.Limit[netip.Addr]
	link    *allowance.Limit[string]
	ask     *allowance.Limit[netip.Addr]
}

func newLimits() limits {
	return limits{
		&sync.Mutex{},
		allowance.NewLimit[netip.Addr](allowance.Rate{Most: burstOfAddress, Every: addressEvery}, maxRemembered),
		allowance.NewLimit[string](allowance.Rate{Most: burstOfLink, Every: linkEvery}, maxRemembered),
		allowance.NewLimit[netip.Addr](allowance.Rate{Most: burstOfAsks, Every: askEvery}, maxRemembered),
	}
}

// take counts a request. wait is 0 if it may go on, else how long its sender has to wait.
func (l limits) take(r *http.Request, id string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.address.Take(allowance.Address(r.RemoteAddr), now); wait > 0 {
		return wait
	}
	return l.link.Take(id[:min(len(id), longestID)], now)
}

// asks counts a request that sends a link to an address.
func (l limits) asks(r *http.Request, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ask.Take(allowance.Address(r.RemoteAddr), now)
}
