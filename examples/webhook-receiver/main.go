// Webhook-receiver takes messages of a channel with the provider webhook: it checks the signature, takes every message
// once, and answers look-ups.
//
//	CRM_WEBHOOK_SECRET=whsec_… go run ./examples/webhook-receiver
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	handler, err := receiver(os.Getenv("CRM_WEBHOOK_SECRET"), os.Stdout)
	if err == nil {
		err = http.ListenAndServe("127.0.0.1:9902", handler) //nolint:gosec // an example; a service sets timeouts
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// receiver prints every message once.
func receiver(secret string, out io.Writer) (http.Handler, error) {
	hook, err := webhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	taken := map[string]bool{} // a service keeps this in its database, with what it does about the message
	mux := http.NewServeMux()
	mux.HandleFunc("POST /messages", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil || hook.Verify(body, r.Header) != nil {
			http.Error(w, "not signed by Carillon", http.StatusUnauthorized)
			return
		}
		var message struct {
			Data struct{ To, Text string }
		}
		if err := json.Unmarshal(body, &message); err != nil {
			http.Error(w, "no message", http.StatusBadRequest)
			return
		}
		id := r.Header.Get("webhook-id")
		mu.Lock()
		if !taken[id] { // the same id is the same message: a try whose answer was lost comes again
			taken[id] = true
			fmt.Fprintln(out, message.Data.To, message.Data.Text)
		}
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id})
	})
	mux.HandleFunc("GET /messages/{id}", func(w http.ResponseWriter, r *http.Request) {
		if hook.Verify(nil, r.Header) != nil {
			http.Error(w, "not signed by Carillon", http.StatusUnauthorized)
			return
		}
		id := r.PathValue("id")
		mu.Lock()
		defer mu.Unlock()
		if !taken[id] {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id})
	})
	return mux, nil
}
