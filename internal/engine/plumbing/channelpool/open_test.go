package channelpool_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/channel"
	"github.com/carillonhq/carillon/internal/channel/memory"
	"github.com/carillonhq/carillon/internal/definition"
	"github.com/carillonhq/carillon/internal/engine/plumbing/channelpool"
	"github.com/carillonhq/carillon/internal/reason"
	"github.com/carillonhq/carillon/internal/subject"
)

// A channel is opened once, and again when its definition or one of its secrets has changed. A missing secret has a reason of its own.
func TestGetReopensAChangedChannel(t *testing.T) {
	t.Parallel()
	opened := 0
	provider := channel.Provider{Name: "p", Open: func(map[string]string) (channel.Channel, error) {
		opened++
		return memory.Channel{}, nil
	}}
	values := map[string]string{"TOKEN": "one"}
	registry := channelpool.New([]channel.Provider{provider}, func(_ subject.WorkspaceID, s definition.Setting) (string, error) {
		if value, ok := values[s.Secret]; ok {
			return value, nil
		}
		return "", errors.New("there is none")
	}, 64, slog.New(slog.DiscardHandler))
	def := definition.Channel{Key: "sms:default", Provider: "p", Hash: "1", Settings: map[string]definition.Setting{"token": {Secret: "TOKEN"}}}
	get := func(ws subject.WorkspaceID, want int) error {
		t.Helper()
		_, err := registry.Get(ws, &def)
		if opened != want {
			t.Errorf("opened %d times, want %d", opened, want)
		}
		return err
	}
	for _, step := range []struct {
		change func()
		ws     subject.WorkspaceID
		want   int
	}{
		{func() {}, 1, 1},
		{func() {}, 1, 1},
		{func() {}, 2, 2},
		{func() { values["TOKEN"] = "two" }, 1, 3},
		{func() {}, 1, 3},
		{func() { def.Hash = "2" }, 1, 4},
	} {
		step.change()
		if err := get(step.ws, step.want); err != nil {
			t.Error(err)
		}
	}
	delete(values, "TOKEN")
	var refused *channel.SendError
	if err := get(1, 4); !errors.As(err, &refused) || refused.Reason != reason.SecretMissing || !refused.Retry {
		t.Errorf("got %v", err)
	}
}

// Why a channel cannot be opened is part of what is known about it, until it can.
func TestStateOfAChannelThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	var refused error
	provider := channel.Provider{Name: "p", Open: func(map[string]string) (channel.Channel, error) { return memory.Channel{}, refused }}
	registry := channelpool.New([]channel.Provider{provider}, nil, 64, slog.New(slog.DiscardHandler))
	def := definition.Channel{Key: "sms:default", Provider: "p", Hash: "1"}
	for _, step := range []struct {
		refused error
		hash    string
		want    string
	}{
		{errors.New("inbound_secret must be whsec_"), "1", "inbound_secret must be whsec_"},
		{errors.New("sender is none"), "2", "sender is none"},
		{nil, "2", ""},
	} {
		refused, def.Hash = step.refused, step.hash
		if state := registry.State(1, &def, time.Time{}); state.Failure == step.want && step.want != "" {
			t.Errorf("%q is known before it is tried", state.Failure)
		}
		if _, err := registry.Get(1, &def); !errors.Is(err, step.refused) {
			t.Error(err)
		}
		if state := registry.State(1, &def, time.Time{}); state.Failure != step.want {
			t.Errorf("%q, want %q", state.Failure, step.want)
		}
		if state := registry.State(2, &def, time.Time{}); state.Failure != "" {
			t.Errorf("%q is that of another workspace", state.Failure)
		}
	}
}
