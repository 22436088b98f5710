// Package definition turns the YAML of rule authors into definitions that are typed, validated and compiled, and says
// of everything that is wrong in which file, line and column it stands and what to write instead (format.md).
//
// It is not the engine: it knows what a definition says, not what follows from it; and it opens no channel, reads no
// file and knows no provider but those it is told of.
//
// Invariants:
//   - Nothing is passed over: a key that is not in the tables is refused, one that has no effect in this release is
//     refused as not_supported_yet.
//   - All problems of a folder are reported at once, each once, inside the file; Load does not panic, whatever it reads.
//   - A Set never changes; the same documents make the same Set, from files (Load) and from the store (Compile).
//   - Texts stay as they were written: numbers keep their spelling.
//
// The parts: table.go is the vocabulary, read.go reads values, and one file each reads workflows, messages, surveys
// and channels; set.go is what comes out.
package definition
