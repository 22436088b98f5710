package feedback

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Mails yields the mails of a mailbox file (mbox, RFC 4155), or the one mail of a file that is no mailbox. Each is valid until the next one.
func Mails(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewReader(r)
		var mail []byte
		mailbox, begun, blank := false, false, true
		for {
			line, err := lines.ReadBytes('\n')
			if bytes.HasPrefix(line, []byte("From ")) && blank && (mailbox || !begun) {
				if mailbox = true; len(mail) > 0 && !yield(mail, nil) {
					return
				}
				mail, begun, blank, line = nil, true, false, nil
			}
			if unquoted := bytes.TrimLeft(line, ">"); mailbox && len(unquoted) < len(line) && bytes.HasPrefix(unquoted, []byte("From ")) {
				line = line[1:] // mboxrd
			}
			if len(line) > 0 {
				blank = len(bytes.TrimRight(line, "\r\n")) == 0
				begun = begun || !blank
				if len(mail) <= most {
					mail = append(mail, line...)
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				if len(bytes.TrimSpace(mail)) > 0 {
					yield(mail, nil)
				}
				return
			case err != nil:
				yield(nil, fmt.Errorf("read the mailbox: %w", err))
				return
			}
		}
	}
}
