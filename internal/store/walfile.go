package store

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Sizes and offsets in a log, in bytes; see "The Write-Ahead Log" in SQLite's file format.
const (
	logHeaderSize   = 32
	logPageSizeAt   = 8
	logSaltAt       = 16 // of 8 bytes
	frameHeaderSize = 24
	frameSaltAt     = 8
)

// logToken returns the token that a log holds; 0: none. A log holds the token of its database if it holds the first page,
// which markLog writes once a minute.
func logToken(path string) (token uint32, err error) {
	log, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	header := make([]byte, logHeaderSize)
	if n, err := log.ReadAt(header, 0); n < len(header) {
		return 0, unlessEOF(err)
	}
	salt := string(header[logSaltAt : logSaltAt+8])
	frame := make([]byte, frameHeaderSize+headerSize)
	size := frameHeaderSize + int64(binary.BigEndian.Uint32(header[logPageSizeAt:]))
	for at := int64(logHeaderSize); ; at += size {
		n, err := log.ReadAt(frame, at)
		if n < len(frame) || string(frame[frameSaltAt:frameSaltAt+8]) != salt { // the end, or what was left of the log before
			return token, unlessEOF(err)
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			token = tokenOf(frame[frameHeaderSize:])
		}
	}
}

// unlessEOF returns err, or nil for the end of a file.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
