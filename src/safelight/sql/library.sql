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
    upload.search := array_to_tsvector(p_words);
    -- A new row rather than an update: it is another upload, and no column of the old one stays.
    DELETE FROM uploads WHERE organization = upload.organization AND name = upload.name;
    INSERT INTO uploads SELECT upload.*;
END
$$;

-- Whether library and index agree on a name, nothing of it is under way, and an event of now is the newest:
-- then an upload of ours simply takes it, new or over another. Under the name's lock.
CREATE OR REPLACE FUNCTION library_settled(
    p_organization text, p_name text, p_object objects, p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    upload record;
BEGIN
    SELECT idempotency_key AS marker, classification_status AS status INTO upload
    FROM uploads WHERE organization = p_organization AND name = p_name;
    IF p_object.key IS NULL THEN
        RETURN upload.marker IS NULL;
    ELSIF p_object.event_time >= p_now THEN
        RETURN false;
    ELSIF p_object.present THEN
        RETURN (upload.marker = p_object.metadata ->> 'idempotencyKey'
                AND NOT classification_under_way(upload.status)) IS TRUE;
    END IF;
    -- Deleted: its event must have been heard, too.
    PERFORM FROM tombstones WHERE organization = p_organization AND name = p_name
                              AND source = 'safelight' AND event_time = p_object.event_time;
    RETURN FOUND AND upload.marker IS NULL;
END
$$;

-- The short road of an upload whose bytes are safe: it becomes the object of its name, its event is heard,
-- its entry is written and its run begins. It is open where the name is as expected: new, or held by
-- an upload with which all is done (library_settled). Elsewhere it answers 'look', has changed nothing,
-- and the decision is made by somebody who looks. `p_item` holds image and job, where the bytes
-- `landed`, the object's `metadata`, the columns of the `upload` and its `words`.
-- Raises SL002 when the job is somebody else's by now.
CREATE OR REPLACE FUNCTION upload_arrived(
    p_organization text, p_item jsonb, p_from text[], p_now bigint, p_owner text, p_lease interval,
    OUT outcome text, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    image  constant text := p_item ->> 'image';
    marker constant text := p_item ->> 'marker';
    object_key constant text := p_organization || '/' || (p_item ->> 'name');
    before objects%ROWTYPE;
    upload uploads%ROWTYPE;
BEGIN
    outcome := 'look';
    IF NOT object_try_lock(object_key) THEN
        RETURN;
    END IF;
    SELECT * INTO before FROM object_indexed(object_key);
    IF NOT library_settled(p_organization, p_item ->> 'name', before, p_now) THEN
        RETURN;
    END IF;
    IF before.present THEN
        PERFORM FROM image_beaten(image, object_key, (p_item ->> 'createdAt')::bigint);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF NOT image_arrived(image, p_from, p_item ->> 'node', p_now) THEN
        RETURN;
    ELSIF NOT job_finish((p_item ->> 'job')::bigint, (p_item ->> 'claim')::integer) THEN
        RAISE 'job % is no longer the caller''s', p_item ->> 'job' USING ERRCODE = 'SL002';
    END IF;
    upload := jsonb_populate_record(NULL::uploads, p_item -> 'upload');
    upload.sequencer := event_sequencer(object_arrived(
        before, object_key, p_organization, upload.name, p_item -> 'landed', upload.mime_type,
        p_item -> 'metadata', p_now));
    upload.organization := p_organization;
    upload.event_time := p_now;
    upload.source := 'safelight';
    upload.run := 1;
    upload.classification_status := 'pending';
    upload.search := array_to_tsvector(ARRAY(SELECT jsonb_array_elements_text(p_item -> 'words')));
    IF before.present THEN
        DELETE FROM uploads WHERE organization = p_organization AND name = upload.name;
    END IF;
    INSERT INTO uploads SELECT upload.*;
    job_id := classification_begin(p_organization, upload.name, marker, p_now,
                                   CASE WHEN (p_item ->> 'leased')::boolean THEN p_owner END, p_lease);
    outcome := 'stored';
END
$$;

-- The same for many of one organization, in one statement; answers each in their order. `p_lines` of an
-- item are told if it took the road.
CREATE OR REPLACE FUNCTION uploads_arrived(
    p_organization text, p_items jsonb, p_from text[], p_now bigint, p_owner text, p_lease interval
) RETURNS TABLE (outcome text, job_id bigint)
LANGUAGE plpgsql AS $$
DECLARE
    item  jsonb;
    lines jsonb := '[]';
BEGIN
    FOR item IN SELECT each FROM jsonb_array_elements(p_items) AS each LOOP
        SELECT arrived.outcome, arrived.job_id INTO outcome, job_id
        FROM upload_arrived(p_organization, item, p_from, p_now, p_owner, p_lease) AS arrived;
        IF outcome = 'stored' THEN
            lines := lines || (item -> 'lines');
        END IF;
        RETURN NEXT;
    END LOOP;
    IF lines <> '[]' THEN
        PERFORM activity_append(p_organization, p_now, lines);
    END IF;
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
    END IF;
    INSERT INTO tombstones (organization, name, event_time, sequencer, source, buried_at)
    VALUES (p_organization, p_name, p_event_time, p_sequencer, p_source, p_now)
    ON CONFLICT (organization, name) DO UPDATE
        SET event_time = excluded.event_time, sequencer = excluded.sequencer,
            source = excluded.source, buried_at = excluded.buried_at;
    RETURN stopped;
END
$$;

-- The label of an entry, where it still has the marker and run the label was found for. False: it has
-- moved on, and nothing was written.
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

-- What has become of an entry's run, under the same guard as its label.
CREATE OR REPLACE FUNCTION library_note(
    p_organization text, p_name text, p_marker text, p_run integer, p_status text
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE uploads SET classification_status = p_status
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    RETURN FOUND;
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

-- The same as older servers ask for it, which end the ticket themselves.
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
