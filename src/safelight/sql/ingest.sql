-- Records uploads of one organization: their rows, their jobs and their history, or nothing of it. Of each
-- item, `image` has the columns of images, `lines` are its history, and its job is leased to `p_owner` if it
-- is `leased`. Of two images the one whose ordinal is larger is the newer; created_at is for people. Answers
-- the jobs, in the order of the items.
CREATE OR REPLACE FUNCTION images_recorded(
    p_organization text, p_items jsonb, p_node text, p_now bigint, p_owner text, p_lease interval
) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
    bytes    bigint;
    payloads jsonb[];
    keys     text[];
    owners   text[];
BEGIN
    SELECT sum((image ->> 'size_bytes')::bigint),
           array_agg(jsonb_build_object('imageId', image ->> 'id')), array_agg(image ->> 'id'),
           array_agg(CASE WHEN leased THEN p_owner END)
    INTO bytes, payloads, keys, owners
    FROM jsonb_to_recordset(p_items) AS item (image jsonb, leased boolean);
    INSERT INTO images
    SELECT recorded.* FROM jsonb_array_elements(p_items) AS item
    CROSS JOIN LATERAL jsonb_populate_record(NULL::images, item -> 'image' || jsonb_build_object(
        'organization', p_organization, 'ordinal', nextval('images_ordinal'))) AS recorded;
    RETURN QUERY SELECT unnest(jobs_enqueue(
        'ingest.offload', p_organization, p_node, payloads, keys, owners, p_lease));
    PERFORM quota_uploads(p_organization, cardinality(keys), bytes, p_now);
    PERFORM activity_append(p_organization, p_now,
                            jsonb_path_query_array(p_items, '$[*].lines[*]'));
END
$$;

-- The same for one, as servers of the version before record it, and whoever looks at its name first.
CREATE OR REPLACE FUNCTION image_recorded(
    p_image jsonb, p_node text, p_lines jsonb, p_owner text, p_lease interval
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT images_recorded(
        p_image ->> 'organization',
        jsonb_build_array(jsonb_build_object(
            'image', p_image, 'lines', p_lines, 'leased', p_owner IS NOT NULL)),
        p_node, (p_image ->> 'created_at')::bigint, p_owner, p_lease)
$$;

-- As servers before image_recorded record.
CREATE OR REPLACE FUNCTION image_record(p_image jsonb, p_node text, p_lines jsonb) RETURNS void
LANGUAGE sql AS $$ SELECT image_recorded(p_image, p_node, p_lines, NULL, NULL) $$;

-- Those of the names that an object has, or an upload that is on its way to become one.
CREATE OR REPLACE FUNCTION names_taken(p_organization text, p_names text[]) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT name FROM unnest(p_names) AS wanted(name)
    WHERE EXISTS (SELECT FROM object_indexed(p_organization || '/' || wanted.name) AS object
                  WHERE object.present)
       OR EXISTS (SELECT FROM images LEFT JOIN delete_intents ON image_id = images.id
                  WHERE images.organization = p_organization AND images.name = wanted.name
                    AND status IN ('UPLOADED', 'INGESTED') AND image_id IS NULL)
$$;

-- The name, or a free one like it: with the smallest number that is free below 17, beyond that with one
-- whose predecessor is taken, found in few looks however many there are. `p_before` holds what stands
-- before a number of as many digits as its index says; NULL: no number is wanted. No such name: NULL.
CREATE OR REPLACE FUNCTION name_free(p_organization text, p_name text, p_before text[], p_after text)
RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    low    integer := 1;
    high   integer := 2;
    middle integer;
BEGIN
    PERFORM names_taken(p_organization, ARRAY[p_name]);
    IF NOT FOUND THEN
        RETURN p_name;
    ELSIF p_before IS NULL THEN
        RETURN NULL;
    END IF;
    LOOP
        PERFORM names_taken(p_organization, ARRAY[name_numbered(p_before, high, p_after)]);
        EXIT WHEN NOT FOUND;
        low := high;
        high := high + CASE WHEN high < 16 THEN 1 ELSE high END;
    END LOOP;
    WHILE high - low > 1 LOOP
        middle := (low + high) / 2;
        PERFORM names_taken(p_organization, ARRAY[name_numbered(p_before, middle, p_after)]);
        IF FOUND THEN
            low := middle;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    RETURN name_numbered(p_before, high, p_after);
END
$$;

CREATE OR REPLACE FUNCTION name_numbered(p_before text[], p_number integer, p_after text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_before[length(p_number::text)] || p_number || p_after
$$;

-- The same as image_recorded unless the image's name is taken ('taken'), or somebody else in the
-- organization chooses a name at this moment ('busy'); then nothing was recorded. The names' lock makes
-- one choice come after the other, and ends with this statement; so must the transaction. It is not
-- waited for: whoever waits does so without a connection.
CREATE OR REPLACE FUNCTION image_recorded_unless_taken(
    p_image jsonb, p_node text, p_lines jsonb, p_owner text, p_lease interval,
    OUT outcome text, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT names_try_lock(p_image ->> 'organization') THEN
        outcome := 'busy';
        RETURN;
    END IF;
    PERFORM names_taken(p_image ->> 'organization', ARRAY[p_image ->> 'name']);
    IF FOUND THEN
        outcome := 'taken';
        RETURN;
    END IF;
    outcome := 'recorded';
    job_id := image_recorded(p_image, p_node, p_lines, p_owner, p_lease);
END
$$;

-- As servers of the version before record, and of the one before that.
CREATE OR REPLACE FUNCTION image_record_unless_taken(p_image jsonb, p_node text, p_lines jsonb)
RETURNS text
LANGUAGE sql AS $$
    SELECT outcome FROM image_recorded_unless_taken(p_image, p_node, p_lines, NULL, NULL)
$$;

CREATE OR REPLACE FUNCTION image_record_if_free(p_image jsonb, p_node text, p_lines jsonb)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM names_lock(p_image ->> 'organization');
    RETURN image_record_unless_taken(p_image, p_node, p_lines) = 'recorded';
END
$$;

-- Images on their way to a name that is deleted at this moment do not become its object; nor do those that
-- were given up with their machine, should it come back.
CREATE OR REPLACE FUNCTION image_forbid(p_organization text, p_name text, p_now bigint) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO delete_intents (image_id, organization, name, at)
    SELECT id, organization, name, p_now FROM images
    WHERE organization = p_organization AND name = p_name
      AND (status IN ('UPLOADED', 'INGESTED') OR status = 'FAILED' AND node IS NOT NULL)
    ON CONFLICT (image_id) DO NOTHING
$$;

-- What keeps an image that is not stored yet from becoming the object of its name: a delete that
-- came after it, or a newer image that is the object by now. No row: nothing.
CREATE OR REPLACE FUNCTION image_beaten(
    p_image text, p_key text, p_created_at bigint, OUT reason text, OUT beaten_by jsonb
) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT 'deleted', jsonb_build_object('eventTime', iso_ms(at), 'idempotencyKey', NULL)
    FROM delete_intents WHERE image_id = p_image
    UNION ALL
    SELECT 'superseded', jsonb_build_object(
        'eventTime', iso_ms(object.event_time), 'idempotencyKey', newer.idempotency_key)
    FROM object_indexed(p_key) AS object
    JOIN images AS newer ON newer.id = object.metadata ->> 'imageId'
    JOIN images AS older ON older.id = p_image
    WHERE (coalesce(newer.ordinal, 0), newer.created_at, newer.id)
        > (coalesce(older.ordinal, 0), p_created_at, p_image)
    LIMIT 1
$$;

-- The last step of an offload: the image becomes STORED, its bytes become the object of the name (or
-- are beaten to it), event, delivery job, history and the job's own end, all or nothing. Outcomes:
--   stored   it is the object                already_done  it was in none of the states `p_from`
--   beaten   STORED, but something else won  lost          the job is somebody else's by now
--   wanted   nothing beats it: bring the bytes
-- `p_landed` says where they are: place 'blob', 'bucket', 'telling-bucket' (whose own notifications are
-- the events), or 'ingest' (not in the store yet: only a beaten image is done with, others are wanted).
-- A bucket's have a ticket, which ends here if the bytes are the object now, and else is left to settling.
-- `p_lines` holds a line of history for either end; what is decided here is added to its data.
CREATE OR REPLACE FUNCTION image_stored(
    p_image text, p_organization text, p_name text, p_from text[], p_landed jsonb,
    p_metadata jsonb, p_lines jsonb, p_now bigint,
    p_job bigint, p_claim integer, p_owner text, p_lease interval,
    OUT outcome text, OUT event_id bigint, OUT event_time bigint, OUT job_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    object_key constant text := p_organization || '/' || p_name;
    place      constant text := p_landed ->> 'place';
    epoch      constant bigint := (p_landed ->> 'epoch')::bigint;
    written    constant boolean := (p_landed ->> 'written')::boolean;
    ticket     constant bigint := (p_landed ->> 'ticket')::bigint;
    image  images%ROWTYPE;
    beaten record;
    line   jsonb;
    more   jsonb;
BEGIN
    PERFORM object_lock(object_key);
    SELECT * INTO image FROM images WHERE id = p_image;
    SELECT * INTO beaten FROM image_beaten(p_image, object_key, image.created_at);
    IF image.status = ANY (p_from) AND beaten.reason IS NULL AND place = 'ingest' THEN
        outcome := 'wanted';
    ELSIF NOT job_finish(p_job, p_claim) THEN
        outcome := 'lost';
    ELSIF image.id IS NULL OR image.status <> ALL (p_from) THEN
        outcome := 'already_done';
    END IF;
    IF outcome IS NOT NULL THEN
        PERFORM ticket_end(ticket, 'created', object_key, false);
        RETURN;
    END IF;

    IF beaten.reason IS NOT NULL THEN
        outcome := 'beaten';
        more := jsonb_build_object('reason', beaten.reason, 'beatenBy', beaten.beaten_by);
        DELETE FROM delete_intents WHERE image_id = p_image;
        PERFORM quota_change(p_organization, -image.size_bytes);
        IF place = 'blob' THEN
            PERFORM blob_take(image.checksum, image.size_bytes, epoch, written, p_now);
        END IF;
        PERFORM ticket_end(ticket, 'created', object_key, false);
    ELSE
        outcome := 'stored';
        SELECT put.event_id, put.event_time, put.job_id INTO event_id, event_time, job_id
        FROM object_landed(object_key, p_organization, p_name,
                           CASE WHEN place = 'blob' THEN image.checksum END, epoch, written,
                           image.size_bytes, image.mime_type, p_metadata, p_landed ->> 'etag',
                           place <> 'telling-bucket', ticket, p_now, p_owner, p_lease) AS put;
        more := jsonb_build_object('eventTime', iso_ms(event_time));
    END IF;
    UPDATE images SET status = 'STORED', updated_at = p_now, node = p_landed ->> 'node'
    WHERE id = p_image;
    line := p_lines -> outcome;
    PERFORM activity_append(p_organization, p_now, jsonb_build_array(
        jsonb_set(line, '{data}', (line -> 'data') || more)));
END
$$;

-- The same move where an image is the object of its name by the short road (uploads_arrived in
-- library.sql). False: it is no longer on its way, or its name was deleted since.
CREATE OR REPLACE FUNCTION image_arrived(p_image text, p_from text[], p_node text, p_now bigint)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE images SET status = 'STORED', updated_at = p_now, node = p_node
    WHERE id = p_image AND status = ANY (p_from)
      AND NOT EXISTS (SELECT FROM delete_intents WHERE image_id = p_image);
    RETURN FOUND;
END
$$;

-- An image that cannot be stored, and the end of its job. Returns what image_stored would.
CREATE OR REPLACE FUNCTION image_failed(
    p_image text, p_organization text, p_from text[], p_lines jsonb, p_now bigint,
    p_job bigint, p_claim integer
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    freed bigint;
BEGIN
    IF NOT job_finish(p_job, p_claim) THEN
        RETURN 'lost';
    END IF;
    DELETE FROM delete_intents WHERE image_id = p_image;
    UPDATE images SET status = 'FAILED', updated_at = p_now
    WHERE id = p_image AND status = ANY (p_from) RETURNING size_bytes INTO freed;
    IF NOT FOUND THEN
        RETURN 'already_done';
    END IF;
    PERFORM quota_change(p_organization, -freed);
    PERFORM activity_append(p_organization, p_now, p_lines);
    RETURN 'failed';
END
$$;

-- An image whose sender waited for its storage, and was told that it did not come in time: its job goes, whoever
-- has it, and it FAILS. Answers what it is then, or was already.
CREATE OR REPLACE FUNCTION image_withdrawn(
    p_image text, p_organization text, p_from text[], p_now bigint
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    freed bigint;
BEGIN
    PERFORM job_cancel('ingest.offload', p_image, true);
    UPDATE images SET status = 'FAILED', updated_at = p_now
    WHERE id = p_image AND status = ANY (p_from) RETURNING size_bytes INTO freed;
    IF NOT FOUND THEN
        RETURN (SELECT nullif(status, 'FAILED') FROM images WHERE id = p_image);
    END IF;
    DELETE FROM delete_intents WHERE image_id = p_image;
    PERFORM quota_change(p_organization, -freed);
    RETURN 'FAILED';
END
$$;

-- Puts the bytes of a stored image back into the bucket, from the file they came from.
CREATE OR REPLACE FUNCTION image_put_back(p_image text) RETURNS void
LANGUAGE sql AS $$
    SELECT job_enqueue('ingest.put_back', organization, jsonb_build_object('imageId', id), id, node)
    FROM images WHERE id = p_image
$$;

-- Those images whose file may be needed again: writes of their key are not known to have ended.
CREATE OR REPLACE FUNCTION images_unsettled(p_images text[]) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    SELECT id FROM images WHERE id = ANY (p_images) AND object_unsettled(organization || '/' || name)
$$;

-- Whether an upload of that name was ever recorded.
CREATE OR REPLACE FUNCTION image_known(p_organization text, p_name text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM images WHERE organization = p_organization AND name = p_name)
$$;

-- Of an image's bytes, as they were received.
CREATE OR REPLACE FUNCTION image_checksum(p_image text) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT checksum FROM images WHERE id = p_image $$;

-- Whether an image is still something of its own: not stored, or not yet, or the name that it was stored
-- under is remembered.
CREATE OR REPLACE FUNCTION image_remembered(p_image text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM FROM images
    WHERE id = p_image AND (status <> 'STORED' OR library_remembers(organization, name));
    RETURN FOUND;
END
$$;

-- A sign of life of a process beside an ingest directory.
CREATE OR REPLACE FUNCTION node_tells(
    p_node text, p_host text, p_directory text, p_version text, p_answers boolean, p_works boolean
) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO nodes AS known (id, host, directory, version, answered, worked)
    VALUES (p_node, p_host, p_directory, p_version,
            CASE WHEN p_answers THEN clock_timestamp() END,
            CASE WHEN p_works THEN clock_timestamp() END)
    ON CONFLICT (id) DO UPDATE
    SET host = excluded.host, directory = excluded.directory, version = excluded.version, told = false,
        answered = coalesce(excluded.answered, known.answered),
        worked = coalesce(excluded.worked, known.worked)
$$;

-- For how many seconds a node has told nothing. One whose sign is from a clock that was set back since does not
-- live either: it would have told by now.
CREATE OR REPLACE FUNCTION node_silence(p_answered timestamptz, p_worked timestamptz)
RETURNS double precision
LANGUAGE sql STABLE AS $$
    SELECT abs(extract(epoch FROM clock_timestamp() - greatest(p_answered, p_worked)))
$$;

CREATE OR REPLACE FUNCTION in_ms(p_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(epoch FROM p_at) * 1000)::bigint $$;

-- Every node that has told of itself, or that jobs wait for; `silent` NULL: it has never told anything.
CREATE OR REPLACE FUNCTION nodes_shown() RETURNS TABLE (
    id text, host text, directory text, version text, answered bigint, worked bigint,
    first_seen bigint, silent double precision, served boolean,
    uploads bigint, others bigint, oldest bigint
)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(node.id, waits.node), coalesce(node.host, ''), coalesce(node.directory, ''),
           coalesce(node.version, ''), in_ms(node.answered), in_ms(node.worked), in_ms(node.first_seen),
           node_silence(node.answered, node.worked), coalesce(waits.served, false), coalesce(waits.of_kind, 0),
           coalesce(waits.others, 0), in_ms(waits.oldest)
    FROM nodes AS node FULL JOIN jobs_by_node('ingest.offload') AS waits ON waits.node = node.id
$$;

-- Images whose only copies were on a machine that is lost become FAILED, some of an organization's at a time,
-- and their jobs end. Each remembers the node: should its file turn up, it goes on (images_revived). Answers
-- which; `p_taken` is how many jobs there were.
CREATE OR REPLACE FUNCTION images_lost(
    p_node text, p_organization text, p_from text[], p_limit integer, p_now bigint,
    OUT taken integer, OUT ids text[], OUT names text[]
)
LANGUAGE plpgsql AS $$
DECLARE
    keys  constant text[] := jobs_take_away('ingest.offload', p_node, p_organization, p_limit, true);
    freed bigint;
BEGIN
    taken := cardinality(keys);
    WITH failed AS (
        UPDATE images SET status = 'FAILED', node = p_node, updated_at = p_now
        WHERE id = ANY (keys) AND status = ANY (p_from) RETURNING id, name, size_bytes
    )
    SELECT array_agg(id ORDER BY id), array_agg(name ORDER BY id), sum(size_bytes)
    INTO ids, names, freed FROM failed;
    PERFORM quota_change(p_organization, -freed);
END
$$;

-- Files of that machine that a bucket was to be given again: what it holds now counts, and a person is told.
-- Answers how many.
CREATE OR REPLACE FUNCTION images_not_put_back(
    p_node text, p_organization text, p_limit integer, p_error jsonb
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    keys constant text[] := jobs_take_away('ingest.put_back', p_node, p_organization, p_limit, false);
BEGIN
    UPDATE images SET node = NULL WHERE id = ANY (keys);
    PERFORM job_letter('ingest.put_back', p_organization, jsonb_build_object('imageId', key), p_error)
    FROM unnest(keys) AS key;
    RETURN cardinality(keys);
END
$$;

-- Images that were given up and whose files are at that node after all are on their way again. Answers which.
CREATE OR REPLACE FUNCTION images_revived(
    p_organization text, p_images text[], p_from text[], p_node text, p_now bigint
) RETURNS TABLE (id text, name text, checksum text, size_bytes bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    keys  text[];
    bytes bigint;
BEGIN
    WITH revived AS (
        UPDATE images SET status = 'INGESTED', node = NULL, updated_at = p_now
        WHERE id = ANY (p_images) AND status = ANY (p_from) AND node IS NOT NULL
        RETURNING id, size_bytes
    )
    SELECT coalesce(array_agg(id), '{}'), sum(size_bytes) INTO keys, bytes FROM revived;
    PERFORM quota_change(p_organization, bytes);
    PERFORM jobs_enqueue('ingest.offload', p_organization, p_node,
                         ARRAY(SELECT jsonb_build_object('imageId', key) FROM unnest(keys) AS key),
                         keys, array_fill(NULL::text, ARRAY[cardinality(keys)]), NULL);
    RETURN QUERY SELECT id, name, checksum, size_bytes FROM images WHERE id = ANY (keys) ORDER BY id;
END
$$;
