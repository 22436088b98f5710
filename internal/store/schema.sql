-- The schema after all migrations, as SQLite has it. Written by go test ./internal/store -run TestSchemaFileIsCurrent -update.

CREATE TABLE address (
  ws         bigint NOT NULL,
  hash       text NOT NULL,
  contact_id bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

CREATE TABLE api_key (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  name       text NOT NULL,
  hash       text NOT NULL,
  scopes     text NOT NULL,
  created_at bigint NOT NULL,
  revoked_at bigint NOT NULL DEFAULT 0,
  expires_at bigint NOT NULL DEFAULT 0,
  used_at    bigint NOT NULL DEFAULT 0,
  old_hash   text NOT NULL DEFAULT '',
  old_until  bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX api_key_hash ON api_key (hash);
CREATE UNIQUE INDEX api_key_name ON api_key (ws, name) WHERE revoked_at = 0;
CREATE INDEX api_key_old_hash ON api_key (old_hash) WHERE old_hash <> '';

CREATE TABLE attempt (
  ws              bigint NOT NULL,
  delivery_id     bigint NOT NULL,
  number          bigint NOT NULL,
  step            bigint NOT NULL,
  channel         text NOT NULL,
  idempotency_key text NOT NULL,
  intent_at       bigint NOT NULL,
  settled_at      bigint NOT NULL,
  outcome         text NOT NULL CHECK (outcome IN ('delivered', 'failed', 'unknown', 'none')),
  reason          text NOT NULL,
  provider_id     text NOT NULL,
  error           text NOT NULL,
  PRIMARY KEY (ws, delivery_id, number, step, settled_at)
) WITHOUT ROWID;

CREATE TABLE audit (
  ws     bigint NOT NULL,
  id     bigint NOT NULL,
  at     bigint NOT NULL,
  actor  text NOT NULL,
  action text NOT NULL,
  target text NOT NULL,
  detail text NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

CREATE TABLE cadence (
  ws          bigint NOT NULL,
  contact_id  bigint NOT NULL,
  suppressed  bigint NOT NULL DEFAULT 0,
  reschedule_at   bigint NOT NULL DEFAULT 0,
  merged_into bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, contact_id)
) WITHOUT ROWID;
CREATE INDEX cadence_merged ON cadence (ws, merged_into) WHERE merged_into > 0;
CREATE INDEX cadence_reschedule ON cadence (reschedule_at, contact_id) WHERE reschedule_at > 0;

CREATE TABLE console_session (
  ws         bigint NOT NULL,
  hash       text NOT NULL,
  key_hash   text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;
CREATE INDEX console_session_expires ON console_session (expires_at);
CREATE INDEX console_session_hash ON console_session (hash);

CREATE TABLE contact (
  ws              bigint NOT NULL,
  id              bigint NOT NULL,
  ext_id          text NOT NULL,
  address         text NOT NULL,
  locale          text NOT NULL,
  timezone        text NOT NULL,
  created_at      bigint NOT NULL,
  name            text NOT NULL DEFAULT '',
  addresses       text NOT NULL DEFAULT '',
  attributes      text NOT NULL DEFAULT '',
  updated_at      bigint NOT NULL DEFAULT 0,
  suppressed_at   bigint NOT NULL DEFAULT 0,
  suppress_reason text NOT NULL DEFAULT '',
  persona         text NOT NULL DEFAULT '',
  cadence         text NOT NULL DEFAULT '',
  find_name       text NOT NULL DEFAULT '',
  find_id         text NOT NULL DEFAULT '',
  place text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, ws)
) WITHOUT ROWID;
CREATE INDEX contact_address ON contact (ws, id) WHERE address <> '';
CREATE INDEX contact_find_id ON contact (find_id, ws, id) WHERE find_id <> '';
CREATE INDEX contact_find_name ON contact (find_name, ws, id) WHERE find_name <> '';
CREATE INDEX contact_persona ON contact (persona, ws, id) WHERE persona <> '';
CREATE INDEX contact_place ON contact (place, ws, id) WHERE place <> '';

CREATE TABLE contact_group (
  ws   bigint NOT NULL,
  name text NOT NULL,
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;

CREATE TABLE content (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  step        bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  channel     text NOT NULL,
  address     text NOT NULL,
  locale      text NOT NULL,
  subject     text NOT NULL,
  text        text NOT NULL,
  html        text NOT NULL,
  PRIMARY KEY (ws, delivery_id, step)
) WITHOUT ROWID;
CREATE INDEX content_id ON content (ws, id);

CREATE TABLE course_member (
  ws         bigint NOT NULL,
  record_id  bigint NOT NULL,
  workflow   text NOT NULL,
  trigger    text NOT NULL,
  resets     bigint NOT NULL,
  contact_id bigint NOT NULL,
  name       text NOT NULL DEFAULT '',
  start      text NOT NULL DEFAULT '',
  moment     bigint NOT NULL DEFAULT 0,
  joined_at  bigint NOT NULL,
  PRIMARY KEY (ws, record_id, workflow, trigger, resets, contact_id)
) WITHOUT ROWID;
CREATE INDEX course_member_contact ON course_member (contact_id);
CREATE INDEX course_member_own ON course_member (record_id, name) WHERE name <> '';

CREATE TABLE covered_ahead (
  ws         bigint NOT NULL,
  contact_id bigint NOT NULL,
  topic_id   bigint NOT NULL,
  seq        bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, topic_id, seq)
) WITHOUT ROWID;

CREATE TABLE decision (
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  at               bigint NOT NULL,
  event_id         bigint NOT NULL,
  instance_id      bigint NOT NULL,
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  trigger          text NOT NULL,
  reason           text NOT NULL,
  trace            text NOT NULL,
  record_id        bigint NOT NULL DEFAULT 0,
  context          text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX decision_event ON decision (event_id);
CREATE INDEX decision_record ON decision (record_id, id) WHERE record_id > 0;

CREATE TABLE definition (
  ws         bigint NOT NULL,
  kind       text NOT NULL,
  name       text NOT NULL,
  version    bigint NOT NULL,
  text       text NOT NULL,
  hash       text NOT NULL,
  added_in   bigint NOT NULL,
  removed_in bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, kind, name, version)
) WITHOUT ROWID;

CREATE TABLE definition_set (
  ws     bigint NOT NULL,
  number bigint NOT NULL,
  at     bigint NOT NULL,
  actor  text NOT NULL,
  action text NOT NULL,
  PRIMARY KEY (ws, number)
) WITHOUT ROWID;

CREATE TABLE delivery (
  ws                  bigint NOT NULL,
  id                  bigint NOT NULL,
  key                 text NOT NULL,
  instance_id         bigint NOT NULL,
  event_id            bigint NOT NULL,
  contact_id          bigint NOT NULL,
  workflow            text NOT NULL,
  workflow_version    bigint NOT NULL,
  definitions         bigint NOT NULL,
  type                text NOT NULL,
  trigger             text NOT NULL,
  channel             text NOT NULL,
  address             text NOT NULL,
  locale              text NOT NULL,
  customer_ref        text NOT NULL,
  status              text NOT NULL CHECK (status IN ('scheduled', 'sent', 'opened', 'responded', 'expired', 'skipped',
                                                      'failed', 'superseded', 'cancelled', 'unknown')),
  not_before          bigint NOT NULL,
  send_at             bigint NOT NULL,
  hold                text NOT NULL DEFAULT '' CHECK (hold IN ('', 'paused', 'inactive', 'no_channel', 'channel_down', 'rate')),
  slot                bigint NOT NULL,
  deferred_by         text NOT NULL DEFAULT '',
  lease_until         bigint NOT NULL DEFAULT 0,
  version             bigint NOT NULL DEFAULT 0,
  step                bigint NOT NULL DEFAULT 0,
  attempt_no          bigint NOT NULL DEFAULT 0,
  intent_at           bigint NOT NULL DEFAULT 0,
  lost_intent         bigint NOT NULL DEFAULT 0,
  retry_count         bigint NOT NULL DEFAULT 0,
  reminders_remaining bigint NOT NULL DEFAULT 0,
  last_sent_at        bigint NOT NULL DEFAULT 0,
  expires_at          bigint NOT NULL DEFAULT 0,
  reason              text NOT NULL DEFAULT '',
  stop_reason         text NOT NULL DEFAULT '',
  trace               text NOT NULL DEFAULT '',
  created_at          bigint NOT NULL,
  completed_at        bigint NOT NULL DEFAULT 0,
  unknown_since            bigint NOT NULL DEFAULT 0,
  due_at              bigint NOT NULL DEFAULT 0,
  fallback_of         bigint NOT NULL DEFAULT 0,
  fold                text NOT NULL DEFAULT '' CHECK (fold IN ('', 'head', 'member', 'folded')),
  folded_into         bigint NOT NULL DEFAULT 0,
  own_address         bigint NOT NULL DEFAULT 0,
  eligible_at         bigint NOT NULL DEFAULT 0,
  own_at              text NOT NULL DEFAULT '',
  resent bigint NOT NULL DEFAULT 0,
  survey_set bigint NOT NULL DEFAULT 0,
  message bigint NOT NULL DEFAULT 0,
  record_id bigint NOT NULL DEFAULT 0,
  topic_id bigint NOT NULL DEFAULT 0,
  priority bigint NOT NULL DEFAULT 0,
  session_turn bigint NOT NULL DEFAULT 0,
  says text NOT NULL DEFAULT '' CHECK (says IN ('', 'question', 'invalid', 'closing', 'stopped')),
  asks text NOT NULL DEFAULT '',
  reported_step bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id),
  CHECK (send_at = 0 OR status IN ('scheduled', 'sent', 'opened')),
  CHECK (hold = '' OR (status IN ('scheduled', 'sent', 'opened') AND (send_at = 0) = (hold = 'no_channel'))),
  CHECK ((fold = '') = (folded_into = 0) AND (fold = 'head') = (folded_into = id)),
  CHECK (fold <> 'folded' OR status = 'skipped'),
  CHECK (expires_at = 0 OR (send_at = 0 AND status IN ('scheduled', 'sent', 'opened', 'unknown')))
) WITHOUT ROWID;
CREATE INDEX delivery_address ON delivery (address, ws) WHERE own_address = 0 AND address <> '';
CREATE INDEX delivery_delayed ON delivery (eligible_at, send_at, channel, reason) WHERE eligible_at > 0;
CREATE INDEX delivery_due ON delivery (send_at, id) WHERE send_at > 0 AND hold <> 'paused';
CREATE INDEX delivery_expiry ON delivery (expires_at, id) WHERE expires_at > 0;
CREATE INDEX delivery_folded ON delivery (ws, folded_into) WHERE folded_into > 0;
CREATE INDEX delivery_inactive ON delivery (workflow, ws) WHERE hold = 'inactive';
CREATE UNIQUE INDEX delivery_instance ON delivery (instance_id, contact_id, channel, topic_id, session_turn);
CREATE INDEX delivery_paused ON delivery (workflow, ws, id) WHERE hold = 'paused';
CREATE INDEX delivery_person ON delivery (ws, contact_id, slot, type, channel);
CREATE INDEX delivery_priority ON delivery (priority, send_at, id) WHERE send_at > 0 AND hold <> 'paused';
CREATE INDEX delivery_record ON delivery (record_id, instance_id) WHERE record_id > 0 AND (send_at > 0 OR status = 'scheduled');
CREATE INDEX delivery_turn ON delivery (priority, ws, send_at, id) WHERE send_at > 0 AND hold <> 'paused';
CREATE INDEX delivery_unknown ON delivery (ws, id) WHERE status = 'unknown';

CREATE TABLE digest (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  contact_id  bigint NOT NULL,
  open        bigint NOT NULL,
  contents    text NOT NULL,
  PRIMARY KEY (ws, delivery_id)
) WITHOUT ROWID;
CREATE INDEX digest_open ON digest (contact_id) WHERE open = 1;

CREATE TABLE digest_run (
  ws          bigint NOT NULL,
  instance_id bigint NOT NULL,
  workflow    text NOT NULL,
  trigger     text NOT NULL,
  start_at    bigint NOT NULL,
  end_at      bigint NOT NULL,
  begun_at    bigint NOT NULL,
  expanded_at bigint NOT NULL DEFAULT 0,
  over_at     bigint NOT NULL DEFAULT 0,
  over_cursor bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, instance_id)
) WITHOUT ROWID;
CREATE INDEX digest_run_begun ON digest_run (begun_at) WHERE over_at = 0;
CREATE INDEX digest_run_open ON digest_run (expanded_at) WHERE expanded_at > 0 AND over_at = 0;
CREATE INDEX digest_run_trigger ON digest_run (workflow, trigger, ws, start_at);

CREATE TABLE dispatch (
  ws         bigint NOT NULL,
  event_id   bigint NOT NULL,
  sink       text NOT NULL,
  group_id   bigint NOT NULL,
  status     text NOT NULL CHECK (status IN ('pending', 'dispatched', 'dead')),
  attempts   bigint NOT NULL DEFAULT 0,
  attempt_no bigint NOT NULL DEFAULT 0,
  next_at    bigint NOT NULL,
  reason     text NOT NULL DEFAULT '',
  ended_at   bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, event_id, sink),
  CHECK ((next_at > 0) = (status = 'pending'))
) WITHOUT ROWID;
CREATE INDEX dispatch_dead ON dispatch (sink, ws, event_id) WHERE status = 'dead';
CREATE INDEX dispatch_due ON dispatch (sink, ws, next_at, event_id) WHERE status = 'pending';
CREATE INDEX dispatch_group ON dispatch (group_id, sink, event_id) WHERE status = 'pending';

CREATE TABLE dispatch_attempt (
  ws       bigint NOT NULL,
  event_id bigint NOT NULL,
  sink     text NOT NULL,
  number   bigint NOT NULL,
  began_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  outcome  text NOT NULL,
  reason   text NOT NULL,
  error    text NOT NULL,
  PRIMARY KEY (ws, event_id, sink, number)
) WITHOUT ROWID;

CREATE TABLE draft (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  answers     text NOT NULL,
  updated_at  bigint NOT NULL,
  PRIMARY KEY (ws, delivery_id)
) WITHOUT ROWID;

CREATE TABLE event (
  ws             bigint NOT NULL,
  id             bigint NOT NULL,
  ext_id         text NOT NULL,
  kind           text NOT NULL,
  occurred_at    bigint NOT NULL,
  occurred_given bigint NOT NULL,
  received_at    bigint NOT NULL,
  payload        text NOT NULL,
  recipient      text NOT NULL,
  trace          text NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

CREATE TABLE group_member (
  ws         bigint NOT NULL,
  name       text NOT NULL,
  contact_id bigint NOT NULL,
  PRIMARY KEY (ws, name, contact_id)
) WITHOUT ROWID;
CREATE INDEX group_member_contact ON group_member (ws, contact_id);

CREATE TABLE idempotency (
  ws         bigint NOT NULL,
  key        text NOT NULL,
  request    text NOT NULL,
  status     bigint NOT NULL,
  answer     text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (ws, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE inputs (
  ws   bigint NOT NULL,
  hash text NOT NULL,
  json text NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

CREATE TABLE installation (
  id             bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  epoch          bigint NOT NULL,
  alive_at       bigint NOT NULL,
  place          text NOT NULL,
  restored_at    bigint NOT NULL,
  restored_why   text NOT NULL,
  given_up_until bigint NOT NULL
) WITHOUT ROWID;

CREATE TABLE instance (
  ws               bigint NOT NULL,
  id               bigint NOT NULL,
  key              text NOT NULL,
  workflow         text NOT NULL,
  workflow_version bigint NOT NULL,
  definitions      bigint NOT NULL,
  type             text NOT NULL,
  trigger          text NOT NULL,
  source           text NOT NULL CHECK (source IN ('event', 'condition', 'plan', 'schedule', 'manual')),
  event_id         bigint NOT NULL,
  status           text NOT NULL CHECK (status IN ('pending', 'completed', 'deactivated', 'failed', 'cancelled', 'skipped')),
  hold             text NOT NULL DEFAULT '' CHECK (hold IN ('', 'paused', 'input_conflict', 'retries_used_up', 'worker_crashed', 'too_many_recipients')),
  delay            text NOT NULL DEFAULT '' CHECK (delay IN ('', 'failure', 'hold', 'pause', 'retry')),
  due_at           bigint NOT NULL,
  next_retry_at    bigint NOT NULL DEFAULT 0,
  ready_at         bigint NOT NULL DEFAULT 0,
  lease_until      bigint NOT NULL DEFAULT 0,
  version          bigint NOT NULL DEFAULT 0,
  attempts         bigint NOT NULL DEFAULT 0,
  retry_count      bigint NOT NULL DEFAULT 0,
  crashes          bigint NOT NULL DEFAULT 0,
  reason           text NOT NULL DEFAULT '',
  input_hash       text NOT NULL,
  trace            text NOT NULL DEFAULT '',
  forgotten        bigint NOT NULL DEFAULT 0,
  created_at       bigint NOT NULL,
  completed_at     bigint NOT NULL DEFAULT 0,
  record_id        bigint NOT NULL DEFAULT 0,
  episode          bigint NOT NULL DEFAULT 0,
  context          text NOT NULL DEFAULT '',
  expand_cursor    bigint NOT NULL DEFAULT 0,
  local_date       text NOT NULL DEFAULT '',
  timezone         text NOT NULL DEFAULT '',
  retry_of         bigint NOT NULL DEFAULT 0,
  retried_by       bigint NOT NULL DEFAULT 0,
  held_at          bigint NOT NULL DEFAULT 0,
  head_id          bigint NOT NULL DEFAULT 0,
  round bigint NOT NULL DEFAULT 0,
  message bigint NOT NULL DEFAULT 0,
  contact_id bigint NOT NULL DEFAULT 0,
  cancelled_at bigint NOT NULL DEFAULT 0,
  deleted_at bigint NOT NULL DEFAULT 0,
  effective_at bigint NOT NULL DEFAULT 0,
  opened_at bigint NOT NULL DEFAULT 0,
  recipients bigint NOT NULL DEFAULT 0,
  unbraked_at bigint NOT NULL DEFAULT 0,
  message_date text NOT NULL DEFAULT '',
  message_number bigint NOT NULL DEFAULT 0,
  start_date text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, id),
  UNIQUE (key, ws),
  CHECK (delay = '' OR status = 'pending'),
  CHECK (ready_at = 0 OR (status = 'pending' AND hold = ''))
) WITHOUT ROWID;
CREATE INDEX instance_cancelled ON instance (id) WHERE cancelled_at > 0;
CREATE INDEX instance_context ON instance (context, workflow, ws, created_at) WHERE context <> '';
CREATE INDEX instance_dates ON instance (record_id, message_date) WHERE record_id > 0 AND message_date <> '';
CREATE INDEX instance_delayed ON instance (due_at, ready_at) WHERE retry_count > 0 AND ready_at > 0;
CREATE INDEX instance_deleted ON instance (id) WHERE deleted_at > 0;
CREATE INDEX instance_due ON instance (ready_at, id) WHERE ready_at > 0;
CREATE INDEX instance_event ON instance (event_id);
CREATE INDEX instance_events ON instance (workflow, ws, due_at, id) WHERE source = 'event' AND status = 'pending';
CREATE INDEX instance_held ON instance (ws, id) WHERE hold <> '';
CREATE INDEX instance_paused ON instance (workflow, ws, id) WHERE hold = 'paused';
CREATE INDEX instance_record ON instance (record_id, id) WHERE record_id > 0;
CREATE INDEX instance_series ON instance (workflow, trigger, ws, status, due_at) WHERE source = 'schedule' AND head_id = 0 AND retry_of = 0;
CREATE INDEX instance_waiting ON instance (record_id, id) WHERE record_id > 0 AND status = 'pending';
CREATE INDEX instance_zones ON instance (head_id, id) WHERE head_id > 0;

CREATE TABLE item (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  ext_id     text NOT NULL,
  edition    text NOT NULL,
  hash       text NOT NULL,
  match_at   bigint NOT NULL,
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, edition, ws)
) WITHOUT ROWID;
CREATE INDEX item_match ON item (match_at, id) WHERE match_at > 0;

CREATE TABLE job (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('backfill', 'limits', 'groups', 'related', 'reconcile', 'retry', 'cancel', 'subscribe', 'migrate', 'unsubscribe', 'undo')),
  subject     text NOT NULL,
  cause       text NOT NULL,
  since       bigint NOT NULL,
  definitions bigint NOT NULL,
  status      text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
  version     bigint NOT NULL,
  cursor      bigint NOT NULL,
  done        bigint NOT NULL,
  total       bigint NOT NULL,
  changed     bigint NOT NULL,
  selection   text NOT NULL,
  actor       text NOT NULL,
  last_id     bigint NOT NULL,
  error       text NOT NULL,
  started_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  finished_at bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX job_failed ON job (ws, id) WHERE status = 'failed';
CREATE INDEX job_open ON job (id) WHERE status = 'running';

CREATE TABLE matcher (
  ws       bigint NOT NULL PRIMARY KEY,
  last_seq bigint NOT NULL
) WITHOUT ROWID;

CREATE TABLE node (
  id    bigint NOT NULL PRIMARY KEY CHECK (id = 1),
  taken bigint NOT NULL
) WITHOUT ROWID;

CREATE TABLE opt_out (
  ws   bigint NOT NULL,
  hash text NOT NULL,
  kind text NOT NULL,
  at   bigint NOT NULL,
  PRIMARY KEY (ws, hash, kind)
) WITHOUT ROWID;

CREATE TABLE outbox_event (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  type        text NOT NULL,
  message_id  text NOT NULL,
  workflow    text NOT NULL,
  delivery_id bigint NOT NULL,
  instance_id bigint NOT NULL,
  body        text NOT NULL,
  created_at  bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX outbox_event_instance ON outbox_event (instance_id);

CREATE TABLE pace (
  ws      bigint NOT NULL,
  channel text NOT NULL,
  next_at bigint NOT NULL,
  tail_at bigint NOT NULL,
  urgent_tail_at bigint NOT NULL DEFAULT 0,
  transactional_tail_at bigint NOT NULL DEFAULT 0,
  immediate_tail_at bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, channel)
) WITHOUT ROWID;

CREATE TABLE past_slot (
  ws          bigint NOT NULL,
  contact_id  bigint NOT NULL,
  slot        bigint NOT NULL,
  type        text NOT NULL,
  channel     text NOT NULL,
  delivery_id bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, slot, delivery_id)
) WITHOUT ROWID;
CREATE INDEX past_slot_old ON past_slot (ws, slot);

CREATE TABLE pause (
  ws         bigint NOT NULL,
  workflow   text NOT NULL,
  paused_at  bigint NOT NULL,
  resumed_at bigint NOT NULL DEFAULT 0,
  actor      text NOT NULL,
  why        text NOT NULL,
  cause text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, workflow)
) WITHOUT ROWID;
CREATE INDEX pause_over ON pause (resumed_at);

CREATE TABLE place (
  ws     bigint NOT NULL,
  name   text NOT NULL,
  type   text NOT NULL,
  parent text NOT NULL,
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;
CREATE INDEX place_parent ON place (parent, ws, name) WHERE parent <> '';

CREATE TABLE receipt (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  status      text NOT NULL CHECK (status IN ('delivered', 'read', 'deferred', 'bounced', 'complained')),
  detail      text NOT NULL,
  attempt     bigint NOT NULL,
  provider_id text NOT NULL,
  soft bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, delivery_id, id)
) WITHOUT ROWID;

CREATE TABLE record (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  type        text NOT NULL,
  ext_id      text NOT NULL,
  props       text NOT NULL,
  closed      bigint NOT NULL DEFAULT 0,
  deleted     bigint NOT NULL DEFAULT 0,
  rev         bigint NOT NULL,
  modified_by text NOT NULL,
  changed_at  bigint NOT NULL DEFAULT 0,
  evaluate_at     bigint NOT NULL DEFAULT 0,
  evaluated_at   bigint NOT NULL DEFAULT 0,
  state       text NOT NULL DEFAULT '',
  failures    bigint NOT NULL DEFAULT 0,
  created_at  bigint NOT NULL,
  updated_at  bigint NOT NULL,
  links       text NOT NULL DEFAULT '',
  owner text NOT NULL DEFAULT '',
  parents text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, id),
  UNIQUE (ext_id, type, ws)
);
CREATE INDEX record_evaluate ON record (evaluate_at, id) WHERE evaluate_at > 0;
CREATE INDEX record_type ON record (type, ws, id);

CREATE TABLE record_link (
  ws       bigint NOT NULL,
  type     text NOT NULL,
  ext_id   text NOT NULL,
  child_id bigint NOT NULL,
  PRIMARY KEY (ext_id, type, ws, child_id)
) WITHOUT ROWID;
CREATE INDEX record_link_child ON record_link (child_id);

CREATE TABLE record_parent (
  ws       bigint NOT NULL,
  type     text NOT NULL,
  ext_id   text NOT NULL,
  child_id bigint NOT NULL,
  name     text NOT NULL,
  PRIMARY KEY (ext_id, type, ws, child_id, name)
) WITHOUT ROWID;
CREATE INDEX record_parent_child ON record_parent (child_id);

CREATE TABLE repair (
  ws       bigint NOT NULL,
  workflow text NOT NULL,
  trigger  text NOT NULL,
  every    bigint NOT NULL,
  due_at   bigint NOT NULL,
  since    bigint NOT NULL,
  PRIMARY KEY (ws, workflow, trigger)
) WITHOUT ROWID;
CREATE INDEX repair_due ON repair (due_at);

CREATE TABLE reply (
  ws   bigint NOT NULL,
  hash text NOT NULL,
  at   bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

CREATE TABLE response (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  workflow    text NOT NULL,
  survey      text NOT NULL,
  definitions bigint NOT NULL,
  locale      text NOT NULL,
  answers     text NOT NULL,
  agent_id    text NOT NULL,
  created_at  bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX response_delivery ON response (delivery_id);

CREATE TABLE secret (
  ws         bigint NOT NULL,
  name       text NOT NULL,
  sealed     text NOT NULL,
  updated_at bigint NOT NULL,
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;

CREATE TABLE send_count (
  ws       bigint NOT NULL,
  workflow text NOT NULL,
  minutes  text NOT NULL DEFAULT '[]',
  PRIMARY KEY (ws, workflow)
) WITHOUT ROWID;

CREATE TABLE session (
  ws           bigint NOT NULL,
  delivery_id  bigint NOT NULL,
  instance_id  bigint NOT NULL,
  contact_id   bigint NOT NULL,
  kind         text NOT NULL,
  address_hash text NOT NULL,
  status       text NOT NULL CHECK (status IN ('waiting', 'open', 'ending', 'ended')),
  reason       text NOT NULL DEFAULT '',
  question     text NOT NULL,
  asked_at     bigint NOT NULL,
  repeats      bigint NOT NULL DEFAULT 0,
  turns        bigint NOT NULL DEFAULT 0,
  answers      text NOT NULL DEFAULT '{}',
  opened_at    bigint NOT NULL,
  expires_at   bigint NOT NULL,
  ended_at     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, delivery_id)
) WITHOUT ROWID;
CREATE INDEX session_address ON session (address_hash, ws);
CREATE INDEX session_contact ON session (ws, contact_id, kind, delivery_id);
CREATE INDEX session_due ON session (expires_at, delivery_id) WHERE status <> 'ended';
CREATE UNIQUE INDEX session_open ON session (ws, contact_id, kind) WHERE status = 'open';
CREATE INDEX session_status ON session (ws, status, delivery_id);

CREATE TABLE session_message (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  step        bigint NOT NULL,
  at          bigint NOT NULL,
  text        text NOT NULL,
  PRIMARY KEY (ws, delivery_id, step)
) WITHOUT ROWID;

CREATE TABLE session_reply (
  ws          bigint NOT NULL,
  delivery_id bigint NOT NULL,
  id          bigint NOT NULL,
  at          bigint NOT NULL,
  text        text NOT NULL,
  keyword     text NOT NULL,
  question    text NOT NULL,
  reason      text NOT NULL,
  PRIMARY KEY (ws, delivery_id, id)
) WITHOUT ROWID;

CREATE TABLE sink (
  ws            bigint NOT NULL,
  name          text NOT NULL,
  state         text NOT NULL CHECK (state IN ('active', 'paused', 'disabled')),
  failing_since bigint NOT NULL DEFAULT 0,
  failed_at     bigint NOT NULL DEFAULT 0,
  rest_until    bigint NOT NULL DEFAULT 0,
  reason        text NOT NULL DEFAULT '',
  PRIMARY KEY (ws, name)
) WITHOUT ROWID;
CREATE INDEX sink_active ON sink (ws, name) WHERE state = 'active';

CREATE TABLE spent (
  ws          bigint NOT NULL,
  hash        text NOT NULL,
  instance_id bigint NOT NULL,
  retries     bigint NOT NULL,
  forgotten   bigint NOT NULL,
  PRIMARY KEY (ws, hash)
) WITHOUT ROWID;

CREATE TABLE stopped_address (
  ws     bigint NOT NULL,
  hash   text NOT NULL,
  kind   text NOT NULL,
  reason text NOT NULL CHECK (reason IN ('bounced')),
  detail text NOT NULL,
  at     bigint NOT NULL,
  PRIMARY KEY (ws, hash, kind)
) WITHOUT ROWID;

CREATE TABLE subscription (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  contact_id bigint NOT NULL,
  topic_id   bigint NOT NULL,
  frequency  text NOT NULL,
  source     text NOT NULL,
  since      bigint NOT NULL,
  started_at bigint NOT NULL,
  ended_at   bigint NOT NULL DEFAULT 0,
  end_reason text NOT NULL DEFAULT '',
  covered_through bigint NOT NULL,
  started_by bigint NOT NULL DEFAULT 0,
  ended_by bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE INDEX subscription_contact ON subscription (contact_id, id);
CREATE INDEX subscription_ended ON subscription (ws, ended_at, id) WHERE ended_at > 0;
CREATE INDEX subscription_ended_by ON subscription (ended_by, contact_id) WHERE ended_by > 0;
CREATE INDEX subscription_frequency ON subscription (ws, frequency, contact_id) WHERE ended_at = 0;
CREATE INDEX subscription_moved ON subscription (ws, ended_at) WHERE ended_by > 0;
CREATE INDEX subscription_moved_contact ON subscription (ws, contact_id) WHERE ended_by > 0;
CREATE INDEX subscription_moved_topic ON subscription (topic_id, contact_id) WHERE ended_by > 0;
CREATE UNIQUE INDEX subscription_of ON subscription (ws, contact_id, topic_id) WHERE ended_at = 0;
CREATE INDEX subscription_started_by ON subscription (started_by, contact_id) WHERE started_by > 0;
CREATE INDEX subscription_topic ON subscription (topic_id, contact_id) WHERE ended_at = 0;
CREATE INDEX subscription_topic_ended ON subscription (topic_id) WHERE ended_at > 0;
CREATE INDEX subscription_topic_frequency ON subscription (topic_id, frequency, contact_id) WHERE ended_at = 0;

CREATE TABLE subscription_request (
  ws           bigint NOT NULL,
  contact_id   bigint NOT NULL,
  topic_id     bigint NOT NULL,
  id           bigint NOT NULL,
  frequency    text NOT NULL,
  source       text NOT NULL,
  asked        bigint NOT NULL DEFAULT 0,
  requested_at bigint NOT NULL,
  next_at      bigint NOT NULL,
  PRIMARY KEY (ws, contact_id, topic_id)
) WITHOUT ROWID;
CREATE INDEX subscription_request_due ON subscription_request (next_at, id);
CREATE INDEX subscription_request_topic ON subscription_request (topic_id);

CREATE TABLE throttle (
  ws          bigint NOT NULL,
  workflow    text NOT NULL,
  context     text NOT NULL,
  trigger     text NOT NULL,
  record_id   bigint NOT NULL,
  instance_id bigint NOT NULL,
  fired_at    bigint NOT NULL,
  issues      text NOT NULL DEFAULT '',
  void_at     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (context, workflow, ws)
) WITHOUT ROWID;
CREATE INDEX throttle_record ON throttle (record_id, context);
CREATE INDEX throttle_workflow ON throttle (workflow, ws, context);

CREATE TABLE topic (
  ws         bigint NOT NULL,
  id         bigint NOT NULL,
  name       text NOT NULL,
  source     text NOT NULL CHECK (source IN ('definition', 'data')),
  hash       text NOT NULL,
  document   text NOT NULL,
  version    bigint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  removed_at bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (ws, id),
  UNIQUE (name, ws)
) WITHOUT ROWID;
CREATE INDEX topic_hash ON topic (hash, ws) WHERE source = 'data';

CREATE TABLE topic_match (
  ws       bigint NOT NULL,
  topic_id bigint NOT NULL,
  seq      bigint NOT NULL,
  item_id  bigint NOT NULL,
  received_at bigint NOT NULL,
  PRIMARY KEY (ws, topic_id, seq)
) WITHOUT ROWID;
CREATE INDEX topic_match_item ON topic_match (ws, item_id);

CREATE TABLE topic_term (
  ws       bigint NOT NULL,
  term     text NOT NULL,
  topic_id bigint NOT NULL,
  PRIMARY KEY (term, ws, topic_id)
) WITHOUT ROWID;
CREATE INDEX topic_term_topic ON topic_term (ws, topic_id);

CREATE TABLE undelivered (
  ws          bigint NOT NULL,
  id          bigint NOT NULL,
  instance_id bigint NOT NULL,
  at          bigint NOT NULL,
  PRIMARY KEY (ws, id)
) WITHOUT ROWID;

CREATE TABLE workspace (
  id          bigint NOT NULL PRIMARY KEY,
  name        text NOT NULL UNIQUE,
  secret      text NOT NULL,
  definitions bigint NOT NULL DEFAULT 0,
  created_at  bigint NOT NULL
) WITHOUT ROWID;

CREATE TABLE zone (
  name  text NOT NULL PRIMARY KEY,
  rules text NOT NULL
) WITHOUT ROWID;
