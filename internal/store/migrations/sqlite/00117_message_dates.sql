-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Which message of its round a message of a course is, whatever else the list of its messages has: its date, and its number on that date. Empty and 0: it has
-- no course, or it was made when a message was known by its place in the list.
ALTER TABLE instance ADD COLUMN message_date text NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN message_number bigint NOT NULL DEFAULT 0;
-- The day from which the rounds of the course after an event count, so that no edit and no zone moves them; empty: it has no such course, or was made before.
ALTER TABLE instance ADD COLUMN start_date text NOT NULL DEFAULT '';
-- +goose StatementEnd
