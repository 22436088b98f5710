-- Made from ../postgres by go test ./internal/store -run TestMigrationsHaveOneSource -update; not edited by hand.
-- +goose Up
-- +goose StatementBegin
ALTER TABLE instance ADD COLUMN contact_id bigint NOT NULL DEFAULT 0;  -- the person whose own course it is of; 0: it is of everybody
-- Who was in the audience of a course when its first message was expanded, where that counts (late_joiner: skip or fresh).
CREATE TABLE course_member (
  ws         bigint NOT NULL,
  record_id  bigint NOT NULL,
  workflow   text NOT NULL,
  trigger    text NOT NULL,
  resets     bigint NOT NULL,                     -- how many times the course has begun again
  contact_id bigint NOT NULL,                     -- 0: the first message is expanded, and who comes now joins late
  name       text NOT NULL DEFAULT '', -- of the person in the keys of a course of their own; empty: they have none
  start      text NOT NULL DEFAULT '', -- of that course: its date
  moment     bigint NOT NULL DEFAULT 0,           -- and its instant
  joined_at  bigint NOT NULL,
  PRIMARY KEY (ws, record_id, workflow, trigger, resets, contact_id)
) WITHOUT ROWID;
CREATE INDEX course_member_contact ON course_member (contact_id);
CREATE INDEX course_member_own ON course_member (record_id, name) WHERE name <> '';
-- +goose StatementEnd
