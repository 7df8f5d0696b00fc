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
