package app

import (
	"os"
	"syscall"
)

// readOnlyFlag is ST_RDONLY of statfs(2).
const readOnlyFlag = 1

// onReadOnlyMount reports whether nobody can change a file here, whatever its mode says.
func onReadOnlyMount(file *os.File) bool {
	var fs syscall.Statfs_t
	return syscall.Fstatfs(int(file.Fd()), &fs) == nil && fs.Flags&readOnlyFlag != 0
}
