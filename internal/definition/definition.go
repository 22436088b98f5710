// Package definition turns the YAML of rule authors into typed, validated and compiled definitions. For every problem it reports the
// file, the line and the column, and what to write instead (format.md).
//
// It is not the engine: it knows what a definition says, not what follows from it. It opens no channel, reads no file, and knows only
// the providers in Options.
//
// Invariants:
//   - No key is ignored: a key that is not in the tables is refused, and a key that has no effect in this release is refused as
//     not_supported_yet.
//   - All problems of a folder are reported at once, each once, with a position inside the file. Load never panics.
//   - A Set never changes. The same documents make the same Set, from files (Load) and from the store (Compile).
//   - Texts stay as they were written: numbers keep their digits.
//
// The parts: table.go is the vocabulary, read.go reads values, and one file each reads workflows, messages, surveys
// and channels; set.go is what comes out.
package definition
