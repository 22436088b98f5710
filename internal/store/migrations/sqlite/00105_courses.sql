-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
ALTER TABLE instance ADD COLUMN round bigint NOT NULL DEFAULT 0;    -- of a course, from 1; 0: it is no message of a course
ALTER TABLE instance ADD COLUMN message bigint NOT NULL DEFAULT 0;  -- number of the message in its round, from 0
ALTER TABLE delivery ADD COLUMN message bigint NOT NULL DEFAULT 0;  -- of its instance
-- What a course has waiting is found without reading its finished messages.
CREATE INDEX instance_course ON instance (record_id, id) WHERE round > 0 AND status = 'pending';
-- +goose StatementEnd
