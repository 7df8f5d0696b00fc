-- Called inside the statement or transaction that makes the job necessary. NULL: a living job of
-- this kind has the same key, and nothing was added. With an owner the job is born running, leased
-- to the caller, who runs it as soon as it has committed.
CREATE OR REPLACE FUNCTION job_enqueue(
    p_kind text, p_organization text, p_payload jsonb,
    p_key text DEFAULT NULL, p_node text DEFAULT NULL, p_priority integer DEFAULT 0,
    p_run_at timestamptz DEFAULT NULL, p_owner text DEFAULT NULL, p_lease interval DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_id bigint;
BEGIN
    INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at, delayed_at,
                      claim, attempts, owner, lease, lease_until)
    VALUES (p_kind, coalesce(p_organization, ''), coalesce(p_node, ''), p_payload, p_key, p_priority,
            CASE WHEN p_owner IS NOT NULL THEN 'running'
                 WHEN p_run_at > clock_timestamp() THEN 'delayed' ELSE 'queued' END,
            coalesce(p_run_at, now()), CASE WHEN p_run_at IS NOT NULL THEN clock_timestamp() END,
            (p_owner IS NOT NULL)::integer, (p_owner IS NOT NULL)::integer,
            p_owner, CASE WHEN p_owner IS NOT NULL THEN p_lease END,
            CASE WHEN p_owner IS NOT NULL THEN clock_timestamp() + p_lease END)
    ON CONFLICT (kind, key) WHERE key IS NOT NULL AND status <> 'dead' DO NOTHING
    RETURNING id INTO new_id;
    RETURN new_id;
END
$$;

-- The same for many that are ready at once, each with a key and perhaps an owner. Answers their ids, NULL
-- where a living job has the key.
CREATE OR REPLACE FUNCTION jobs_enqueue(
    p_kind text, p_organization text, p_node text, p_payloads jsonb[], p_keys text[],
    p_owners text[], p_lease interval
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    ids  bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_keys)]);
    born record;
BEGIN
    FOR born IN
        INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at,
                          claim, attempts, owner, lease, lease_until)
        SELECT p_kind, p_organization, p_node, wanted.payload, wanted.key, 0,
               CASE WHEN wanted.owner IS NULL THEN 'queued' ELSE 'running' END, now(),
               (wanted.owner IS NOT NULL)::integer, (wanted.owner IS NOT NULL)::integer, wanted.owner,
               CASE WHEN wanted.owner IS NOT NULL THEN p_lease END,
               CASE WHEN wanted.owner IS NOT NULL THEN clock_timestamp() + p_lease END
        FROM unnest(p_payloads, p_keys, p_owners) AS wanted (payload, key, owner)
        ON CONFLICT (kind, key) WHERE key IS NOT NULL AND status <> 'dead' DO NOTHING
        RETURNING id, key
    LOOP
        ids[array_position(p_keys, born.key)] := born.id;
    END LOOP;
    RETURN ids;
END
$$;

-- A dead letter of what no job needs to try: it can never be done as it is, and a person is to see it.
CREATE OR REPLACE FUNCTION job_letter(
    p_kind text, p_organization text, p_payload jsonb, p_error jsonb
) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, died_at, error)
    VALUES (p_kind, p_organization, '', p_payload, 0, 'dead', now(), now(), p_error)
    RETURNING id
$$;

-- The functions below keep one plan per connection. It may be made while the table is empty and used
-- when it is not, so plans that only suit a small table are forbidden, and everything after a claim
-- is fenced on (id, claim, lease_until IS NOT NULL), which only the primary key can serve. What looks
-- for a few among many may not sort or collect either, and names the order that one index alone has.

-- Ends a job inside the handler's own last statement. False: it is no longer the caller's, and
-- whatever hangs on this answer must not be written.
CREATE OR REPLACE FUNCTION job_finish(p_id bigint, p_claim integer) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM jobs WHERE id = p_id AND claim = p_claim AND lease_until IS NOT NULL;
    RETURN FOUND;
END
$$;

-- The same for many; answers those that were the caller's.
CREATE OR REPLACE FUNCTION job_finish_all(p_ids bigint[], p_claims integer[]) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_ids) LOOP
        IF job_finish(p_ids[i], p_claims[i]) THEN
            RETURN NEXT p_ids[i];
        END IF;
    END LOOP;
END
$$;

-- Queues jobs again after some seconds; answers those that were the caller's. One without an error
-- code did not fail, and one whose surroundings were away is not to blame: both have their attempt
-- refunded. An attempt that ended in words takes a death away, since it was none.
--
-- From its second death on a job is a suspect. It waits as `delayed`, where no claim sees it, until a
-- worker has time for it alone (job_take_suspect).
CREATE OR REPLACE FUNCTION job_return(
    p_ids bigint[], p_claims integer[], p_after double precision[], p_codes text[],
    p_messages text[], p_away boolean[]
) RETURNS SETOF bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    failed integer;
BEGIN
    FOR i IN 1 .. cardinality(p_ids) LOOP
        failed := (p_codes[i] IS NOT NULL)::integer;
        UPDATE jobs SET
            status = CASE WHEN p_after[i] > 0 OR deaths - failed >= 2 THEN 'delayed'
                          ELSE 'queued' END,
            run_at = CASE WHEN p_after[i] > 0
                          THEN clock_timestamp() + make_interval(secs => p_after[i])
                          ELSE run_at END,
            delayed_at = clock_timestamp(),
            attempts = attempts - (failed = 0 OR p_away[i])::integer,
            deaths = greatest(deaths - failed, 0),
            waits = CASE WHEN failed = 0 THEN waits WHEN p_away[i] THEN waits + 1 ELSE 0 END,
            error = CASE WHEN failed = 0 THEN error
                    ELSE jsonb_build_object('code', p_codes[i], 'message', p_messages[i]) END,
            owner = NULL, lease_until = NULL
        WHERE id = p_ids[i] AND claim = p_claims[i] AND lease_until IS NOT NULL;
        IF FOUND THEN
            RETURN NEXT p_ids[i];
        END IF;
    END LOOP;
END
$$;

-- As servers before job_return call it.
CREATE OR REPLACE FUNCTION job_put_back(
    p_ids bigint[], p_claims integer[], p_after double precision[], p_codes text[], p_messages text[]
) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT job_return(p_ids, p_claims, p_after, p_codes, p_messages,
                                   array_fill(false, ARRAY[cardinality(p_ids)]));
END
$$;

-- Puts a job off that has done its part for now: as if it had ended and been enqueued again, under the
-- same key. False: it is no longer the caller's.
CREATE OR REPLACE FUNCTION job_put_off(p_id bigint, p_claim integer, p_after double precision)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs SET status = CASE WHEN p_after > 0 THEN 'delayed' ELSE 'queued' END,
                    run_at = clock_timestamp() + make_interval(secs => p_after),
                    delayed_at = clock_timestamp(), attempts = 0, deaths = 0, waits = 0,
                    error = NULL, owner = NULL, lease_until = NULL
    WHERE id = p_id AND claim = p_claim AND lease_until IS NOT NULL;
    RETURN FOUND;
END
$$;

-- Whether a job is still the caller's; if so, it stays so until the transaction ends.
CREATE OR REPLACE FUNCTION job_hold(p_id bigint, p_claim integer) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM jobs WHERE id = p_id AND claim = p_claim AND lease_until IS NOT NULL
    FOR NO KEY UPDATE;
    RETURN FOUND;
END
$$;

-- Rows that are locked are being ended this very moment; waiting for them would delay the others.
CREATE OR REPLACE FUNCTION job_renew(p_ids bigint[], p_claims integer[], p_lease interval) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_ids) LOOP
        PERFORM FROM jobs
        WHERE id = p_ids[i] AND claim = p_claims[i] AND lease_until IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE jobs SET lease = p_lease, lease_until = clock_timestamp() + p_lease
            WHERE id = p_ids[i];
        END IF;
    END LOOP;
END
$$;

-- Takes a waiting job away, or also a running one, whose end is then refused. Answers its id.
CREATE OR REPLACE FUNCTION job_cancel(p_kind text, p_key text, p_running boolean) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM jobs WHERE kind = p_kind AND key = p_key AND status <> 'dead'
                       AND (p_running OR lease_until IS NULL)
    RETURNING id INTO gone;
    RETURN gone;
END
$$;

-- Moves a waiting job to another time. Answers its id.
CREATE OR REPLACE FUNCTION job_reschedule(p_kind text, p_key text, p_run_at timestamptz) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moved bigint;
BEGIN
    UPDATE jobs SET run_at = p_run_at, delayed_at = clock_timestamp(),
                    status = CASE WHEN p_run_at > clock_timestamp() OR deaths >= 2 THEN 'delayed'
                                  ELSE 'queued' END
    WHERE kind = p_kind AND key = p_key AND status <> 'dead' AND lease_until IS NULL
    RETURNING id INTO moved;
    RETURN moved;
END
$$;

-- The organizations with ready work at one priority, beginning after p_after and going round once.
CREATE OR REPLACE FUNCTION job_organizations(
    p_kind text, p_node text, p_priority integer, p_after text, p_limit integer
) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE walk(organization, wrapped) AS (
            SELECT p_after COLLATE "C", false
            UNION ALL
            SELECT step.organization, step.wrapped
            FROM walk CROSS JOIN LATERAL (
                (SELECT j.organization, walk.wrapped FROM jobs j
                 WHERE j.status = 'queued' AND j.kind = p_kind AND j.node = p_node
                   AND j.priority = p_priority AND j.organization > walk.organization
                   AND (NOT walk.wrapped OR j.organization <= p_after)
                 ORDER BY j.organization LIMIT 1)
                UNION ALL
                (SELECT j.organization, true FROM jobs j
                 WHERE NOT walk.wrapped AND j.status = 'queued' AND j.kind = p_kind
                   AND j.node = p_node AND j.priority = p_priority AND j.organization <= p_after
                 ORDER BY j.organization LIMIT 1)
                LIMIT 1
            ) AS step
        )
        SELECT organization FROM walk OFFSET 1 LIMIT p_limit
    );
END
$$;

-- Takes up to p_slots[i] jobs of p_kinds[i], counting the attempt: this node's own first, then by
-- priority, then a share for each organization in turn (beginning after p_after[i]), then by age.
-- Fewer than asked for means that no more were ready, or that someone else is taking them.
CREATE OR REPLACE FUNCTION job_take(
    p_kinds text[], p_slots integer[], p_after text[],
    p_node text, p_owner text, p_lease interval
) RETURNS TABLE (
    id bigint, kind text, organization text, payload jsonb, claim integer, attempts integer,
    deaths integer, waits integer, error jsonb
) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    home  text;
    free  integer;
    level integer;
    orgs  text[];
    share integer;
    taken integer;
BEGIN
    FOR i IN 1 .. cardinality(p_kinds) LOOP
        free := p_slots[i];
        FOREACH home IN ARRAY ARRAY[p_node, ''] LOOP
            WHILE free > 0 LOOP
                SELECT j.priority INTO level FROM jobs j
                WHERE j.status = 'queued' AND j.kind = p_kinds[i] AND j.node = home
                ORDER BY j.priority DESC LIMIT 1;
                EXIT WHEN NOT FOUND;
                orgs := job_organizations(p_kinds[i], home, level, p_after[i], free);
                share := ceil(free::numeric / greatest(cardinality(orgs), 1));
                RETURN QUERY
                UPDATE jobs SET status = 'running', owner = p_owner, claim = jobs.claim + 1,
                                attempts = jobs.attempts + 1, lease = p_lease,
                                lease_until = clock_timestamp() + p_lease
                WHERE id = ANY (ARRAY(
                    SELECT ready.id FROM unnest(orgs) AS org CROSS JOIN LATERAL (
                        SELECT j.id FROM jobs j
                        WHERE j.status = 'queued' AND j.kind = p_kinds[i] AND j.node = home
                          AND j.priority = level AND j.organization = org
                        ORDER BY j.run_at, j.id LIMIT share FOR UPDATE SKIP LOCKED
                    ) AS ready LIMIT free
                ))
                RETURNING jobs.id, jobs.kind, jobs.organization, jobs.payload, jobs.claim,
                          jobs.attempts, jobs.deaths, jobs.waits, jobs.error;
                GET DIAGNOSTICS taken = ROW_COUNT;
                EXIT WHEN taken = 0;
                free := free - taken;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;

-- As servers before job_take call it.
CREATE OR REPLACE FUNCTION job_claim(
    p_kinds text[], p_slots integer[], p_after text[],
    p_node text, p_owner text, p_lease interval
) RETURNS TABLE (
    id bigint, kind text, organization text, payload jsonb, claim integer, attempts integer
) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT t.id, t.kind, t.organization, t.payload, t.claim, t.attempts
                 FROM job_take(p_kinds, p_slots, p_after, p_node, p_owner, p_lease) AS t;
END
$$;

-- Takes one job of an organization other than p_busy, which fill all slots of its kind: this node's own
-- first, then of the highest priority there is.
CREATE OR REPLACE FUNCTION job_take_guest(
    p_kind text, p_busy text[], p_node text, p_owner text, p_lease interval
) RETURNS TABLE (
    id bigint, kind text, organization text, payload jsonb, claim integer, attempts integer,
    deaths integer, waits integer, error jsonb
) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    home  text;
    level integer;
BEGIN
    FOREACH home IN ARRAY ARRAY[p_node, ''] LOOP
        SELECT j.priority INTO level FROM jobs j
        WHERE j.status = 'queued' AND j.kind = p_kind AND j.node = home
        ORDER BY j.priority DESC LIMIT 1;
        RETURN QUERY
        UPDATE jobs SET status = 'running', owner = p_owner, claim = jobs.claim + 1,
                        attempts = jobs.attempts + 1, lease = p_lease,
                        lease_until = clock_timestamp() + p_lease
        WHERE id = ANY (ARRAY(
            SELECT first.id
            FROM unnest(job_organizations(p_kind, home, level, '', cardinality(p_busy) + 1)) AS org
            CROSS JOIN LATERAL (
                SELECT j.id FROM jobs j
                WHERE j.status = 'queued' AND j.kind = p_kind AND j.node = home
                  AND j.priority = level AND j.organization = org
                ORDER BY j.run_at, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) AS first
            WHERE org <> ALL (p_busy) LIMIT 1
        ))
        RETURNING jobs.id, jobs.kind, jobs.organization, jobs.payload, jobs.claim, jobs.attempts,
                  jobs.deaths, jobs.waits, jobs.error;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;

-- Takes a suspect of one of p_kinds that is due: of the fewest deaths, and due for longest.
CREATE OR REPLACE FUNCTION job_take_suspect(
    p_kinds text[], p_node text, p_owner text, p_lease interval
) RETURNS TABLE (
    id bigint, kind text, organization text, payload jsonb, claim integer, attempts integer,
    deaths integer, waits integer, error jsonb
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE jobs SET status = 'running', owner = p_owner, claim = jobs.claim + 1,
                    attempts = jobs.attempts + 1, lease = p_lease,
                    lease_until = clock_timestamp() + p_lease
    WHERE id = ANY (ARRAY(
        SELECT j.id FROM jobs j
        WHERE j.status = 'delayed' AND j.deaths >= 2 AND j.run_at <= now()
          AND j.kind = ANY (p_kinds) AND j.node IN ('', p_node)
        ORDER BY j.deaths, j.run_at LIMIT 1 FOR UPDATE SKIP LOCKED
    ))
    RETURNING jobs.id, jobs.kind, jobs.organization, jobs.payload, jobs.claim, jobs.attempts,
              jobs.deaths, jobs.waits, jobs.error;
END
$$;

-- Gives up p_ids for their workers: back to the queue, the attempt refunded, a death counted, the last
-- error kept. What p_owner has lost sight of itself (the answer to a claim never came) is no death.
-- A suspect waits longer each time, so that it is not always the first to run.
CREATE OR REPLACE FUNCTION job_orphan(p_ids bigint[], p_owner text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs SET
        status = CASE WHEN deaths + (owner <> p_owner)::integer >= 2 THEN 'delayed'
                      ELSE 'queued' END,
        run_at = CASE WHEN deaths + (owner <> p_owner)::integer >= 2
                      THEN clock_timestamp() + make_interval(secs => least(2 ^ (deaths - 1), 60))
                      ELSE run_at END,
        delayed_at = clock_timestamp(),
        deaths = deaths + (owner <> p_owner)::integer,
        attempts = attempts - 1,
        error = coalesce(error, jsonb_build_object('code', 'WORKER_DIED', 'message',
            format('The worker %s was lost while it had this job.', owner))),
        owner = NULL, lease_until = NULL
    WHERE id = ANY (p_ids);
END
$$;

-- Whoever calls this works under p_owner until its session ends; other workers see it go.
CREATE OR REPLACE FUNCTION job_enrol(p_owner text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM presence_lock(p_owner);
    INSERT INTO job_workers (owner) VALUES (p_owner) ON CONFLICT DO NOTHING;
    DELETE FROM job_workers AS w
    WHERE w.owner <> p_owner AND w.enrolled_at < now() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM jobs WHERE status = 'running' AND jobs.owner = w.owner)
      AND presence_gone(w.owner);
END
$$;

-- Takes the jobs of these workers away, of each that is still gone, whatever their leases say.
CREATE OR REPLACE FUNCTION job_take_over(p_owners text[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    gone text;
BEGIN
    FOREACH gone IN ARRAY p_owners LOOP
        IF presence_gone(gone) THEN
            PERFORM job_orphan(ARRAY(
                SELECT id FROM jobs WHERE status = 'running' AND owner = gone
                ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
            ), '');
        END IF;
    END LOOP;
END
$$;

-- Ticks are aligned to the epoch, so that every process means the same moment.
CREATE OR REPLACE FUNCTION job_next_tick(p_every_seconds integer) RETURNS timestamptz LANGUAGE sql AS $$
    SELECT to_timestamp((floor(extract(epoch FROM now()) / p_every_seconds) + 1) * p_every_seconds)
$$;

-- The database's clock was ahead and has been set right. A lease then lasts for its length from now on:
-- whoever lives renews it. What was put off waits as long from now on as it was meant to wait then.
-- A time that somebody chose by another clock cannot be told from it, and may come early.
CREATE OR REPLACE FUNCTION job_mend_times() RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    UPDATE jobs SET lease_until = now() + lease WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE status = 'running' AND lease_until > now() + 2 * lease
        ORDER BY lease_until FOR UPDATE SKIP LOCKED
    ));
    UPDATE jobs SET run_at = now() + greatest(run_at - delayed_at, interval '0'), delayed_at = now()
    WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE status = 'delayed' AND delayed_at > now() + interval '1 second'
        ORDER BY delayed_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
END
$$;

-- Moves on whatever has come due: delayed jobs, leases nobody renewed (unless the caller is patient
-- because everybody may have been cut off; and never the caller's own p_held), schedules. Answers
-- which of p_kinds have ready work, how many seconds there are until something is due again, or a
-- suspect, and which workers hold jobs and are gone.
CREATE OR REPLACE FUNCTION job_attend(
    p_kinds text[], p_node text, p_schedules text[], p_owner text, p_held bigint[],
    p_patient boolean,
    OUT ready text[], OUT wait double precision, OUT suspect double precision, OUT absent text[]
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    due record;
BEGIN
    PERFORM job_mend_times();
    UPDATE jobs SET status = 'queued' WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE status = 'delayed' AND run_at <= now() AND deaths < 2
        ORDER BY run_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
    IF NOT p_patient THEN
        PERFORM job_orphan(ARRAY(
            SELECT id FROM jobs WHERE status = 'running' AND lease_until <= now()
                                  AND NOT (owner = p_owner AND id = ANY (p_held))
            ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
        ), p_owner);
    END IF;
    FOR due IN
        UPDATE job_schedules SET next_at = job_next_tick(every_seconds)
        WHERE name = ANY (ARRAY(
            SELECT name FROM job_schedules
            WHERE name = ANY (p_schedules)
              AND (next_at <= now() OR next_at > now() + make_interval(secs => every_seconds + 1))
            FOR UPDATE SKIP LOCKED
        )) RETURNING kind, name, node
    LOOP
        PERFORM job_enqueue(due.kind, '', '{}', due.name, due.node);
    END LOOP;
    ready := ARRAY(
        SELECT k FROM unnest(p_kinds) AS k CROSS JOIN LATERAL (
            SELECT FROM jobs WHERE status = 'queued' AND kind = k AND node IN ('', p_node) LIMIT 1
        ) AS any_job
    );
    wait := extract(epoch FROM least(
        (SELECT run_at FROM jobs WHERE status = 'delayed' AND deaths < 2 ORDER BY run_at LIMIT 1),
        (SELECT min(lease_until) FROM jobs WHERE status = 'running' AND NOT p_patient),
        (SELECT min(next_at) FROM job_schedules WHERE name = ANY (p_schedules))
    ) - clock_timestamp());
    suspect := extract(epoch FROM (
        SELECT min(run_at) FROM (
            SELECT run_at FROM jobs WHERE status = 'delayed' AND deaths >= 2
                                      AND kind = ANY (p_kinds) AND node IN ('', p_node)
            ORDER BY deaths, run_at OFFSET 0
        ) AS suspects
    ) - clock_timestamp());
    absent := ARRAY(
        SELECT DISTINCT owner FROM (
            SELECT owner FROM jobs WHERE status = 'running' AND owner <> p_owner
            ORDER BY lease_until OFFSET 0
        ) AS holders JOIN job_workers USING (owner) WHERE presence_gone(owner)
    );
END
$$;

-- As servers before job_attend call it.
CREATE OR REPLACE FUNCTION job_tend(
    p_kinds text[], p_node text, p_schedules text[], OUT ready text[], OUT wait double precision
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT seen.ready, seen.wait INTO ready, wait
    FROM job_attend(p_kinds, p_node, p_schedules, '', '{}', false) AS seen;
END
$$;

-- Whether the queue has a job of this kind and key that will run, runs, or waits for its time.
CREATE OR REPLACE FUNCTION job_lives(p_kind text, p_key text) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM jobs WHERE kind = p_kind AND key = p_key AND status <> 'dead';
    RETURN FOUND;
END
$$;

-- How the living job of a key stands: its status, when it is tried again if it waits for that, and why.
CREATE OR REPLACE FUNCTION job_standing(
    p_kind text, p_key text, OUT status text, OUT next_at bigint, OUT error jsonb
)
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    SELECT job.status,
           CASE WHEN job.status = 'delayed' THEN extract(epoch FROM job.run_at) * 1000 END,
           CASE WHEN job.status = 'delayed' THEN job.error END
    INTO status, next_at, error
    FROM jobs AS job WHERE job.kind = p_kind AND job.key = p_key AND job.status <> 'dead';
END
$$;

-- The payloads of an organization's jobs of a kind that workers have now: few, whatever waits.
CREATE OR REPLACE FUNCTION jobs_at_work(p_kind text, p_organization text) RETURNS SETOF jsonb
LANGUAGE sql STABLE AS $$
    SELECT payload FROM jobs
    WHERE status = 'running' AND kind = p_kind AND organization = p_organization
$$;

-- Makes jobs a node's whose files are there, whichever node they were of; dead ones too, so that they are run
-- there when somebody wants them to. Answers how many.
CREATE OR REPLACE FUNCTION job_adopt(p_kind text, p_keys text[], p_node text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    adopted integer;
    buried  integer;
BEGIN
    UPDATE jobs SET node = p_node
    WHERE kind = p_kind AND key = ANY (p_keys) AND status <> 'dead' AND node <> p_node;
    GET DIAGNOSTICS adopted = ROW_COUNT;
    UPDATE jobs SET node = p_node
    WHERE kind = p_kind AND key = ANY (p_keys) AND status = 'dead' AND node <> p_node;
    GET DIAGNOSTICS buried = ROW_COUNT;
    RETURN adopted + buried;
END
$$;

-- What waits for each node: its jobs of one kind, dead ones too; those of others that will run, except what it
-- does by the clock; since when the oldest waits. `served`: somebody has moved on its schedules within the
-- hour, which is all that is known of a server of a version that tells nothing else.
CREATE OR REPLACE FUNCTION jobs_by_node(p_kind text)
RETURNS TABLE (node text, of_kind bigint, others bigint, oldest timestamptz, served boolean)
LANGUAGE sql STABLE AS $$
    SELECT jobs.node,
           count(*) FILTER (WHERE jobs.kind = p_kind),
           count(*) FILTER (WHERE jobs.kind <> p_kind),
           min(jobs.created_at),
           EXISTS (SELECT FROM job_schedules AS schedule
                   WHERE schedule.node = jobs.node AND next_at > now() - interval '1 hour')
    FROM jobs
    WHERE jobs.node <> '' AND (jobs.kind = p_kind OR jobs.status <> 'dead')
      AND NOT EXISTS (SELECT FROM job_schedules AS schedule WHERE schedule.name = jobs.key)
    GROUP BY jobs.node
$$;

-- Takes jobs of a kind away from a node, whoever has them, and answers their keys; dead ones too if asked.
CREATE OR REPLACE FUNCTION jobs_take_away(
    p_kind text, p_node text, p_organization text, p_limit integer, p_dead boolean
) RETURNS text[]
LANGUAGE sql AS $$
    WITH taken AS (
        DELETE FROM jobs WHERE id = ANY (ARRAY(
            SELECT id FROM jobs
            WHERE kind = p_kind AND node = p_node AND organization = p_organization
              AND (p_dead OR status <> 'dead')
            ORDER BY id LIMIT p_limit
        )) RETURNING key
    )
    SELECT coalesce(array_agg(key), '{}') FROM taken
$$;

-- An organization whose jobs wait for that node; NULL: none does.
CREATE OR REPLACE FUNCTION jobs_owner_of_next(p_kinds text[], p_node text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT organization FROM jobs
    WHERE node = p_node AND kind = ANY (p_kinds) AND (kind = p_kinds[1] OR status <> 'dead') LIMIT 1
$$;

-- What a node was to do by the clock, and did not: nobody waits for it. Its schedules stay, for a process that
-- was only cut off.
CREATE OR REPLACE FUNCTION node_ticks_end(p_node text) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM jobs
    WHERE node = p_node AND key IN (SELECT name FROM job_schedules WHERE node = p_node)
$$;
