-- What came with power cuts, frozen peers, full disks and clocks that lie. Additive: a server of the
-- version before runs beside it.

-- ==== queue ====

ALTER TABLE jobs
    ADD COLUMN deaths     integer NOT NULL DEFAULT 0,  -- workers lost while they had it: a budget too
    ADD COLUMN waits      integer NOT NULL DEFAULT 0,  -- how often in a row something else was away
    ADD COLUMN lease      interval,                    -- how long lease_until is renewed for
    ADD COLUMN delayed_at timestamptz;                 -- when run_at was chosen
CREATE INDEX jobs_suspect ON jobs (deaths, run_at) WHERE status = 'delayed' AND deaths >= 2;
CREATE INDEX jobs_delayed_at ON jobs (delayed_at) WHERE status = 'delayed';

-- Workers whose presence can be asked for (sql/locks.sql, 8). Those of the version before are not here,
-- and are known by their leases alone.
CREATE TABLE job_workers (
    owner       text PRIMARY KEY,
    enrolled_at timestamptz NOT NULL DEFAULT now()
);

-- ==== ingest ====

-- Which of two images is the newer: a number from the database, since clocks differ between machines
-- and are set back. Images from before have none and are older than any that has one.
CREATE SEQUENCE images_ordinal;
ALTER TABLE images ADD COLUMN ordinal bigint;
CREATE INDEX images_newest ON images (organization, name, coalesce(ordinal, 0));
DROP INDEX images_name;
