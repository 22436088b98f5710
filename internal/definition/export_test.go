package definition

// Vocabulary returns the keys of each block, and whether they are built.
func Vocabulary() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, b := range newTables() {
		all[name] = map[string]bool{}
		for _, e := range b.entries {
			all[name][e.name] = !e.later
		}
	}
	return all
}

// LaterKinds returns the kinds that are refused.
func LaterKinds() []string { return laterKinds() }
