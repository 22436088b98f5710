package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// checked remembers that its writer failed: what a command prints is its result, and a result that is cut off, on a
// full disk say, must not end with status 0.
type checked struct {
	io.Writer

	mu  sync.Mutex
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err == nil {
			c.err = err
		}
	}
	return n, err
}

// caused reports whether an error is that of the writer, of which verdict speaks.
func (c *checked) caused(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && errors.Is(err, c.err)
}

// verdict is a command's exit status, which a result that could not be written turns into a failure.
func (c *checked) verdict(status int, program string, stderr io.Writer) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return status
	}
	fmt.Fprintf(stderr, "%s: the result could not be written: %v\n", program, c.err)
	if status == ExitOK {
		return ExitFailed
	}
	return status
}
