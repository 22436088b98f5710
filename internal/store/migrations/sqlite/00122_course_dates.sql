-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- The messages of a course that a record had from a day on: a date that was sent keeps its message when an edit counts rounds otherwise.
CREATE INDEX instance_dates ON instance (record_id, message_date) WHERE record_id > 0 AND message_date <> '';
-- +goose StatementEnd
