package arch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The lines between which .golangci.yml holds what Depguard says.
const (
	rulesBegin = "        # Rules from internal/arch/table.go; go test ./internal/arch -update writes them.\n"
	rulesEnd   = "        # End of the rules from internal/arch/table.go.\n"
)

var errNoMarkers = errors.New("the lines that enclose the rules of depguard are missing")

// Depguard returns the linter's rules that follow from the table, as YAML: one strict list for each pure package,
// and for the rest of the product what it never imports. An editor with the linter then shows at once what this
// package's test shows later.
func Depguard() string {
	var y strings.Builder
	c := verifier{rows: Table()}
	product := []string{`"!$test"`}
	denied := false
	for _, r := range c.rows {
		if r.Layer == Harness {
			product = append(product, fmt.Sprintf("%q", "!**/internal/"+r.Path+"/*.go"))
		}
		if r.Layer != Pure {
			continue
		}
		fmt.Fprintf(&y, "        %s:\n          list-mode: strict\n", strings.ReplaceAll(r.Path, "/", "-"))
		fmt.Fprintf(&y, "          files: [\"**/internal/%s/*.go\", \"!$test\"]\n          allow:\n            - $gostd\n", r.Path)
		for _, target := range c.rows {
			if c.allows(r, target, target.importPath()) {
				fmt.Fprintf(&y, "            - %s$\n", target.importPath())
			}
		}
		for _, module := range r.Modules {
			fmt.Fprintf(&y, "            - %s\n", module)
		}
		if denied { // an alias of the first package's list
			y.WriteString("          deny: *impure\n")
			continue
		}
		denied = true
		y.WriteString("          deny: &impure\n")
		for _, pkg := range unique(ImpureStd(), UnwantedStd()) {
			deny(&y, pkg+"$", "pure code decides, it does not reach out")
		}
	}
	fmt.Fprintf(&y, "        product:\n          list-mode: lax\n          files: [%s]\n          deny:\n", strings.Join(product, ", "))
	for _, pkg := range UnwantedStd() {
		deny(&y, pkg+"$", "no part of the product does")
	}
	for _, module := range TestModules() {
		deny(&y, module, "it serves tests and is never part of the product")
	}
	return y.String()
}

func deny(y *strings.Builder, pkg, why string) {
	fmt.Fprintf(y, "            - {pkg: %s, desc: %q}\n", pkg, why)
}

func unique(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// replaceRules returns the linter's configuration with the rules of Depguard in their place.
func replaceRules(config string) (string, error) {
	before, rest, begins := strings.Cut(config, rulesBegin)
	_, after, ends := strings.Cut(rest, rulesEnd)
	if !begins || !ends {
		return "", errNoMarkers
	}
	return before + rulesBegin + Depguard() + rulesEnd + after, nil
}
