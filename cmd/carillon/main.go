// Command carillon sends the right message to the right person, at the right moment, once, and never too often.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/carillonhq/carillon/internal/cli"
)

func main() {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, release)
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: terminal(os.Stdout)}))
}

// terminal reports whether a person reads the file.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
