package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// tick is the unit of CPU time in /proc: Linux shows hundredths of a second to programs, whatever the kernel counts in.
const tick = 10 * time.Millisecond

// processStat is the data of a process in /proc.
type processStat struct {
	parent   int
	own      time.Duration
	children time.Duration // of those that have ended
}

func readStat(pid int) (s processStat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	return parseStat(string(text))
}

// parseStat reads proc_pid_stat(5). The second field is the name in parentheses and may hold anything.
func parseStat(text string) (s processStat, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return s, fmt.Errorf("process status %q is not readable", text)
	}
	number := func(k int) time.Duration {
		n, e := strconv.Atoi(fields[k-3]) // numbered as in the manual
		err = errors.Join(err, e)
		return time.Duration(n)
	}
	s.parent = int(number(4))
	s.own = (number(14) + number(15)) * tick
	s.children = (number(16) + number(17)) * tick
	return s, err
}

// family is the CPU time of a process and of all children that it has or had.
func family(pid int) (time.Duration, error) {
	s, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	total := s.own + s.children
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		if s, err := readStat(child); err == nil && s.parent == pid { // one that has ended meanwhile counts the next time
			total += s.own
		}
	}
	return total, nil
}

// ownCPU is the CPU time of this process, without its children.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// postmaster is the process of the server at url, the parent of all its others.
func postmaster(ctx context.Context, url string) (pid int, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return 0, err
	}
	s, err := readStat(pid)
	return s.parent, err
}
