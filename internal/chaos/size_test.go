//go:build !reliab && !race

package chaos_test

// The storms that every test run makes.
const (
	stormEvents   = 2000
	stormKills    = 12
	stormFreezes  = 2
	answerEvents  = 600
	mailEvents    = 600
	limitEvents   = 600
	limitKills    = 8
	limitWorkers  = 8
	proves        = true // something of everything happens
	courseRecords = 60
	courseCrashed = 20
	readers       = 3000
	readersKills  = 3
	readersCrash  = 3000
)
