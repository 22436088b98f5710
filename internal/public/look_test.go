package public_test

import (
	"net/http/httptest"
	"testing"

	"github.com/carillonhq/carillon/internal/public"
	"github.com/carillonhq/carillon/internal/webtest"
)

func TestLook(t *testing.T) {
	m := newMemory(t)
	s := httptest.NewServer(public.Handler(m, public.Options{}))
	defer s.Close()
	b := webtest.Drive(t, webtest.Chromium(t, ""))
	for _, noscript := range []bool{false, true} {
		p := b.Open(t, webtest.View{Width: 390, NoScript: noscript, Dark: noscript})
		p.Go(s.URL + "/s/d_en")
		t.Log(p.Text())
		p.Leave(func() { p.Click("button") })
		t.Log(p.Value("document.activeElement.id"), p.Text(), p.Problems(), m.calls)
		p.Screenshot("/tmp/w/page/x" + map[bool]string{true: "n", false: "s"}[noscript] + ".png")
	}
}
