//go:build reliab

package chaos_test

// The storms of make reliab.
const (
	stormEvents   = 10_000
	stormKills    = 60
	stormFreezes  = 4
	answerEvents  = 5000
	mailEvents    = 6000
	limitEvents   = 3000
	limitKills    = 30
	limitWorkers  = 8
	proves        = true // something of everything happens
	courseRecords = 600
	courseCrashed = 40
	readers       = 100_000
	readersKills  = 8
	readersCrash  = 5000
)
