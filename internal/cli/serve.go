package cli

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/carillonhq/carillon/internal/app"
	"github.com/carillonhq/carillon/internal/config"
	"github.com/carillonhq/carillon/internal/secret"
	"github.com/carillonhq/carillon/internal/telemetry"
)

type serveCmd struct {
	Config settingsFile `name:"config" env:"CARILLON_CONFIG" placeholder:"FILE" help:"A YAML file with settings; flags and the environment win over it."`
	config.Server
}

// Help is the long help.
func (serveCmd) Help() string {
	return `Everything runs in this one process: what is due is sent, requests are answered. Several may share one
PostgreSQL database. The first line printed is "listening on" and the address; the log goes to the standard error.

SIGTERM or SIGINT stop it: requests under way are answered, messages in flight are finished, other claimed work is
released. A second signal ends it at once; then another process takes over the claimed work when its leases have run out.`
}

// Run serves until a signal.
func (c *serveCmd) Run(s *session) error {
	log, err := telemetry.NewLog(s.Err, c.LogLevel, c.LogFormat)
	if err != nil {
		return err
	}
	app.TuneMemory()
	return app.Run(s.ctx, app.Config{
		Server: c.Server, Log: log, Version: version(), Sinks: s.program.Sinks, Functions: s.program.Functions, Audiences: s.program.Audiences,
		SecretKey: secret.New(os.Getenv(config.SecretKeyEnv)), LinkKey: secret.New(os.Getenv(config.LinkKeyEnv)),
	}, func(a *app.App) {
		fmt.Fprintln(s.Out, "listening on", a.URL())
		keys, err := a.Store().Keys(s.ctx, a.Workspace().ID)
		if err == nil && len(keys) == 0 {
			s.note("no API key yet: carillon keys create --db %s --name admin --scopes admin", shellQuoted(c.DB))
		}
	})
}

// shellQuoted is the name of a database as a shell takes it; an address that may hold a password is left out.
func shellQuoted(text string) string {
	if at, err := url.Parse(text); strings.Contains(text, "://") && (err != nil || hasPassword(at)) {
		return `"$CARILLON_DB"`
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`'"\$*?&|;<>()`, r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

func hasPassword(at *url.URL) bool {
	_, has := at.User.Password()
	return has || strings.Contains(at.RawQuery, "password")
}

// settingsFile is a flag that names a file with further settings.
type settingsFile string

// BeforeResolve has the parser ask the file for what neither flag nor environment gave.
func (settingsFile) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, ok := ctx.FlagValue(trace.Flag).(settingsFile)
	if !ok || path == "" {
		return nil
	}
	values, err := config.ReadFile(string(path))
	if err != nil {
		return err
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, name := range flag.Envs {
			if _, set := os.LookupEnv(name); set {
				return nil, nil
			}
		}
		if value, ok := values[strings.ReplaceAll(flag.Name, "-", "_")]; ok {
			return value, nil
		}
		return nil, nil
	}))
	return nil
}
