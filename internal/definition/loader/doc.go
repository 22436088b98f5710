// Package loader turns the YAML of rule authors into typed, validated and compiled definitions. For every problem it reports the file,
// the line and the column, and what to write instead (docs/reference/definitions.md).
//
// It opens no channel, reads no file, and knows only the providers in Options.
//
// Invariants:
//   - No key is ignored: a key that is not in the tables is refused, and a key that has no effect in this release is refused as
//     not_supported_yet.
//   - All problems of a folder are reported at once, each once, with a position inside the file. Load never panics.
//   - The same documents make the same definition.Set, from files (Load) and from the store (Compile).
//   - Texts stay as they were written: numbers keep their digits.
//
// The parts: table.go is the vocabulary, read.go reads values, and one file each reads workflows, messages, surveys and channels.
package loader
