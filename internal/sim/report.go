package sim

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/definition"
)

// report is the result of one scenario, or why there is none.
type report struct {
	file     string
	line     int // where the scenario begins; 0: the file cannot be read
	title    string
	result   *Result
	problems []definition.Problem
	err      error
}

// asked reports whether the report has content: a scenario whose title was not selected leaves an empty report.
func (r report) asked() bool { return r.result != nil || r.err != nil || len(r.problems) > 0 }

// held reports whether the file could be read and everything was as expected.
func (r report) held() bool { return r.result != nil && r.result.Held() }

// jsonReport is what --json writes.
type jsonReport struct {
	Scenarios []jsonScenario `json:"scenarios"`
	Failed    int            `json:"failed"`
}

type jsonScenario struct {
	File        string           `json:"file"`
	Line        int              `json:"line,omitempty"` // where it begins
	Title       string           `json:"title,omitempty"`
	Status      string           `json:"status"` // ok, failed or unreadable
	Covers      []string         `json:"covers,omitempty"`
	Steps       int              `json:"steps"`
	Span        string           `json:"span"`
	TookMS      int64            `json:"took_ms"`
	Differences []jsonDifference `json:"differences,omitempty"`
	Problems    []jsonProblem    `json:"problems,omitempty"`
}

// jsonDifference is one list that differs.
type jsonDifference struct {
	Step  int       `json:"step"`
	At    time.Time `json:"at"`
	Line  int       `json:"line"`
	List  string    `json:"list"`
	Count *int      `json:"expected_count,omitempty"`
	Rows  []jsonRow `json:"rows"`
}

type jsonRow struct {
	Sign     string            `json:"sign"`
	Line     int               `json:"line,omitempty"`
	Expected map[string]string `json:"expected,omitempty"`
	Actual   map[string]string `json:"actual,omitempty"`
}

type jsonProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func writeReport(w io.Writer, reports []report) error {
	all := jsonReport{Scenarios: []jsonScenario{}}
	for _, r := range reports {
		s := jsonScenario{File: r.file, Line: r.line, Title: r.title, Status: "unreadable"}
		if !r.held() {
			all.Failed++
		}
		for _, p := range r.problems {
			s.Problems = append(s.Problems, jsonProblem{p.File, p.Line, p.Column, p.Message, p.Hint})
		}
		if r.err != nil {
			s.Problems = append(s.Problems, jsonProblem{File: r.file, Message: r.err.Error()})
		}
		if r.result != nil {
			s.Status = "failed"
			if r.held() {
				s.Status = "ok"
			}
			s.Covers, s.Steps = r.result.Scenario.Covers, len(r.result.steps)
			s.Span, s.TookMS = formatSpan(r.result.Span()), r.result.Took.Milliseconds()
			s.Differences = jsonDifferences(*r.result)
		}
		all.Scenarios = append(all.Scenarios, s)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

func jsonDifferences(r Result) []jsonDifference {
	var list []jsonDifference
	for _, s := range r.steps {
		for _, o := range s.outcomes {
			if o.held {
				continue
			}
			d := jsonDifference{Step: s.number, At: s.At, Line: o.pos.Line, List: o.spec.name, Rows: []jsonRow{}}
			if d.Line == 0 {
				d.Line = s.pos.Line
			}
			if o.count >= 0 {
				d.Count = &o.count
				for _, a := range o.actual {
					d.Rows = append(d.Rows, jsonRow{Sign: string(signExtra), Actual: valuesOf(o.spec, a)})
				}
			}
			for _, p := range o.pairs {
				row := jsonRow{Sign: string(p.sign)}
				if p.expected >= 0 {
					row.Line, row.Expected = o.rows[p.expected].pos.Line, map[string]string{}
					for _, f := range o.rows[p.expected].fields {
						row.Expected[f.name] = f.text
					}
				}
				if p.actual >= 0 {
					row.Actual = valuesOf(o.spec, o.actual[p.actual])
				}
				d.Rows = append(d.Rows, row)
			}
			list = append(list, d)
		}
	}
	return list
}

// valuesOf returns every field of an observed row that has a value; instants are RFC 3339.
func valuesOf(spec listSpec, a row) map[string]string {
	values := map[string]string{}
	for _, f := range spec.fields {
		c := a.cells[f.of]
		switch {
		case f.kind == fieldHas, f.kind == fieldMatches:
		case c.timed && !c.at.IsZero():
			values[f.name] = c.at.UTC().Format(time.RFC3339Nano)
		case !c.timed && c.text != "":
			values[f.name] = c.text
		}
	}
	return values
}

// The parts of a JUnit report that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the report to a file, one test case per scenario.
func writeJUnit(path string, reports []report) error {
	suite := junitSuite{Name: "carillon test", Tests: len(reports)}
	var took time.Duration
	for _, r := range reports {
		c := junitCase{Name: r.title, Class: r.file, File: r.file, Time: "0.000"}
		if c.Name == "" {
			c.Name = r.file
		}
		switch {
		case r.result == nil:
			suite.Errors++
			c.Error = &junitMessage{Message: "the file cannot be read", Text: problemText(r)}
		case !r.held():
			suite.Failures++
			var b strings.Builder
			printer{w: &b, all: true}.failure(r.file, *r.result)
			c.Failure = &junitMessage{Message: "not as expected", Text: b.String()}
		}
		if r.result != nil {
			took += r.result.Took
			c.Time = fmt.Sprintf("%.3f", r.result.Took.Seconds())
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Time = fmt.Sprintf("%.3f", took.Seconds())
	text, err := xml.MarshalIndent(junitSuites{
		Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Suites: []junitSuite{suite},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o644)
}

func problemText(r report) string {
	var b strings.Builder
	for _, p := range r.problems {
		b.WriteString(p.String() + "\n")
	}
	if r.err != nil {
		b.WriteString(r.err.Error() + "\n")
	}
	return b.String()
}
