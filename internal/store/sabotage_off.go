//go:build !sabotage

package store

import (
	"iter"

	"github.com/carillonhq/carillon/internal/instance"
)

// sabotaged is where a build with the tag sabotage breaks statements on purpose.
func sabotaged(text string) string { return text }

// apart is where a build with the tag sabotage makes occasions in a transaction of their own.
func (t *Tx) apart([]iter.Seq[instance.Row]) bool { return false }
