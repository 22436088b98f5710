package app

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// roomyPercent is how far the heap may grow beyond what is alive before it is collected: with 400 instead of Go's
	// 100 a process under load was measured to spend an eighth to a third less of the processor's time.
	roomyPercent = 400
	// roomyFrom is the least memory of a machine for roomyPercent; the process then uses at most a quarter of it.
	roomyFrom = 1 << 30
)

// TuneMemory makes garbage collection less frequent if there is enough memory, up to a quarter of it. GOGC and GOMEMLIMIT
// from the environment are kept, and a small machine keeps Go's defaults.
func TuneMemory() { tune(available(), os.Getenv, debug.SetGCPercent, debug.SetMemoryLimit) }

func tune(memory int64, env func(string) string, percent func(int) int, limit func(int64) int64) {
	if memory < roomyFrom || env("GOGC") != "" {
		return
	}
	percent(roomyPercent)
	if env("GOMEMLIMIT") == "" {
		limit(memory / 4)
	}
}

// available is what this process may use, in bytes: the machine's or its control group's; 0 where neither is known.
func available() int64 {
	least := int64(math.MaxInt64)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		least = min(least, total(text))
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // or it says max
			least = min(least, n)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// total reads the line MemTotal, in kB, of Linux's meminfo.
func total(meminfo []byte) int64 {
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return math.MaxInt64
}
