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

-- In how many of 64 bits two prints differ.
CREATE FUNCTION print_distance(p_one bigint, p_other bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT bit_count((p_one # p_other)::bit(64))::integer $$;

-- Whether the queue has a job of this kind and key that will run, runs, or waits for its time.
CREATE FUNCTION job_lives(p_kind text, p_key text) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM jobs WHERE kind = p_kind AND key = p_key AND status <> 'dead';
    RETURN FOUND;
END
$$;

-- Gives the bytes of an object a second key of ours, so that they outlast it. Answers their
-- sha256; nothing when the object is not the one that was seen (`p_etag`), or its bytes are not in
-- the built-in store. The key's lock makes a delete come before this or after it.
CREATE FUNCTION object_share(p_key text, p_etag text, p_as text, p_now bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    seen objects%ROWTYPE;
BEGIN
    PERFORM object_lock(p_key);
    SELECT * INTO seen FROM objects WHERE key = p_key AND present AND etag = p_etag;
    PERFORM FROM blobs WHERE sha256 = seen.blob AND state <> 'condemned' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO objects (key, present, blob, size, content_type, metadata, etag, event_time)
    VALUES (p_as, true, seen.blob, seen.size, seen.content_type, '{}', seen.etag, p_now);
    RETURN seen.blob;
END
$$;
