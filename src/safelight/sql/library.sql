-- Everything a decision about one name looks at, read after its lock was taken: each statement in
-- here sees what was committed before it, which a single SELECT with the lock in it would not.
CREATE OR REPLACE FUNCTION library_look(
    p_organization text, p_name text,
    OUT upload uploads, OUT tombstone tombstones, OUT object objects, OUT run_status text
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM object_lock(p_organization || '/' || p_name);
    SELECT * INTO upload FROM uploads WHERE organization = p_organization AND name = p_name;
    SELECT * INTO tombstone FROM tombstones WHERE organization = p_organization AND name = p_name;
    SELECT * INTO object FROM object_indexed(p_organization || '/' || p_name) AS indexed
    WHERE indexed.present;
    run_status := classification_status(p_organization, p_name, upload.idempotency_key, upload.run);
END
$$;

-- The row of a name takes a marker, forgets what was known of the one before, and its run starts.
-- `p_upload` has the columns of uploads that are known; `stopped` is the number of the run that
-- `p_replaces` had under way.
CREATE OR REPLACE FUNCTION library_mark(
    p_upload jsonb, p_words text[], p_replaces text, p_now bigint,
    OUT started integer, OUT stopped integer
)
LANGUAGE plpgsql AS $$
DECLARE
    upload uploads%ROWTYPE;
BEGIN
    upload := jsonb_populate_record(NULL::uploads, p_upload);
    IF p_replaces <> upload.idempotency_key THEN
        stopped := classification_stop(upload.organization, upload.name, p_replaces, p_now);
    END IF;
    started := classification_start(
        upload.organization, upload.name, upload.idempotency_key, p_now);
    upload.run := started;
    upload.classification_status := 'pending';
    upload.drawn := 0;
    IF upload.source = 'safelight' THEN
        upload.checksum := image_checksum(upload.image_id);  -- others' objects say what they like
    END IF;
    upload.search := array_to_tsvector(p_words);
    -- A new row rather than an update: it is another upload, and no column of the old one stays.
    DELETE FROM uploads WHERE organization = upload.organization AND name = upload.name;
    IF FOUND THEN
        PERFORM library_forget(upload.organization, upload.name, p_now);
    END IF;
    INSERT INTO uploads SELECT upload.*;
END
$$;

-- What the index has of a name, and whether the library agrees with it, nothing of the name is under way,
-- and an event of now is the newest: then an upload of ours simply takes it, new or over another
-- (`settled`). Under the name's lock.
CREATE OR REPLACE FUNCTION library_before(
    p_organization text, p_name text, p_now bigint,
    OUT settled boolean, OUT present boolean, OUT object objects
)
LANGUAGE plpgsql AS $$
DECLARE
    seen record;
BEGIN
    SELECT indexed AS object, entry.idempotency_key AS marker, entry.classification_status AS status
    INTO seen FROM (SELECT) AS whatever
    LEFT JOIN object_indexed(p_organization || '/' || p_name) AS indexed ON true
    LEFT JOIN uploads AS entry ON entry.organization = p_organization AND entry.name = p_name;
    object := seen.object;
    present := object.present IS TRUE;
    IF object.key IS NULL THEN
        settled := seen.marker IS NULL;
    ELSIF object.event_time >= p_now THEN
        settled := false;
    ELSIF present THEN
        settled := (seen.marker = object.metadata ->> 'idempotencyKey'
                    AND NOT classification_under_way(seen.status)) IS TRUE;
    ELSE  -- deleted: its event must have been heard, too
        PERFORM FROM tombstones WHERE organization = p_organization AND name = p_name
                                  AND source = 'safelight' AND event_time = object.event_time;
        settled := FOUND AND seen.marker IS NULL;
    END IF;
END
$$;

-- Whether the short road is open to an upload whose bytes are safe: where its name is as expected, new or
-- held by an upload with which all is done (library_before). Then the name is its own, from here on: the
-- image is stored, its job has ended, and what was there before is gone. Elsewhere nothing has changed, and
-- the decision is made by somebody who looks. Raises SL002 when the job is somebody else's by now.
CREATE OR REPLACE FUNCTION upload_enters(
    p_organization text, p_item jsonb, p_from text[], p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    image constant text := p_item ->> 'image';
    known record;
BEGIN
    IF NOT object_try_lock(p_organization || '/' || (p_item ->> 'name')) THEN
        RETURN false;
    END IF;
    known := library_before(p_organization, p_item ->> 'name', p_now);
    IF NOT known.settled THEN
        RETURN false;
    END IF;
    IF known.present THEN
        PERFORM FROM image_beaten(image, (known.object).key, (p_item ->> 'createdAt')::bigint);
        IF FOUND THEN
            RETURN false;
        END IF;
    END IF;
    IF NOT image_arrived(image, p_from, p_item ->> 'node', p_now) THEN
        RETURN false;
    ELSIF NOT job_finish((p_item ->> 'job')::bigint, (p_item ->> 'claim')::integer) THEN
        RAISE 'job % is no longer the caller''s', p_item ->> 'job' USING ERRCODE = 'SL002';
    END IF;
    IF known.present THEN
        PERFORM object_replaced(known.object, p_item -> 'landed' ->> 'sha256', p_now);
        DELETE FROM uploads WHERE organization = p_organization AND name = p_item ->> 'name';
        PERFORM library_forget(p_organization, p_item ->> 'name', p_now);
    END IF;
    RETURN true;
END
$$;

-- The short road of uploads of one organization, all in one statement: each to which it is open
-- (upload_enters) becomes the object of its name, its event is heard, its entry is written and its run begins
-- ('stored'). The others are answered 'look'. An item holds image and job, where the bytes `landed`, the
-- object's `metadata`, the columns of the `upload`, its `words`, and the `lines` that are told if it took the
-- road. The answers are in the order of the items. Of two with one name the second has to look.
CREATE OR REPLACE FUNCTION uploads_arrived(
    p_organization text, p_items jsonb, p_from text[], p_now bigint, p_owner text, p_lease interval
) RETURNS TABLE (outcome text, job_id bigint)
LANGUAGE plpgsql AS $$
DECLARE
    item   jsonb;
    taken  jsonb := p_items;
    names  text[] := '{}';    -- of those
    events bigint[];
    places integer[] := '{}'; -- of every item among them; NULL: it has to look
    jobs   bigint[];
    place  integer;
BEGIN
    FOR item IN SELECT each FROM jsonb_array_elements(p_items) AS each LOOP
        place := NULL;
        CASE WHEN item ->> 'name' = ANY (names) THEN
            taken := taken - cardinality(names);  -- by its place: those before it are taken
        WHEN upload_enters(p_organization, item, p_from, p_now) THEN
            names := names || (item ->> 'name');
            place := cardinality(names);
        ELSE
            taken := taken - cardinality(names);
        END CASE;
        places := places || place;
    END LOOP;
    IF names <> '{}' THEN
        events := objects_arrived(p_organization, taken, p_now);
        PERFORM library_enter(p_organization, taken, events, p_now);
        jobs := classifications_begin(p_organization, taken, p_now, p_owner, p_lease);
    END IF;
    FOREACH place IN ARRAY places LOOP
        outcome := CASE WHEN place IS NULL THEN 'look' ELSE 'stored' END;
        job_id := jobs[place];
        RETURN NEXT;
    END LOOP;
    IF names <> '{}' THEN
        PERFORM activity_append(p_organization, p_now,
                                jsonb_path_query_array(taken, '$[*].lines[*]'));
    END IF;
END
$$;

-- The entries of uploads of ours that are the objects of their names now.
CREATE OR REPLACE FUNCTION library_enter(
    p_organization text, p_items jsonb, p_events bigint[], p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO uploads
    SELECT entry.* FROM ROWS FROM (jsonb_array_elements(p_items), unnest(p_events)) AS each (item, event)
    CROSS JOIN LATERAL jsonb_populate_record(NULL::uploads, item -> 'upload' || jsonb_build_object(
        'organization', p_organization, 'event_time', p_now, 'sequencer', event_sequencer(event),
        'source', 'safelight', 'run', 1, 'classification_status', 'pending', 'drawn', 0,
        'search', array_to_tsvector(ARRAY(SELECT jsonb_array_elements_text(item -> 'words')))::text
    )) AS entry;
END
$$;

-- The one row of a name goes, what it knew goes with it, and its tombstone stays. Answers the number
-- of a run that was under way.
CREATE OR REPLACE FUNCTION library_remove(
    p_organization text, p_name text, p_event_time bigint, p_sequencer text, p_source text,
    p_now bigint
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    marker  text;
    stopped integer;
BEGIN
    SELECT idempotency_key INTO marker FROM uploads
    WHERE organization = p_organization AND name = p_name;
    IF FOUND THEN
        -- The job before the row, as a run does it: the two cannot wait for each other. A run that
        -- cannot be stopped finds no row to write to, and keeps nobody's image.
        BEGIN
            stopped := classification_stop(p_organization, p_name, marker, p_now);
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'the run of %/% could not be stopped: %', p_organization, p_name, SQLERRM;
        END;
        DELETE FROM uploads WHERE organization = p_organization AND name = p_name;
        PERFORM library_forget(p_organization, p_name, p_now);
    END IF;
    INSERT INTO tombstones (organization, name, event_time, sequencer, source, buried_at)
    VALUES (p_organization, p_name, p_event_time, p_sequencer, p_source, p_now)
    ON CONFLICT (organization, name) DO UPDATE
        SET event_time = excluded.event_time, sequencer = excluded.sequencer,
            source = excluded.source, buried_at = excluded.buried_at;
    RETURN stopped;
END
$$;

-- What was made of an image goes with its entry: the small things now, a large thumbnail by a job, since
-- it is an object.
CREATE OR REPLACE FUNCTION library_forget(p_organization text, p_name text, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM thumbnails WHERE organization = p_organization AND name = p_name;
    PERFORM classification_forget(p_organization, p_name);
    UPDATE large_thumbnails SET ends_at = p_now
    WHERE organization = p_organization AND name = p_name AND ends_at IS NULL;
    IF FOUND THEN
        PERFORM job_enqueue('library.collect_thumbnails', '', '{}', 'library.collect_thumbnails');
    END IF;
END
$$;

-- Whether an entry is known to be of other bytes than those that were looked at.
CREATE OR REPLACE FUNCTION library_differs(
    p_organization text, p_name text, p_marker text, p_digest text
) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM uploads
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND checksum <> p_digest;
    RETURN FOUND;
END
$$;

-- What a run found of an entry that still has the marker and run it was found for. `p_found` has the
-- label and what was drawn with it. False: the entry has moved on, and nothing was written.
CREATE OR REPLACE FUNCTION library_result(
    p_organization text, p_name text, p_marker text, p_run integer, p_found jsonb,
    p_thumbnail bytea, p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads
    SET classification_status = 'done', classification_label = p_found ->> 'label',
        classification_score = (p_found ->> 'score')::double precision,
        classification_model = p_found ->> 'model', classified_at = (p_found ->> 'at')::bigint,
        search = array_to_tsvector(ARRAY(SELECT jsonb_array_elements_text(p_found -> 'words'))),
        checksum = coalesce(checksum, p_found ->> 'digest'),
        dominant_color = coalesce(p_found ->> 'color', dominant_color),
        drawn = drawn | (p_found ->> 'drawn')::smallint
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_thumbnail IS NOT NULL THEN
        PERFORM library_thumbnail(p_organization, p_name, p_marker, p_thumbnail, p_now);
    END IF;
    RETURN true;
END
$$;

-- What was drawn of an entry afterwards, where it still has its marker and label.
CREATE OR REPLACE FUNCTION library_drawn(
    p_organization text, p_name text, p_marker text, p_drawn smallint, p_digest text, p_color text,
    p_thumbnail bytea, p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads SET drawn = drawn | p_drawn, checksum = coalesce(checksum, p_digest),
                       dominant_color = coalesce(p_color, dominant_color)
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND classification_status = 'done';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM library_thumbnail(p_organization, p_name, p_marker, p_thumbnail, p_now);
    RETURN true;
END
$$;

-- Keeps the small thumbnail of an entry, whose row is locked. None was drawn: what there is stays.
CREATE OR REPLACE FUNCTION library_thumbnail(
    p_organization text, p_name text, p_marker text, p_thumbnail bytea, p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_thumbnail IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO thumbnails AS known (organization, name, idempotency_key, made_at, data)
    VALUES (p_organization, p_name, p_marker, p_now, p_thumbnail)
    ON CONFLICT (organization, name) DO UPDATE
        SET idempotency_key = excluded.idempotency_key, data = excluded.data,
            made_at = greatest(excluded.made_at, known.made_at + 1);
END
$$;

-- A large thumbnail that is in the store becomes its entry's, if the entry still has the marker and there is
-- no other. The entry's row is locked first: whoever ends the entry does so before this or after it, and
-- then sees what to collect. False: the object is for nothing.
CREATE OR REPLACE FUNCTION thumbnail_keep(
    p_key text, p_organization text, p_name text, p_marker text
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM uploads
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE large_thumbnails SET ends_at = NULL
    WHERE key = p_key AND NOT EXISTS (
        SELECT FROM large_thumbnails
        WHERE organization = p_organization AND name = p_name AND ends_at IS NULL);
    RETURN FOUND;
END
$$;

-- Labelled entries that lack something: whose `drawn` is one of these. A few, the ones that lack most
-- first.
CREATE OR REPLACE FUNCTION library_undrawn(p_drawn smallint[], p_limit integer)
RETURNS TABLE (organization text, name text, marker text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT entry.organization, entry.name, entry.idempotency_key
    FROM unnest(p_drawn) AS lacking CROSS JOIN LATERAL (
        SELECT organization, name, idempotency_key FROM uploads
        WHERE classification_status = 'done' AND drawn < 7 AND drawn = lacking
        ORDER BY organization, name LIMIT p_limit
    ) AS entry LIMIT p_limit;
END
$$;

-- The label of an entry, as servers before library_result write it: where it still has the marker and
-- run the label was found for. False: it has moved on, and nothing was written.
CREATE OR REPLACE FUNCTION library_label(
    p_organization text, p_name text, p_marker text, p_run integer, p_label text,
    p_score double precision, p_model text, p_words text[], p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads
    SET classification_status = 'done', classification_label = p_label,
        classification_score = p_score, classification_model = p_model, classified_at = p_now,
        search = array_to_tsvector(p_words)
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    RETURN FOUND;
END
$$;

-- What has become of an entry's run, under the same guard as its label. One that has its label keeps it,
-- whatever becomes of a further run.
CREATE OR REPLACE FUNCTION library_note(
    p_organization text, p_name text, p_marker text, p_run integer, p_status text
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads SET classification_status = CASE classification_status WHEN 'done' THEN 'done'
                                               ELSE p_status END
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    RETURN FOUND;
END
$$;

-- What an entry was drawn as, and which run labelled it, if it still has the marker.
CREATE OR REPLACE FUNCTION library_drawn_as(
    p_organization text, p_name text, p_marker text, OUT drawn smallint, OUT run integer
)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    SELECT entry.drawn, entry.run INTO drawn, run FROM uploads AS entry
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker;
END
$$;

-- Other entries that may look like one: those whose label is its own, or one of these, and that came soonest
-- before it, or after it. `same`: their bytes are.
CREATE OR REPLACE FUNCTION library_alike(
    p_organization text, p_name text, p_labels text[], p_before integer, p_after integer,
    OUT name text, OUT marker text, OUT same boolean
) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    entry uploads%ROWTYPE;
    one   text;
BEGIN
    SELECT * INTO entry FROM uploads AS known
    WHERE known.organization = p_organization AND known.name = p_name;
    p_labels := array_remove(p_labels, entry.classification_label) || entry.classification_label;
    FOREACH one IN ARRAY p_labels LOOP
        RETURN QUERY
        SELECT other.name, other.idempotency_key, other.checksum = entry.checksum FROM uploads AS other
        WHERE organization = p_organization AND classification_label = one
          AND (event_time, other.name) < (entry.event_time, entry.name)
        ORDER BY classification_label DESC, event_time DESC, other.name DESC LIMIT p_before;
        RETURN QUERY
        SELECT other.name, other.idempotency_key, other.checksum = entry.checksum FROM uploads AS other
        WHERE organization = p_organization AND classification_label = one
          AND (event_time, other.name) > (entry.event_time, entry.name)
        ORDER BY classification_label DESC, event_time, other.name LIMIT p_after;
    END LOOP;
END
$$;

-- Whether an entry's label is to be found anew: if it is not `p_not_by` that gave it, whatever its weights.
CREATE OR REPLACE FUNCTION library_anew(p_status text, p_model text, p_not_by text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_status IN ('done', 'failed') AND (
        p_not_by IS NULL OR p_model IS NULL
        OR (p_model <> p_not_by AND split_part(p_model, '@', 1) <> p_not_by))
$$;

-- How many entries a reclassification is about: those with a label, or without hope of one. What waits for
-- its label gets it anyway.
CREATE OR REPLACE FUNCTION library_labelled(p_organization text, p_label text, p_not_by text)
RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM uploads
    WHERE organization = p_organization AND (p_label IS NULL OR classification_label = p_label)
      AND library_anew(classification_status, classification_model, p_not_by)
$$;

-- The entries before a place, newest first, of a label or all.
CREATE OR REPLACE FUNCTION library_before_place(
    p_organization text, p_label text, p_time bigint, p_name text, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_label IS NULL THEN
        RETURN QUERY SELECT * FROM uploads
        WHERE organization = p_organization AND (event_time, name) < (p_time, p_name)
        ORDER BY event_time DESC, name DESC LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM uploads
    WHERE organization = p_organization AND classification_label = p_label
      AND (event_time, name) < (p_time, p_name)
    ORDER BY classification_label, event_time DESC, name DESC LIMIT p_limit;
END
$$;

-- Begins a further run of entries before a place: of a few, and of few looked at. Answers all of these, in
-- their order; `run` is there where one began, and `wanted` where it should. A label stays until the next one
-- is there. What somebody else writes at this very moment, or is being classified, is left alone.
CREATE OR REPLACE FUNCTION library_again(
    p_organization text, p_label text, p_not_by text, p_time bigint, p_name text, p_most integer,
    p_now bigint,
    OUT event_time bigint, OUT name text, OUT marker text, OUT wanted boolean, OUT run integer
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
DECLARE
    entry uploads%ROWTYPE;
    begun integer := 0;
BEGIN
    FOR entry IN
        SELECT * FROM library_before_place(p_organization, p_label, p_time, p_name, 10 * p_most)
    LOOP
        EXIT WHEN begun = p_most;
        event_time := entry.event_time;
        name := entry.name;
        marker := entry.idempotency_key;
        wanted := library_anew(entry.classification_status, entry.classification_model, p_not_by);
        run := NULL;
        IF wanted AND object_try_lock(p_organization || '/' || entry.name)
           AND classification_idle(p_organization, entry.name, entry.idempotency_key) THEN
            UPDATE uploads AS known
            SET run = classification_again(
                    p_organization, entry.name, entry.idempotency_key, known.run, p_now),
                classification_status = CASE classification_status WHEN 'failed' THEN 'pending'
                                        ELSE classification_status END
            WHERE known.organization = p_organization AND known.name = entry.name
              AND known.idempotency_key = entry.idempotency_key
            RETURNING known.run INTO library_again.run;
            begun := begun + 1;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Deletes a name: its object now, and what is on its way to it when it gets there. A bucket's delete
-- has a ticket, which ends with it. Where there is nothing to end, no event is told: it could overtake
-- the one that did end something, and clients would never hear of that.
CREATE OR REPLACE FUNCTION upload_cleared(
    p_organization text, p_name text, p_tell boolean, p_ticket bigint, p_lines jsonb, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    object_key constant text := p_organization || '/' || p_name;
    taken      boolean;
    entered    boolean;
BEGIN
    PERFORM object_lock(object_key);
    taken := EXISTS (SELECT FROM names_taken(p_organization, ARRAY[p_name]));
    entered := EXISTS (SELECT FROM uploads WHERE organization = p_organization AND name = p_name);
    PERFORM image_forbid(p_organization, p_name, p_now);
    SELECT gone.event_id, gone.event_time, gone.job_id INTO event_id, event_time, job_id
    FROM object_end(object_key, p_organization, p_name, p_tell AND (taken OR entered), taken, p_now)
         AS gone;
    PERFORM ticket_end(p_ticket, 'deleted', object_key, true);
    PERFORM activity_append(p_organization, p_now, p_lines);
END
$$;

-- Ends an object that its organization keeps no longer (library/retention): the one that was seen, if it is
-- still that old. What is on its way to the name is another, and comes. False: nothing was done.
CREATE OR REPLACE FUNCTION upload_expired(
    p_organization text, p_name text, p_etag text, p_before bigint, p_ticket bigint, p_lines jsonb,
    p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    object_key constant text := p_organization || '/' || p_name;
BEGIN
    PERFORM object_lock(object_key);
    IF NOT object_aged(object_key, p_etag, p_before) THEN
        RETURN false;
    END IF;
    PERFORM object_end_2(object_key, p_organization, p_name, true, false, 'LifecycleDeletion', p_now);
    PERFORM ticket_end(p_ticket, 'deleted', object_key, true);
    PERFORM activity_append(p_organization, p_now, p_lines);
    RETURN true;
END
$$;

-- The same as upload_cleared, as older servers ask for it, which end the ticket themselves.
CREATE OR REPLACE FUNCTION upload_delete(
    p_organization text, p_name text, p_tell boolean, p_lines jsonb, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM object_lock(p_organization || '/' || p_name);
    PERFORM image_forbid(p_organization, p_name, p_now);
    SELECT gone.event_id, gone.event_time, gone.job_id INTO event_id, event_time, job_id
    FROM object_delete(p_organization || '/' || p_name, p_organization, p_name, p_tell, p_now)
         AS gone;
    PERFORM activity_append(p_organization, p_now, p_lines);
END
$$;

-- Whether the database's own order of texts is that of their bytes, which is a bucket's.
CREATE OR REPLACE FUNCTION library_in_bytes() RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT 'B'::text < 'a'::text AND '-b'::text < 'a'::text $$;

-- The entries of an organization after a name, in the order of their bytes. Where the database has another
-- order, uploads_by_bytes (migration 9) has this one.
CREATE OR REPLACE FUNCTION library_after(p_organization text, p_after text, p_limit integer)
RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF library_in_bytes() THEN
        RETURN QUERY SELECT * FROM uploads
        WHERE organization = p_organization AND name > p_after ORDER BY name LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT * FROM uploads
        WHERE organization = p_organization AND name COLLATE "C" > p_after COLLATE "C"
        ORDER BY name COLLATE "C" LIMIT p_limit;
    END IF;
END
$$;

-- Whether an entry has this marker.
CREATE OR REPLACE FUNCTION library_marked(p_organization text, p_name text, p_marker text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM uploads
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker;
    RETURN FOUND;
END
$$;

-- Whether a name has an entry, or had one and its tombstone is there.
CREATE OR REPLACE FUNCTION library_remembers(p_organization text, p_name text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM uploads WHERE organization = p_organization AND name = p_name;
    IF NOT FOUND THEN
        PERFORM FROM tombstones WHERE organization = p_organization AND name = p_name;
    END IF;
    RETURN FOUND;
END
$$;

-- The words of an entry come, move and go with it: by triggers, so that whatever writes an entry writes
-- them too, servers of the version before included.
CREATE OR REPLACE FUNCTION upload_words_added() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO upload_words (organization, word, event_time, name)
    SELECT organization, left(word, 100), event_time, name
    FROM fresh CROSS JOIN LATERAL unnest(tsvector_to_array(search)) AS word;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION upload_words_follow() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    known text[] := tsvector_to_array(OLD.search);
BEGIN
    IF TG_OP = 'DELETE' OR OLD.event_time <> NEW.event_time
       OR NOT known <@ tsvector_to_array(NEW.search) THEN
        PERFORM upload_words_forget(OLD.organization, known, OLD.event_time, OLD.name);
        known := '{}';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO upload_words (organization, word, event_time, name)
        SELECT NEW.organization, left(word, 100), NEW.event_time, NEW.name
        FROM unnest(tsvector_to_array(NEW.search)) AS word WHERE word <> ALL (known);
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION upload_words_forget(
    p_organization text, p_words text[], p_event_time bigint, p_name text
) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM upload_words
    WHERE organization = p_organization AND event_time = p_event_time AND name = p_name
      AND word = ANY (ARRAY(SELECT left(word, 100) FROM unnest(p_words) AS word));
END
$$;

-- From here on: entries by words, label and state, newest first. Whichever condition few entries meet is
-- walked, and of those the others are asked. Where none is known to be rare, a stretch of the newest
-- comes first: what is frequent is found there.
--
-- A plan is made once and serves libraries of any size, so it may not depend on the planner's figures:
-- each statement names the order that one index alone has, and none collects more than it answers.

-- Whether an entry is one of those that are asked for; a NULL asks for nothing. `p_busy` are not wanted.
CREATE OR REPLACE FUNCTION library_meets(
    p_words tsvector, p_has text, p_is text, p_name text, p_marker text,
    p_query tsquery, p_label text, p_statuses text[], p_busy text[]
) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_query IS NULL OR p_words @@ p_query)
       AND (p_label IS NULL OR p_has = p_label)
       AND (p_statuses IS NULL OR p_is = ANY (p_statuses))
       AND (p_busy IS NULL OR p_name || '/' || p_marker <> ALL (p_busy))
$$;

-- How many entries have a label, a state or a word with a prefix; counts no further than p_most.
CREATE OR REPLACE FUNCTION library_count(
    p_organization text, p_label text, p_statuses text[], p_prefix text, p_most integer
) RETURNS integer
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_label IS NOT NULL THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM uploads
            WHERE organization = p_organization AND classification_label = p_label
            ORDER BY organization, classification_label, event_time DESC LIMIT p_most) AS counted);
    ELSIF p_statuses IS NOT NULL THEN
        RETURN (SELECT count(*) FROM (
            SELECT FROM unnest(p_statuses) AS status CROSS JOIN LATERAL (
                SELECT FROM uploads
                WHERE organization = p_organization AND classification_status = status
                  AND classification_status <> 'done'
                ORDER BY event_time DESC, name DESC LIMIT p_most) AS each
            LIMIT p_most) AS counted);
    END IF;
    RETURN (SELECT count(*) FROM (
        SELECT FROM upload_words
        WHERE organization = p_organization
          AND word >= p_prefix AND word < p_prefix || U&'\+10FFFF'
        ORDER BY word LIMIT p_most) AS counted);
END
$$;

-- The words of an organization that begin with a prefix, at most p_most: one step through the index each.
CREATE OR REPLACE FUNCTION library_words(p_organization text, p_prefix text, p_most integer)
RETURNS text[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    beyond constant text := p_prefix || U&'\+10FFFF';
    known  text[] := '{}';
    step   text;
BEGIN
    SELECT word INTO step FROM upload_words
    WHERE organization = p_organization AND word >= p_prefix AND word < beyond
    ORDER BY word LIMIT 1;
    WHILE step IS NOT NULL AND cardinality(known) < p_most LOOP
        known := known || step;
        SELECT word INTO step FROM upload_words
        WHERE organization = p_organization AND word > step AND word < beyond
        ORDER BY word LIMIT 1;
    END LOOP;
    RETURN known;
END
$$;

-- The newest entries before a place that have one of these words. Of many words those whose newest is
-- not among the p_limit newest have nothing to add.
CREATE OR REPLACE FUNCTION library_newest_of(
    p_organization text, p_words text[], p_time bigint, p_name text, p_limit integer,
    OUT event_time bigint, OUT name text
) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    heads text[] := p_words;
BEGIN
    IF cardinality(p_words) > 1 THEN
        heads := ARRAY(
            SELECT one FROM unnest(p_words) AS one CROSS JOIN LATERAL (
                SELECT w.event_time, w.name FROM upload_words AS w
                WHERE w.organization = p_organization AND w.word = one
                  AND (w.event_time, w.name) < (p_time, p_name)
                ORDER BY w.event_time DESC, w.name DESC LIMIT 1) AS head
            ORDER BY head.event_time DESC, head.name DESC LIMIT p_limit);
    END IF;
    RETURN QUERY
    SELECT DISTINCT each.event_time, each.name FROM unnest(heads) AS one CROSS JOIN LATERAL (
        SELECT w.event_time, w.name FROM upload_words AS w
        WHERE w.organization = p_organization AND w.word = one
          AND (w.event_time, w.name) < (p_time, p_name)
        ORDER BY w.event_time DESC, w.name DESC LIMIT p_limit) AS each
    ORDER BY each.event_time DESC, each.name DESC LIMIT p_limit;
END
$$;

-- Of the newest p_most entries before a place, those that are asked for.
CREATE OR REPLACE FUNCTION library_near(
    p_organization text, p_query tsquery, p_label text, p_statuses text[], p_busy text[],
    p_time bigint, p_name text, p_most integer, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT * FROM (
        SELECT * FROM uploads
        WHERE organization = p_organization AND (event_time, name) < (p_time, p_name)
        ORDER BY event_time DESC, name DESC LIMIT p_most
    ) AS near WHERE library_meets(near.search, near.classification_label, near.classification_status,
                                  near.name, near.idempotency_key,
                                  p_query, p_label, p_statuses, p_busy) LIMIT p_limit;
END
$$;

-- The place of the last of them. NULLs: there are fewer.
CREATE OR REPLACE FUNCTION library_place(
    p_organization text, p_most integer, INOUT p_time bigint, INOUT p_name text
)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    SELECT event_time, name INTO p_time, p_name FROM uploads
    WHERE organization = p_organization AND (event_time, name) < (p_time, p_name)
    ORDER BY event_time DESC, name DESC OFFSET p_most - 1 LIMIT 1;
END
$$;

-- Entries of the label, or else of the states, that are asked for.
CREATE OR REPLACE FUNCTION library_along(
    p_by_label boolean,
    p_organization text, p_query tsquery, p_label text, p_statuses text[], p_busy text[],
    p_time bigint, p_name text, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF p_by_label THEN
        RETURN QUERY SELECT * FROM uploads AS entry
        WHERE organization = p_organization AND classification_label = p_label
          AND (event_time, name) < (p_time, p_name)
          AND library_meets(entry.search, entry.classification_label, entry.classification_status,
                            entry.name, entry.idempotency_key, p_query, NULL, p_statuses, p_busy)
        ORDER BY classification_label, event_time DESC, name DESC LIMIT p_limit;
        RETURN;
    END IF;
    RETURN QUERY SELECT each.* FROM unnest(p_statuses) AS status CROSS JOIN LATERAL (
        SELECT * FROM uploads AS entry
        WHERE organization = p_organization AND classification_status = status
          AND classification_status <> 'done' AND (event_time, name) < (p_time, p_name)
          AND library_meets(entry.search, entry.classification_label, entry.classification_status,
                            entry.name, entry.idempotency_key, p_query, p_label, NULL, p_busy)
        ORDER BY event_time DESC, name DESC LIMIT p_limit
    ) AS each ORDER BY event_time DESC, name DESC LIMIT p_limit;
END
$$;

-- Entries with a word that begins with a prefix: all of these are read and sorted, so it is for prefixes
-- that few entries have, or that very many words begin with. A LATERAL keeps the order it is given, so
-- that no more entries are looked at than it takes; here and below.
CREATE OR REPLACE FUNCTION library_prefixed(
    p_prefix text,
    p_organization text, p_query tsquery, p_label text, p_statuses text[], p_busy text[],
    p_time bigint, p_name text, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT entry.* FROM (
        SELECT DISTINCT event_time, name FROM upload_words
        WHERE organization = p_organization
          AND word >= p_prefix AND word < p_prefix || U&'\+10FFFF'
          AND (event_time, name) < (p_time, p_name)
        ORDER BY event_time DESC, name DESC
    ) AS worded CROSS JOIN LATERAL (
        SELECT * FROM uploads WHERE organization = p_organization AND name = worded.name OFFSET 0
    ) AS entry
    WHERE library_meets(entry.search, entry.classification_label, entry.classification_status,
                        entry.name, entry.idempotency_key,
                        p_query, p_label, p_statuses, p_busy) LIMIT p_limit;
END
$$;

-- Entries with one of `p_words`, newest first, a batch at a time. If there are `p_others`, an entry has to
-- have one of those as well: both are read over the same stretch of time, and an entry is looked at
-- only if it is in both. That is left out where the others are too many to be of help.
CREATE OR REPLACE FUNCTION library_worded(
    p_words text[], p_others text[],
    p_organization text, p_query tsquery, p_label text, p_statuses text[], p_busy text[],
    p_time bigint, p_name text, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    batch   integer := p_limit;
    missing integer := p_limit;
    taken   integer;
    names   text[];
    others  text[];
    oldest  bigint;  -- of the batch
    last    text;
BEGIN
    LOOP
        SELECT array_agg(name), (array_agg(event_time))[batch], (array_agg(name))[batch]
        INTO names, oldest, last
        FROM library_newest_of(p_organization, p_words, p_time, p_name, batch);
        IF p_others IS NOT NULL THEN
            others := ARRAY(
                SELECT each.name FROM unnest(p_others) AS other CROSS JOIN LATERAL (
                    SELECT name FROM upload_words
                    WHERE organization = p_organization AND word = other
                      AND (event_time, name) < (p_time, p_name)
                      AND event_time >= coalesce(oldest, 0)
                    ORDER BY event_time DESC, name DESC LIMIT 8 * batch
                ) AS each LIMIT 8 * batch);
            IF cardinality(others) < 8 * batch THEN
                names := ARRAY(SELECT name FROM unnest(names) WITH ORDINALITY AS each (name, place)
                               WHERE name IN (SELECT unnest(others)) ORDER BY place);
            END IF;
        END IF;
        RETURN QUERY SELECT entry.* FROM unnest(names) AS worded CROSS JOIN LATERAL (
            SELECT * FROM uploads WHERE organization = p_organization AND name = worded OFFSET 0
        ) AS entry
        WHERE library_meets(entry.search, entry.classification_label, entry.classification_status,
                            entry.name, entry.idempotency_key,
                            p_query, p_label, p_statuses, p_busy) LIMIT missing;
        GET DIAGNOSTICS taken = ROW_COUNT;
        missing := missing - taken;
        EXIT WHEN missing = 0 OR oldest IS NULL;
        p_time := oldest;
        p_name := last;
        batch := least(2 * batch, 4000);
    END LOOP;
END
$$;

-- A page of entries before a place. `p_prefixes` are words of `p_query`, the one that is likely to be the
-- rarest first; `p_busy` is left out, as `name/marker`.
CREATE OR REPLACE FUNCTION library_found(
    p_organization text, p_prefixes text[], p_query tsquery, p_label text, p_statuses text[],
    p_busy text[], p_time bigint, p_name text, p_limit integer
) RETURNS SETOF uploads
LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_state constant boolean := coalesce(p_statuses <> '{done}', false);
    worded   constant integer := cardinality(p_prefixes);
    alone    constant boolean := worded + of_state::integer + (p_label IS NOT NULL)::integer = 1;
    few      integer;
    counts   integer[];  -- of each prefix, of the label, of the states
    fewest   integer;
    missing  integer := p_limit;
    taken    integer;
    words    text[];
    others   text[];
BEGIN
    FOREACH few IN ARRAY CASE WHEN alone THEN '{200}' ELSE '{200,2000}'::integer[] END LOOP
        counts := ARRAY(SELECT library_count(p_organization, NULL, NULL, prefix, few)
                        FROM unnest(p_prefixes) AS prefix)
            || CASE WHEN p_label IS NULL THEN few
                    ELSE library_count(p_organization, p_label, NULL, NULL, few) END
            || CASE WHEN of_state THEN library_count(p_organization, NULL, p_statuses, NULL, few)
                    ELSE few END;
        fewest := (SELECT min(one) FROM unnest(counts) AS one);
        EXIT WHEN fewest < few;
    END LOOP;

    -- Few entries meet one of the conditions: those are looked at.
    IF fewest < few AND fewest = ANY (counts[:worded]) THEN
        RETURN QUERY SELECT * FROM library_prefixed(
            p_prefixes[array_position(counts, fewest)], p_organization, p_query, p_label, p_statuses,
            p_busy, p_time, p_name, p_limit);
        RETURN;
    ELSIF fewest < few OR worded = 0 THEN
        RETURN QUERY SELECT * FROM library_along(
            NOT of_state OR counts[worded + 2] > fewest,
            p_organization, p_query, p_label, p_statuses, p_busy, p_time, p_name, p_limit);
        RETURN;
    END IF;

    -- All of them are frequent. Then a page may well be among the newest.
    words := library_words(p_organization, p_prefixes[1], 257);
    IF cardinality(words) = 257 THEN
        few := 2000;
    END IF;
    RETURN QUERY SELECT * FROM library_near(p_organization, p_query, p_label, p_statuses, p_busy,
                                            p_time, p_name, few, p_limit);
    GET DIAGNOSTICS taken = ROW_COUNT;
    missing := missing - taken;
    IF missing > 0 THEN
        SELECT * INTO p_time, p_name FROM library_place(p_organization, few, p_time, p_name);
    END IF;
    IF missing = 0 OR p_time IS NULL THEN
        RETURN;
    END IF;

    -- It is not: one of them is followed further back.
    IF of_state OR p_label IS NOT NULL THEN
        RETURN QUERY SELECT * FROM library_along(
            p_label IS NOT NULL, p_organization, p_query, p_label, p_statuses, p_busy, p_time, p_name,
            missing);
    ELSIF cardinality(words) = 257 THEN
        RETURN QUERY SELECT * FROM library_prefixed(
            p_prefixes[1], p_organization, p_query, p_label, p_statuses, p_busy, p_time, p_name,
            missing);
    ELSIF worded > 1 AND (
        -- Words that many entries have, and few both: walking all of them is what it takes.
        SELECT bool_and((
            SELECT count(*) FROM library_near(
                p_organization, format('%L:*', prefix)::tsquery, NULL, NULL, NULL, p_time, p_name,
                200, 20)) = 20)
        FROM unnest(p_prefixes[:2]) AS prefix
    ) THEN
        RETURN QUERY SELECT * FROM library_near(p_organization, p_query, p_label, p_statuses, p_busy,
                                                p_time, p_name, 2147483647, missing);
    ELSE
        others := CASE WHEN worded > 1 THEN library_words(p_organization, p_prefixes[2], 65) END;
        RETURN QUERY SELECT * FROM library_worded(
            words, CASE WHEN cardinality(others) < 65 THEN others END,
            p_organization, p_query, p_label, p_statuses, p_busy, p_time, p_name, missing);
    END IF;
END
$$;
