-- +goose Up
-- +goose StatementBegin
-- The number of the definitions whose survey the delivery asks, fixed when its first message is sent; 0: it was not sent, or asks nothing.
ALTER TABLE delivery ADD COLUMN survey_set bigint NOT NULL DEFAULT 0;

CREATE TABLE response (        -- answers to surveys; one to a delivery
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  workflow    text COLLATE "C" NOT NULL,
  survey      text COLLATE "C" NOT NULL,
  definitions bigint NOT NULL,            -- number of the set whose questions were answered
  locale      text COLLATE "C" NOT NULL,
  answers     text NOT NULL,              -- JSON object: question to answer
  agent_id    text COLLATE "C" NOT NULL,  -- who answered on the contact's behalf; empty: the contact
  created_at  bigint NOT NULL,
  PRIMARY KEY (ws, id)
);
CREATE UNIQUE INDEX response_delivery ON response (delivery_id);

CREATE TABLE draft (           -- answers that were typed and not submitted
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  answers     text NOT NULL,              -- JSON object
  updated_at  bigint NOT NULL,
  PRIMARY KEY (ws, delivery_id)
) WITH (fillfactor = 80);
-- +goose StatementEnd
