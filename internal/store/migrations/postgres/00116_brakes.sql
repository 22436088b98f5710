-- +goose Up
-- +goose StatementBegin
-- An instance may be on hold because it has too many recipients. SQLite cannot change a check but by rewriting the table, or, as its documentation has it
-- for a check that becomes weaker, in the text of the schema. The columns that follow make other connections read the schema again.
-- Only PostgreSQL:
ALTER TABLE instance DROP CONSTRAINT instance_hold_check;
ALTER TABLE instance ADD CONSTRAINT instance_hold_check
  CHECK (hold IN ('', 'paused', 'input_conflict', 'retries_used_up', 'worker_crashed', 'too_many_recipients'));
-- Only SQLite: PRAGMA writable_schema = ON;
-- Only SQLite: UPDATE sqlite_schema SET sql = replace(sql, '''worker_crashed'')', '''worker_crashed'', ''too_many_recipients'')')
-- Only SQLite: WHERE type = 'table' AND name = 'instance';
-- Only SQLite: PRAGMA writable_schema = RESET;
-- How many people the instance has taken up: for each of them it has made a delivery.
ALTER TABLE instance ADD COLUMN recipients bigint NOT NULL DEFAULT 0;
-- When a person released the instance from its brake: it takes up all its people, however many they are; 0: nobody did.
ALTER TABLE instance ADD COLUMN unbraked_at bigint NOT NULL DEFAULT 0;
-- The reason for which the program itself paused the workflow, such as too_fast; empty: a person paused it.
ALTER TABLE pause ADD COLUMN cause text COLLATE "C" NOT NULL DEFAULT '';
-- The sends of a workflow that has max_sends_per_hour, since it was resumed last: a JSON list of pairs of a minute since 1970 UTC and the number of sends in it,
-- the earliest first. Minutes that are more than an hour old go with the next send. The row is the lock of the count, too.
CREATE TABLE send_count (
  ws       bigint NOT NULL,
  workflow text COLLATE "C" NOT NULL,
  minutes  text COLLATE "C" NOT NULL DEFAULT '[]',
  PRIMARY KEY (ws, workflow)
);
-- +goose StatementEnd
