package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// leaf is a value of a file that holds no others.
type leaf struct {
	path  string // such as timeline[2].expect.row.status
	value any
	set   func(any)
}

// leavesOf lists the leaves of a file in a fixed order. Setting one changes the file that they were listed of.
func leavesOf(data map[string]any) (all []leaf) {
	var walk func(v any, path string, set func(any))
	walk = func(v any, path string, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			names := make([]string, 0, len(v))
			for name := range v {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				walk(v[name], strings.TrimPrefix(path+"."+name, "."), func(to any) { v[name] = to })
			}
		case []any:
			for i := range v {
				walk(v[i], fmt.Sprintf("%s[%d]", path, i), func(to any) { v[i] = to })
			}
		default:
			all = append(all, leaf{path, v, set})
		}
	}
	walk(data, "", nil)
	return all
}

// named reports whether a path is one of those that patterns name: * stands for a name or an index, ** for all below.
func named(path string, patterns []string) bool {
	for _, p := range patterns {
		p = regexp.QuoteMeta(p)
		p = strings.NewReplacer(`\.\*\*`, `[.\[].*`, `\[\*\]`, `\[\d+\]`, `\*`, `[^.\[]+`).Replace(p)
		if regexp.MustCompile("^" + p + "$").MatchString(path) {
			return true
		}
	}
	return false
}

// other is another value than v, of the same kind where there is one.
func other(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case json.Number:
		n, err := strconv.Atoi(string(v))
		if err == nil {
			return json.Number(strconv.Itoa(n + 1))
		}
	case string:
		// A time or a number within the text becomes another one.
		if at := strings.LastIndexAny(v, "0123456789"); at >= 0 {
			return v[:at] + string('0'+(v[at]-'0'+1)%10) + v[at+1:]
		}
		return v + "x"
	}
	return "x"
}

// probe is a test within a test: an adapter that fails with it fails alone.
type probe struct {
	testing.TB
	failed  []string
	cleanup []func()
}

func (p *probe) Error(args ...any)            { p.failed = append(p.failed, fmt.Sprint(args...)) }
func (p *probe) Errorf(f string, args ...any) { p.failed = append(p.failed, fmt.Sprintf(f, args...)) }
func (p *probe) Fatal(args ...any)            { p.Error(args...); runtime.Goexit() }
func (p *probe) Fatalf(f string, args ...any) { p.Errorf(f, args...); runtime.Goexit() }
func (p *probe) Cleanup(f func())             { p.cleanup = append(p.cleanup, f) }

// differences runs the adapter on a changed file and returns what it notices, a failure of its own included.
func (f file) differences(t testing.TB, data map[string]any) []string {
	return f.run.differences(t, data)
}

func (run adapter) differences(t testing.TB, data map[string]any) []string {
	p := &probe{TB: t}
	var diffs []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				p.Errorf("panic: %v", v)
			}
			for _, clean := range slices.Backward(p.cleanup) {
				clean()
			}
		}()
		got := run(p, func() *store.Store { return storetest.Memory(p) }, data)
		diffs = got.diffs()
	}()
	<-done
	return append(diffs, p.failed...)
}

// names are what every file may call itself and its cases, and what it remarks.
func names() []string {
	return []string{"id", "source_system", "source", "note", "notes[*]", "rule", "*.note", "*[*].note", "*.*.note", "cases[*].name", "vectors[*].name", "conversions[*].case"}
}

// How many leaves of what it is given each run of the tests changes.
const (
	usual = 1             // of a file that takes tenths of a second or more
	many  = 3             // of one that takes about a tenth
	every = math.MaxInt32 // of one that takes hundredths or less
)

// TestAcceptanceBites shows that the adapters compare everything that the data gives them, but for its notes.
//
// All expectations of a file are changed at once, each to a text of its own, and the adapter runs once. An adapter reads an
// expectation only after the product has run; so the product does the same as before, and each expectation must come back in
// a difference by its own text. What the adapter is given is changed one leaf at a time, each in a run of its own, which must
// find a difference: some leaves of each file each time. With CARILLON_ACCEPTANCE_LEAVES=all ("make leaves") it is every leaf, each
// expectation alone too. A row of CommCare HQ is a file here. The expectations of its schedules are no texts: they, and what these are
// given, are changed one at a time, all of them each time.
func TestAcceptanceBites(t *testing.T) {
	t.Parallel()
	everything := os.Getenv("CARILLON_ACCEPTANCE_LEAVES") == "all"
	for _, f := range append(allFiles(), rowFiles(t)...) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.notes = append(f.notes, names()...)
			leaves := leavesOf(f.read(t))
			if found := f.differences(t, f.read(t)); len(found) > 0 {
				t.Fatalf("the file as it is differs, so that no change of it shows anything: %s", found)
			}
			if !f.typed {
				f.changedAtOnce(t)
			}
			if os.Getenv("CARILLON_ACCEPTANCE_DIR") != "" {
				return // what is given there is not what the notes were written for
			}
			var alone []int
			for i, l := range leaves {
				if !named(l.path, f.notes) && (everything || !named(l.path, f.wants)) {
					alone = append(alone, i)
				}
			}
			tried := min(cmp.Or(f.tried, usual), len(alone))
			if everything {
				tried = len(alone)
			}
			for n := range tried { // from the middles of equal parts
				f.changedAlone(t, alone[(2*n+1)*len(alone)/(2*tried)])
			}
			for _, pattern := range slices.Concat(f.wants, f.notes) {
				if f.row == nil && !slices.Contains(names(), pattern) && !slices.ContainsFunc(leaves, func(l leaf) bool { return named(l.path, []string{pattern}) }) {
					t.Errorf("there is no %s", pattern)
				}
			}
		})
	}
}

// changedAtOnce changes every expectation of a file, each to a text of its own, and demands each of them in a difference.
func (f file) changedAtOnce(t *testing.T) {
	t.Helper()
	data := f.read(t)
	texts := map[string]string{} // by path
	for i, l := range leavesOf(data) {
		if named(l.path, f.wants) && !named(l.path, f.notes) {
			texts[l.path] = fmt.Sprintf("«%d»", i)
			l.set(texts[l.path])
		}
	}
	all := strings.Join(f.differences(t, data), "\n")
	if strings.Contains(all, "panic: ") {
		t.Errorf("an expectation is read before it is compared: %s", all[strings.Index(all, "panic: "):])
	}
	for _, l := range leavesOf(f.read(t)) {
		if text := texts[l.path]; text != "" && !strings.Contains(all, text) {
			t.Errorf("%s is not compared", l.path)
		}
	}
}

// changedAlone changes one leaf and demands a difference. A value that a case does not depend on, such as one of many instants that
// are all early enough, is changed once more, to nonsense, which an adapter that reads it cannot overlook.
func (f file) changedAlone(t *testing.T, i int) {
	t.Helper()
	var l leaf
	for _, change := range []func(any) any{other, func(any) any { return "«nonsense»" }} {
		for _, run := range []adapter{f.quick, f.run} {
			data := f.read(t)
			l = leavesOf(data)[i]
			l.set(change(l.value))
			if run != nil && len(run.differences(t, data)) > 0 {
				return
			}
		}
	}
	t.Errorf("%s: another value than %v went unnoticed", l.path, l.value)
}
