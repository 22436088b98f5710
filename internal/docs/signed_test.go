package docs_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/signature"
)

// TestRepliesAreSignedByHand runs the recipe that signs a reply: a channel takes what it posts.
func TestRepliesAreSignedByHand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "replies.md"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := ""
	for _, b := range blocksOf(t, string(page)) {
		if b.lang == "sh" && strings.Contains(b.text(), "reply() {") {
			recipe, _, _ = strings.Cut(b.text(), "\n}\n")
		}
	}
	const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "clinic-callbacks.txt"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `curl() { for one in "$@"; do printf '%s\n' "$one"; done; }`+"\n"+recipe+"\n}\nreply sms:clinic +254700000001 'Ndiyo, kesho'\n")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	header, body := http.Header{}, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if name, value, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, "webhook-") {
			header.Set(name, value)
		}
		if strings.HasPrefix(line, "{") {
			body = line
		}
	}
	key, err := signature.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signature.Verify([]signature.Key{key}, header, []byte(body), time.Now()); err != nil || !strings.Contains(body, `"from": "+254700000001", "text": "Ndiyo, kesho"`) {
		t.Errorf("%v:\n%s", err, out)
	}
}
