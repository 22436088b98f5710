package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// configRoot is where a file that everybody can read is a mistake: packages and people put secrets there.
const configRoot = "/etc"

// permissions checks the mode of a file with a secret. A file that everybody can write is refused. A file that everybody can read is
// refused below /etc, where a chmod repairs it. Elsewhere, and on a read-only mount, as containers mount secrets, it gives a
// warning.
func permissions(mode fs.FileMode, inConfig, readOnlyMount bool) (refusal, warning string) {
	switch others := mode.Perm() & 0o007; {
	case others&0o002 != 0 && !readOnlyMount:
		return "everybody on this machine may write it: chmod o-w takes that away", ""
	case others&0o004 == 0:
		return "", ""
	case inConfig && !readOnlyMount:
		return "everybody on this machine may read it: chmod o-r takes that away; its owner or group has to be this process's", ""
	}
	return "", "everybody on this machine may read it"
}

// secretFile checks an open file with a secret; name is its whole path. Less serious findings are passed to warn.
func secretFile(file *os.File, name, config string, warn func(path, why string)) error {
	info, err := file.Stat()
	if err != nil {
		return cause(err)
	}
	refusal, warning := permissions(info.Mode(), below(name, config), onReadOnlyMount(file))
	if refusal != "" {
		return fmt.Errorf("it is not used: %s", refusal)
	}
	if warning != "" && warn != nil {
		warn(name, warning)
	}
	return nil
}

// below reports whether a path, or what it leads to, lies in a folder.
func below(path, folder string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path
	}
	for _, p := range []string{path, real} {
		if inside, err := filepath.Rel(folder, p); err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
			return true
		}
	}
	return false
}
