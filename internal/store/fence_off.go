//go:build nofence

package store

// settleFence is left out by the build tag nofence, which breaks the store on purpose: a test that kills and
// freezes workers must fail on such a binary, or it proves nothing.
const settleFence = ``
