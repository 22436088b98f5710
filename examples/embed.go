// Package examples holds the example definitions and scenarios, for the demo and for tests. They are files to read
// and to copy; nothing here is code.
package examples

import "embed"

// Files are the definitions, and below scenarios the proofs that they do what they say.
//
//go:embed *.yaml scenarios/*.yaml
var Files embed.FS
