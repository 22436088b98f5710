package sim

import "github.com/carillonhq/carillon/internal/definition/portable"

// expectation is what a step expects of one list.
type expectation struct {
	spec    listSpec
	pos     portable.Pos
	partial bool // NAME_at_least, and lists that are looked up by row
	any     bool
	count   int // the number written in place of a list; -1 when rows are written
	rows    []expectedRow
	key     *portable.Node // nil for a list that is expected empty because it is not mentioned
	value   *portable.Node
}

// expectedRow is one row as written; times of them are expected.
type expectedRow struct {
	pos    portable.Pos
	fields []field
	times  int
	timesN *portable.Node // the value of `times`, nil when it is not written
	value  *portable.Node
}

// sign says how a row compares.
type sign byte

const (
	signKept    sign = '='
	signMissing sign = '-'
	signExtra   sign = '+'
	signChanged sign = '~'
)

// pair is one row of a comparison.
type pair struct {
	sign     sign
	expected int   // index into the expectation's rows; -1 for signExtra
	actual   int   // index into the observed rows; -1 for signMissing
	wrong    []int // the fields that differ, for signChanged
}

// outcome is the comparison of one expectation with what was observed.
type outcome struct {
	expectation
	actual []row
	pairs  []pair // in the order of the file, then the extra ones in the order in which they happened
	held   bool
}

// differences counts the rows that are not as expected.
func (o outcome) differences() int {
	if o.held {
		return 0
	}
	if o.count >= 0 {
		return 1
	}
	n := 0
	for _, p := range o.pairs {
		if p.sign != signKept {
			n++
		}
	}
	return n
}

// compare compares an expectation with the observed rows. Every expected row is paired with at most one observed row: first as many
// full matches as possible, then, of the rest, the rows with the most named fields in common.
func compare(e expectation, actual []row) outcome {
	o := outcome{expectation: e, actual: actual}
	if e.any {
		o.held = true
		return o
	}
	if e.count >= 0 {
		o.held = len(actual) == e.count || e.partial && len(actual) >= e.count
		return o
	}
	if e.spec.ordered {
		return compareOrder(e, actual)
	}
	if e.spec.answer && len(e.rows) == 1 && len(actual) == 1 {
		p := pair{sign: signKept, wrong: e.rows[0].differing(actual[0])}
		if o.held = len(p.wrong) == 0; !o.held {
			p.sign = signChanged
		}
		o.pairs = []pair{p}
		return o
	}
	slots := e.slots()
	got := match(slots, e.rows, actual)
	taken := make([]bool, len(actual))
	for _, a := range got {
		if a >= 0 {
			taken[a] = true
		}
	}
	wrong := make([][]int, len(slots))
	nearest(slots, e.rows, actual, got, taken, wrong)
	o.held = true
	for s, r := range slots {
		p := pair{sign: signKept, expected: r, actual: got[s], wrong: wrong[s]}
		switch {
		case got[s] < 0:
			p.sign = signMissing
		case len(wrong[s]) > 0:
			p.sign = signChanged
		}
		o.held = o.held && p.sign == signKept
		o.pairs = append(o.pairs, p)
	}
	if !e.partial {
		for a := range actual {
			if !taken[a] {
				o.held = false
				o.pairs = append(o.pairs, pair{sign: signExtra, expected: -1, actual: a})
			}
		}
	}
	return o
}

// slots lists the index of every expected row, as often as its `times` says.
func (e expectation) slots() []int {
	var slots []int
	for i, r := range e.rows {
		for range r.times {
			slots = append(slots, i)
		}
	}
	return slots
}

// match returns, for every slot, an observed row that holds in full, or -1; no other assignment satisfies more slots
// (augmenting paths in a bipartite graph).
func match(slots []int, rows []expectedRow, actual []row) []int {
	fits := make([][]int, len(rows))
	for i, r := range rows {
		for a := range actual {
			if len(r.differing(actual[a])) == 0 {
				fits[i] = append(fits[i], a)
			}
		}
	}
	owner := make([]int, len(actual)) // slot + 1, 0 = free
	got := make([]int, len(slots))
	seen := make([]int, len(actual)) // the slot + 1 on whose behalf it was last tried
	var claim func(slot, forSlot int) bool
	claim = func(slot, forSlot int) bool {
		for _, a := range fits[slots[slot]] {
			if owner[a] == 0 {
				owner[a], got[slot] = slot+1, a
				return true
			}
		}
		for _, a := range fits[slots[slot]] {
			if seen[a] == forSlot+1 {
				continue
			}
			seen[a] = forSlot + 1
			if slots[owner[a]-1] != slots[slot] && claim(owner[a]-1, forSlot) {
				owner[a], got[slot] = slot+1, a
				return true
			}
		}
		return false
	}
	for s := range slots {
		got[s] = -1
		claim(s, s)
	}
	return got
}

// nearest pairs the slots and rows that are left by the most fields in common, the first of equals first. Rows with
// nothing in common stay alone.
func nearest(slots []int, rows []expectedRow, actual []row, got []int, taken []bool, wrong [][]int) {
	for {
		best, bestSlot, bestActual := 0, -1, -1
		var bestWrong []int
		last := -1 // slots of one row are alike: the first free one stands for them
		for s, r := range slots {
			if got[s] >= 0 || r == last {
				continue
			}
			last = r
			for a := range actual {
				if taken[a] {
					continue
				}
				differing := rows[r].differing(actual[a])
				if common := len(rows[r].fields) - len(differing); common > best {
					best, bestSlot, bestActual, bestWrong = common, s, a, differing
				}
			}
		}
		if bestSlot < 0 {
			return
		}
		got[bestSlot], taken[bestActual], wrong[bestSlot] = bestActual, true, bestWrong
	}
}

// differing returns the indices of the fields that do not hold.
func (r expectedRow) differing(a row) []int {
	var wrong []int
	for i, f := range r.fields {
		if !f.holds(a) {
			wrong = append(wrong, i)
		}
	}
	return wrong
}
