package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/examples"
	"github.com/carillonhq/carillon/internal/engine/enginetest"
	"github.com/carillonhq/carillon/internal/engine/plumbing/upsert"
	"github.com/carillonhq/carillon/internal/engine/service/record"
	"github.com/carillonhq/carillon/internal/instance"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// selfSigned is a certificate with that name and end, as PEM.
func selfSigned(t *testing.T, name pkix.Name, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: name, NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A certificate in several files is one record; keys and what is broken beside it do not matter.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	end := time.Date(2027, 3, 1, 23, 30, 0, 0, time.FixedZone("", -3600))
	one := selfSigned(t, pkix.Name{CommonName: "www.example.org"}, end)
	two := selfSigned(t, pkix.Name{Organization: []string{"Example"}, Country: []string{"NZ"}}, end)
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("none")})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	for name, text := range map[string][]byte{"a.pem": one, "b.crt": bytes.Join([][]byte{secret, broken, two, one}, nil), "c.txt": two} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere.pem", filepath.Join(dir, "d.pem")); err != nil {
		t.Fatal(err)
	}
	var out, complaints strings.Builder
	if err := write(&out, &complaints, []string{dir, filepath.Join(dir, "missing")}); err != nil {
		t.Fatal(err)
	}
	got := read(t, out.String())
	if len(got) != 2 || got[0].Props != (props{"www.example.org", "www.example.org", "2027-03-02"}) || got[1].Props != (props{"O=Example,C=NZ", "O=Example,C=NZ", "2027-03-02"}) {
		t.Errorf("got %+v", got)
	}
	if n := strings.Count(complaints.String(), "\n"); n != 1 || !strings.Contains(complaints.String(), "b.crt: ") {
		t.Errorf("complaints: %q", complaints.String())
	}
	if err := write(&out, &complaints, []string{filepath.Join(dir, "missing")}); err == nil {
		t.Error("nothing was found, and nothing is said")
	}
}

func read(t *testing.T, lines string) (all []certificate) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var r certificate
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// The certificates that this host trusts are planned, each for its 90th, 30th and 7th day before it ends: what is to come
// waits, what is over is left out.
func TestCertificatesOfThisHost(t *testing.T) {
	t.Parallel()
	var out, complaints strings.Builder
	if err := write(&out, &complaints, trusted()); err != nil {
		t.Skipf("this host keeps no certificates where they are looked for: %v", err)
	}
	certificates := read(t, out.String())
	w := enginetest.Setup(t, storetest.Open(t, storetest.URL(t, "sqlite")), definitions(t), nil)
	for from := 0; from < len(certificates); from += record.MaxBatch {
		var items []record.Item
		for _, c := range certificates[from:min(from+record.MaxBatch, len(certificates))] {
			body, err := json.Marshal(map[string]any{"props": c.Props})
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, record.Parse(body, c.Type, c.ID))
		}
		results, err := w.Records().Write(t.Context(), w.Workspace, upsert.Merge, items, "test", w.Clock.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Error != nil {
				t.Errorf("%+v: %v", items[i], r.Error)
			}
		}
	}
	for w.At(w.Clock.Now()).Any() {
	}
	rows := map[string]instance.Row{}
	page := store.Page{Limit: 1000}
	for {
		some, err := w.Store.Instances(t.Context(), w.Workspace.ID, store.InstanceFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range some {
			rows[row.Key] = row
			page.Before = int64(row.ID)
		}
		if len(some) < page.Limit {
			break
		}
	}
	waiting := 0
	for _, c := range certificates {
		end, err := time.Parse(time.DateOnly, c.Props.ExpiresOn)
		if err != nil {
			t.Fatal(err)
		}
		for _, days := range []int{90, 30, 7} {
			due := end.AddDate(0, 0, -days).Add(9 * time.Hour)
			key := fmt.Sprintf("reminder:certificate-expiry:certificate:%s:expiry:%s:%d", c.ID, c.Props.ExpiresOn, days)
			row, planned := rows[key]
			switch late := w.Clock.Now().Sub(due); {
			case !planned:
				t.Errorf("%s, %d days: there is no %s", c.Props.Subject, days, key)
			case late < 0 && (row.Status != instance.Pending || !row.DueAt.Equal(due)):
				t.Errorf("%s, %d days: %s at %s, want it to wait for %s", c.Props.Subject, days, row.Status, row.DueAt, due)
			case late > 48*time.Hour && (row.Status != instance.Skipped || row.Reason != reason.Stale):
				t.Errorf("%s, %d days: %s (%s), and it is over since %s", c.Props.Subject, days, row.Status, row.Reason, due)
			case late < 0:
				waiting++
			}
		}
	}
	t.Logf("%d certificates, %d occasions, %d to come; %s", len(certificates), len(rows), waiting, complaints.String())
}

// definitions are those of the example, with the types that they need.
func definitions(t *testing.T) string {
	t.Helper()
	all := []string{"channel: inbox\nprovider: inbox\n"}
	for _, name := range []string{"certificates.yaml", "personas.yaml", "record-types.yaml"} {
		text, err := examples.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n")
}
