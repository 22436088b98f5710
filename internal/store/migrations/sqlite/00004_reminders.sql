-- +goose Up
-- +goose StatementBegin

-- The day on which an instance is due and the zone in which that is meant: what moves it when the rules of the zone do.
ALTER TABLE instance ADD COLUMN local_date text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN timezone text NOT NULL DEFAULT '';
-- +goose StatementEnd
