-- What came with power cuts, frozen peers, full disks and clocks that lie. Additive: a server of the
-- version before runs beside it.

-- ==== identity ====

-- Which database this is. The ingest directory, the blobs and the bucket carry the same id, and a place
-- that carries another one is refused.
CREATE TABLE identity (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    id       text NOT NULL,
    blobs    text,                 -- the directory that is the built-in store's, once it is known
    blobs_at text                  -- where that was when it became known, for people to read
);
INSERT INTO identity (id) VALUES ('db_' || replace(gen_random_uuid()::text, '-', ''));

-- Where the bucket was that carries the id, once one does; for people to read.
ALTER TABLE identity ADD COLUMN bucket text;
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

-- The node whose directory the file of a stored image is in, while it is: what a bucket lost by a late
-- write of ours is put back from there. None in the built-in store.
ALTER TABLE images ADD COLUMN node text;

-- ==== objects ====

-- A ticket is open until its write is known to have ended. `seen` is the
-- time of the key's last event when the ticket was issued; `due` when no request of it can still be
-- applied, so that what the bucket holds then is what it will hold.
ALTER TABLE object_outbox
    ADD COLUMN seen bigint,
    ADD COLUMN due timestamptz NOT NULL DEFAULT clock_timestamp() + interval '10 minutes';
CREATE INDEX object_outbox_key ON object_outbox (key);
