package config

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The systemd unit sets what there is to set, and leaves a stop longer than the program takes for one.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../packaging/systemd/carillon.service")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var takes time.Duration
	for _, s := range Settings() {
		if names = append(names, s.Env); s.Key == "stop_timeout" {
			if takes, err = time.ParseDuration(s.Default); err != nil {
				t.Fatal(err)
			}
		}
	}
	var stop int
	environment := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "TimeoutStopSec":
			stop, err = strconv.Atoi(value)
			if err != nil {
				t.Error(err)
			}
		case "ExecStart":
			if program, args, _ := strings.Cut(value, " "); !strings.HasSuffix(program, "/carillon") || args != "serve" {
				t.Errorf("it starts %q", value)
			}
		case "Environment":
			for pair := range strings.FieldsSeq(value) {
				name, text, _ := strings.Cut(pair, "=")
				if environment[name] = text; !slices.Contains(names, name) {
					t.Errorf("%s is no setting", name)
				}
			}
		}
	}
	if limit := time.Duration(stop) * time.Second; takes == 0 || limit <= takes {
		t.Errorf("it is killed after %s, and may take %s", limit, takes)
	}
	if !strings.HasPrefix(environment["CARILLON_DB"], "/var/lib/carillon/") || !strings.Contains(string(raw), "\nStateDirectory=carillon\n") {
		t.Error("the database does not lie in the folder that the service may write to")
	}
}
