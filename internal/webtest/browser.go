package webtest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Chromium is the browser's program. Where it is missing the test is skipped, and says what was not done.
func Chromium(t *testing.T, without string) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is missing: " + without)
	}
	return path
}

// Browse has a browser of its own open an address of this machine, in light or dark colours, until the test ends. It asks nothing of
// any other address.
func Browse(t *testing.T, chromium, url string, dark bool) {
	t.Helper()
	scheme := "1"
	if dark {
		scheme = "0"
	}
	profile, err := os.MkdirTemp("", "carillon-browser-")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--blink-settings=preferredColorScheme="+scheme,
		"--window-size=1400,1000", "--user-data-dir="+profile, url)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers end with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if err := c.Start(); err != nil {
		t.Fatalf("start %s: %v", chromium, err)
	}
	t.Cleanup(func() {
		_ = c.Wait()              // t.Context has ended by now, and the browser with it
		_ = os.RemoveAll(profile) // a helper that still writes leaves a file in the folder for temporary ones
	})
}
