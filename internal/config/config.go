// Package config holds the settings of the process.
//
// One struct is the whole truth: its fields name the flag, the environment variable and the key of the settings
// file, with default, unit and meaning; the command line, the file's check and the reference page are made from
// it. A flag wins over the environment, the environment over the file, the file over the default. What messages
// are sent is never a setting: that is a definition.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/internal/flow"
)

// Database is where the state lies.
type Database struct {
	DB string `name:"db" env:"CARILLON_DB" default:"carillon.db" placeholder:"DB" help:"The database: a SQLite file, or postgres://user@host/name."`
}

// Server is the settings of "carillon serve".
type Server struct {
	Database

	Listen                    string         `name:"listen" env:"CARILLON_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the HTTP API and the console listen. Port 0 takes a free one."`
	MetricsListen             string         `name:"metrics-listen" env:"CARILLON_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Where /metrics is answered without a key, beside /metrics with a key of scope metrics at listen. Default: nowhere."`
	DebugListen               string         `name:"debug-listen" env:"CARILLON_DEBUG_LISTEN" placeholder:"HOST:PORT" help:"Where Go's profiles are answered, below /debug/pprof/; an address of this machine such as 127.0.0.1:6060. Default: nowhere."`
	PublicURL                 string         `name:"public-url" env:"CARILLON_PUBLIC_URL" placeholder:"URL" help:"What links in messages begin with. Default: http:// and the address of listen."`
	Workers                   int            `name:"workers" env:"CARILLON_WORKERS" default:"2" placeholder:"N" help:"How many senders work at once."`
	Batch                     int            `name:"batch" env:"CARILLON_BATCH" default:"500" placeholder:"N" help:"How many rows one step takes up."`
	MaxBodies                 int            `name:"max-bodies" env:"CARILLON_MAX_BODIES" default:"64" placeholder:"MIB" help:"How many MiB the bodies of the requests that are being answered may hold together, decompressed; reading them takes some five times as much. Further requests are answered 429. Callbacks that are not known to be signed hold half of it at most."`
	Work                      bool           `name:"work" env:"CARILLON_WORK" default:"true" negatable:"" help:"Do what is due. Without it (--no-work) this process only answers requests; others, or ticks, do the work."`
	Migrate                   bool           `name:"migrate" env:"CARILLON_MIGRATE" default:"true" negatable:"" help:"Bring the database's schema up to date at the start."`
	DBDirect                  string         `name:"db-direct" env:"CARILLON_DB_DIRECT" placeholder:"DB" help:"The address of the same PostgreSQL past a pooler, for notifications between processes. Default: that of db."`
	RetentionDays             int            `name:"retention-days" env:"CARILLON_RETENTION_DAYS" default:"0" placeholder:"DAYS" help:"How long what is over stays: events, instances, deliveries and what hangs on them. Their keys stay used for ever. 0 keeps everything."`
	RetentionDigestDays       *int           `name:"retention-digest-days" env:"CARILLON_RETENTION_DIGEST_DAYS" placeholder:"DAYS" help:"How long items and runs of digests stay, with their instances and deliveries. Never shorter than a digest looks back. Default: retention-days."`
	RetentionMessageDays      *int           `name:"retention-message-days" env:"CARILLON_RETENTION_MESSAGE_DAYS" placeholder:"DAYS" help:"How long the deliveries of items and digests stay, with their attempts and texts. Default: as long as the items and runs."`
	RetentionSubscriptionDays int            `name:"retention-subscription-days" env:"CARILLON_RETENTION_SUBSCRIPTION_DAYS" default:"0" placeholder:"DAYS" help:"How long subscriptions stay that have ended. 0 keeps them."`
	RetentionAddressDays      int            `name:"retention-address-days" env:"CARILLON_RETENTION_ADDRESS_DAYS" default:"0" placeholder:"DAYS" help:"How long the address of a person stays who is known by it alone, after their last subscription and message. Then it is blanked. 0 keeps it."`
	RetentionTopicDays        int            `name:"retention-topic-days" env:"CARILLON_RETENTION_TOPIC_DAYS" default:"0" placeholder:"DAYS" help:"How long topics stay that programs made and nobody subscribes to. 0 keeps them."`
	OutboundAllow             []netip.Prefix `name:"outbound-allow" env:"CARILLON_OUTBOUND_ALLOW" placeholder:"CIDR" help:"Networks that channels may reach although they are not public, such as 127.0.0.0/8 or 10.1.0.0/16."`
	TrustProxy                []netip.Prefix `name:"trust-proxy" env:"CARILLON_TRUST_PROXY" placeholder:"CIDR" help:"Networks of proxies that are believed what they say of a request by X-Forwarded-For and X-Forwarded-Proto, such as 127.0.0.1/32. Default: none."`
	SecretKeyFile             string         `name:"secret-key-file" env:"CARILLON_SECRET_KEY_FILE" placeholder:"FILE" help:"A file with keys for the secrets of channels, 32 bytes in base64 each: the first seals, every one opens. The variable CARILLON_SECRET_KEY holds them as well."`
	LinkKeyFile               string         `name:"link-key-file" env:"CARILLON_LINK_KEY_FILE" placeholder:"FILE" help:"A file with keys for links by which people act without signing in, 32 bytes in base64 each: the first signs, every one is accepted. The variable CARILLON_LINK_KEY holds them as well. Default: for SQLite a file beside the database, made at the first start."`
	SecretEnv                 []string       `name:"secret-env" env:"CARILLON_SECRET_ENV" placeholder:"PATTERN" help:"The environment variables that channels may read by {env: NAME}, such as SMS_*. Never CARILLON_* and the database's own. Default: none."`
	SinkDir                   string         `name:"sink-dir" env:"CARILLON_SINK_DIR" placeholder:"DIR" help:"The folder below which sinks of the provider file write; without it they write nowhere."`
	SecretDir                 []string       `name:"secret-dir" env:"CARILLON_SECRET_DIR" default:"/run/secrets,/etc/carillon/secrets" placeholder:"DIR" help:"The folders from which channels may read by {file: PATH}."`
	Canary                    string         `name:"canary" env:"CARILLON_CANARY" placeholder:"CONTACT" help:"A contact of the workspace default, by your id, who must get messages all the time: carillon_canary_seconds says how long ago the last one left. Default: none."`
	OnlyTo                    []string       `name:"only-to" env:"CARILLON_ONLY_TO" placeholder:"ADDRESS" help:"Whom this process may write to: addresses, or patterns such as *@example.org. Messages to others are skipped. For trials."`
	StopTimeout               time.Duration  `name:"stop-timeout" env:"CARILLON_STOP_TIMEOUT" default:"25s" placeholder:"DURATION" help:"How long a stop waits for what is on its way. Below the 30s after which supervisors kill."`
	LogLevel                  string         `name:"log-level" env:"CARILLON_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" placeholder:"LEVEL" help:"The least level that is logged: ${enum}."`
	LogFormat                 string         `name:"log-format" env:"CARILLON_LOG_FORMAT" default:"text" enum:"text,json" placeholder:"FORMAT" help:"How the log is written: ${enum}."`
}

// SecretKeyEnv is the variable with keys for secrets. There is no such flag: everybody on a machine sees flags.
const SecretKeyEnv = "CARILLON_SECRET_KEY"

// LinkKeyEnv is the variable with keys for links.
const LinkKeyEnv = "CARILLON_LINK_KEY"

// The most that a setting may ask for: a larger value is a typing error.
const (
	maxWorkers = 64
	maxBatch   = 10_000
	// minBodies leaves room for one of the largest batches, of 16 MiB.
	minBodies = 32
	maxBodies = 64 << 10
	// maxRetentionDays is a century.
	maxRetentionDays = 36_500
)

// Validate refuses values that would do nothing, or something else than they say.
func (s *Server) Validate() error {
	if s.DBDirect != "" && (!isPostgres(s.DBDirect) || !isPostgres(s.DB)) {
		return errors.New("--db-direct: another address of the PostgreSQL that --db names: postgres://user@host/name")
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return errors.New("--listen: write HOST:PORT, such as 127.0.0.1:8080")
	}
	if s.MetricsListen != "" {
		if _, _, err := net.SplitHostPort(s.MetricsListen); err != nil {
			return errors.New("--metrics-listen: write HOST:PORT, such as 127.0.0.1:9090")
		}
	}
	if s.DebugListen != "" && !loopback(s.DebugListen) {
		return errors.New("--debug-listen: profiles show what is in memory: write an address that only this machine reaches, such as 127.0.0.1:6060")
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("--public-url: write the base of links, such as https://carillon.example.org")
		}
	}
	if s.Workers < 1 || s.Workers > maxWorkers {
		return fmt.Errorf("--workers: from 1 to %d; --no-work does none", maxWorkers)
	}
	if s.Batch < 1 || s.Batch > maxBatch {
		return fmt.Errorf("--batch: from 1 to %d", maxBatch)
	}
	if s.MaxBodies < minBodies || s.MaxBodies > maxBodies {
		return fmt.Errorf("--max-bodies: from %d to %d", minBodies, maxBodies)
	}
	for _, keep := range s.retentions() {
		if days := *keep.days; days < 0 || days > maxRetentionDays {
			return fmt.Errorf("%s: from 1 to %d, or 0 to keep everything", keep.flag, maxRetentionDays)
		}
	}
	for _, pattern := range s.SecretEnv {
		if _, err := path.Match(pattern, ""); err != nil {
			return errors.New("--secret-env: write names with * for any text, such as SMS_*")
		}
	}
	for _, dir := range s.SecretDir {
		if !filepath.IsAbs(dir) {
			return errors.New("--secret-dir: write whole paths, such as /run/secrets")
		}
	}
	for _, pattern := range s.OnlyTo {
		if err := flow.CheckPattern(pattern); err != nil {
			return fmt.Errorf("--only-to: %w", err)
		}
	}
	if s.StopTimeout < 0 {
		return errors.New("--stop-timeout: not below zero")
	}
	return nil
}

type retention struct {
	flag string
	days *int
}

// retentions are how long things stay, those that are given.
func (s *Server) retentions() []retention {
	list := []retention{
		{"--retention-days", &s.RetentionDays},
		{"--retention-digest-days", s.RetentionDigestDays},
		{"--retention-message-days", s.RetentionMessageDays},
		{"--retention-subscription-days", &s.RetentionSubscriptionDays},
		{"--retention-address-days", &s.RetentionAddressDays},
		{"--retention-topic-days", &s.RetentionTopicDays},
	}
	return slices.DeleteFunc(list, func(r retention) bool { return r.days == nil })
}

// loopback reports whether an address with its port can be reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func isPostgres(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}

// Setting is one setting as the reference shows it.
type Setting struct {
	Flag    string // --listen
	Env     string // CARILLON_LISTEN
	Key     string // listen: in the settings file
	Default string
	Value   string // what it takes: HOST:PORT, text|json …
	Help    string
}

// Settings lists the settings of "carillon serve" in their order.
func Settings() []Setting { return settingsOf(reflect.TypeFor[Server]()) }

func settingsOf(t reflect.Type) []Setting {
	var list []Setting
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			list = append(list, settingsOf(field.Type)...)
			continue
		}
		tag := field.Tag
		s := Setting{
			Flag: "--" + tag.Get("name"), Env: tag.Get("env"), Key: strings.ReplaceAll(tag.Get("name"), "-", "_"),
			Default: tag.Get("default"), Value: tag.Get("placeholder"),
		}
		if enum := tag.Get("enum"); enum != "" {
			s.Value = strings.ReplaceAll(enum, ",", "|")
		}
		switch field.Type.Kind() {
		case reflect.Bool:
			s.Value = "true|false"
		case reflect.Slice:
			s.Value += ",…"
		default:
		}
		s.Help = strings.ReplaceAll(tag.Get("help"), "${enum}", strings.ReplaceAll(tag.Get("enum"), ",", ", "))
		list = append(list, s)
	}
	return list
}
