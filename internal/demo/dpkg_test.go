package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseChange(t *testing.T) {
	t.Parallel()
	const at = "2026-09-22 04:55:01"
	for name, tc := range map[string]struct {
		line string
		want change // zero: no change of a package
	}{
		"install":            {at + " install jq:amd64 <none> 1.6-2.1+deb12u1", change{at, "package.installed", "jq", "amd64", "1.6-2.1+deb12u1", ""}},
		"install again":      {at + " install jq:amd64 1.5 1.6", change{at, "package.installed", "jq", "amd64", "1.6", ""}},
		"upgrade":            {at + " upgrade libc6:amd64 2.36-9 2:2.36-10~bpo", change{at, "package.upgraded", "libc6", "amd64", "2:2.36-10~bpo", "2.36-9"}},
		"remove":             {at + " remove cmake:amd64 3.25.1-1 <none>", change{at, "package.removed", "cmake", "amd64", "3.25.1-1", ""}},
		"without arch":       {at + " install tool <none> 1", change{at, "package.installed", "tool", "", "1", ""}},
		"purge":              {line: at + " purge cmake:amd64 3.25.1-1 <none>"},
		"configure":          {line: at + " configure libc6:amd64 2.36-9 <none>"},
		"trigproc":           {line: at + " trigproc libc-bin:amd64 2.36-9 <none>"},
		"status":             {line: at + " status installed libc6:amd64 2.36-9"},
		"startup":            {line: at + " startup archives unpack"},
		"install of nothing": {line: at + " install jq:amd64 1.5 <none>"},
		"no package":         {line: at + " install :amd64 <none> 1.5"},
		"no time":            {line: "2026-09-22 04:55 install jq:amd64 <none> 1.6"},
		"no date":            {line: "22.09.2026 04:55:01 install jq:amd64 <none> 1.6"},
		"one field more":     {line: at + " install jq:amd64 <none> 1.6 1.7"},
		"empty":              {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseChange(tc.line)
			if ok != (tc.want != change{}) || got != tc.want {
				t.Errorf("got %+v, %v\nwant %+v", got, ok, tc.want)
			}
		})
	}
}

func FuzzParseChange(f *testing.F) {
	for line := range strings.Lines(string(sample)) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, ok := parseChange(line)
		if !ok {
			if c != (change{}) {
				t.Fatalf("refused, and yet %+v", c)
			}
			return
		}
		if c.name == "" || c.version == "" || c.kind == "" || len(c.loggedAt) != 19 {
			t.Fatalf("half a change: %+v", c)
		}
		for _, part := range []string{c.name, c.arch, c.version, c.previous} {
			if !strings.Contains(line, part) {
				t.Fatalf("%q is not in the line", part)
			}
		}
	})
}

func TestLastChanges(t *testing.T) {
	t.Parallel()
	all, read, err := lastChanges(bytes.NewReader(sample), 1000)
	if err != nil || len(all) < 50 || read != int64(len(sample)) {
		t.Fatalf("the sample has %d changes in %d bytes: %v", len(all), read, err)
	}
	some, _, err := lastChanges(bytes.NewReader(sample), 7)
	if diff := cmp.Diff(all[len(all)-7:], some, cmp.AllowUnexported(change{})); err != nil || diff != "" {
		t.Errorf("the last seven (-want +got):\n%s %v", diff, err)
	}
	if _, _, err := lastChanges(strings.NewReader(strings.Repeat("x", 2*maxLine)), 7); err == nil {
		t.Error("a line without end was read")
	}
}

// TestFollow: lines that are written after the first read are posted once, whole lines only, and a rotated log is read from
// its beginning.
func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dpkg.log")
	write := func(flag int, text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	line := func(name string) string { return "2026-09-22 04:55:01 install " + name + ":all <none> 1\n" }
	write(os.O_TRUNC, line("a"))
	s, changes, err := open(path)
	if err != nil || len(changes) != 1 || s.path == "" {
		t.Fatalf("at first: %v %v", changes, err)
	}
	more := func(want ...string) {
		t.Helper()
		changes, err := s.more()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range changes {
			got = append(got, c.name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("then (-want +got):\n%s", diff)
		}
	}
	more()
	b := line("b")
	write(os.O_APPEND, b[:20])
	more()
	write(os.O_APPEND, b[20:]+line("c"))
	more("b", "c")
	more()
	write(os.O_TRUNC, line("d"))
	more("d")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	more()
}

func TestWithoutLog(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.log")
	if err := os.WriteFile(empty, []byte("2026-09-22 04:55:01 startup archives unpack\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.log"), empty} {
		s, changes, err := open(path)
		if err != nil || s.path != "" || len(changes) < 50 {
			t.Errorf("%s: %d changes of %q: %v", filepath.Base(path), len(changes), s.path, err)
		}
		if changes, err := s.more(); err != nil || len(changes) > 0 {
			t.Errorf("the sample goes on: %v %v", changes, err)
		}
	}
}
