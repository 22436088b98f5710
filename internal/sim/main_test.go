package sim

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillonhq/carillon/internal/definition"
)

var updateGoldens = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file.
func golden(t *testing.T, file string, got string) {
	t.Helper()
	if *updateGoldens {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// timeless takes the machine's time out of an output.
func timeless(s string) string {
	s = regexp.MustCompile(`in +\d+ ms`).ReplaceAllString(s, "in   9 ms")
	return regexp.MustCompile(`\d+\.\d s`).ReplaceAllString(s, "0.2 s")
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return slices.DeleteFunc(files, func(f string) bool {
		return filepath.Base(f) == "definitions.yaml" && !strings.Contains(f, "unreadable")
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/failing/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			for _, all := range []bool{false, true} {
				var out, errs bytes.Buffer
				status := Main(t.Context(), Options{Paths: []string{file}, All: all, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &errs})
				if status != StatusDifference || errs.Len() > 0 {
					t.Errorf("status %d, want %d; errors: %s", status, StatusDifference, &errs)
				}
				name := strings.TrimSuffix(file, ".yaml") + ".txt"
				if all {
					name = strings.TrimSuffix(file, ".yaml") + ".all.txt"
				}
				golden(t, name, timeless(out.String()))
				for line := range strings.Lines(out.String()) {
					if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
						t.Errorf("a blank at the end of %q", line)
					}
				}
			}
		})
	}
}

func TestColourOnlyRepeats(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/failing/*.yaml") {
		var bare, coloured bytes.Buffer
		Main(t.Context(), Options{Paths: []string{file}, All: true, Providers: providers(), Sinks: sinks(), Stdout: &bare, Stderr: &bare})
		Main(t.Context(), Options{Paths: []string{file}, All: true, Providers: providers(), Sinks: sinks(), Stdout: &coloured, Stderr: &coloured, Colour: true})
		if !strings.Contains(coloured.String(), red) {
			t.Errorf("%s: no colour", file)
		}
		if diff := cmp.Diff(timeless(bare.String()), timeless(plain(coloured.String()))); diff != "" {
			t.Errorf("%s: colour changes the text (-bare +coloured):\n%s", file, diff)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/unreadable/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			status := Main(t.Context(), Options{Paths: []string{file}, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &errs})
			if status != StatusUnreadable {
				t.Errorf("status %d, want %d", status, StatusUnreadable)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", timeless(out.String())+errs.String())
		})
	}
}

// inFolder copies a file and the definitions beside it into a folder of the test.
func inFolder(t *testing.T, file string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{filepath.Base(file), "definitions.yaml"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, filepath.Base(file))
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/failing/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			copied := inFolder(t, file)
			var out bytes.Buffer
			status := Main(t.Context(), Options{Paths: []string{copied}, Update: true, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &out})
			text, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			if status != StatusHeld {
				t.Errorf("after the update: status %d\n%s", status, &out)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".updated", string(text))
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if before, after := comments(string(was)), comments(string(text)); !subset(before, after) {
				t.Errorf("comments %q, before %q", after, before)
			}
			if status := Main(t.Context(), Options{Paths: []string{copied}, Update: true, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &out}); status != StatusHeld {
				t.Errorf("a second update: status %d", status)
			}
			if again, err := os.ReadFile(copied); err != nil || !bytes.Equal(text, again) {
				t.Errorf("a second update changes the file: %v", err)
			}
		})
	}
}

// comments returns the lines of a text that are nothing but a comment.
func comments(text string) []string {
	return regexp.MustCompile(`(?m)^ *#.*`).FindAllString(text, -1)
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

func TestReports(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.xml")
	var out, errs bytes.Buffer
	status := Main(t.Context(), Options{
		Paths: []string{"testdata/failing", "testdata/unreadable/spelling.yaml", examples + "/csi-gr.yaml"},
		JSON:  true, JUnit: file, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &errs,
	})
	if status != StatusUnreadable || errs.Len() > 0 {
		t.Errorf("status %d, want %d; errors: %s", status, StatusUnreadable, &errs)
	}
	var report jsonReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in\n%s", err, &out)
	}
	var got []string
	for _, s := range report.Scenarios {
		got = append(got, filepath.Base(s.File)+" "+s.Status)
	}
	want := []string{"adds.yaml failed", "answers.yaml failed", "braces.yaml failed", "gates.yaml failed", "limits.yaml failed", "order.yaml failed", "rows.yaml failed", "texts.yaml failed", "upcoming.yaml failed", "spelling.yaml unreadable", "csi-gr.yaml ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
	out.Reset()
	Main(t.Context(), Options{Paths: []string{"testdata/failing/adds.yaml"}, JSON: true, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &errs})
	golden(t, "testdata/report.json", regexp.MustCompile(`"took_ms": \d+`).ReplaceAllString(out.String(), `"took_ms": 9`))

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != 11 || suites.Failures != 9 || suites.Errors != 1 {
		t.Errorf("%d tests, %d failures, %d errors; want 11, 9, 1", suites.Tests, suites.Failures, suites.Errors)
	}
	if c := suites.Suites[0].Cases[6]; c.Failure == nil || !strings.Contains(c.Failure.Text, "rows.yaml:7  step 1") {
		t.Errorf("the failure of rows.yaml does not say where: %+v", c)
	}
}

func TestMainChoosesFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		o      Options
		status int
		want   string
	}{
		{"a folder", Options{Paths: []string{"testdata/holding"}}, StatusHeld, fmt.Sprintf("%d scenarios held, 0.2 s\n", len(files(t, "testdata/holding/*.yaml"))-1)}, // one holds definitions
		{"by title", Options{Paths: []string{examples}, Run: "VOC"}, StatusHeld, "1 scenario held, 0.2 s\n"},
		{"no such title", Options{Paths: []string{examples}, Run: "nothing of the kind"}, StatusUnreadable, "there is no scenario here: a file that begins with scenario: TITLE\n"},
		{"no such file", Options{Paths: []string{"nowhere"}}, StatusUnreadable, "stat nowhere: no such file or directory\n"},
		{"a database of another kind", Options{Paths: []string{examples + "/voc.yaml"}, DB: "mysql://x"}, StatusUnreadable, "--db takes the address of a PostgreSQL database: postgres://…"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			test.o.Providers, test.o.Sinks, test.o.Stdout, test.o.Stderr = providers(), sinks(), &out, &out
			if status := Main(t.Context(), test.o); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			lines := strings.SplitAfter(timeless(out.String()), "\n")
			if last := lines[max(0, len(lines)-2)]; !strings.HasSuffix(last, test.want) && !strings.Contains(out.String(), test.want) {
				t.Errorf("the last line is %q, want %q", last, test.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/unreadable/missing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	scenarios, problems := Check(definition.File{Name: "testdata/unreadable/missing.yaml", Text: text})
	if scenarios != 1 {
		t.Errorf("%d scenarios", scenarios)
	}
	for _, p := range problems {
		got = append(got, p.String())
	}
	const hint = "\n    files are named from the folder of the scenario"
	want := []string{
		`testdata/unreadable/missing.yaml:2:14: there is no file "nowhere.yaml"` + hint,
		`testdata/unreadable/missing.yaml:5:11: there is no file "nothing.csv"` + hint,
		`testdata/unreadable/missing.yaml:11:16: there is no file "other.yaml"` + hint,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, file := range exampleFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := Check(definition.File{Name: file, Text: text}); len(problems) > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

func TestUpdateOfLinesThatEndInCRLF(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "testdata/failing/*.yaml") {
		copied := inFolder(t, file)
		text, err := os.ReadFile(copied)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if status := Main(t.Context(), Options{Paths: []string{copied}, Update: true, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &out}); status != StatusHeld {
			t.Errorf("%s: status %d\n%s", file, status, &out)
		}
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	const begin = "scenario: A\nstart: 2026-06-01 09:00\ndefinitions: definitions.yaml\nsteps:\n"
	const do = "do: [{event: order-placed, payload: {number: 1, note: a}, recipient: {address: a@example.org}}]"
	tests := []struct{ name, text, want string }{
		{"a step in braces", begin + "  - {at: \"10:00\", " + do + "}\n", "scenario.yaml:5: " + errFlow.Error()},
		{"a text over two lines", begin + "  - at: \"10:00\"\n    " + do + "\n    expect:\n      sent:\n        - text: a\n            b\n          to: a@example.org\n", "scenario.yaml:8: " + errPlain.Error()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(filepath.Dir(inFolder(t, "testdata/failing/rows.yaml")), "scenario.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o644); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if status := Main(t.Context(), Options{Paths: []string{file}, Update: true, Providers: providers(), Sinks: sinks(), Stdout: &out, Stderr: &out}); status != StatusUnreadable {
				t.Errorf("status %d, want %d", status, StatusUnreadable)
			}
			if !strings.Contains(out.String(), test.want) {
				t.Errorf("got\n%s\nwant %s", &out, test.want)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != test.text {
				t.Errorf("the file was changed: %v\n%s", err, text)
			}
		})
	}
}
