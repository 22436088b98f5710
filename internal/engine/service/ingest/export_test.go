package ingest

import "github.com/carillonhq/carillon/internal/subject"

// Waiting returns how many requests of the workspace wait for a transaction.
func (in *Ingester) Waiting(ws subject.WorkspaceID) int {
	g := in.gathering(ws)
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
