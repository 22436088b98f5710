//go:build !reliab

package chaos_test

// The storms that every test run makes.
const (
	stormEvents  = 2000
	stormKills   = 12
	stormFreezes = 2
	answerEvents = 600
	mailEvents   = 600
	limitEvents  = 600
	limitKills   = 8
)
