package console

import (
	"net/netip"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/allowance"
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

// everybody stands for all addresses together.
type everybody struct{}

// signInLimit counts failed sign-ins. Who signs in gets the failure back that their try had taken, so that what is tried at once
// counts too.
type signInLimit struct {
	mu   sync.Mutex
	all  *allowance.Limit[everybody]
	ones *allowance.Limit[netip.Addr]
}

func newSignInLimit() *signInLimit {
	return &signInLimit{
		all:  allowance.NewLimit[everybody](allowance.Rate{Most: failuresOfAll, Every: allEvery}, 1),
		ones: allowance.NewLimit[netip.Addr](allowance.Rate{Most: failuresOfOne, Every: oneEvery}, maxAddresses),
	}
}

// try takes a failure up for a try from an address. If none is left, wait says when a try is possible again.
func (l *signInLimit) try(from netip.Addr, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.ones.Wait(from, now); wait > 0 {
		return wait
	}
	if wait := l.all.Take(everybody{}, now); wait > 0 {
		return wait
	}
	return l.ones.Take(from, now)
}

// back gives a try back that was none of a stranger.
func (l *signInLimit) back(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Refund(everybody{})
	l.ones.Refund(from)
}
