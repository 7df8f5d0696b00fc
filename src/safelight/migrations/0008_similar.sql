-- What came with looking for what is alike, and with classifying a library anew. Additive: a server of the
-- version before runs beside it.

-- ==== classification ====

-- Labelling many entries once more, and how far that has come: newest first, and what lies before the place
-- is done with. One at a time for an organization.
CREATE TABLE reclassifications (
    id           text PRIMARY KEY,
    organization text NOT NULL,
    asked_by     jsonb NOT NULL,
    label        text,               -- of those entries; none: of all
    not_by       text,               -- of those that another model labelled
    status       text NOT NULL CHECK (status IN ('running', 'done', 'cancelled')),
    place_time   bigint NOT NULL,
    place_name   text NOT NULL,
    total        bigint NOT NULL,
    done         bigint NOT NULL DEFAULT 0,
    failed       bigint NOT NULL DEFAULT 0,
    skipped      bigint NOT NULL DEFAULT 0,
    created_at   bigint NOT NULL,
    finished_at  bigint
);
CREATE UNIQUE INDEX reclassifications_running ON reclassifications (organization)
    WHERE status = 'running';

-- The few runs of it that have begun and not ended yet.
CREATE TABLE reclassifying (
    reclassification text NOT NULL REFERENCES reclassifications (id) ON DELETE CASCADE,
    name             text NOT NULL,
    idempotency_key  text NOT NULL,
    run              integer NOT NULL,
    PRIMARY KEY (reclassification, name)
);

-- Entries that look like another one, in groups: which upload of the name, and how like its nearest it is. A
-- group is numbered by the line of history with which it was found.
CREATE TABLE twins (
    organization    text NOT NULL,
    name            text NOT NULL,
    idempotency_key text NOT NULL,
    twins           bigint NOT NULL,
    similarity      real NOT NULL,
    PRIMARY KEY (organization, name)
);
CREATE INDEX twins_group ON twins (organization, twins, name);

-- Up to which line of its history an organization's entries have been compared.
CREATE TABLE twins_known (
    organization text PRIMARY KEY,
    seq          bigint NOT NULL
);
