package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
)

const (
	// hookSecret signs what the webhook receiver of the demo gets; the file is in the folder of the demo.
	hookSecretFile = "complaints-secret"
	hookSecret     = "whsec_ZGVtby1vZi1jYXJpbGxvbi1ub3QtYS1zZWNyZXQ=" //nolint:gosec // of a demo whose data goes with it
	// maxOutcome bounds what the receiver reads.
	maxOutcome = 1 << 20
	// answerWithin bounds a request of the person who answers.
	answerWithin = 5 * time.Second
	// visitor is whose survey is answered.
	visitor = "cust-125"
)

// receiver is another system, on this machine: a webhook that gets complaints.
type receiver struct {
	server  *http.Server
	url     string
	network netip.Prefix // the one that sinks of the demo may reach
}

// receive starts the webhook receiver.
func (d *demo) receive() (*receiver, error) {
	if err := os.WriteFile(filepath.Join(d.dir, hookSecretFile), []byte(hookSecret), 0o600); err != nil {
		return nil, fmt.Errorf("write the secret of the webhook: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	r := &receiver{
		server: &http.Server{Handler: http.HandlerFunc(d.received), ReadHeaderTimeout: answerWithin}, url: "http://" + listener.Addr().String() + "/complaints",
		network: netip.MustParsePrefix("127.0.0.1/32"),
	}
	go func() {
		if err := r.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && d.Errors != nil {
			d.Errors.Error("the webhook receiver of the demo stopped", "error", err)
		}
	}()
	return r, nil
}

// Close stops the receiver.
func (r *receiver) Close() error { return r.server.Close() }

// received prints an outcome that reached the webhook.
func (d *demo) received(w http.ResponseWriter, r *http.Request) {
	var event struct {
		Type string `json:"type"`
		Data struct {
			Address string         `json:"address"`
			Answers map[string]any `json:"answers"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxOutcome)).Decode(&event); err != nil {
		http.Error(w, "not an outcome", http.StatusBadRequest)
		return
	}
	d.printer.note(d.clock.Now(), fmt.Sprintf("A webhook receiver got %s %s: %s rates %v and writes: %v", event.Type, r.Header.Get("webhook-id"),
		event.Data.Address, event.Data.Answers["rate"], event.Data.Answers["complaint"]))
	w.WriteHeader(http.StatusNoContent)
}

// sinks are those of the examples, all on this machine.
func sinks(hook string) []byte {
	return []byte(`sink: servicebus:csi-tickets
provider: file
settings:
  path: responses.ndjson
---
sink: webhook:potential-complaints
provider: webhook
settings:
  url: ` + hook + `
  secret: {file: ` + hookSecretFile + `}
---
sink: bi-file
provider: file
settings:
  path: bi.ndjson
`)
}

// answer fills in the page of the visitor's survey, as a browser without script does.
func (d *demo) answer(ctx context.Context) error {
	page, err := d.api.Deliveries(ctx, client.DeliveryQuery{Workflow: "csi-gr", To: visitor})
	if err != nil {
		return fmt.Errorf("find the survey of the demo: %w", err)
	}
	if len(page.Items) == 0 {
		return errors.New("the survey of the demo was not planned")
	}
	form := url.Values{"rate": {"7"}, "has-a-complaint": {"Yes"}, "complaint": {"The car was not washed"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.app.URL()+"/s/"+page.Items[0].ID, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("answer the survey of the demo: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := (&http.Client{Timeout: answerWithin}).Do(request) //nolint:forbidigo // the visitor's browser, to this process
	if err != nil {
		return fmt.Errorf("answer the survey of the demo: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the survey of the demo was answered by %s", response.Status)
	}
	return nil
}
