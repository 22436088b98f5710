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

// permissions judges who else may use a file with a secret, by its mode. Who can write it exchanges the secret: it is refused.
// Who can read it knows the secret: below /etc that is refused, since a chmod mends it; elsewhere, and on a mount that cannot be
// changed, as containers mount secrets, it is only worth a warning.
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

// secretFile judges an open file with a secret; name is its whole path. What is only worth a warning is told to warn.
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
