-- Counts an attempt as failed for its subjects, unless one of them has more failures than whoever decided
-- saw, or newer ones: false, and they decide again. The locks end with this statement, so that nobody
-- waits for somebody who makes up his mind. Subjects come sorted, as everybody's do.
CREATE OR REPLACE FUNCTION sign_in_count(
    p_attempt text, p_subjects text[], p_seen integer[], p_newest bigint[], p_since bigint, p_now bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    locked text;
BEGIN
    FOREACH locked IN ARRAY p_subjects LOOP
        PERFORM sign_in_lock(locked);
    END LOOP;
    PERFORM FROM unnest(p_subjects, p_seen, p_newest) AS seen (subject, failures, newest)
    JOIN sign_in_failures AS failure ON failure.subject = seen.subject AND failure.at > p_since
    GROUP BY seen.subject, seen.failures, seen.newest
    HAVING count(*) > seen.failures OR max(failure.at) > seen.newest;
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO sign_in_failures (attempt, subject, at) SELECT p_attempt, unnest(p_subjects), p_now;
    RETURN true;
END
$$;
