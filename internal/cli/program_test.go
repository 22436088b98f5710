package cli

import (
	"runtime/debug"
	"testing"
)

// The version is that of this module, whether it is the program or a part of a binary of somebody's own.
func TestVersionIn(t *testing.T) {
	t.Parallel()
	own := debug.Module{Path: "example.org/desk", Version: "v7.0.0"}
	const module = "github.com/carillonhq/carillon"
	for name, tc := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"the program":   {debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "v1.2.3"},
		"built from":    {debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
		"nothing noted": {debug.BuildInfo{}, "devel"},
		"a part":        {debug.BuildInfo{Main: own, Deps: []*debug.Module{{Path: module, Version: "v1.2.3"}, {Path: "example.org/z", Version: "v9.0.0"}}}, "v1.2.3"},
		"replaced":      {debug.BuildInfo{Main: own, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "../carillon"}}}}, "devel"},
		"a fork":        {debug.BuildInfo{Main: own, Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: module, Version: "v1.2.4"}}}}, "v1.2.4"},
	} {
		if got := versionIn(&tc.info); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// A command in a text is one of the binary that says it; names of files, of metrics and of the product stay.
func TestNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"carillon: no such file":                              "desk: no such file",
		"x\n    carillon runs list shows it":                  "x\n    desk runs list shows it",
		"export K=$(carillon keys create)":                    "export K=$(desk keys create)",
		"my-probe | carillon records put":                     "my-probe | desk records put",
		"cannot open carillon.db: no such file":               "cannot open carillon.db: no such file",
		"/etc/carillon/secrets, carillon_parked, my-carillon": "/etc/carillon/secrets, carillon_parked, my-carillon",
		"Carillon sends":                                      "Carillon sends",
	} {
		if got := (Program{Name: "desk"}).named(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
		for _, p := range []Program{{}, {Name: DefaultName}} {
			if got := p.named(text); got != text {
				t.Errorf("%q: the program itself says %q", text, got)
			}
		}
	}
}
