package console_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/console"
)

// TestPartAndTag: a script is given the living part alone, and only when it has changed.
func TestPartAndTag(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	part := get(t, h, "/", "Carillon-Part", "main")
	if strings.Contains(part.body, "<html") || !strings.Contains(part.body, "summary") || part.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the part is %q", part.body)
	}
	same := func() answer {
		return get(t, h, "/", "Carillon-Part", "main", "If-None-Match", part.header.Get("ETag"))
	}
	b.clock.Set(b.clock.Now().Add(time.Minute))
	if a := same(); a.status != http.StatusNotModified || a.body != "" {
		t.Errorf("nothing happened: status %d", a.status)
	}
	b.post(t, `{"id":"v3","kind":"visit-closed","payload":{"wip":"1","jobType":"GR"},"recipient":{"address":"+964 770 000 0003"}}`)
	b.clock.Set(b.clock.Now().Add(time.Minute))
	if a := same(); a.status != http.StatusOK || !strings.Contains(a.body, "+964 770 000 0003") {
		t.Errorf("something happened: status %d", a.status)
	}
}

// TestDeliveryTells follows one delivery from its first message to its reminder.
func TestDeliveryTells(t *testing.T) {
	t.Parallel()
	b := lived(t, inMemory(t))
	h := b.handler(t, console.Deps{Guest: "default"})
	_, id, _ := strings.Cut(get(t, h, "/deliveries").body, `href="/deliveries/d_`)
	id, _, _ = strings.Cut("/deliveries/d_"+id, `"`)
	says := func(want ...string) {
		t.Helper()
		text := plain(get(t, h, id).body)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("the page does not say %q:\n%s", w, text)
			}
		}
	}
	says("Message sent at 08:12:34.", "Reminder 1 goes out at 15 May 08:12.", "sends left 1", "Message accepted by inbox.",
		"next Reminder 1 goes out.", `"wip": "40956"`)
	b.clock.Set(start.Add(24 * time.Hour))
	b.tick(t)
	says("Reminder 1 sent at 08:12:34.", "sends left 0", "Reminder 1 accepted by inbox.", "Reminder: how was it", "Message accepted by inbox.")
}

var tags = regexp.MustCompile(`<[^>]*>`)

// plain is what a page says, without markup, in single blanks.
func plain(page string) string {
	page = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">").Replace(tags.ReplaceAllString(page, " "))
	return strings.NewReplacer(" .", ".", " ,", ",").Replace(strings.Join(strings.Fields(page), " "))
}

// TestOlder goes through all pages of a list that is longer than two of them.
func TestOlder(t *testing.T) {
	t.Parallel()
	b := setup(t, inMemory(t))
	const n = 120
	for i := range n {
		b.post(t, fmt.Sprintf(`{"kind":"visit-closed","payload":{"wip":"%d","jobType":"GR"},"recipient":{"address":"+96477000%04d"}}`, i, i))
	}
	h := b.handler(t, console.Deps{Guest: "default"})
	for _, list := range []string{"/deliveries?workflow=visit", "/instances", "/events", "/inbox"} {
		seen, pages := map[string]bool{}, 0
		for path := list; path != "" && pages < 10; pages++ {
			body := get(t, h, path).body
			for _, m := range regexp.MustCompile(`data-key="([^"]*)"`).FindAllStringSubmatch(body, -1) {
				if seen[m[1]] {
					t.Errorf("%s: %s twice", list, m[1])
				}
				seen[m[1]] = true
			}
			path = ""
			if m := regexp.MustCompile(`href="([^"]*)" rel="next"`).FindStringSubmatch(body); m != nil {
				path = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		if len(seen) != n || pages < 3 {
			t.Errorf("%s: %d rows on %d pages, want %d", list, len(seen), pages, n)
		}
	}
}

func TestNotFound(t *testing.T) {
	t.Parallel()
	h := lived(t, inMemory(t)).handler(t, console.Deps{Guest: "default"})
	for _, path := range []string{"/nothing", "/deliveries/d_0", "/instances/d_00000000000000000000000000", "/deliveries/" + strings.Repeat("x", 300), "/assets/none.js"} {
		if a := get(t, h, path); a.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
	if a := get(t, h, "/deliveries?status=nonsense&before=-1"); a.status != http.StatusOK || !strings.Contains(a.body, "No delivery fits.") {
		t.Errorf("a filter that fits nothing: status %d", a.status)
	}
	if _, err := console.New(console.Deps{}); err == nil {
		t.Error("a console of nothing was made")
	}
}

// TestContrast holds every colour of text against every ground it may stand on, in both schemes: 4.5 to 1 is what
// people with weaker eyes need (WCAG 2.2, 1.4.3).
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(css), "prefers-color-scheme: dark")
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6}|[0-9a-f]{3});`).FindAllStringSubmatch(text, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, ground := range []string{"ground", "sheet", "sunk", "fresh"} {
			for _, ink := range []string{"text", "soft", "accent", "good", "wait", "quiet", "hold", "bad", "odd"} {
				a, b := colours[ground], colours[ink]
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 || len(colours) < 13 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", scheme, ink, ground, ratio)
				}
			}
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
