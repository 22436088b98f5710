-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
CREATE INDEX job_failed ON job (ws, id) WHERE status = 'failed';
-- +goose StatementEnd
