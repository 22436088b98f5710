//go:build !linux

package app

import "os"

// onReadOnlyMount is not known here.
func onReadOnlyMount(*os.File) bool { return false }
