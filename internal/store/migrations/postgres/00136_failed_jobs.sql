-- +goose Up
-- +goose StatementBegin
CREATE INDEX job_failed ON job (ws, id) WHERE status = 'failed';
-- +goose StatementEnd
