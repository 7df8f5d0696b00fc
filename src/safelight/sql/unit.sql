-- The last statement of a unit of work, sent in one message with COMMIT: the end of its job, then its
-- history, [{organization, lines}, …], in an order that is everybody's so that two units cannot wait
-- for each other in a ring. Raises SL002 when the job is somebody else's by now.
CREATE OR REPLACE FUNCTION unit_finish(p_job bigint, p_claim integer, p_at bigint, p_told jsonb)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    told jsonb;
BEGIN
    IF p_job IS NOT NULL AND NOT job_finish(p_job, p_claim) THEN
        RAISE 'job % is no longer the caller''s', p_job USING ERRCODE = 'SL002';
    END IF;
    FOR told IN
        SELECT each FROM jsonb_array_elements(p_told) AS each
        ORDER BY each ->> 'organization' COLLATE "C"
    LOOP
        PERFORM activity_append(told ->> 'organization', p_at, told -> 'lines');
    END LOOP;
END
$$;

-- For servers of the version before, which commit in a message of its own.
CREATE OR REPLACE FUNCTION unit_close(
    p_job bigint, p_claim integer, p_organization text, p_at bigint, p_lines jsonb
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF p_job IS NOT NULL AND NOT job_finish(p_job, p_claim) THEN
        RETURN false;
    END IF;
    IF jsonb_array_length(p_lines) > 0 THEN
        PERFORM activity_append(p_organization, p_at, p_lines);
    END IF;
    RETURN true;
END
$$;
