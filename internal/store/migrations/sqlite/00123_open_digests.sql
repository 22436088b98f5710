-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
-- Of a contact whatever the workspace: an index that began with the workspace was searched by it alone, and read all digests of the workspace for each contact.
DROP INDEX digest_open;
CREATE INDEX digest_open ON digest (contact_id) WHERE open = 1;
-- +goose StatementEnd
