package console

import (
	"sync"

	"github.com/carillonhq/carillon/internal/journal"
	"github.com/carillonhq/carillon/internal/subject"
)

// FeedSize is how many entries a feed keeps: some screens full for a few workspaces, less than a megabyte.
const FeedSize = 500

// Feed keeps the latest entries of the journal in memory, so that a page can show them without a query. It forgets
// what is older and what happened before the process began; the truth is in the store. Of messages it keeps the
// subject alone. The zero is ready for use, by any number of goroutines.
type Feed struct {
	mu      sync.Mutex
	entries [FeedSize]journal.Entry
	total   int // ever written
}

// Write takes an entry; it is a journal.Writer.
func (f *Feed) Write(e journal.Entry) {
	e.Text, e.HTML = "", ""
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[f.total%FeedSize] = e
	f.total++
}

// Recent returns up to n entries of a workspace that keep accepts, the newest first.
func (f *Feed) Recent(ws subject.WorkspaceID, n int, keep func(journal.Entry) bool) []journal.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []journal.Entry
	for i := f.total - 1; i >= max(0, f.total-FeedSize) && len(out) < n; i-- {
		if e := f.entries[i%FeedSize]; e.Workspace == ws && keep(e) {
			out = append(out, e)
		}
	}
	return out
}
