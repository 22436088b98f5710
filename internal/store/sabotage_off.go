//go:build !sabotage

package store

// spoiled is where a build with the tag sabotage breaks statements on purpose.
func spoiled(text string) string { return text }
