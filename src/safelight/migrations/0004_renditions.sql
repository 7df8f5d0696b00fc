-- What came with thumbnails: small ones beside their entries, large ones as objects, the colour and the
-- checksum of an entry. Additive: a server of the version before runs beside it. Embeddings have a table
-- where the server knows vectors; it is made at a start (embeddings_at_start in sql/classification.sql).

-- ==== library ====

ALTER TABLE uploads
    ADD COLUMN checksum       text,                         -- SHA-256 of the original's bytes
    ADD COLUMN dominant_color text,                         -- #rrggbb
    -- What was made of the image, in bits: 1 colour and checksum, 2 thumbnail, 4 embedding; 8 that the rest
    -- cannot be made.
    ADD COLUMN drawn          smallint NOT NULL DEFAULT 0;

-- Labelled entries that lack something. Of those that lack nothing, as nearly all do, it has none.
CREATE INDEX uploads_undrawn ON uploads (drawn, organization, name)
    WHERE classification_status = 'done' AND drawn < 7;

-- Small thumbnails, WebP of some 10 KB: written with the label, gone with the entry.
CREATE TABLE thumbnails (
    organization    text NOT NULL,
    name            text NOT NULL,
    idempotency_key text NOT NULL,
    made_at         bigint NOT NULL,
    data            bytea NOT NULL,
    PRIMARY KEY (organization, name)
);
ALTER TABLE thumbnails ALTER COLUMN data SET STORAGE EXTERNAL;  -- it is compressed already

-- Large ones are objects of the store, each with its row from before it is put until after it is deleted.
-- One with `ends_at` is not to be used: it is being made and has until then, or its entry has moved on.
CREATE TABLE large_thumbnails (
    key             text COLLATE "C" PRIMARY KEY,
    organization    text NOT NULL,
    name            text NOT NULL,
    idempotency_key text NOT NULL,
    made_at         bigint NOT NULL,
    ends_at         bigint
);
CREATE UNIQUE INDEX large_thumbnails_name ON large_thumbnails (organization, name) WHERE ends_at IS NULL;
CREATE INDEX large_thumbnails_ending ON large_thumbnails (ends_at) WHERE ends_at IS NOT NULL;
