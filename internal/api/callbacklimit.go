package api

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/allowance"
)

// A callback carries no key. Its body has to be read, and a MAC be computed over it, before it is known whether a provider sent it. So callbacks
// that are not signed are counted by address, and an address with too many of them may send small ones alone: a larger one is refused before
// it is read.
//
// A small one is read and checked also then. To read it and to look its channel up costs about what a request with an unknown API key costs. If
// it is signed it is taken, and if not it is answered with 429. So a stranger at the address of a provider, such as one behind the same proxy
// when no proxy is trusted, never stops what the provider sends: callbacks are small, and who reports much at once can send it in parts. To
// refuse an address as a whole would stop the provider for as long as the stranger goes on, also if an address that was right lately is
// spared: a provider whose first callback comes after the stranger's would never be right.
//
// A callback under way is not counted. A provider sends many at once, and they would use up the allowance of each other. What is under way is
// bounded by a share of the room for bodies (unsignedShare), so that strangers who send slowly stop no caller with a key. Those that fail
// together are all counted, also beyond the limit, so that their address is limited for longer.
//
// There is no limit over all addresses: strangers at many addresses could use it up for every provider.
const (
	// callbackFailures is how many callbacks of an address may fail at once. A secret that was just changed, or a provider that was set up
	// wrongly, stays below it or is named by the answers before.
	callbackFailures = 100
	// callbackEvery is how soon each failure is forgotten. It keeps the large bodies that are read in vain to one in a second for each address.
	callbackEvery = time.Second
	// callbackOwed is how many failures beyond the limit are counted. It bounds the time for which an address is limited after its last
	// failure: 101 seconds.
	callbackOwed = 100
	// smallCallback is the largest callback of an address with too many failures, in bytes. One event of a provider takes a few KiB; 64 KiB
	// hold some 500 reports.
	smallCallback = 64 << 10
	// maxCallbackAddresses bounds the addresses that are remembered. Beyond it those are forgotten that failed least.
	maxCallbackAddresses = 4096
)

// callbackLimit counts callbacks that were not signed.
type callbackLimit struct {
	mu sync.Mutex
	of *allowance.Limit[netip.Addr]
}

func newCallbackLimit() *callbackLimit {
	rate := allowance.Rate{Most: callbackFailures, Every: callbackEvery, Owed: callbackOwed}
	return &callbackLimit{of: allowance.NewLimit[netip.Addr](rate, maxCallbackAddresses)}
}

// largest is how large a callback from an address may be, in bytes. wait is 0, or how long the address stays limited to small ones.
func (l *callbackLimit) largest(from netip.Addr, now time.Time) (most int64, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait = l.of.Wait(from, now); wait > 0 {
		return smallCallback, wait
	}
	return MaxBody, 0
}

// failed counts a failure. wait is 0, or how long the address stays limited because too many have failed before; last says that this one was
// the last that could fail.
func (l *callbackLimit) failed(from netip.Addr, now time.Time) (wait time.Duration, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = l.of.Take(from, now)
	return wait, wait == 0 && l.of.Wait(from, now) > 0
}

// unsigned finds out whether a callback was refused before its signature was found right, for what anybody could have sent. What fails in
// this server is no failure of its sender, and what is wrong in a callback that is signed is said to its provider.
func unsigned(err error) (*client.Problem, bool) {
	var p *client.Problem
	if !errors.As(err, &p) {
		return nil, false
	}
	return p, slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestEntityTooLarge}, p.Status)
}

func tooManyFailures(wait time.Duration) *client.Problem {
	p := newProblem(http.StatusTooManyRequests, client.CodeTooManyFailures, "too many callbacks from this address were not signed as they have to be")
	p.RetryAfter = wait
	return p
}
