-- +goose Up
-- +goose StatementBegin
-- Which messages go first: -1 urgent, 0 transactional, 1 immediate, 2 digest.
ALTER TABLE delivery ADD COLUMN priority bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE INDEX delivery_priority ON delivery (priority, send_at, id) WHERE send_at > 0 AND hold <> 'paused';
-- +goose StatementEnd
-- +goose StatementBegin
-- The place after the last message that waits, of each priority or a higher one; tail_at is that of all.
ALTER TABLE pace ADD COLUMN urgent_tail_at bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
ALTER TABLE pace ADD COLUMN transactional_tail_at bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
-- +goose StatementBegin
ALTER TABLE pace ADD COLUMN immediate_tail_at bigint NOT NULL DEFAULT 0;
-- +goose StatementEnd
