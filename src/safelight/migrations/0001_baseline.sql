-- Every table and index, by the feature that owns it; only its owner names a table in SQL. Functions
-- are code and stand in sql/.

-- ==== accounts ====

-- Who may come in. Times are epoch milliseconds, written by the application's clock.

CREATE TABLE instance (
    key   text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE organizations (
    id         text PRIMARY KEY CHECK (id ~ '^[a-z0-9-]{1,64}$'),
    created_at bigint NOT NULL
);

CREATE TABLE users (
    id            text PRIMARY KEY,
    username      text NOT NULL UNIQUE CHECK (username ~ '^[a-z0-9._-]{1,64}$'),
    password_hash text,               -- none until the owner of a sign-in link chooses one
    operator      boolean NOT NULL DEFAULT false,
    created_at    bigint NOT NULL,
    revoked_at    bigint
);

CREATE TABLE memberships (
    organization text NOT NULL REFERENCES organizations (id),
    user_id      text NOT NULL REFERENCES users (id),
    role         text NOT NULL CHECK (role IN ('viewer', 'member', 'approver', 'admin')),
    created_at   bigint NOT NULL,
    PRIMARY KEY (organization, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);

-- Only digests are kept: a stolen table opens nothing.
CREATE TABLE tokens (
    id           text PRIMARY KEY,
    digest       bytea NOT NULL UNIQUE,
    organization text NOT NULL REFERENCES organizations (id),
    role         text NOT NULL CHECK (role IN ('viewer', 'member', 'approver', 'admin')),
    operator     boolean NOT NULL DEFAULT false,
    name         text NOT NULL,
    created_by   text NOT NULL,                  -- for people to read
    maker_user   text REFERENCES users (id),     -- never grants more than this user holds now
    maker_token  text REFERENCES tokens (id),    -- is revoked together with this token
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    CHECK (NOT operator OR role = 'admin')
);
CREATE INDEX tokens_organization ON tokens (organization, created_at, id);
CREATE INDEX tokens_maker_user ON tokens (maker_user) WHERE maker_user IS NOT NULL;
CREATE INDEX tokens_maker_token ON tokens (maker_token) WHERE maker_token IS NOT NULL;

CREATE TABLE sessions (
    digest     bytea PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE sign_in_links (
    digest     bytea PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users (id),
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    used_at    bigint
);
CREATE INDEX sign_in_links_user ON sign_in_links (user_id);

-- An attempt is written before the password is checked and taken back when it was right, so that
-- attempts made at the same moment count too.
CREATE TABLE sign_in_failures (
    attempt text NOT NULL,
    subject text NOT NULL,            -- user:NAME or address:ADDRESS
    at      bigint NOT NULL,
    PRIMARY KEY (attempt, subject)
);
CREATE INDEX sign_in_failures_subject ON sign_in_failures (subject, at);
CREATE INDEX sign_in_failures_at ON sign_in_failures (at);

-- ==== history ====

-- Everything that ever changed, in an order readers can resume from.

CREATE SEQUENCE activity_seq;

CREATE TABLE activity (
    seq          bigint PRIMARY KEY,
    organization text NOT NULL,
    subject      text NOT NULL,        -- image:ID, upload:NAME, …
    also         text,                 -- a second subject whose story this belongs to
    type         text NOT NULL,
    at           bigint NOT NULL,
    data         jsonb NOT NULL
);
CREATE INDEX activity_feed ON activity (organization, seq);
CREATE INDEX activity_subject ON activity (organization, subject, seq);
CREATE INDEX activity_also ON activity (organization, also, seq) WHERE also IS NOT NULL;

-- The feed is cut after a while; what lies at or before this seq is only history of its subjects.
CREATE TABLE activity_floor (
    organization text PRIMARY KEY,
    seq          bigint NOT NULL
);

-- ==== queue ====

-- Work to be done, and what remembers it. run_at and lease_until are on the database's clock.
--
-- A job is `queued` (ready), `delayed` (run_at is later), `running` (leased to owner until
-- lease_until) or `dead` (waits for a person). A finished job has no row: deleting is the cheapest
-- end there is, and the story people need is in the activity table.

CREATE TABLE jobs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text COLLATE "C" NOT NULL,
    organization text COLLATE "C" NOT NULL,           -- '' is Safelight's own work
    node         text COLLATE "C" NOT NULL,           -- '' runs anywhere
    payload      jsonb NOT NULL,                      -- ids only
    key          text COLLATE "C",                    -- unique per kind while alive
    priority     integer NOT NULL,                    -- larger runs sooner
    status       text COLLATE "C" NOT NULL
                 CHECK (status IN ('queued', 'delayed', 'running', 'dead')),
    run_at       timestamptz NOT NULL,
    claim        integer NOT NULL DEFAULT 0,          -- the fence: rises with every claim
    attempts     integer NOT NULL DEFAULT 0,          -- the budget: reset by redrive
    lease_until  timestamptz,
    owner        text,
    error        jsonb,                               -- {code, message} of the last failure
    created_at   timestamptz NOT NULL DEFAULT now(),
    died_at      timestamptz,
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status = 'running') = (owner IS NOT NULL)),
    CHECK ((status = 'dead') = (died_at IS NOT NULL))
) WITH (
    fillfactor = 70,
    -- Most rows live for milliseconds; frequent vacuuming keeps the table as small as its backlog.
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 2000
);
CREATE INDEX jobs_queued ON jobs (kind, node, priority DESC, organization, run_at, id)
    WHERE status = 'queued';
CREATE INDEX jobs_delayed ON jobs (run_at) WHERE status = 'delayed';
CREATE INDEX jobs_running ON jobs (lease_until) WHERE status = 'running';
CREATE INDEX jobs_dead ON jobs (died_at, id) WHERE status = 'dead';
CREATE INDEX jobs_dead_of ON jobs (organization, died_at, id) WHERE status = 'dead';
CREATE UNIQUE INDEX jobs_key ON jobs (kind, key) WHERE key IS NOT NULL AND status <> 'dead';

-- One row per recurring job; whoever finds it due moves it on and enqueues.
CREATE TABLE job_schedules (
    name          text COLLATE "C" PRIMARY KEY,
    kind          text NOT NULL,
    node          text NOT NULL,
    every_seconds integer NOT NULL CHECK (every_seconds > 0),
    next_at       timestamptz NOT NULL
);

CREATE TABLE job_throughput (
    hour      timestamptz PRIMARY KEY,
    processed bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL
);

-- ==== key-value ====

-- State with an end. expires_at is epoch milliseconds by the application's clock; none: stays.
CREATE TABLE kv (
    key        text COLLATE "C" PRIMARY KEY,
    value      jsonb NOT NULL,
    expires_at bigint
);
CREATE INDEX kv_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL;

-- ==== ingest ====

-- One row per accepted upload. The same bytes twice are two rows: checksum is not unique on purpose.

CREATE TABLE images (
    id              text PRIMARY KEY,
    organization    text NOT NULL REFERENCES organizations (id),
    name            text NOT NULL,
    idempotency_key uuid NOT NULL,
    status          text NOT NULL CHECK (status IN ('UPLOADED', 'INGESTED', 'STORED', 'FAILED')),
    temp_path       text NOT NULL,
    checksum        text NOT NULL,
    mime_type       text NOT NULL,
    width           integer NOT NULL,
    height          integer NOT NULL,
    size_bytes      bigint NOT NULL,
    created_at      bigint NOT NULL,
    updated_at      bigint NOT NULL
);
CREATE INDEX images_status ON images (status);
CREATE INDEX images_checksum ON images (checksum);
CREATE INDEX images_created_at ON images (created_at);
CREATE INDEX images_name ON images (organization, name, created_at);

-- Images on their way to the store when their name was deleted: they do not become objects.
CREATE TABLE delete_intents (
    image_id     text PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    organization text NOT NULL,
    name         text NOT NULL,
    at           bigint NOT NULL
);
CREATE INDEX delete_intents_name ON delete_intents (organization, name);

-- ==== objects ====

-- Objects, the bytes behind them, and the events that tell of them. Times are epoch milliseconds.

-- Content-addressed files of the built-in store. Only a live row promises its file.
CREATE TABLE blobs (
    sha256      text COLLATE "C" PRIMARY KEY,
    size        bigint NOT NULL,
    state       text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'condemned', 'damaged')),
    released_at bigint                -- since when perhaps nothing refers to it
);
CREATE INDEX blobs_released ON blobs (released_at) WHERE released_at IS NOT NULL;
CREATE INDEX blobs_condemned ON blobs (sha256) WHERE state = 'condemned';

-- Counts, per first byte of the name, how often files were about to be removed. A put that looked
-- at the files before the last time is refused, even if it is a dead process's last statement.
CREATE TABLE blob_epochs (
    shard text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0
);
INSERT INTO blob_epochs (shard) SELECT lpad(to_hex(n), 2, '0') FROM generate_series(0, 255) AS n;

-- One row per key that has ever been written here; a deleted one stays a while to keep its clock.
CREATE TABLE objects (
    key          text COLLATE "C" PRIMARY KEY,
    organization text,                -- none under a reserved prefix
    name         text,
    present      boolean NOT NULL,
    blob         text COLLATE "C" REFERENCES blobs (sha256),  -- none in a bucket
    size         bigint NOT NULL,
    content_type text NOT NULL,
    metadata     jsonb NOT NULL,
    etag         text NOT NULL,
    event_time   bigint NOT NULL
);
CREATE INDEX objects_blob ON objects (blob) WHERE blob IS NOT NULL;
CREATE INDEX objects_gone ON objects (event_time) WHERE NOT present;

-- What happened to objects, from whatever source, until it is delivered and a while longer.
CREATE TABLE object_events (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       text NOT NULL,       -- sequencers compare within one source only
    action       text NOT NULL CHECK (action IN ('created', 'deleted')),
    key          text NOT NULL,
    organization text,
    event_time   bigint NOT NULL,
    sequencer    text,
    etag         text,
    size         bigint,
    metadata     jsonb,
    received_at  bigint NOT NULL,
    delivered_at bigint
);

-- Writes to a bucket that have begun and are not yet known to have ended.
CREATE TABLE object_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action     text NOT NULL CHECK (action IN ('created', 'deleted')),
    key        text NOT NULL,
    begun_at   bigint NOT NULL
);

-- Where a long walk over the blobs goes on.
CREATE TABLE blob_walks (
    name     text PRIMARY KEY,
    position text COLLATE "C" NOT NULL,
    begun_at bigint NOT NULL
);

-- What a store sent that could not be understood: the body of a dead letter.
CREATE TABLE rejected_notices (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    code        text NOT NULL,
    reason      text NOT NULL,
    raw         jsonb NOT NULL,
    received_at bigint NOT NULL
);

-- ==== library ====

-- The organization's library: a projection of the object store that converges to it.

CREATE TABLE uploads (
    organization          text NOT NULL,
    name                  text NOT NULL,
    -- The marker: which upload this row stands for, and the event that said so.
    event_time            bigint NOT NULL,
    sequencer             text,
    source                text NOT NULL,
    e_tag                 text,
    idempotency_key       text NOT NULL,
    image_id              text,
    mime_type             text,
    width                 integer,
    height                integer,
    size_bytes            bigint,
    -- What the present run, if any, found. `run` numbers the runs of this marker.
    run                   integer NOT NULL DEFAULT 0,
    classification_status text NOT NULL DEFAULT 'pending'
        CHECK (classification_status IN ('pending', 'running', 'done', 'failed')),
    classification_label  text,
    classification_score  double precision,
    classification_model  text,
    classified_at         bigint,
    search                tsvector NOT NULL DEFAULT '',
    PRIMARY KEY (organization, name)
);
CREATE INDEX uploads_newest ON uploads (organization, event_time DESC, name DESC);
CREATE INDEX uploads_label ON uploads (organization, classification_label, event_time DESC, name DESC)
    WHERE classification_label IS NOT NULL;
CREATE INDEX uploads_unfinished ON uploads (organization, classification_status, event_time DESC, name DESC)
    WHERE classification_status <> 'done';
CREATE INDEX uploads_search ON uploads USING gin (search) WITH (fastupdate = on);

-- Outlives the row, so that an older event that comes late brings nothing back.
CREATE TABLE tombstones (
    organization text NOT NULL,
    name         text NOT NULL,
    event_time   bigint NOT NULL,
    sequencer    text,
    source       text NOT NULL,
    buried_at    bigint NOT NULL,
    PRIMARY KEY (organization, name)
);
CREATE INDEX tombstones_age ON tombstones (buried_at);

-- ==== classification ====

CREATE TABLE classification_runs (
    organization    text NOT NULL,
    name            text NOT NULL,
    idempotency_key text NOT NULL,
    run             integer NOT NULL,
    status          text NOT NULL
        CHECK (status IN ('pending', 'running', 'done', 'failed', 'dropped')),
    attempt         integer NOT NULL DEFAULT 0,
    error           jsonb,
    reply           jsonb,             -- a remote model's, saved before it is used
    started_at      bigint NOT NULL,
    finished_at     bigint,
    PRIMARY KEY (organization, name, idempotency_key, run)
);

-- ==== generations ====

-- Generations: requests in flight, and the library of what came of them. Times are epoch
-- milliseconds, ids are UUIDv7 text.

-- One row owns a request from its acceptance to its end. Whatever happens to it (a call returns, a
-- webhook, the timer, a cancellation) is a short transaction that locks this row first.
CREATE TABLE generations_inflight (
    id           text PRIMARY KEY,
    organization text NOT NULL,
    provider     text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('image', 'video')),
    model        text NOT NULL,
    input        jsonb NOT NULL,
    count        integer NOT NULL CHECK (count BETWEEN 1 AND 20),
    tags         text[] NOT NULL,              -- rows of `tags` from the end on
    status       text NOT NULL DEFAULT 'active'
                 CHECK (status IN ('active', 'completing', 'ready', 'failed')),
    created_at   bigint NOT NULL,
    timeout_at   bigint NOT NULL,
    closes_at    bigint,                       -- while completing: when what still arrives is given up
    finished_at  bigint
);
CREATE INDEX generations_inflight_active
    ON generations_inflight (organization, created_at DESC, id DESC) WHERE finished_at IS NULL;
CREATE INDEX generations_inflight_finished
    ON generations_inflight (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE generation_tasks (
    artifact_id      text PRIMARY KEY,
    generation_id    text NOT NULL REFERENCES generations_inflight (id) ON DELETE CASCADE,
    position         integer NOT NULL,
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'submitted', 'streaming', 'ready', 'failed')),
    provider_task_id text,
    former_ids       text[] NOT NULL DEFAULT '{}',  -- of earlier calls; a late webhook may name them
    attempt          integer NOT NULL DEFAULT 0,    -- the fence: rises whenever a job takes it up
    error            jsonb,
    media            jsonb,                         -- what the provider delivered, until it is stored
    cost             numeric,                       -- US dollars, where the provider says
    UNIQUE (generation_id, position)
);

-- From here on the library: finished things only.

CREATE TABLE generations (
    id             text PRIMARY KEY,
    organization   text NOT NULL,
    status         text NOT NULL CHECK (status IN ('ready', 'failed')),
    provider       text NOT NULL,
    kind           text NOT NULL,
    model          text NOT NULL,
    input          jsonb NOT NULL,
    count          integer NOT NULL,
    artifact_count integer NOT NULL,
    tasks          jsonb NOT NULL,             -- [{artifactId, status, error}], as they ended
    cost           numeric NOT NULL,
    created_at     bigint NOT NULL,
    timeout_at     bigint NOT NULL,
    completed_at   bigint NOT NULL
);
CREATE INDEX generations_newest ON generations (organization, created_at DESC, id DESC);
CREATE INDEX generations_spending ON generations (organization, completed_at)
    INCLUDE (provider, artifact_count, cost);

-- Written as each one is stored, before their generation's row: no foreign key.
CREATE TABLE artifacts (
    id            text PRIMARY KEY,
    organization  text NOT NULL,
    generation_id text NOT NULL,
    content_type  text NOT NULL,
    size_bytes    bigint NOT NULL,
    checksum      text NOT NULL,               -- sha256 in hex
    metadata      jsonb NOT NULL,
    created_at    bigint NOT NULL
);
CREATE INDEX artifacts_newest ON artifacts (organization, created_at DESC, id DESC);
CREATE INDEX artifacts_generation ON artifacts (generation_id, created_at DESC, id DESC);

-- So that deleting twice is no error, and deleting what never was is one.
CREATE TABLE deleted_artifacts (
    id           text PRIMARY KEY,
    organization text NOT NULL,
    deleted_at   bigint NOT NULL
);

CREATE TABLE tags (
    organization text NOT NULL,
    tag          text NOT NULL,
    target_type  text NOT NULL CHECK (target_type IN ('generation', 'artifact')),
    target_id    text NOT NULL,
    PRIMARY KEY (organization, tag, target_type, target_id)
);
CREATE INDEX tags_target ON tags (target_id, target_type, tag);

-- ==== approvals ====

-- Questions that a person decides. Times are epoch milliseconds.

CREATE TABLE approvals (
    id           text PRIMARY KEY,
    organization text NOT NULL REFERENCES organizations (id),
    status       text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
    title        text NOT NULL,
    description  text NOT NULL,
    subject_type text,                 -- what it is about, if it is about something of ours
    subject_id   text,
    requested_by text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    decided_by   text,                 -- nobody: its time ran out
    decided_at   bigint,
    reason       text,
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK ((subject_type IS NULL) = (subject_id IS NULL))
);
CREATE INDEX approvals_newest ON approvals (organization, created_at DESC, id DESC);
CREATE INDEX approvals_by_status ON approvals (organization, status, created_at DESC, id DESC);
CREATE INDEX approvals_expiry ON approvals (expires_at) WHERE status = 'pending';

-- ==== submissions ====

-- Images that were submitted for publication. Times are epoch milliseconds.

CREATE TABLE submissions (
    id             text PRIMARY KEY,
    organization   text NOT NULL REFERENCES organizations (id),
    title          text,
    submitted_by   jsonb NOT NULL,               -- {type, name}
    -- What was submitted: which upload or artifact, as it was then. Its bytes are the object
    -- submissions/{id}, which shares them or is a copy.
    source_kind    text NOT NULL,
    source_id      text NOT NULL,
    source_marker  text NOT NULL,
    source_time    bigint NOT NULL,
    source_current boolean NOT NULL DEFAULT true, -- false: something newer of that name replaced it
    checksum       text NOT NULL,
    content_type   text NOT NULL,
    size_bytes     bigint NOT NULL,
    state          text NOT NULL,
    run            integer NOT NULL DEFAULT 0,    -- the fence: rises with every start
    findings       jsonb NOT NULL DEFAULT '[]',
    rejection      jsonb,                         -- {code, message}
    approval_id    text REFERENCES approvals (id),
    dhash          bigint,                        -- how it looks; none without contrast
    phash          bigint,
    rendition_type text,
    rendition_size bigint,
    rendition_etag text,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL                -- of the last change of state, so of the stage
);
CREATE INDEX submissions_newest ON submissions (organization, created_at DESC, id DESC);
CREATE INDEX submissions_by_state ON submissions (organization, state, created_at DESC, id DESC);
CREATE INDEX submissions_under_way ON submissions (updated_at, id)
    WHERE state IN ('RECEIVED', 'TIER1_SCANNING', 'TIER2_SCANNING');
CREATE INDEX submissions_source ON submissions (organization, source_kind, source_id)
    WHERE state NOT IN ('REJECTED', 'WITHDRAWN');
-- Narrow, since looking for near copies reads all of an organization's.
CREATE INDEX submissions_published ON submissions (organization, checksum)
    INCLUDE (id, dhash, phash) WHERE state = 'PUBLISHED';

-- What an organization does not publish, beside what the settings say for everybody.
CREATE TABLE submission_policies (
    organization   text PRIMARY KEY REFERENCES organizations (id),
    safety_block   double precision,
    safety_review  double precision,
    blocked_labels text[] NOT NULL DEFAULT '{}'
);

CREATE TABLE blocklist (
    id           text PRIMARY KEY,
    organization text NOT NULL REFERENCES organizations (id),
    note         text NOT NULL,
    checksum     text,                           -- exactly these bytes
    dhash        bigint,                         -- whatever looks like this
    phash        bigint,
    created_by   text NOT NULL,
    created_at   bigint NOT NULL,
    CHECK (checksum IS NOT NULL OR dhash IS NOT NULL),
    CHECK ((dhash IS NULL) = (phash IS NULL))
);
CREATE INDEX blocklist_newest ON blocklist (organization, created_at DESC, id DESC);
