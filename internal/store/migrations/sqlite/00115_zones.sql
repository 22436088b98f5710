-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Of a schedule: since when it has been in force as it is. What was due before in a zone is not sent there; 0: it is no schedule.
ALTER TABLE instance ADD COLUMN effective_at bigint NOT NULL DEFAULT 0;
-- When the rows of its zones were made; 0: they were not, or it has none.
ALTER TABLE instance ADD COLUMN opened_at bigint NOT NULL DEFAULT 0;
UPDATE instance SET effective_at = created_at WHERE source = 'schedule' AND status = 'pending';
UPDATE instance SET opened_at = created_at WHERE source = 'schedule' AND status = 'pending' AND head_id = 0 AND event_id > 0;
-- +goose StatementEnd
