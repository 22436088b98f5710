-- +goose Up
-- +goose StatementBegin

-- The time of day that a message's own timing gave it, such as "09:00 Europe/Berlin", or "09:00" in the person's zone: a wait for
-- a new day, week or month ends then. Empty: it has none.
ALTER TABLE delivery ADD COLUMN own_at text COLLATE "C" NOT NULL DEFAULT '';
-- +goose StatementEnd
