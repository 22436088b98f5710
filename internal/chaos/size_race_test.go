//go:build !reliab && race

package chaos_test

// The storms under the race detector, where each process works for five. What they find there are races. They
// are judged as the larger storms without it are, but need not have seen everything.
const (
	stormEvents   = 400
	stormKills    = 4
	stormFreezes  = 1
	answerEvents  = 300
	mailEvents    = 300
	limitEvents   = 240
	limitKills    = 4
	readers       = 1000
	readersKills  = 1
	readersCrash  = 3000
	limitWorkers  = 4
	proves        = false
	courseRecords = 30
	courseCrashed = 10
)
