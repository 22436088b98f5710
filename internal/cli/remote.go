package cli

import (
	"errors"
	"fmt"
	"net"

	"github.com/carillonhq/carillon/client"
)

// remote finds the server that a command talks to.
type remote struct {
	Server string `name:"server" env:"CARILLON_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The server."`
	Key    string `name:"key" env:"CARILLON_KEY" placeholder:"KEY" help:"An API key of that server."`
}

// tries bounds how often a command asks a server that is busy or restarting: three times within a second.
const tries = 3

func (r remote) client() (*client.Client, error) {
	return client.New(r.Server, r.Key, client.WithRetries(tries))
}

// call makes one call and says which server could not be reached.
func call[T any](r remote, what func(*client.Client) (T, error)) (T, error) {
	c, err := r.client()
	if err != nil {
		var none T
		return none, err
	}
	answer, err := what(c)
	var unreachable *net.OpError
	if errors.As(err, &unreachable) {
		return answer, fmt.Errorf("%s cannot be reached: %w\n    carillon serve starts a server; --server or CARILLON_SERVER names another one", r.Server, unreachable.Err)
	}
	return answer, err
}
