package app_test

import (
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/store"
	"github.com/carillonhq/carillon/internal/store/storetest"
)

// A process that finds a copy answers and takes in, and sends nothing until the copy is accepted; what was overdue then is
// given up with its reason, and what comes later is sent.
func TestACopySendsNothing(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			gateway, got := accepting(t)
			url := storetest.URL(t, database)
			idle := server(url)
			idle.Work = false
			a := start(t, app.Config{Server: idle})
			c := named(t, a, "before")
			if _, err := c.Apply(t.Context(), definitions(gateway.URL)); err != nil {
				t.Fatal(err)
			}
			post := func(c *client.Client, n int) {
				t.Helper()
				if _, err := c.PostEvents(t.Context(), events(n)[n-1]); err != nil {
					t.Fatal(err)
				}
			}
			post(c, 1) // overdue: nobody sends it
			if err := a.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			exchange(t, url)

			a = start(t, app.Config{Server: server(url), Guest: app.DefaultWorkspace})
			c = named(t, a, "after")
			post(c, 2)
			if _, err := c.Tick(t.Context()); !isNotPossible(err) {
				t.Errorf("a tick of a copy: %v", err)
			}
			if page := read(t, a.URL()+"/"); !strings.Contains(page, "carillon accept-restore") {
				t.Error("the console does not show it")
			}
			if len(got) > 0 {
				t.Fatalf("a copy sent %s", <-got)
			}
			if err := a.Store().AcceptRestore(t.Context(), a.Engine().Now(), true, store.Audit{Actor: "ann", Action: "database.accept"}); err != nil {
				t.Fatal(err)
			}
			post(c, 3)
			select {
			case body := <-got:
				if !strings.Contains(body, events(3)[2].Recipient.Address) {
					t.Errorf("sent %s", body)
				}
			case <-time.After(patience):
				t.Fatal("what came later was not sent")
			}
			for deadline := time.Now().Add(patience); ; {
				skipped, err := a.Store().Deliveries(t.Context(), a.Workspace().ID, store.DeliveryFilter{Status: "skipped"}, store.Page{})
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("%d skipped, %v", len(skipped), err)
				}
				if len(skipped) == 2 && skipped[0].Reason == "restored" && skipped[1].Reason == "restored" {
					break
				}
			}
			if len(got) > 0 {
				t.Errorf("what was given up was sent: %s", <-got)
			}
		})
	}
}

func named(t *testing.T, a *app.App, name string) *client.Client {
	t.Helper()
	key, err := app.CreateKey(t.Context(), a.Store(), a.Workspace(), name, []string{"admin"}, a.Engine().Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(a.URL(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url) //nolint:noctx // of this test's own server
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exchange makes a database look like a copy of itself.
func exchange(t *testing.T, url string) {
	t.Helper()
	if !store.IsPostgres(url) {
		if err := os.Remove(url + "-epoch"); err != nil {
			t.Fatal(err)
		}
		return
	}
	db, err := sql.Open("pgx", url)
	if err == nil {
		_, err = db.ExecContext(t.Context(), "UPDATE installation SET place = 'elsewhere'")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func isNotPossible(err error) bool {
	p := (*client.Problem)(nil)
	return errors.As(err, &p) && p.Code == client.CodeNotPossible && strings.Contains(p.Hint, "accept-restore")
}
