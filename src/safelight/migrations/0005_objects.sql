-- Objects, the bytes behind them, and the events that tell of them. Times are epoch milliseconds.

-- Content-addressed files of the built-in store. Only a live row promises its file.
CREATE TABLE blobs (
    sha256      text COLLATE "C" PRIMARY KEY,
    size        bigint NOT NULL,
    state       text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'condemned', 'damaged')),
    released_at bigint                -- since when perhaps nothing refers to it
);
CREATE INDEX blobs_released ON blobs (released_at) WHERE released_at IS NOT NULL;
CREATE INDEX blobs_condemned ON blobs (sha256) WHERE state = 'condemned';

-- Counts, per first byte of the name, how often files were about to be removed. A put that looked
-- at the files before the last time is refused, even if it is a dead process's last statement.
CREATE TABLE blob_epochs (
    shard text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0
);
INSERT INTO blob_epochs (shard) SELECT lpad(to_hex(n), 2, '0') FROM generate_series(0, 255) AS n;

-- One row per key that has ever been written here; a deleted one stays a while to keep its clock.
CREATE TABLE objects (
    key          text COLLATE "C" PRIMARY KEY,
    organization text,                -- none under a reserved prefix
    name         text,
    present      boolean NOT NULL,
    blob         text COLLATE "C" REFERENCES blobs (sha256),  -- none in a bucket
    size         bigint NOT NULL,
    content_type text NOT NULL,
    metadata     jsonb NOT NULL,
    etag         text NOT NULL,
    event_time   bigint NOT NULL
);
CREATE INDEX objects_blob ON objects (blob) WHERE blob IS NOT NULL;
CREATE INDEX objects_gone ON objects (event_time) WHERE NOT present;

-- Other holders of bytes: a submission under review, an image that was superseded.
CREATE TABLE blob_pins (
    blob   text COLLATE "C" NOT NULL REFERENCES blobs (sha256),
    holder text NOT NULL,
    PRIMARY KEY (blob, holder)
);

-- All that keeps a blob from collection. Who keeps blobs in a table of its own adds it here, takes
-- a new reference as blob_pin does, and calls blob_release when it lets one go.
CREATE VIEW blob_references AS
    SELECT blob, 'object:' || key AS holder FROM objects WHERE blob IS NOT NULL
    UNION ALL
    SELECT blob, holder FROM blob_pins;

-- What happened to objects, from whatever source, until it is delivered and a while longer.
CREATE TABLE object_events (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       text NOT NULL,       -- sequencers compare within one source only
    action       text NOT NULL CHECK (action IN ('created', 'deleted')),
    key          text NOT NULL,
    organization text,
    event_time   bigint NOT NULL,
    sequencer    text,
    etag         text,
    size         bigint,
    metadata     jsonb,
    received_at  bigint NOT NULL,
    delivered_at bigint
);

-- Writes to a bucket that have begun and are not yet known to have ended.
CREATE TABLE object_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action     text NOT NULL CHECK (action IN ('created', 'deleted')),
    key        text NOT NULL,
    begun_at   bigint NOT NULL
);

-- Images on their way to the store when their name was deleted: they do not become objects.
CREATE TABLE delete_intents (
    image_id     text PRIMARY KEY REFERENCES images (id) ON DELETE CASCADE,
    organization text NOT NULL,
    name         text NOT NULL,
    at           bigint NOT NULL
);
CREATE INDEX delete_intents_name ON delete_intents (organization, name);

-- Where a long walk over the blobs goes on.
CREATE TABLE blob_walks (
    name     text PRIMARY KEY,
    position text COLLATE "C" NOT NULL,
    begun_at bigint NOT NULL
);

CREATE FUNCTION iso_ms(p_ms bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(to_timestamp(p_ms / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || '.' || lpad((p_ms % 1000)::text, 3, '0') || 'Z'
$$;

-- Everything that changes an object, or decides about one, does so under this.
CREATE FUNCTION object_lock(p_key text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(21768, hashtext(p_key)) $$;

-- Takes note of bytes that are on disk. Raises SL001 when the file must be looked at again, and
-- written this time: files of its shard were removed since `p_epoch` was read, or it is damaged.
CREATE FUNCTION blob_take(
    p_blob text, p_size bigint, p_epoch bigint, p_written boolean, p_released_at bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(21769, hashtext(left(p_blob, 2)));
    PERFORM FROM blob_epochs WHERE shard = left(p_blob, 2) AND epoch = p_epoch;
    IF FOUND THEN
        INSERT INTO blobs AS known (sha256, size, released_at)
        VALUES (p_blob, p_size, p_released_at)
        ON CONFLICT (sha256) DO UPDATE SET state = 'live', released_at = p_released_at
            WHERE known.state <> 'damaged' OR p_written;
    END IF;
    IF NOT FOUND THEN
        RAISE 'the file of blob % must be written again', p_blob USING ERRCODE = 'SL001';
    END IF;
END
$$;

CREATE FUNCTION blob_release(p_blob text, p_now bigint) RETURNS void
LANGUAGE sql AS $$ UPDATE blobs SET released_at = p_now WHERE sha256 = p_blob $$;

-- Holds bytes that something else already holds. False: they are going or gone.
CREATE FUNCTION blob_pin(p_blob text, p_holder text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM blobs WHERE sha256 = p_blob AND state <> 'condemned' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO blob_pins (blob, holder) VALUES (p_blob, p_holder) ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

CREATE FUNCTION blob_unpin(p_blob text, p_holder text, p_now bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT blob_release(p_blob, p_now);
    DELETE FROM blob_pins WHERE blob = p_blob AND holder = p_holder;
$$;

-- Gives up blobs released before a time that nothing refers to. The rows are locked first and asked
-- about in a statement of its own: only its snapshot is sure to hold every reference.
CREATE FUNCTION blobs_condemn(p_before bigint, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    candidates text[];
    condemned  integer;
BEGIN
    SELECT array_agg(sha256) INTO candidates FROM (
        SELECT sha256 FROM blobs WHERE released_at < p_before AND state <> 'condemned'
        ORDER BY released_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) AS locked;
    UPDATE blobs SET released_at = NULL
    WHERE sha256 = ANY (candidates)
      AND EXISTS (SELECT FROM blob_references WHERE blob = sha256);
    UPDATE blobs SET state = 'condemned'
    WHERE sha256 = ANY (candidates)
      AND NOT EXISTS (SELECT FROM blob_references WHERE blob = sha256);
    GET DIAGNOSTICS condemned = ROW_COUNT;
    RETURN condemned;
END
$$;

-- An event of our own and the job that delivers it. Under the key's lock, so that sequencers rise.
CREATE FUNCTION object_announce(
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
            lpad(to_hex(event_id), 16, '0'), p_etag, p_size, p_metadata, p_now,
            CASE WHEN p_organization IS NULL THEN p_now END);
    IF p_organization IS NOT NULL THEN
        job_id := job_enqueue('objects.deliver', p_organization,
                              jsonb_build_object('eventId', event_id, 'name', p_name),
                              p_owner => p_owner, p_lease => p_lease);
    END IF;
END
$$;

-- Makes bytes that are safe the object of a key: index, event and delivery job together. `p_tell`
-- false: the store tells of it by itself, and only the index is written.
CREATE FUNCTION object_put(
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
    IF before.blob IS NOT NULL AND before.blob IS DISTINCT FROM p_blob THEN
        -- In the order of their names, so that two puts cannot wait for each other in a ring.
        PERFORM FROM blobs WHERE sha256 IN (before.blob, p_blob) ORDER BY sha256 FOR UPDATE;
        PERFORM blob_release(before.blob, p_now);
    END IF;
    IF p_blob IS NOT NULL THEN
        PERFORM blob_take(p_blob, p_size, p_epoch, p_written, NULL);
    END IF;
    event_time := greatest(p_now, before.event_time + 1);
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata,
                         etag, event_time)
    VALUES (p_key, p_organization, p_name, true, p_blob, p_size, p_content_type, p_metadata,
            p_etag, object_put.event_time)
    ON CONFLICT (key) DO UPDATE
        SET present = true, blob = excluded.blob, size = excluded.size,
            content_type = excluded.content_type, metadata = excluded.metadata,
            etag = excluded.etag, event_time = excluded.event_time;
    IF p_tell THEN
        SELECT told.event_id, told.job_id INTO event_id, job_id
        FROM object_announce('created', p_key, p_organization, p_name, event_time, p_etag, p_size,
                             p_metadata, p_now, p_owner, p_lease) AS told;
    END IF;
END
$$;

-- Ends the object of a key, whether or not there is one: the event says what is true from now on.
CREATE FUNCTION object_delete(
    p_key text, p_organization text, p_name text, p_tell boolean, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    before objects%ROWTYPE;
BEGIN
    PERFORM object_lock(p_key);
    SELECT * INTO before FROM objects WHERE key = p_key;
    IF before.blob IS NOT NULL THEN
        PERFORM blob_release(before.blob, p_now);
    END IF;
    event_time := greatest(p_now, before.event_time + 1);
    INSERT INTO objects (key, organization, name, present, blob, size, content_type, metadata,
                         etag, event_time)
    VALUES (p_key, p_organization, p_name, false, NULL, 0, '', '{}', '', object_delete.event_time)
    ON CONFLICT (key) DO UPDATE
        SET present = false, blob = NULL, size = 0, content_type = '', metadata = '{}', etag = '',
            event_time = excluded.event_time;
    IF p_tell THEN
        SELECT told.event_id, told.job_id INTO event_id, job_id
        FROM object_announce('deleted', p_key, p_organization, p_name, event_time, NULL, NULL,
                             NULL, p_now, NULL, NULL) AS told;
    END IF;
END
$$;

-- What keeps an image that is not stored yet from becoming the object of its name: a delete that
-- came after it, or a newer image that is the object by now. No row: nothing.
CREATE FUNCTION image_beaten(
    p_image text, p_key text, p_created_at bigint, OUT reason text, OUT beaten_by jsonb
) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT 'deleted', jsonb_build_object('eventTime', iso_ms(at), 'idempotencyKey', NULL)
    FROM delete_intents WHERE image_id = p_image
    UNION ALL
    SELECT 'superseded', jsonb_build_object(
        'eventTime', iso_ms(object.event_time), 'idempotencyKey', newer.idempotency_key)
    FROM objects AS object
    JOIN images AS newer ON newer.id = object.metadata ->> 'imageId'
    WHERE object.key = p_key AND (newer.created_at, newer.id) > (p_created_at, p_image)
    LIMIT 1
$$;

-- The last step of an offload: INGESTED becomes STORED, the bytes become the object of the name (or
-- are beaten to it), event, delivery job, history and the job's own end, all or nothing. Outcomes:
--   stored   it is the object                   settled  it was not INGESTED any more
--   beaten   STORED, but something else won     lost     the job is somebody else's by now
--   wanted   nothing beats it: bring the bytes
-- `p_bytes` says where they are: 'blob', 'bucket', 'telling-bucket' (whose own notifications are the
-- events), or 'ingest' (not in the store yet: only a beaten image is settled, others are wanted).
CREATE FUNCTION image_stored(
    p_image text, p_organization text, p_name text, p_bytes text, p_epoch bigint,
    p_written boolean, p_etag text, p_metadata jsonb, p_now bigint,
    p_job bigint, p_claim integer, p_owner text, p_lease interval,
    OUT outcome text, OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    object_key constant text := p_organization || '/' || p_name;
    image  images%ROWTYPE;
    beaten record;
    story  jsonb;
BEGIN
    PERFORM object_lock(object_key);
    SELECT * INTO image FROM images WHERE id = p_image;
    SELECT * INTO beaten FROM image_beaten(p_image, object_key, image.created_at);
    IF image.status = 'INGESTED' AND beaten.reason IS NULL AND p_bytes = 'ingest' THEN
        outcome := 'wanted';
    ELSIF NOT job_finish(p_job, p_claim) THEN
        outcome := 'lost';
    ELSIF image.status IS DISTINCT FROM 'INGESTED' THEN
        outcome := 'settled';
    END IF;
    IF outcome IS NOT NULL THEN
        RETURN;
    END IF;

    story := jsonb_build_object(
        'from', 'INGESTED', 'to', 'STORED', 'imageId', p_image, 'name', p_name);
    IF beaten.reason IS NOT NULL THEN
        outcome := 'beaten';
        story := story || jsonb_build_object('reason', beaten.reason, 'beatenBy', beaten.beaten_by);
        DELETE FROM delete_intents WHERE image_id = p_image;
        IF p_bytes = 'blob' THEN
            PERFORM blob_take(image.checksum, image.size_bytes, p_epoch, p_written, p_now);
        END IF;
    ELSE
        outcome := 'stored';
        SELECT put.event_id, put.event_time, put.job_id INTO event_id, event_time, job_id
        FROM object_put(object_key, p_organization, p_name,
                        CASE WHEN p_bytes = 'blob' THEN image.checksum END, p_epoch, p_written,
                        image.size_bytes, image.mime_type, p_metadata, p_etag,
                        p_bytes <> 'telling-bucket', p_now, p_owner, p_lease) AS put;
        story := story || jsonb_build_object('eventTime', iso_ms(event_time));
    END IF;
    UPDATE images SET status = 'STORED', updated_at = p_now WHERE id = p_image;
    PERFORM activity_append(p_organization, p_now, jsonb_build_array(jsonb_build_object(
        'subject', 'image:' || p_image, 'also', 'upload:' || p_name,
        'type', CASE outcome WHEN 'stored' THEN 'upload_stored' ELSE 'image_superseded' END,
        'data', story)));
END
$$;

-- An image that cannot be stored, and the end of its job. Returns what image_stored would.
CREATE FUNCTION image_failed(
    p_image text, p_organization text, p_name text, p_error jsonb, p_now bigint,
    p_job bigint, p_claim integer
) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT job_finish(p_job, p_claim) THEN
        RETURN 'lost';
    END IF;
    DELETE FROM delete_intents WHERE image_id = p_image;
    UPDATE images SET status = 'FAILED', updated_at = p_now
    WHERE id = p_image AND status = 'INGESTED';
    IF NOT FOUND THEN
        RETURN 'settled';
    END IF;
    PERFORM activity_append(p_organization, p_now, jsonb_build_array(jsonb_build_object(
        'subject', 'image:' || p_image, 'also', 'upload:' || p_name, 'type', 'image_failed',
        'data', jsonb_build_object('from', 'INGESTED', 'to', 'FAILED', 'imageId', p_image,
                                   'name', p_name, 'error', p_error))));
    RETURN 'failed';
END
$$;

-- Deletes a name: its object now, and what is on its way to it when it gets there.
CREATE FUNCTION upload_delete(
    p_organization text, p_name text, p_tell boolean, p_actor jsonb, p_now bigint,
    OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM object_lock(p_organization || '/' || p_name);
    INSERT INTO delete_intents (image_id, organization, name, at)
    SELECT id, p_organization, p_name, p_now FROM images
    WHERE organization = p_organization AND name = p_name AND status IN ('UPLOADED', 'INGESTED')
    ON CONFLICT (image_id) DO NOTHING;
    SELECT gone.event_id, gone.event_time, gone.job_id INTO event_id, event_time, job_id
    FROM object_delete(p_organization || '/' || p_name, p_organization, p_name, p_tell, p_now)
         AS gone;
    PERFORM activity_append(p_organization, p_now, jsonb_build_array(jsonb_build_object(
        'subject', 'upload:' || p_name, 'type', 'upload_delete_requested',
        'data', jsonb_build_object('name', p_name, 'actor', p_actor))));
END
$$;
