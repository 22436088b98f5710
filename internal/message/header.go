package message

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxHeaderValue bounds the value of a header, in bytes. Mail servers refuse much longer ones.
const maxHeaderValue = 4 << 10

// ownHeaders are headers that only the mailer writes: from other keys of a definition, or to distinguish a mail from a forged
// one. A name that ends in * stands for all names with that beginning.
var ownHeaders = []string{
	"From", "Sender", "Reply-To", "To", "Cc", "Bcc", "Subject", "Date", "Message-ID", "MIME-Version", "Content-*",
	"DKIM-Signature", "ARC-*", "Authentication-Results", "Received*", "Return-Path", "Resent-*", "Delivered-To",
	"Auto-Submitted", "X-Auto-Response-Suppress", "X-Carillon-*",
}

// CheckHeader returns an error if a message may not set the header of this name.
func CheckHeader(name string) error {
	if name == "" || len(name) > 76 {
		return errors.New("a header has a name of 1 to 76 signs")
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return fmt.Errorf("%q is not the name of a header", name)
		}
	}
	for _, own := range ownHeaders {
		prefix, all := strings.CutSuffix(own, "*")
		if strings.EqualFold(name, own) || all && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return fmt.Errorf("the header %s is written by Carillon", name)
		}
	}
	return nil
}

// HeaderValue returns a value in the form of a header: one line, with single blanks. Line breaks become blanks; blanks at the ends
// are removed. The error never repeats the value.
func HeaderValue(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("this is not valid UTF-8")
	}
	s = strings.Map(func(r rune) rune {
		switch r {
		case '\t', '\r', '\n', '\v', '\f', '\u0085', '\u2028', '\u2029':
			return ' '
		}
		return r
	}, s)
	if err := printed(s); err != nil {
		return "", err
	}
	if len(s) > maxHeaderValue {
		return "", fmt.Errorf("the value of a header is longer than %d bytes", maxHeaderValue)
	}
	return strings.Join(strings.Fields(s), " "), nil
}
