-- The last statement of a unit of work: the end of its job, then its history. False: the job is
-- somebody else's by now, and the caller rolls everything back.
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
