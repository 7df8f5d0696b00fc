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
