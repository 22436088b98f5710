package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// binaryDirs are where distributions keep the server's programs: Debian, Red Hat, Homebrew.
var binaryDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

var errNoBinaries = errors.New("PostgreSQL is needed and was not found: install its server " +
	"(Debian, Ubuntu: apt-get install postgresql), or set " + EnvURL +
	" to the URL of a server whose role may create databases")

// findBinaries returns the folder of the newest version among the patterns' matches, else of the one in path.
func findBinaries(path string, patterns ...string) (string, error) {
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(pattern, "pg_ctl"))
		if err != nil {
			return "", err
		}
		for _, m := range matches {
			found = append(found, filepath.Dir(m))
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if len(found) == 0 && hasServer(dir) {
			return dir, nil
		}
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !hasServer(dir) })
	if len(found) == 0 {
		return "", errNoBinaries
	}
	return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(versionOf(a), versionOf(b)) }), nil
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// versionOf reads the version out of a folder such as /usr/lib/postgresql/15/bin; 9.6 counts as 9.
func versionOf(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	digits := strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-@")
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// wardenScript waits for the end of its standard input, then stops the server at once and removes the directory.
// It waits at most 10 s for the server: twice what the server grants its own children.
const wardenScript = `
trap '' HUP INT QUIT TERM
read -r _
pidfile=$0/data/postmaster.pid
if pid=$(head -n 1 "$pidfile" 2>/dev/null); then
	kill -QUIT "$pid"
	n=0
	while [ -e "$pidfile" ] && kill -0 "$pid" && [ $n -lt 500 ]; do sleep 0.02; n=$((n + 1)); done
fi 2>/dev/null
rm -rf "$0"
`

// post sets the warden to work. It has a session of its own, so that an interrupt meant for the tests does not
// reach it, and none of our output, so that nobody who reads that waits for it.
func (s *Server) post() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	warden := exec.Command("/bin/sh", "-c", wardenScript, s.dir)
	warden.Stdin, warden.Dir = r, "/"
	warden.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := warden.Start(); err != nil {
		return errors.Join(err, r.Close(), w.Close(), os.RemoveAll(s.dir))
	}
	s.warden, s.hold = warden, w
	return r.Close()
}

// run runs one of PostgreSQL's programs and returns its output as the error when it fails.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.binDir, program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if id, other, err := serverUser(); err != nil {
		return err
	} else if other {
		cmd.SysProcAttr.Credential = &id
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

func giveToServer(dir string) error {
	id, other, err := serverUser()
	if err != nil || !other {
		return err
	}
	return os.Chown(dir, int(id.Uid), int(id.Gid))
}

// serverUser is the user postgres when we are root, whom PostgreSQL refuses; other is false when we are not.
func serverUser() (id syscall.Credential, other bool, err error) {
	if os.Getuid() != 0 {
		return id, false, nil
	}
	u, err := user.Lookup(adminRole)
	if err != nil {
		return id, false, fmt.Errorf("PostgreSQL does not run as root: %w; its package creates that user", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	return syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, true, errors.Join(uidErr, gidErr)
}
