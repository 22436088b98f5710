//go:build !sabotage

package store

// sabotaged is where a build with the tag sabotage breaks statements on purpose.
func sabotaged(text string) string { return text }
