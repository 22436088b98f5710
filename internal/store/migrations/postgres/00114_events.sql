-- +goose Up
-- +goose StatementBegin
CREATE INDEX instance_events ON instance (workflow, ws, due_at, id) WHERE source = 'event' AND status = 'pending';
-- +goose StatementEnd
