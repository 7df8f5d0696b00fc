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
    INSERT INTO jobs (kind, organization, node, payload, key, priority, status, run_at,
                      claim, attempts, owner, lease_until)
    VALUES (p_kind, coalesce(p_organization, ''), coalesce(p_node, ''), p_payload, p_key, p_priority,
            CASE WHEN p_owner IS NOT NULL THEN 'running'
                 WHEN p_run_at > clock_timestamp() THEN 'delayed' ELSE 'queued' END,
            coalesce(p_run_at, now()),
            (p_owner IS NOT NULL)::integer, (p_owner IS NOT NULL)::integer,
            p_owner, CASE WHEN p_owner IS NOT NULL THEN clock_timestamp() + p_lease END)
    ON CONFLICT (kind, key) WHERE key IS NOT NULL AND status <> 'dead' DO NOTHING
    RETURNING id INTO new_id;
    RETURN new_id;
END
$$;

-- The functions below keep one plan per connection. It may be made while the table is empty and used
-- when it is not, so plans that only suit a small table are forbidden, and everything after a claim
-- is fenced on (id, claim, lease_until IS NOT NULL), which only the primary key can serve.

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
-- code did not fail: it keeps its place and has its attempt refunded.
CREATE OR REPLACE FUNCTION job_put_back(
    p_ids bigint[], p_claims integer[], p_after double precision[], p_codes text[], p_messages text[]
) RETURNS SETOF bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_ids) LOOP
        UPDATE jobs SET
            status = CASE WHEN p_after[i] > 0 THEN 'delayed' ELSE 'queued' END,
            run_at = CASE WHEN p_after[i] > 0
                          THEN clock_timestamp() + make_interval(secs => p_after[i])
                          ELSE run_at END,
            attempts = attempts - (p_codes[i] IS NULL)::integer,
            error = CASE WHEN p_codes[i] IS NULL THEN error
                    ELSE jsonb_build_object('code', p_codes[i], 'message', p_messages[i]) END,
            owner = NULL, lease_until = NULL
        WHERE id = p_ids[i] AND claim = p_claims[i] AND lease_until IS NOT NULL;
        IF FOUND THEN
            RETURN NEXT p_ids[i];
        END IF;
    END LOOP;
END
$$;

-- Puts a job off that has done its part for now: as if it had ended and been enqueued again, under the
-- same key. False: it is no longer the caller's.
CREATE OR REPLACE FUNCTION job_put_off(p_id bigint, p_claim integer, p_after double precision)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE jobs SET status = CASE WHEN p_after > 0 THEN 'delayed' ELSE 'queued' END,
                    run_at = clock_timestamp() + make_interval(secs => p_after),
                    attempts = 0, error = NULL, owner = NULL, lease_until = NULL
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
            UPDATE jobs SET lease_until = clock_timestamp() + p_lease WHERE id = p_ids[i];
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
    UPDATE jobs SET run_at = p_run_at,
                    status = CASE WHEN p_run_at > clock_timestamp() THEN 'delayed' ELSE 'queued' END
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
CREATE OR REPLACE FUNCTION job_claim(
    p_kinds text[], p_slots integer[], p_after text[],
    p_node text, p_owner text, p_lease interval
) RETURNS TABLE (
    id bigint, kind text, organization text, payload jsonb, claim integer, attempts integer
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
                                attempts = jobs.attempts + 1,
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
                          jobs.attempts;
                GET DIAGNOSTICS taken = ROW_COUNT;
                EXIT WHEN taken = 0;
                free := free - taken;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;

-- Ticks are aligned to the epoch, so that every process means the same moment.
CREATE OR REPLACE FUNCTION job_next_tick(p_every_seconds integer) RETURNS timestamptz LANGUAGE sql AS $$
    SELECT to_timestamp((floor(extract(epoch FROM now()) / p_every_seconds) + 1) * p_every_seconds)
$$;

-- Moves on whatever has come due: delayed jobs, leases nobody renewed, schedules. Answers which of
-- p_kinds have ready work and how many seconds there are until something is due again.
CREATE OR REPLACE FUNCTION job_tend(
    p_kinds text[], p_node text, p_schedules text[], OUT ready text[], OUT wait double precision
) LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    due record;
BEGIN
    UPDATE jobs SET status = 'queued' WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE status = 'delayed' AND run_at <= now()
        ORDER BY run_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
    UPDATE jobs SET status = 'queued', owner = NULL, lease_until = NULL,
                    error = jsonb_build_object('code', 'WORKER_DIED', 'message',
                        format('The worker %s stopped renewing its lease.', owner))
    WHERE id = ANY (ARRAY(
        SELECT id FROM jobs WHERE status = 'running' AND lease_until <= now()
        ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
    FOR due IN
        UPDATE job_schedules SET next_at = job_next_tick(every_seconds)
        WHERE name = ANY (ARRAY(
            SELECT name FROM job_schedules WHERE name = ANY (p_schedules) AND next_at <= now()
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
        (SELECT min(run_at) FROM jobs WHERE status = 'delayed'),
        (SELECT min(lease_until) FROM jobs WHERE status = 'running'),
        (SELECT min(next_at) FROM job_schedules WHERE name = ANY (p_schedules))
    ) - clock_timestamp());
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

-- Makes jobs a node's whose files are there, whichever node they were of. Answers how many.
CREATE OR REPLACE FUNCTION job_adopt(p_kind text, p_keys text[], p_node text) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    adopted integer;
BEGIN
    UPDATE jobs SET node = p_node
    WHERE kind = p_kind AND key = ANY (p_keys) AND status <> 'dead' AND node <> p_node;
    GET DIAGNOSTICS adopted = ROW_COUNT;
    RETURN adopted;
END
$$;
