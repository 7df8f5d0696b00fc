-- The organization's library: a projection of the object store that converges to it.

CREATE TABLE uploads (
    organization          text NOT NULL,
    name                  text NOT NULL,
    -- The marker: which upload this row stands for, and the event that said so.
    event_time            bigint NOT NULL,
    sequencer             text,
    source                text NOT NULL,
    e_tag                 text,
    idempotency_key       text NOT NULL,
    image_id              text,
    mime_type             text,
    width                 integer,
    height                integer,
    size_bytes            bigint,
    -- What the present run, if any, found. `run` numbers the runs of this marker.
    run                   integer NOT NULL DEFAULT 0,
    classification_status text NOT NULL DEFAULT 'pending'
        CHECK (classification_status IN ('pending', 'running', 'done', 'failed')),
    classification_label  text,
    classification_score  double precision,
    classification_model  text,
    classified_at         bigint,
    search                tsvector NOT NULL DEFAULT '',
    PRIMARY KEY (organization, name)
);
CREATE INDEX uploads_newest ON uploads (organization, event_time DESC, name DESC);
CREATE INDEX uploads_label ON uploads (organization, classification_label, event_time DESC, name DESC)
    WHERE classification_label IS NOT NULL;
CREATE INDEX uploads_unfinished ON uploads (organization, classification_status, event_time DESC, name DESC)
    WHERE classification_status <> 'done';
CREATE INDEX uploads_search ON uploads USING gin (search) WITH (fastupdate = on);

-- Outlives the row, so that an older event that comes late brings nothing back.
CREATE TABLE tombstones (
    organization text NOT NULL,
    name         text NOT NULL,
    event_time   bigint NOT NULL,
    sequencer    text,
    source       text NOT NULL,
    buried_at    bigint NOT NULL,
    PRIMARY KEY (organization, name)
);
CREATE INDEX tombstones_age ON tombstones (buried_at);

CREATE TABLE classification_runs (
    organization    text NOT NULL,
    name            text NOT NULL,
    idempotency_key text NOT NULL,
    run             integer NOT NULL,
    status          text NOT NULL
        CHECK (status IN ('pending', 'running', 'done', 'failed', 'dropped')),
    attempt         integer NOT NULL DEFAULT 0,
    error           jsonb,
    reply           jsonb,             -- a remote model's, saved before it is used
    started_at      bigint NOT NULL,
    finished_at     bigint,
    PRIMARY KEY (organization, name, idempotency_key, run)
);

-- What a store sent that could not be understood: the body of a dead letter.
CREATE TABLE rejected_notices (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    code        text NOT NULL,
    reason      text NOT NULL,
    raw         jsonb NOT NULL,
    received_at bigint NOT NULL
);

-- Everything a decision about one name looks at, read after its lock was taken: each statement in
-- here sees what was committed before it, which a single SELECT with the lock in it would not. A run
-- that is said to be under way counts only if the queue knows its job.
CREATE FUNCTION library_look(
    p_organization text, p_name text,
    OUT upload uploads, OUT tombstone tombstones, OUT object objects, OUT run_status text
)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM object_lock(p_organization || '/' || p_name);
    SELECT * INTO upload FROM uploads WHERE organization = p_organization AND name = p_name;
    SELECT * INTO tombstone FROM tombstones WHERE organization = p_organization AND name = p_name;
    SELECT * INTO object FROM objects WHERE key = p_organization || '/' || p_name AND present;
    -- One statement: the end of a run and of its job are seen together or not at all.
    SELECT status INTO run_status FROM classification_runs AS noted
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = upload.idempotency_key AND run = upload.run
      AND (noted.status NOT IN ('pending', 'running') OR EXISTS (
          SELECT FROM jobs WHERE kind = 'classification.run' AND jobs.status <> 'dead'
            AND key = classification_key(p_organization, p_name, noted.idempotency_key)));
END
$$;

-- What a run is known by in the queue. With the name, since a copy of an object keeps its marker.
CREATE FUNCTION classification_key(p_organization text, p_name text, p_marker text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT p_organization || '/' || p_name || '/' || p_marker $$;

-- Starts a run for a marker. Nothing else of that marker may be alive in the queue: what is, is taken
-- away first, and a clash all the same is an error, never a success.
CREATE FUNCTION classification_start(
    p_organization text, p_name text, p_marker text, p_now bigint
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    next_run integer;
BEGIN
    SELECT coalesce(max(run), 0) + 1 INTO next_run FROM classification_runs
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker;
    IF next_run > 1 THEN
        PERFORM classification_stop(p_organization, p_name, p_marker, p_now);
    END IF;
    INSERT INTO classification_runs (organization, name, idempotency_key, run, status, started_at)
    VALUES (p_organization, p_name, p_marker, next_run, 'pending', p_now);
    IF job_enqueue('classification.run', p_organization,
                   jsonb_build_object('name', p_name, 'idempotencyKey', p_marker, 'run', next_run),
                   classification_key(p_organization, p_name, p_marker)) IS NULL THEN
        RAISE 'a run of % is still in the queue', p_marker;
    END IF;
    RETURN next_run;
END
$$;

-- Stops whatever works for a marker. The queue is asked, and outranks the run's own row; nothing
-- being there, or it having ended, is fine. Answers the number of a run that was under way.
CREATE FUNCTION classification_stop(
    p_organization text, p_name text, p_marker text, p_now bigint
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    stopped integer;
BEGIN
    PERFORM job_cancel(
        'classification.run', classification_key(p_organization, p_name, p_marker), true);
    UPDATE classification_runs SET status = 'dropped', finished_at = p_now
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker
      AND status IN ('pending', 'running')
    RETURNING run INTO stopped;
    RETURN stopped;
END
$$;

-- The row of a name takes a marker, forgets what was known of the one before, and its run starts.
-- `stopped` is the number of the run that `p_replaces` had under way.
CREATE FUNCTION library_mark(
    p_organization text, p_name text, p_event_time bigint, p_sequencer text, p_source text,
    p_e_tag text, p_marker text, p_replaces text, p_image_id text, p_mime_type text,
    p_width integer, p_height integer, p_size_bytes bigint, p_words text[], p_now bigint,
    OUT started integer, OUT stopped integer
)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_replaces <> p_marker THEN
        stopped := classification_stop(p_organization, p_name, p_replaces, p_now);
    END IF;
    started := classification_start(p_organization, p_name, p_marker, p_now);
    INSERT INTO uploads (organization, name, event_time, sequencer, source, e_tag, idempotency_key,
                         image_id, mime_type, width, height, size_bytes, run, search)
    VALUES (p_organization, p_name, p_event_time, p_sequencer, p_source, p_e_tag, p_marker,
            p_image_id, p_mime_type, p_width, p_height, p_size_bytes, started,
            array_to_tsvector(p_words))
    ON CONFLICT (organization, name) DO UPDATE
        SET event_time = excluded.event_time, sequencer = excluded.sequencer,
            source = excluded.source, e_tag = excluded.e_tag,
            idempotency_key = excluded.idempotency_key, image_id = excluded.image_id,
            mime_type = excluded.mime_type, width = excluded.width, height = excluded.height,
            size_bytes = excluded.size_bytes, run = excluded.run, search = excluded.search,
            classification_status = 'pending', classification_label = NULL,
            classification_score = NULL, classification_model = NULL, classified_at = NULL;
END
$$;

-- The one row of a name goes, what it knew goes with it, and its tombstone stays. Answers the number
-- of a run that was under way.
CREATE FUNCTION library_remove(
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
        -- The job before the row, as in classification_apply: the two cannot wait for each other.
        stopped := classification_stop(p_organization, p_name, marker, p_now);
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

-- The end of an event's delivery: its job, its mark, its history. False: the job is not ours any
-- more, and the caller rolls back.
CREATE FUNCTION event_settled(
    p_event bigint, p_job bigint, p_claim integer, p_organization text, p_entries jsonb,
    p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT job_finish(p_job, p_claim) THEN
        RETURN false;
    END IF;
    UPDATE object_events SET delivered_at = p_now WHERE id = p_event;
    PERFORM activity_append(p_organization, p_now, p_entries);
    RETURN true;
END
$$;

-- The guarded write of a result, together with the end of its job. Applies only where the entry
-- still has the marker and run the result was computed for; otherwise it is dropped, and history
-- says so instead of telling of a success.
CREATE FUNCTION classification_apply(
    p_organization text, p_name text, p_marker text, p_run integer, p_label text,
    p_score double precision, p_model text, p_words text[], p_now bigint,
    p_job bigint, p_claim integer, p_entries jsonb,
    OUT mine boolean, OUT taken boolean
)
LANGUAGE plpgsql AS $$
BEGIN
    mine := job_finish(p_job, p_claim);
    taken := false;
    IF NOT mine THEN
        RETURN;
    END IF;
    UPDATE uploads
    SET classification_status = 'done', classification_label = p_label,
        classification_score = p_score, classification_model = p_model, classified_at = p_now,
        search = array_to_tsvector(p_words)
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    taken := FOUND;
    UPDATE classification_runs
    SET status = CASE WHEN taken THEN 'done' ELSE 'dropped' END, finished_at = p_now, error = NULL
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    IF NOT taken THEN
        p_entries := jsonb_build_array(jsonb_build_object(
            'subject', 'upload:' || p_name, 'type', 'run_dropped',
            'data', jsonb_build_object('name', p_name, 'idempotencyKey', p_marker, 'run', p_run,
                                       'reason', 'the entry has moved on')));
    END IF;
    PERFORM activity_append(p_organization, p_now, p_entries);
END
$$;

-- The end of a run that is for nothing any more. False: the job is not ours.
CREATE FUNCTION classification_drop(
    p_organization text, p_name text, p_marker text, p_run integer, p_error jsonb, p_now bigint,
    p_job bigint, p_claim integer, p_entries jsonb
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT job_finish(p_job, p_claim) THEN
        RETURN false;
    END IF;
    UPDATE classification_runs SET status = 'dropped', finished_at = p_now, error = p_error
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run AND status <> 'done';
    PERFORM activity_append(p_organization, p_now, p_entries);
    RETURN true;
END
$$;
