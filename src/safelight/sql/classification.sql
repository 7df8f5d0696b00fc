-- What a run is known by in the queue. With the name, since a copy of an object keeps its marker.
CREATE OR REPLACE FUNCTION classification_key(p_organization text, p_name text, p_marker text)
RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT p_organization || '/' || p_name || '/' || p_marker $$;

-- Whether a run goes on by itself: RunStatus.under_way in library/entry.py.
CREATE OR REPLACE FUNCTION classification_under_way(p_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT p_status IN ('pending', 'running') $$;

-- How a run stands. One that is said to be under way counts only if the queue knows its job. One
-- statement: the end of a run and of its job are seen together or not at all.
CREATE OR REPLACE FUNCTION classification_status(
    p_organization text, p_name text, p_marker text, p_run integer
) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT status FROM classification_runs
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run
      AND (NOT classification_under_way(status) OR job_lives(
               'classification.run', classification_key(p_organization, p_name, p_marker)))
$$;

-- The same for those who look at an entry: `running` while a worker has its job, and otherwise what was
-- written. With it, when the next attempt is due, and what the last one said.
CREATE OR REPLACE FUNCTION classification_standing(
    p_organization text, p_name text, p_marker text, p_run integer, p_status text,
    OUT status text, OUT next_attempt_at bigint, OUT error jsonb
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    job record;
BEGIN
    status := p_status;
    IF p_status = 'done' THEN
        RETURN;
    END IF;
    SELECT runs.error INTO error FROM classification_runs AS runs
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run;
    IF classification_under_way(p_status) THEN
        SELECT * INTO job FROM job_standing(
            'classification.run', classification_key(p_organization, p_name, p_marker));
        status := CASE WHEN job.status = 'running' THEN 'running' ELSE 'pending' END;
        next_attempt_at := job.next_at;
        error := coalesce(job.error, error);
    END IF;
END
$$;

-- The markers for which a worker is at work now.
CREATE OR REPLACE FUNCTION classification_at_work(p_organization text, OUT name text, OUT marker text)
RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT payload ->> 'name', payload ->> 'idempotencyKey'
    FROM jobs_at_work('classification.run', p_organization) AS payload
$$;

-- The best labels that a run found: [{label, score}, …].
CREATE OR REPLACE FUNCTION classification_labels(
    p_organization text, p_name text, p_marker text, p_run integer
) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT labels FROM classification_runs
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run
$$;

-- Whether nothing works for a marker: the queue has no job for it that waits or runs.
CREATE OR REPLACE FUNCTION classification_idle(p_organization text, p_name text, p_marker text)
RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT job_lives('classification.run', classification_key(p_organization, p_name, p_marker))
$$;

-- Starts a run for a marker. Nothing else of that marker may be alive in the queue: it is asked also
-- where our own notes know of no run; what is there is taken away first, and a clash all the same is
-- an error, never a success.
CREATE OR REPLACE FUNCTION classification_start(
    p_organization text, p_name text, p_marker text, p_now bigint
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    next_run integer;
BEGIN
    SELECT coalesce(max(run), 0) + 1 INTO next_run FROM classification_runs
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker;
    PERFORM classification_stop(p_organization, p_name, p_marker, p_now);
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

-- A further run, after `p_run`, of a marker that has its label: below those of uploads that have none yet. It takes nobody's
-- place: nothing else works for the marker, and if something does all the same, that is an error.
CREATE OR REPLACE FUNCTION classification_again(
    p_organization text, p_name text, p_marker text, p_run integer, p_now bigint
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    next_run integer;
BEGIN
    SELECT greatest(max(run), p_run) + 1 INTO next_run FROM classification_runs
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker;
    INSERT INTO classification_runs (organization, name, idempotency_key, run, status, started_at)
    VALUES (p_organization, p_name, p_marker, next_run, 'pending', p_now);
    IF job_enqueue('classification.run', p_organization,
                   jsonb_build_object('name', p_name, 'idempotencyKey', p_marker, 'run', next_run),
                   classification_key(p_organization, p_name, p_marker), p_priority => -5) IS NULL THEN
        RAISE 'a run of % is still in the queue', p_marker;
    END IF;
    RETURN next_run;
END
$$;

-- Counts the runs of a reclassification that have ended, and lets go of them. One of which nothing is known
-- any more was for nothing.
CREATE OR REPLACE FUNCTION reclassification_count(
    p_id text, OUT done bigint, OUT failed bigint, OUT skipped bigint, OUT under_way bigint
)
LANGUAGE sql AS $$
    WITH standing AS (
        SELECT begun.name, coalesce(runs.status, 'dropped') AS status
        FROM reclassifying AS begun
        JOIN reclassifications AS whole ON whole.id = begun.reclassification
        LEFT JOIN classification_runs AS runs
          ON runs.organization = whole.organization AND runs.name = begun.name
         AND runs.idempotency_key = begun.idempotency_key AND runs.run = begun.run
        WHERE begun.reclassification = p_id
    ), gone AS (
        DELETE FROM reclassifying
        WHERE reclassification = p_id AND name IN (
            SELECT name FROM standing WHERE NOT classification_under_way(status))
    )
    SELECT count(*) FILTER (WHERE status = 'done'), count(*) FILTER (WHERE status = 'failed'),
           count(*) FILTER (WHERE status = 'dropped'),
           count(*) FILTER (WHERE classification_under_way(status))
    FROM standing
$$;

-- Begins the next runs of a reclassification, `p_most` at most, and notes the place. Answers those entries,
-- how many were left out, and whether there are no more.
CREATE OR REPLACE FUNCTION reclassification_go_on(
    p_id text, p_most integer, p_now bigint,
    OUT begun jsonb, OUT left_out bigint, OUT over boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    whole reclassifications%ROWTYPE;
    seen  jsonb;
BEGIN
    SELECT * INTO whole FROM reclassifications WHERE id = p_id;
    SELECT coalesce(jsonb_agg(to_jsonb(each) ORDER BY place), '[]') INTO seen
    FROM library_again(whole.organization, whole.label, whole.not_by, whole.place_time,
                       whole.place_name, p_most, p_now)
         WITH ORDINALITY AS each (event_time, name, marker, wanted, run, place);
    over := seen = '[]';
    begun := jsonb_path_query_array(seen, '$[*] ? (@.run != null)');
    left_out := jsonb_array_length(jsonb_path_query_array(seen, '$[*] ? (@.wanted == true && @.run == null)'));
    IF NOT over THEN
        UPDATE reclassifications
        SET place_time = (seen -> -1 ->> 'event_time')::bigint, place_name = seen -> -1 ->> 'name'
        WHERE id = p_id;
        INSERT INTO reclassifying (reclassification, name, idempotency_key, run)
        SELECT p_id, one.name, one.marker, one.run
        FROM jsonb_to_recordset(begun) AS one (name text, marker text, run integer);
    END IF;
END
$$;

-- The first runs of markers that nobody has seen before. Answers their jobs, in the order of the items; those
-- that are `leased` are `p_owner`'s. A marker that was seen all the same is an error, like a clash of runs.
CREATE OR REPLACE FUNCTION classifications_begin(
    p_organization text, p_items jsonb, p_now bigint, p_owner text, p_lease interval
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    payloads jsonb[];
    keys     text[];
    owners   text[];
    jobs     bigint[];
BEGIN
    INSERT INTO classification_runs (organization, name, idempotency_key, run, status, started_at)
    SELECT p_organization, item.name, item.marker, 1, 'pending', p_now
    FROM jsonb_to_recordset(p_items) AS item (name text, marker text);
    SELECT array_agg(jsonb_build_object('name', item.name, 'idempotencyKey', item.marker, 'run', 1)),
           array_agg(classification_key(p_organization, item.name, item.marker)),
           array_agg(CASE WHEN item.leased THEN p_owner END)
    INTO payloads, keys, owners
    FROM jsonb_to_recordset(p_items) AS item (name text, marker text, leased boolean);
    jobs := jobs_enqueue('classification.run', p_organization, '', payloads, keys, owners, p_lease);
    IF array_position(jobs, NULL) IS NOT NULL THEN
        RAISE 'a run of % is still in the queue', keys[array_position(jobs, NULL)];
    END IF;
    RETURN jobs;
END
$$;

-- Stops whatever works for a marker. The queue is asked, and outranks the run's own row; nothing
-- being there, or it having ended, is fine. Answers the number of a run that was under way.
CREATE OR REPLACE FUNCTION classification_stop(
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
      AND classification_under_way(status)
    RETURNING run INTO stopped;
    RETURN stopped;
END
$$;

-- Embeddings have a table where the server knows vectors. Asked at every start (infra/migrate.py), so that
-- installing pgvector and starting again is all it takes; without it everything else works. No index but
-- the key: an organization's are compared one by one. PLAIN: 2.5 KB stay beside their key.
CREATE OR REPLACE FUNCTION embeddings_at_start() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('embeddings') IS NOT NULL THEN
        RETURN true;
    END IF;
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE embeddings (
        organization    text NOT NULL,
        name            text NOT NULL,
        idempotency_key text NOT NULL,
        model           text NOT NULL,
        vector          halfvec NOT NULL,
        PRIMARY KEY (organization, name)
    );
    ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE PLAIN;
    RETURN true;
EXCEPTION WHEN OTHERS THEN  -- there is none, or an old one, or we may not
    RAISE WARNING 'embeddings cannot be kept: %', SQLERRM;
    RETURN false;
END
$$;

-- Keeps the embedding of an entry, whose row is locked. None was found: what there is stays.
-- `anyelement` is a halfvec, which not every server knows.
CREATE OR REPLACE FUNCTION classification_embedding(
    p_organization text, p_name text, p_marker text, p_model text, p_embedding anyelement
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_embedding IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO embeddings (organization, name, idempotency_key, model, vector)
    VALUES (p_organization, p_name, p_marker, p_model, p_embedding)
    ON CONFLICT (organization, name) DO UPDATE
        SET idempotency_key = excluded.idempotency_key, model = excluded.model,
            vector = excluded.vector;
END
$$;

-- The entry that looks most like another one, by its embedding, or is of the same bytes. Those are looked at
-- that may: some thousand at most. None where that is less than `p_least`.
CREATE OR REPLACE FUNCTION classification_nearest(
    p_organization text, p_name text, p_marker text, p_run integer, p_least real,
    OUT name text, OUT marker text, OUT similarity real
)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    labels constant text[] := ARRAY(SELECT each ->> 'label' FROM jsonb_array_elements(
        classification_labels(p_organization, p_name, p_marker, p_run)) AS each);
BEGIN
    IF to_regclass('embeddings') IS NULL THEN
        SELECT near.name, near.marker, 1 INTO name, marker, similarity
        FROM library_alike(p_organization, p_name, labels, 1000, 200) AS near WHERE same LIMIT 1;
        RETURN;
    END IF;
    SELECT near.name, near.marker, least(likeness, 1) INTO name, marker, similarity
    FROM library_alike(p_organization, p_name, labels, 1000, 200) AS near
    LEFT JOIN embeddings AS own ON own.organization = p_organization AND own.name = p_name
                               AND own.idempotency_key = p_marker
    LEFT JOIN embeddings AS other ON other.organization = p_organization AND other.name = near.name
                                 AND other.idempotency_key = near.marker AND other.model = own.model
    CROSS JOIN LATERAL (SELECT CASE WHEN same THEN 1 ELSE -(own.vector <#> other.vector) END
                        AS likeness) AS found
    WHERE likeness >= p_least
    ORDER BY likeness DESC, near.name LIMIT 1;
END
$$;

-- Puts an entry into the group of the one that looks most like it. False: it cannot be compared yet, since
-- its embedding, if such are kept, is still to come.
CREATE OR REPLACE FUNCTION classification_twin(
    p_organization text, p_name text, p_marker text, p_seq bigint, p_embeds boolean, p_least real
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    entry   record;
    nearest record;
    groups  bigint[];  -- of these two, as far as they have one
BEGIN
    entry := library_drawn_as(p_organization, p_name, p_marker);
    IF entry.run IS NULL THEN
        RETURN true;  -- it has moved on
    ELSIF p_embeds AND entry.drawn & 12 = 0 THEN
        RETURN false;
    END IF;
    nearest := classification_nearest(p_organization, p_name, p_marker, entry.run, p_least);
    IF nearest.name IS NULL THEN
        RETURN true;
    END IF;
    groups := ARRAY(SELECT DISTINCT twins FROM twins
                    WHERE organization = p_organization AND name IN (p_name, nearest.name)
                    ORDER BY twins);
    IF cardinality(groups) = 2 THEN
        UPDATE twins SET twins = groups[1] WHERE organization = p_organization AND twins = groups[2];
    END IF;
    INSERT INTO twins AS known (organization, name, idempotency_key, twins, similarity)
    VALUES (p_organization, p_name, p_marker, coalesce(groups[1], p_seq), nearest.similarity),
           (p_organization, nearest.name, nearest.marker, coalesce(groups[1], p_seq),
            nearest.similarity)
    ON CONFLICT (organization, name) DO UPDATE
        SET idempotency_key = excluded.idempotency_key,
            similarity = CASE WHEN known.idempotency_key = excluded.idempotency_key
                              THEN greatest(known.similarity, excluded.similarity)
                              ELSE excluded.similarity END;
    RETURN true;
END
$$;

-- Compares entries that were labelled, in the order of the lines that tell of it, and notes how far that has
-- come: to `p_end`, or to the one before the first that has to wait, which is the answer then.
CREATE OR REPLACE FUNCTION classification_compare(
    p_organization text, p_items jsonb, p_end bigint, p_embeds boolean, p_least real
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    item    jsonb;
    reached bigint := p_end;
BEGIN
    FOR item IN SELECT each FROM jsonb_array_elements(p_items) AS each LOOP
        IF NOT classification_twin(p_organization, item ->> 'name', item ->> 'marker',
                                   (item ->> 'seq')::bigint, p_embeds, p_least) THEN
            reached := (item ->> 'seq')::bigint - 1;
            EXIT;
        END IF;
    END LOOP;
    INSERT INTO twins_known (organization, seq) VALUES (p_organization, reached)
    ON CONFLICT (organization) DO UPDATE SET seq = excluded.seq;
    RETURN reached;
END
$$;

-- What was found of an image besides its label goes with its entry.
CREATE OR REPLACE FUNCTION classification_forget(p_organization text, p_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM twins WHERE organization = p_organization AND name = p_name;
    IF to_regclass('embeddings') IS NOT NULL THEN
        DELETE FROM embeddings WHERE organization = p_organization AND name = p_name;
    END IF;
END
$$;

-- The guarded write of results of one organization, each a unit of work, all in one statement: the end of
-- its job, the label and what was drawn with it, at last the history. A result applies only where the entry
-- still has the marker and run it was computed for; otherwise the run is dropped, and history tells of
-- that (`dropped`) instead of a success (`told`). `taken` is NULL where the entry is of other bytes than
-- those looked at: nothing was written, and the job goes on. In the order of their names, as whoever
-- changes several does it: two cannot wait for each other in a ring. The answers are in the order of the
-- items; thumbnails and embeddings stand beside them. The states a run may come from (`p_from`, here and
-- below) are the machine's.
CREATE OR REPLACE FUNCTION classification_results(
    p_organization text, p_items jsonb, p_from text[], p_thumbnails bytea[], p_embeddings anyarray,
    p_now bigint, OUT mine boolean, OUT taken boolean
) RETURNS SETOF record
LANGUAGE plpgsql AS $$
DECLARE
    item   jsonb;
    at     integer;
    places integer[] := '{1}';  -- in the order of names; nearly always there is one
    marker text;
    mines  boolean[] := '{}';
    takens boolean[];
    lines  jsonb := '[]';
BEGIN
    IF jsonb_array_length(p_items) <> 1 THEN
        places := ARRAY(SELECT n FROM generate_series(1, jsonb_array_length(p_items)) AS n
                        ORDER BY p_items -> (n - 1) ->> 'name' COLLATE "C", n);
    END IF;
    FOREACH at IN ARRAY places LOOP
        item := p_items -> (at - 1);
        marker := item ->> 'marker';
        mine := true;
        taken := NULL;
        IF NOT library_differs(p_organization, item ->> 'name', marker, item ->> 'digest') THEN
            mine := job_finish((item ->> 'job')::bigint, (item ->> 'claim')::integer);
            taken := mine AND library_result(
                p_organization, item ->> 'name', marker, (item ->> 'run')::integer, item,
                p_thumbnails[at], p_now);
        END IF;
        mines[at] := mine;
        takens[at] := taken;
        CONTINUE WHEN NOT mine OR taken IS NULL;
        IF taken AND p_embeddings[at] IS NOT NULL THEN
            PERFORM classification_embedding(p_organization, item ->> 'name', marker,
                                             item ->> 'model', p_embeddings[at]);
        END IF;
        UPDATE classification_runs
        SET status = CASE WHEN taken THEN 'done' ELSE 'dropped' END, labels = item -> 'labels',
            finished_at = (item ->> 'at')::bigint, error = NULL
        WHERE organization = p_organization AND name = item ->> 'name'
          AND idempotency_key = marker AND run = (item ->> 'run')::integer
          AND status = ANY (p_from);
        lines := lines || (item -> CASE WHEN taken THEN 'told' ELSE 'dropped' END);
    END LOOP;
    FOR at IN 1 .. cardinality(mines) LOOP
        mine := mines[at];
        taken := takens[at];
        RETURN NEXT;
    END LOOP;
    IF lines <> '[]' THEN
        PERFORM activity_append(p_organization, p_now, lines);
    END IF;
END
$$;

-- What was drawn of an entry after its label, and the end of the job that did it. Nobody is told: for
-- those who look at the entry nothing has happened. False: the job is no longer the caller's.
CREATE OR REPLACE FUNCTION classification_drawn(
    p_organization text, p_name text, p_marker text, p_drawn smallint, p_digest text, p_color text,
    p_thumbnail bytea, p_model text, p_embedding anyelement, p_now bigint, p_job bigint, p_claim integer
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT job_finish(p_job, p_claim) THEN
        RETURN false;
    END IF;
    IF library_drawn(p_organization, p_name, p_marker, p_drawn, p_digest, p_color, p_thumbnail, p_now)
    THEN
        PERFORM classification_embedding(p_organization, p_name, p_marker, p_model, p_embedding);
    END IF;
    RETURN true;
END
$$;

-- Enqueues the drawing of entries that lack something (`p_drawn`), below everything else, until so many
-- wait for it. Answers how many were added.
CREATE OR REPLACE FUNCTION classification_draw(p_drawn smallint[], p_limit integer) RETURNS integer
LANGUAGE sql AS $$
    SELECT count(job_enqueue(
        'classification.draw', organization,
        jsonb_build_object('name', name, 'idempotencyKey', marker),
        classification_key(organization, name, marker), p_priority => -10))::integer
    FROM library_undrawn(p_drawn, p_limit)
$$;

-- The guarded write of one result, as servers before classification_results make it: the end of its job,
-- the label, the history. Applies only where the entry still has the marker and run the result was
-- computed for; otherwise the run is dropped, and history tells of that (`p_dropped`) instead of a
-- success. `p_labels` are the best ones, for the run.
CREATE OR REPLACE FUNCTION classification_done(
    p_organization text, p_name text, p_marker text, p_run integer, p_from text[], p_label text,
    p_score double precision, p_model text, p_labels jsonb, p_words text[], p_now bigint,
    p_job bigint, p_claim integer, p_lines jsonb, p_dropped jsonb,
    OUT mine boolean, OUT taken boolean
)
LANGUAGE plpgsql AS $$
BEGIN
    taken := false;
    mine := job_finish(p_job, p_claim);
    IF NOT mine THEN
        RETURN;
    END IF;
    taken := library_label(p_organization, p_name, p_marker, p_run, p_label, p_score, p_model,
                           p_words, p_now);
    UPDATE classification_runs
    SET status = CASE WHEN taken THEN 'done' ELSE 'dropped' END, labels = p_labels,
        finished_at = p_now, error = NULL
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run AND status = ANY (p_from);
    PERFORM activity_append(p_organization, p_now,
                            CASE WHEN taken THEN p_lines ELSE p_dropped END);
END
$$;

-- As servers before classification_done call it.
CREATE OR REPLACE FUNCTION classification_apply(
    p_organization text, p_name text, p_marker text, p_run integer, p_from text[], p_label text,
    p_score double precision, p_model text, p_words text[], p_now bigint,
    p_job bigint, p_claim integer, p_lines jsonb, p_dropped jsonb,
    OUT mine boolean, OUT taken boolean
)
LANGUAGE sql AS $$
    SELECT * FROM classification_done(
        p_organization, p_name, p_marker, p_run, p_from, p_label, p_score, p_model, NULL, p_words,
        p_now, p_job, p_claim, p_lines, p_dropped)
$$;

-- A failed attempt, or, without an error, one that is to come after a redrive. False: the entry has moved
-- on, and nobody should be told.
CREATE OR REPLACE FUNCTION classification_failed(
    p_organization text, p_name text, p_marker text, p_run integer, p_from text[], p_status text,
    p_attempt integer, p_error jsonb, p_finished_at bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE classification_runs
    SET status = p_status, attempt = p_attempt, error = p_error, finished_at = p_finished_at
    WHERE organization = p_organization AND name = p_name AND idempotency_key = p_marker
      AND run = p_run AND status = ANY (p_from);
    RETURN library_note(p_organization, p_name, p_marker, p_run, p_status);
END
$$;

-- Counts the death of a process that decoded the image of a run, and answers how many there were.
CREATE OR REPLACE FUNCTION classification_child_died(
    p_organization text, p_name text, p_marker text, p_run integer
) RETURNS integer
LANGUAGE sql AS $$
    UPDATE classification_runs SET child_deaths = child_deaths + 1
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run
    RETURNING child_deaths
$$;

-- A run whose job is a dead letter, of which run and entry know nothing yet.
CREATE OR REPLACE FUNCTION classification_gave_up(
    p_organization text, p_name text, p_marker text, p_run integer, p_from text[], p_error jsonb,
    p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE classification_runs SET status = 'failed', error = p_error, finished_at = p_now
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run AND status = ANY (p_from);
    PERFORM library_note(p_organization, p_name, p_marker, p_run, 'failed');
END
$$;

-- The end of a run that is for nothing any more.
CREATE OR REPLACE FUNCTION classification_drop(
    p_organization text, p_name text, p_marker text, p_run integer, p_from text[], p_error jsonb,
    p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE classification_runs SET status = 'dropped', finished_at = p_now, error = p_error
    WHERE organization = p_organization AND name = p_name
      AND idempotency_key = p_marker AND run = p_run AND status = ANY (p_from);
END
$$;

-- Forgets runs that ended before a time and whose marker is no longer their entry's, of so many runs after a
-- place, and answers the next place; NULL: that was all. What is under way, and every run of a marker that
-- an entry has, stays. By its key and not by stretches of time: a run is looked for by its marker alone, and
-- each stretch would have to be asked.
CREATE OR REPLACE FUNCTION classification_runs_forget(
    p_after text[], p_before bigint, p_limit integer
) RETURNS text[]
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    walked classification_runs[];
BEGIN
    SELECT array_agg(each) INTO walked FROM (
        SELECT each FROM classification_runs AS each
        WHERE (organization, name, idempotency_key, run)
            > (p_after[1], p_after[2], p_after[3], p_after[4]::integer)
        ORDER BY organization, name, idempotency_key, run LIMIT p_limit
    ) AS ordered;
    DELETE FROM classification_runs AS known USING unnest(walked) AS seen
    WHERE known.organization = seen.organization AND known.name = seen.name
      AND known.idempotency_key = seen.idempotency_key AND known.run = seen.run
      AND NOT classification_under_way(known.status)
      AND coalesce(known.finished_at, known.started_at) < p_before
      AND NOT library_marked(known.organization, known.name, known.idempotency_key);
    IF cardinality(walked) = p_limit THEN
        RETURN ARRAY[walked[p_limit].organization, walked[p_limit].name,
                     walked[p_limit].idempotency_key, walked[p_limit].run::text];
    END IF;
    RETURN NULL;
END
$$;
