-- Takes note of bytes that are on disk: `p_landed` holds sha256, size, epoch and written of each file.
-- Raises SL001 when one must be looked at again, and written this time: files of its shard were removed
-- since its epoch was read, or it is damaged. In the order of their names, as everybody locks several.
CREATE OR REPLACE FUNCTION blobs_take(p_landed jsonb, p_released_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wanted integer;
    locked integer;
    taken  integer;
BEGIN
    -- In a statement of its own: only what is read after the locks is sure to be the newest.
    SELECT count(DISTINCT landed ->> 'sha256'), count(shard_lock_shared(left(landed ->> 'sha256', 2)))
    INTO wanted, locked FROM jsonb_array_elements(p_landed) AS landed;
    INSERT INTO blobs AS known (sha256, size, released_at)
    SELECT landed.sha256, max(landed.size), p_released_at
    FROM jsonb_to_recordset(p_landed) AS landed (sha256 text, size bigint, epoch bigint)
    JOIN blob_epochs ON shard = left(landed.sha256, 2)
    GROUP BY landed.sha256 HAVING bool_and(landed.epoch = blob_epochs.epoch)
    ORDER BY landed.sha256 COLLATE "C"
    ON CONFLICT (sha256) DO UPDATE SET state = 'live', released_at = p_released_at
        WHERE known.state <> 'damaged' OR known.sha256 IN (
            SELECT landed ->> 'sha256' FROM jsonb_array_elements(p_landed) AS landed
            WHERE (landed ->> 'written')::boolean);
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < wanted THEN
        RAISE 'a file must be written again: %', p_landed USING ERRCODE = 'SL001';
    END IF;
END
$$;

-- The same of one.
CREATE OR REPLACE FUNCTION blob_take(
    p_blob text, p_size bigint, p_epoch bigint, p_written boolean, p_released_at bigint
) RETURNS void
LANGUAGE sql AS $$
    SELECT blobs_take(jsonb_build_array(jsonb_build_object(
        'sha256', p_blob, 'size', p_size, 'epoch', p_epoch, 'written', p_written)), p_released_at)
$$;

CREATE OR REPLACE FUNCTION blob_release(p_blob text, p_now bigint) RETURNS void
LANGUAGE sql AS $$ UPDATE blobs SET released_at = p_now WHERE sha256 = p_blob $$;

-- Gives up blobs released before a time that nothing refers to. The rows are locked first and asked
-- about in a statement of its own: only its snapshot is sure to hold every reference.
CREATE OR REPLACE FUNCTION blobs_condemn(p_before bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    candidates text[];
    condemned  integer;
BEGIN
    SELECT array_agg(sha256) INTO candidates FROM (
        SELECT sha256 FROM blobs WHERE released_at < p_before
        ORDER BY released_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) AS locked;
    UPDATE blobs SET released_at = NULL WHERE sha256 = ANY (candidates);
    UPDATE blobs SET state = 'condemned'
    WHERE sha256 = ANY (candidates)
      AND NOT EXISTS (SELECT FROM objects WHERE blob = sha256);
    GET DIAGNOSTICS condemned = ROW_COUNT;
    RETURN condemned;
END
$$;

-- By which events of our own are ordered.
CREATE OR REPLACE FUNCTION event_sequencer(p_event bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT lpad(to_hex(p_event), 16, '0') $$;

-- An event of our own and the job that delivers it. Under the key's lock, so that sequencers rise.
CREATE OR REPLACE FUNCTION object_announce(
    p_action text, p_key text, p_organization text, p_name text, p_event_time bigint, p_etag text,
    p_size bigint, p_metadata jsonb, p_now bigint, p_owner text, p_lease interval,
    OUT event_id bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    event_id := nextval('object_events_id_seq');
    INSERT INTO object_events (id, source, action, key, organization, event_time, sequencer, etag,
                               size, metadata, received_at, delivered_at)
    OVERRIDING SYSTEM VALUE
    VALUES (event_id, 'safelight', p_action, p_key, p_organization, p_event_time,
            event_sequencer(event_id), p_etag, p_size, p_metadata, p_now,
            CASE WHEN p_organization IS NULL THEN p_now END);
    IF p_organization IS NOT NULL THEN
        job_id := job_enqueue('objects.deliver', p_organization,
                              jsonb_build_object('eventId', event_id, 'name', p_name),
                              p_owner => p_owner, p_lease => p_lease);
    END IF;
END
$$;

-- Takes note of the bytes of a key that is nobody's upload, as they come or go: what submissions pin and
-- publish counts for the organization that its metadata names. Artifacts are counted with their rows.
CREATE OR REPLACE FUNCTION object_count(p_key text, p_metadata jsonb, p_bytes bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT quota_change(p_metadata ->> 'organizationId', p_bytes)
    WHERE p_key ~ '^(submissions|renditions)/'
$$;

-- The index takes note of the object of a key, whose bytes are safe, and of what it replaces (`p_before`).
-- Under the key's lock.
CREATE OR REPLACE FUNCTION object_index(
    p_before objects, p_key text, p_organization text, p_name text, p_blob text, p_epoch bigint,
    p_written boolean, p_size bigint, p_content_type text, p_metadata jsonb, p_etag text,
    p_event_time bigint, p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM object_replaced(p_before, p_blob, p_now);
    IF p_blob IS NOT NULL THEN
        PERFORM blob_take(p_blob, p_size, p_epoch, p_written, NULL);
    END IF;
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata,
                         etag, event_time)
    VALUES (p_key, p_organization, p_name, true, p_blob, p_size, p_content_type, p_metadata,
            p_etag, p_event_time)
    ON CONFLICT (key) DO UPDATE
        SET present = true, blob = excluded.blob, size = excluded.size,
            content_type = excluded.content_type, metadata = excluded.metadata,
            etag = excluded.etag, event_time = excluded.event_time;
    IF p_organization IS NULL THEN
        PERFORM object_count(p_key, p_before.metadata, -p_before.size);
        PERFORM object_count(p_key, p_metadata, p_size);
    END IF;
END
$$;

-- Makes bytes that are safe the object of a key: index, event and delivery job together. `p_tell`
-- false: the store tells of it by itself, and only the index is written.
CREATE OR REPLACE FUNCTION object_put(
    p_key text, p_organization text, p_name text, p_blob text, p_epoch bigint, p_written boolean,
    p_size bigint, p_content_type text, p_metadata jsonb, p_etag text, p_tell boolean,
    p_now bigint, p_owner text DEFAULT NULL, p_lease interval DEFAULT NULL,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    before objects%ROWTYPE;
BEGIN
    PERFORM object_lock(p_key);
    SELECT * INTO before FROM objects WHERE key = p_key;
    event_time := greatest(p_now, before.event_time + 1);
    PERFORM object_index(before, p_key, p_organization, p_name, p_blob, p_epoch, p_written, p_size,
                         p_content_type, p_metadata, p_etag, event_time, p_now);
    IF p_tell THEN
        SELECT told.event_id, told.job_id INTO event_id, job_id
        FROM object_announce('created', p_key, p_organization, p_name, event_time, p_etag, p_size,
                             p_metadata, p_now, p_owner, p_lease) AS told;
    END IF;
END
$$;

-- What an object gives up for another of its key, whose lock is held, besides its row: its bytes, and what
-- they count. The new one's were charged as it was uploaded.
CREATE OR REPLACE FUNCTION object_replaced(p_before objects, p_blob text, p_now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_before.blob IS NOT NULL THEN
        -- In the order of their names, so that two puts cannot wait for each other in a ring.
        PERFORM FROM blobs WHERE sha256 IN (p_before.blob, p_blob) ORDER BY sha256 FOR UPDATE;
        PERFORM blob_release(p_before.blob, p_now);
    END IF;
    IF p_before.size > 0 AND p_before.organization IS NOT NULL THEN
        PERFORM quota_change(p_before.organization, -p_before.size);
    END IF;
END
$$;

-- The same on the short road (uploads_arrived in library.sql), for many whose keys' locks are held. Each
-- event is told and heard in one: nobody has to deliver it. Answers their ids.
CREATE OR REPLACE FUNCTION objects_arrived(p_organization text, p_items jsonb, p_now bigint)
RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    files    constant jsonb := jsonb_path_query_array(p_items, '$[*].landed ? (@.place == "blob")');
    events   constant bigint[] := ARRAY(
        SELECT nextval('object_events_id_seq') FROM jsonb_array_elements(p_items));
    ticketed record;
BEGIN
    IF files <> '[]' THEN
        PERFORM blobs_take(files, NULL);
    END IF;
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata,
                         etag, event_time)
    SELECT p_organization || '/' || name, p_organization, name, true,
           CASE WHEN item.landed ->> 'place' = 'blob' THEN item.landed ->> 'sha256' END,
           (item.landed ->> 'size')::bigint, upload ->> 'mime_type', metadata,
           item.landed ->> 'etag', p_now
    FROM jsonb_to_recordset(p_items) AS item (name text, landed jsonb, upload jsonb, metadata jsonb)
    ON CONFLICT (key) DO UPDATE
        SET present = true, blob = excluded.blob, size = excluded.size,
            content_type = excluded.content_type, metadata = excluded.metadata,
            etag = excluded.etag, event_time = excluded.event_time;
    INSERT INTO object_events (id, source, action, key, organization, event_time, sequencer, etag,
                               size, metadata, received_at, delivered_at)
    OVERRIDING SYSTEM VALUE
    SELECT event, 'safelight', 'created', p_organization || '/' || (each ->> 'name'), p_organization,
           p_now, event_sequencer(event), each -> 'landed' ->> 'etag',
           (each -> 'landed' ->> 'size')::bigint, each -> 'metadata', p_now, p_now
    FROM ROWS FROM (jsonb_array_elements(p_items), unnest(events)) AS told (each, event);
    IF jsonb_path_exists(p_items, '$[*].landed.ticket ? (@ != null)') THEN
        FOR ticketed IN SELECT each ->> 'name' AS name, (each -> 'landed' ->> 'ticket')::bigint AS id
                        FROM jsonb_array_elements(p_items) AS each LOOP
            PERFORM ticket_end(ticketed.id, 'created', p_organization || '/' || ticketed.name, true);
        END LOOP;
    END IF;
    RETURN events;
END
$$;

-- Ends the object of a key, whether or not there is one: the event says what is true from now on, and
-- in its metadata what it has ended: an object, or an upload on its way to be one (`p_on_its_way`), and why
-- (`p_cause`) if nobody asked for it.
CREATE OR REPLACE FUNCTION object_end_2(
    p_key text, p_organization text, p_name text, p_tell boolean, p_on_its_way boolean,
    p_cause text, p_now bigint, OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    before objects%ROWTYPE;
    ended  constant text := CASE WHEN p_on_its_way THEN 'upload' END;
BEGIN
    PERFORM object_lock(p_key);
    SELECT * INTO before FROM objects WHERE key = p_key;
    IF before.blob IS NOT NULL THEN
        PERFORM blob_release(before.blob, p_now);
    END IF;
    event_time := greatest(p_now, before.event_time + 1);
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata,
                         etag, event_time)
    VALUES (p_key, p_organization, p_name, false, NULL, 0, '', '{}', '', object_end_2.event_time)
    ON CONFLICT (key) DO UPDATE
        SET present = false, blob = NULL, size = 0, content_type = '', metadata = '{}', etag = '',
            event_time = excluded.event_time;
    IF p_organization IS NOT NULL THEN
        PERFORM quota_change(p_organization, -before.size);
    ELSE
        PERFORM object_count(p_key, before.metadata, -before.size);
    END IF;
    IF p_tell THEN
        SELECT told.event_id, told.job_id INTO event_id, job_id
        FROM object_announce('deleted', p_key, p_organization, p_name, event_time, NULL, NULL,
                             jsonb_strip_nulls(jsonb_build_object(
                                 'ended', CASE WHEN before.present THEN 'object' ELSE ended END,
                                 'cause', p_cause)),
                             p_now, NULL, NULL) AS told;
    END IF;
END
$$;

-- The same where somebody asked for it.
CREATE OR REPLACE FUNCTION object_end(
    p_key text, p_organization text, p_name text, p_tell boolean, p_on_its_way boolean,
    p_now bigint, OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE sql AS $$
    SELECT * FROM object_end_2(p_key, p_organization, p_name, p_tell, p_on_its_way, NULL, p_now)
$$;

-- Whether a key holds that object, put before that time.
CREATE OR REPLACE FUNCTION object_aged(p_key text, p_etag text, p_before bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM objects WHERE key = p_key AND present AND etag = p_etag
                                         AND event_time < p_before)
$$;

-- Whether a write of a key is under way besides that of a ticket.
CREATE OR REPLACE FUNCTION object_written(p_key text, p_ticket bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM object_outbox WHERE key = p_key AND id <> p_ticket)
$$;

-- As servers before object_end call it.
CREATE OR REPLACE FUNCTION object_delete(
    p_key text, p_organization text, p_name text, p_tell boolean, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE sql AS $$
    SELECT * FROM object_end(p_key, p_organization, p_name, p_tell, false, p_now)
$$;

-- Gives the bytes of an object a second key of ours, so that they outlast it; they count once more, for
-- the same organization. Answers their sha256; nothing when the object is not the one that was seen (`p_etag`), or its bytes are not in
-- the built-in store. The key's lock makes a delete come before this or after it.
CREATE OR REPLACE FUNCTION object_share(p_key text, p_etag text, p_as text, p_now bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    seen  objects%ROWTYPE;
    whose jsonb;
BEGIN
    PERFORM object_lock(p_key);
    SELECT * INTO seen FROM objects WHERE key = p_key AND present AND etag = p_etag;
    PERFORM FROM blobs WHERE sha256 = seen.blob AND state <> 'condemned' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    whose := jsonb_strip_nulls(jsonb_build_object('organizationId',
        coalesce(seen.organization, seen.metadata ->> 'organizationId')));
    INSERT INTO objects (key, present, blob, size, content_type, metadata, etag, event_time)
    VALUES (p_as, true, seen.blob, seen.size, seen.content_type, whose, seen.etag, p_now);
    PERFORM object_count(p_as, whose, seen.size);
    RETURN seen.blob;
END
$$;

-- The objects of an organization after a name, in the order of their keys. '0' is what follows '/'.
CREATE OR REPLACE FUNCTION objects_of(p_organization text, p_after text, p_limit integer)
RETURNS SETOF objects
LANGUAGE sql STABLE AS $$
    SELECT * FROM objects
    WHERE key > p_organization || '/' || p_after AND key < p_organization || '0' AND present
    ORDER BY key LIMIT p_limit
$$;

-- The objects of organizations after a key, in the order of their keys, as servers before objects_of ask.
CREATE OR REPLACE FUNCTION objects_after(p_after text, p_limit integer) RETURNS SETOF objects
LANGUAGE sql STABLE AS $$
    SELECT * FROM objects WHERE key > p_after AND present AND organization IS NOT NULL
    ORDER BY key LIMIT p_limit
$$;

-- The object of a key as the index has it, present or not.
CREATE OR REPLACE FUNCTION object_indexed(p_key text) RETURNS SETOF objects
LANGUAGE sql STABLE ROWS 1 AS $$ SELECT * FROM objects WHERE key = p_key $$;

-- Tickets of a bucket's writes. A write commits its ticket, travels without a transaction, and is recorded
-- by one that also ends the ticket. What ends otherwise leaves it open, and settling (objects/reconcile.py)
-- looks what the bucket holds when it is due.

-- Ends the ticket of a write that the bucket has answered; under the key's lock, with the record of
-- it. It goes if the index says what was written (`p_certain`) and no other write of the key was open
-- beside it: then the bucket holds that. Otherwise it stays and is due now. One that is gone was
-- taken for over by somebody, before its bytes came: it is there again.
CREATE OR REPLACE FUNCTION ticket_end(p_ticket bigint, p_action text, p_key text, p_certain boolean)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_ticket IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM object_outbox WHERE key = p_key AND id <> p_ticket;
    IF p_certain AND NOT FOUND THEN
        DELETE FROM object_outbox WHERE id = p_ticket;
    ELSE
        UPDATE object_outbox SET due = clock_timestamp() WHERE id = p_ticket;
    END IF;
    IF NOT FOUND THEN
        INSERT INTO object_outbox (action, key, begun_at, due)
        VALUES (p_action, p_key, 0, clock_timestamp());
    END IF;
    PERFORM FROM object_outbox WHERE key = p_key HAVING max(due) <= clock_timestamp();
    IF FOUND THEN
        PERFORM job_enqueue('objects.settle', '', '{}', 'objects.settle');
    END IF;
END
$$;

-- Keys all of whose tickets are due, the longest waiting first. A time too far ahead was taken from a
-- clock that has been set right since.
CREATE OR REPLACE FUNCTION tickets_due(p_limit integer) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT key FROM object_outbox GROUP BY key
    HAVING bool_and(due <= clock_timestamp() OR due > clock_timestamp() + interval '1 hour')
    ORDER BY min(id) LIMIT p_limit
$$;

-- Whether a key is as it was when the bucket was asked: the same last event (`p_seen`), no other tickets.
-- If so it stays so until the transaction ends. False as well while somebody is at work on it.
CREATE OR REPLACE FUNCTION tickets_hold(p_key text, p_tickets bigint[], p_seen bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT object_try_lock(p_key) THEN
        RETURN false;
    END IF;
    PERFORM FROM objects WHERE key = p_key AND event_time IS DISTINCT FROM p_seen;
    IF FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM object_outbox WHERE key = p_key AND id <> ALL (p_tickets);
    RETURN NOT FOUND;
END
$$;

-- Whether writes of a key are not known to have ended: what it is put back from must stay.
CREATE OR REPLACE FUNCTION object_unsettled(p_key text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM object_outbox WHERE key = p_key) $$;

-- The last step of a put: object_put, and the end of the ticket that a bucket's has.
CREATE OR REPLACE FUNCTION object_landed(
    p_key text, p_organization text, p_name text, p_blob text, p_epoch bigint, p_written boolean,
    p_size bigint, p_content_type text, p_metadata jsonb, p_etag text, p_tell boolean,
    p_ticket bigint, p_now bigint, p_owner text DEFAULT NULL, p_lease interval DEFAULT NULL,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT put.event_id, put.event_time, put.job_id INTO event_id, event_time, job_id
    FROM object_put(p_key, p_organization, p_name, p_blob, p_epoch, p_written, p_size,
                    p_content_type, p_metadata, p_etag, p_tell, p_now, p_owner, p_lease) AS put;
    PERFORM ticket_end(p_ticket, 'created', p_key, true);
END
$$;

-- The last step of a delete, likewise.
CREATE OR REPLACE FUNCTION object_cleared(
    p_key text, p_organization text, p_name text, p_tell boolean, p_ticket bigint, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT gone.event_id, gone.event_time, gone.job_id INTO event_id, event_time, job_id
    FROM object_end(p_key, p_organization, p_name, p_tell, false, p_now) AS gone;
    PERFORM ticket_end(p_ticket, 'deleted', p_key, true);
END
$$;

-- The end of a write by which settling has brought the bucket back to what the index says: no event.
-- `p_image` is whose bytes it now holds, none of a removal; the index may say something newer by now.
CREATE OR REPLACE FUNCTION object_mended(
    p_key text, p_action text, p_image text, p_etag text, p_ticket bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM object_lock(p_key);
    UPDATE objects SET etag = p_etag
    WHERE key = p_key AND present AND metadata ->> 'imageId' = p_image;
    PERFORM ticket_end(p_ticket, p_action, p_key, false);
END
$$;

CREATE OR REPLACE FUNCTION object_events_at_start() RETURNS void
LANGUAGE sql AS $$ SELECT stretches_ahead('object_events', 'object_events_id_seq') $$;
