// Certificates reads files of certificates (PEM) and writes each certificate once, as a line of NDJSON that
// carillon records import takes:
//
//	go run ./examples/certificates | carillon records import - --format ndjson
//
// Without names of files or folders it reads those that this host trusts.
package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	paths := os.Args[1:]
	if len(paths) == 0 {
		paths = trusted()
	}
	out := bufio.NewWriter(os.Stdout)
	status := 0
	err := write(out, os.Stderr, paths)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// trusted are the places where systems keep the certificates of the authorities that they trust.
func trusted() []string {
	return []string{"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/ssl/cert.pem"}
}

// certificate is one as a record of Carillon's.
type certificate struct {
	Type  string `json:"type"`
	ID    string `json:"id"` // its fingerprint: a renewed certificate is another one
	Props props  `json:"props"`
}

type props struct {
	Subject   string `json:"subject"`
	Issuer    string `json:"issuer"`
	ExpiresOn string `json:"expires_on"` // the day, in UTC
}

// write writes the certificates of files, and of the files in folders, each once.
func write(out, complaints io.Writer, paths []string) error {
	seen := map[string]bool{}
	lines := json.NewEncoder(out)
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, r := range certificates(text, func(err error) { fmt.Fprintf(complaints, "%s: %v\n", file, err) }) {
				if seen[r.ID] {
					continue
				}
				seen[r.ID] = true
				if err := lines.Encode(r); err != nil {
					return err
				}
			}
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("there is no certificate in %v", paths)
	}
	return nil
}

// filesOf are a file, or the files of a folder that look like certificates. What is not there holds none.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{path}, nil
	}
	var files []string
	for _, pattern := range []string{"*.pem", "*.crt"} {
		some, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range some {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() { // a link that leads nowhere is none
				files = append(files, file)
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

// certificates are those of a PEM file. One that cannot be read is reported, and the others are still found.
func certificates(text []byte, complain func(error)) []certificate {
	var all []certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			complain(err)
			continue
		}
		sum := sha256.Sum256(c.Raw)
		all = append(all, certificate{Type: "certificate", ID: hex.EncodeToString(sum[:]), Props: props{
			Subject: nameOf(c.Subject.CommonName, c.Subject.String()), Issuer: nameOf(c.Issuer.CommonName, c.Issuer.String()),
			ExpiresOn: c.NotAfter.UTC().Format(time.DateOnly),
		}})
	}
	return all
}

// nameOf is the common name, or what there is of a name without one.
func nameOf(common, whole string) string {
	if common != "" {
		return common
	}
	return whole
}
