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
