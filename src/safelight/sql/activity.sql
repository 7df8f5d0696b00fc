-- Times as people and clients read them.
CREATE OR REPLACE FUNCTION iso_ms(p_ms bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(to_timestamp(p_ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || '.' || lpad((p_ms % 1000)::text, 3, '0') || 'Z'
$$;

-- Appends lines of history ([{subject, also?, type, data}, …]) and returns the last seq. The lock comes
-- first and is held until commit, so within an organization a smaller seq is always visible before a
-- larger one: a reader that resumes after the last seq it saw misses nothing. It must therefore be
-- the last statement of its transaction; whatever follows it makes every writer of this organization
-- wait.
CREATE OR REPLACE FUNCTION activity_append(p_organization text, p_at bigint, p_lines jsonb)
RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM feed_lock(p_organization);
    INSERT INTO activity (seq, organization, subject, also, type, at, data)
    SELECT nextval('activity_seq'), p_organization, line ->> 'subject', line ->> 'also',
           line ->> 'type', p_at, coalesce(line -> 'data', '{}')
    FROM jsonb_array_elements(p_lines) AS line;
    RETURN CASE WHEN FOUND THEN currval('activity_seq') END;
END
$$;

CREATE OR REPLACE FUNCTION activity_at_start() RETURNS void
LANGUAGE sql AS $$ SELECT stretches_ahead('activity', 'activity_seq') $$;

-- Whether lines about a subject are still part of a story: as long as it is there, or its tombstone. Asked
-- about lines that the feed does not show any more. What is not known by name here is kept.
CREATE OR REPLACE FUNCTION story_needed(p_organization text, p_subject text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE split_part(p_subject, ':', 1)
        WHEN 'upload' THEN library_remembers(p_organization, substr(p_subject, 8))
        WHEN 'image' THEN image_remembered(substr(p_subject, 7))
        ELSE p_subject IS NOT NULL
    END;
END
$$;
