// Package webtest shows pages to a real browser, and installs what tests need of npm.
package webtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// limit bounds an installation of packages, which is made once on a machine.
const limit = 2 * time.Minute

// Packages installs the locked packages of a folder once, below the user's cache, and returns their node_modules. Where npm is
// missing, or cannot install them, the test is skipped, and says what was not done.
func Packages(t *testing.T, from, without string) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is missing: " + without)
	}
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("%s: %v", without, err)
	}
	sum := sha256.Sum256(lock)
	done := filepath.Join(cache, "carillon-npm", hex.EncodeToString(sum[:8]))
	modules := filepath.Join(done, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if err := os.MkdirAll(filepath.Dir(done), 0o755); err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp(filepath.Dir(done), "install-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(work)
	for _, name := range []string{"package.json", "package-lock.json"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = work
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("%s: npm cannot install the packages: %s", without, out)
	}
	// Another process may have been faster.
	if err := os.Rename(work, done); err != nil {
		if _, missing := os.Stat(modules); missing != nil {
			t.Fatal(err)
		}
	}
	return modules
}
