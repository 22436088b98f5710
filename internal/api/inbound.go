package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/allowance"
	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/engine/service/receipt"
	"github.com/carillonhq/carillon/internal/engine/service/reply"
	"github.com/carillonhq/carillon/internal/store"
)

const (
	inboundPath = "/v1/inbound/{channel}"
	// takenNothing is what to do about a callback that says something wrongly.
	takenNothing = "nothing of the request was taken in: correct it, and send it again"
	// defaultWorkspace is that of callbacks that name none.
	defaultWorkspace = "default"
)

// inbound takes the callbacks of providers. It needs no key: each is signed with a secret of its channel. Those that are not are limited by
// address; see callbackLimit.
func (a *API) inbound() {
	a.routes = append(a.routes, Route{Method: http.MethodPost, Path: inboundPath, Signed: true})
	a.mux.HandleFunc(http.MethodPost+" "+inboundPath, func(w http.ResponseWriter, r *http.Request) {
		if err := a.takeCallback(w, r); err != nil {
			a.refuse(r.Context(), w, inboundPath, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// takeCallback is done when what a callback says is committed. A repeated one has no further effect.
func (a *API) takeCallback(w http.ResponseWriter, r *http.Request) error {
	from, now, name := allowance.Address(r.RemoteAddr), a.Clock.Now(), channelKey(r.PathValue("channel"))
	most, wait := a.callbacks.largest(from, now)
	if wait > 0 && r.ContentLength > most {
		w.Header().Set("Connection", "close") // else the server would read the body before it answers
		return tooManyFailures(wait)
	}
	c, in, err := a.readCallback(w, r, name, most)
	if err != nil {
		return a.failedCallback(r.Context(), from, wait, err)
	}
	says, err := json.Marshal([]any{in.Reports, in.Replies}) // a provider may count its tries in the body
	if err != nil {
		return fmt.Errorf("write what a callback says: %w", err)
	}
	return a.feed(r.Context(), c, name, in, hash(says))
}

// failedCallback counts a callback that was not signed. wait is how long its address was limited before it was read; 0: not.
func (a *API) failedCallback(ctx context.Context, from netip.Addr, wait time.Duration, err error) error {
	p, failed := unsigned(err)
	switch {
	case !failed:
		return err
	case wait > 0 && p.Status == http.StatusRequestEntityTooLarge: // its length was not declared
		return tooManyFailures(wait)
	}
	wait, last := a.callbacks.failed(from, a.Clock.Now())
	if wait > 0 { // nothing is logged, so that strangers cannot fill the log
		return tooManyFailures(wait)
	}
	a.Log.WarnContext(ctx, "callback failed", "from", from.String(), "why", p.Code)
	if last {
		a.Log.WarnContext(ctx, "callbacks refused: too many have failed", "from", from.String())
	}
	return err
}

// readCallback reads a callback of at most so many bytes, and checks that it is the provider's.
func (a *API) readCallback(w http.ResponseWriter, r *http.Request, name string, most int64) (Caller, channel.Inbound, error) {
	roomOf(r).unsigned = true
	body, err := readAll(w, r, most)
	if err != nil {
		return Caller{}, channel.Inbound{}, err
	}
	ws, known, err := a.Store.WorkspaceByName(r.Context(), cmp.Or(r.URL.Query().Get("workspace"), defaultWorkspace))
	if err != nil {
		return Caller{}, channel.Inbound{}, fmt.Errorf("find a workspace: %w", err)
	}
	if !known {
		return Caller{}, channel.Inbound{}, notInbound()
	}
	in, err := a.Engine.Inbound(r.Context(), ws.ID, name, channel.Callback{Header: r.Header, Query: r.URL.RawQuery, Body: body, At: a.Clock.Now()})
	if err != nil {
		return Caller{}, channel.Inbound{}, callbackProblem(err)
	}
	roomOf(r).signed()
	return Caller{Workspace: ws, Name: "callback of " + name}, in, nil
}

// feed takes in what a callback reports, and what people have written back: each in a transaction, under a key of its own, so that a repeated callback brings what the first
// one had not.
func (a *API) feed(ctx context.Context, c Caller, name string, in channel.Inbound, request string) error {
	asked := func(part string) Caller {
		c.asked = &store.AnswerKey{Key: hash([]byte(inboundPath + "\n" + name + "\n" + part + cmp.Or(in.ID, request))), Request: request}
		return c
	}
	var again *store.Replay
	if len(in.Reports) > 0 {
		once := answeredWith(http.StatusNoContent, once(a, asked(""), func([]receipt.Taken) struct{} { return struct{}{} }))
		if _, err := a.Engine.Receipts().Take(ctx, c.Workspace, a.receiptsOf(c, name, in.Reports), a.Clock.Now(), once); err != nil && !errors.As(err, &again) {
			return fmt.Errorf("take in a callback: %w", err)
		}
	}
	if len(in.Replies) == 0 {
		return nil
	}
	list := make([]reply.Reply, len(in.Replies))
	for i, r := range in.Replies {
		list[i] = reply.Reply(r)
	}
	once := answeredWith(http.StatusNoContent, once(a, asked("replies\n"), func([]reply.Taken) struct{} { return struct{}{} }))
	if _, err := a.Engine.Replies().Take(ctx, c.Workspace, name, list, a.Clock.Now(), once); err != nil && !errors.As(err, &again) {
		return fmt.Errorf("take in a callback: %w", err)
	}
	return nil
}

func notInbound() error {
	p := newProblem(http.StatusNotFound, client.CodeNotFound, "there is no such channel that takes callbacks")
	p.Hint = "name its workspace too: ?workspace=NAME; the channel needs the setting inbound_secret, or that of its provider"
	return p
}

// callbackProblem is the answer to a callback that cannot be read. It says nothing of the channel's settings to who has not signed.
func callbackProblem(err error) error {
	var unsigned *channel.NotSignedError
	var wrong *channel.CallbackError
	var unopened *channel.SendError
	var setting *channel.SettingError
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notInbound()
	case errors.As(err, &unsigned):
		p := newProblem(http.StatusUnauthorized, client.CodeUnauthorized, unsigned.Error())
		p.Hint = cmp.Or(unsigned.Hint, "sign it as the provider of the channel says")
		return p
	case errors.As(err, &wrong):
		return invalid(wrong.Field, wrong.Err.Error(), strings.TrimPrefix(wrong.Hint+"; "+takenNothing, "; "))
	case errors.As(err, &setting):
		p := newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "setting "+setting.Name()+" of the channel cannot be used")
		p.Hint = "carillon channels test says what is wrong with it"
		return p
	case errors.As(err, &unopened):
		return newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "a secret of the channel is missing")
	}
	return err
}
