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

-- Appends entries ([{subject, also?, type, data}, …]) and returns the last seq. The lock comes first
-- and is held until commit, so within an organization a smaller seq is always visible before a
-- larger one: a reader that resumes after the last seq it saw misses nothing. It must therefore be
-- the last statement of its transaction; whatever follows it makes every writer of this
-- organization wait.
CREATE FUNCTION activity_append(p_organization text, p_at bigint, p_entries jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    last_seq bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(21766, hashtext(p_organization));
    WITH written AS (
        INSERT INTO activity (seq, organization, subject, also, type, at, data)
        SELECT nextval('activity_seq'), p_organization, entry ->> 'subject', entry ->> 'also',
               entry ->> 'type', p_at, coalesce(entry -> 'data', '{}')
        FROM jsonb_array_elements(p_entries) AS entry
        RETURNING seq
    )
    SELECT max(seq) INTO last_seq FROM written;
    RETURN last_seq;
END
$$;
