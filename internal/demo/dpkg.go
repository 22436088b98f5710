package demo

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/carillonhq/carillon/client"
)

// change is one line of a package manager's log that says what happened to a package.
type change struct {
	loggedAt string // as the log has it: the host's own time, without a zone
	kind     string // package.installed, package.upgraded or package.removed
	name     string
	arch     string
	version  string // the one that was installed, upgraded to, or removed
	previous string // before an upgrade
}

// parseChange reads a line of dpkg's log:
//
//	2026-09-22 04:55:01 upgrade libc6:amd64 2.36-9 2.36-10
//
// Ok is false for lines that change no package: states, configuration, triggers, and a purge, which follows a removal.
func parseChange(line string) (c change, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 || !shaped(fields[0], "0000-00-00") || !shaped(fields[1], "00:00:00") {
		return change{}, false
	}
	c.loggedAt = fields[0] + " " + fields[1]
	c.name, c.arch, _ = strings.Cut(fields[3], ":")
	before, after := version(fields[4]), version(fields[5])
	switch fields[2] {
	case "install":
		c.kind, c.version = "package.installed", after
	case "upgrade":
		c.kind, c.version, c.previous = "package.upgraded", after, before
	case "remove":
		c.kind, c.version = "package.removed", before
	default:
		return change{}, false
	}
	if c.name == "" || c.version == "" {
		return change{}, false
	}
	return c, true
}

// version returns a version from the log, or "" for <none>.
func version(s string) string {
	if s == "<none>" {
		return ""
	}
	return s
}

// shaped reports whether s has a digit wherever the pattern has a 0, and the pattern's characters elsewhere.
func shaped(s, pattern string) bool {
	if len(s) != len(pattern) {
		return false
	}
	for i := range len(s) {
		if pattern[i] == '0' && (s[i] < '0' || s[i] > '9') || pattern[i] != '0' && s[i] != pattern[i] {
			return false
		}
	}
	return true
}

// maxLine bounds a line of the log, in bytes; a package's line has a few hundred at most.
const maxLine = 16 << 10

// lastChanges reads a log and returns up to n of its last changes, the oldest first, and how much it has read.
func lastChanges(r io.Reader, n int) ([]change, int64, error) {
	var list []change
	counted := &countingReader{r: r}
	lines := bufio.NewScanner(counted)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		c, ok := parseChange(lines.Text())
		if !ok {
			continue
		}
		if list = append(list, c); len(list) >= 2*n {
			list = append(list[:0], list[len(list)-n:]...)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, counted.n, fmt.Errorf("read the log of packages: %w", err)
	}
	return list[max(0, len(list)-n):], counted.n, nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// event returns the event for a change. It has no occurred_at, because the log does not say in which zone its times are: for the
// engine the event occurs when it is posted, and the log's own time is a field of the payload.
func (c change) event() client.Event {
	payload := map[string]string{"package": c.name, "version": c.version, "arch": c.arch, "logged_at": c.loggedAt}
	if c.previous != "" {
		payload["previous"] = c.previous
	}
	return client.Event{
		Kind: c.kind, Payload: payload,
		Recipient: &client.Recipient{Address: "operator", Locale: "en", CustomerRef: "operator"},
	}
}
