package loader

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

// LaterTextNames returns the names that no text can write yet.
func LaterTextNames() []string { return laterTextNames() }

// TextNames returns the names that a text can write, with their fields where these are fixed.
func TextNames() map[string][]string { return textNames(anySubject()) }

// Row is a key as the reference page shows it.
type Row struct {
	Name     string
	Value    map[string]any // its schema; nil for a later key
	Required bool
	Later    bool
	Doc      string
}

// Rows returns the keys of a block in the order of the table, and what messages call the block.
func Rows(block string) (name string, rows []Row) {
	b := newTables()[block]
	for _, e := range b.entries {
		row := Row{Name: e.name, Required: e.required, Later: e.later, Doc: e.doc}
		if !e.later {
			row.Value = e.value()
		}
		rows = append(rows, row)
	}
	return b.name, rows
}
