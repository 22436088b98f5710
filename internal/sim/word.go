package sim

// nearestWord returns the known word that s is probably meant to be, empty when none is near: at most two letters
// wrong, missing or too many, and less than half of them.
func nearestWord(s string, known []string) string {
	best, distance := "", 3
	for _, word := range known {
		if d := editDistance(s, word); d < distance && 2*d < max(len(s), len(word)) {
			best, distance = word, d
		}
	}
	return best
}

// editDistance counts the letters to insert, drop, replace or swap that turn a into b.
func editDistance(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a) // far off, whatever the letters are
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
