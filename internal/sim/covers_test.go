package sim

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// requirementsOf are how many requirements each part of the list of requirements has, numbered from 1.
func requirementsOf() map[string]int {
	return map[string]int{"A": 48, "B": 47, "C": 55, "D": 22, "E": 19, "P": 8, "R": 23}
}

// What a scenario of the examples covers is a requirement that exists, named once.
func TestCoversNamesRequirements(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^([A-Z])([1-9][0-9]*)$`)
	for _, file := range exampleFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, problems := Parse(file, text)
		if len(problems) > 0 {
			t.Fatalf("%v", problems)
		}
		for _, scenario := range list {
			named := map[string]bool{}
			for _, name := range scenario.Covers {
				m := id.FindStringSubmatch(name)
				if m == nil {
					t.Errorf("%s:%d covers %q, which is no requirement's id such as A15", file, scenario.Line, name)
					continue
				}
				if n, err := strconv.Atoi(m[2]); err != nil || n > requirementsOf()[m[1]] {
					t.Errorf("%s:%d covers %s, and there is no such requirement", file, scenario.Line, name)
				}
				if named[name] {
					t.Errorf("%s:%d covers %s twice", file, scenario.Line, name)
				}
				named[name] = true
			}
		}
	}
}
