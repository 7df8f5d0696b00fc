-- Tables that grow with time are kept by stretches of their numbers, which rise with it: each stretch is a
-- partition. What names a number finds its stretch at once; new ones are made ahead, and of old ones that
-- hardly anybody needs, what is needed is copied and the rest goes with its table.
--
-- A stretch has room for more numbers than anybody uses. After a while the sequence is moved on to the next
-- one, so no rows have to, and whoever writes meanwhile notices nothing. A clock that is wrong moves it too
-- early or too late, and that is all: rows are placed by their number.

CREATE OR REPLACE FUNCTION stretch_size() RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT 1000000000::bigint $$;

CREATE OR REPLACE FUNCTION stretch_name(p_parent text, p_number bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT p_parent || '_s' || p_number $$;

-- The stretch that a sequence's numbers come from now.
CREATE OR REPLACE FUNCTION stretch_of(p_sequence text) RETURNS bigint
LANGUAGE sql AS $$ SELECT coalesce(pg_sequence_last_value(p_sequence::regclass), 0) / stretch_size() $$;

-- Makes the three that come next. In a transaction of its own: a sequence that is moved stays so, whatever
-- becomes of whoever did, and must find its table. Nobody who reads or writes waits.
CREATE OR REPLACE FUNCTION stretches_ahead(p_parent text, p_sequence text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    next bigint;
BEGIN
    PERFORM stretches_lock();
    SELECT max(number) + 1 INTO next FROM stretches WHERE parent = p_parent;
    WHILE next <= stretch_of(p_sequence) + 3 LOOP
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', stretch_name(p_parent, next), p_parent);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', p_parent,
                       stretch_name(p_parent, next), next * stretch_size(), (next + 1) * stretch_size());
        INSERT INTO stretches (parent, number) VALUES (p_parent, next);
        next := next + 1;
    END LOOP;
END
$$;

-- Goes on to the next stretch where the present one has begun before a time and is worth a table
-- (`p_least`), or holds as much as one should (`p_most`).
CREATE OR REPLACE FUNCTION stretches_turn(
    p_parent text, p_sequence text, p_least bigint, p_most bigint, p_before bigint, p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    current bigint;
    used    bigint;
BEGIN
    PERFORM stretches_lock();
    current := stretch_of(p_sequence);
    used := coalesce(pg_sequence_last_value(p_sequence::regclass), 0) - current * stretch_size();
    -- Also one that was turned to by somebody who could not say so any more.
    UPDATE stretches SET begun_at = p_now
    WHERE parent = p_parent AND number <= current AND begun_at IS NULL;
    PERFORM FROM stretches AS present JOIN stretches AS next USING (parent)
    WHERE parent = p_parent AND present.number = current AND next.number = current + 1
      AND (used >= p_most OR used >= p_least AND present.begun_at < p_before);
    IF FOUND THEN
        UPDATE stretches SET begun_at = p_now WHERE parent = p_parent AND number = current + 1;
        PERFORM setval(p_sequence, (current + 1) * stretch_size());
    END IF;
END
$$;

-- The first number of the oldest stretch that nobody has looked through: everything before it is old.
CREATE OR REPLACE FUNCTION stretches_unlooked(p_parent text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT min(number) * stretch_size() FROM stretches WHERE parent = p_parent AND looked_at IS NULL
$$;

-- The first number that is not in a stretch which was left before a time.
CREATE OR REPLACE FUNCTION stretches_left(p_parent text, p_before bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(number), 0) * stretch_size() FROM stretches
    WHERE parent = p_parent AND begun_at < p_before
$$;

-- A stretch to look through: left before a time, and not looked through since then. One after the other.
CREATE OR REPLACE FUNCTION stretches_due(p_parent text, p_before bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT number FROM stretches
    WHERE parent = p_parent AND number * stretch_size() < stretches_left(p_parent, p_before)
      AND (looked_at IS NULL OR looked_at < p_before)
    ORDER BY looked_at NULLS FIRST, number LIMIT 1
$$;

-- Looks through a stretch that nobody writes new rows to. If fewer than half of a sample of its rows are
-- needed (`p_needed` is a condition), a copy of those takes its place, or nothing does. Rows that are changed
-- meanwhile wait for the copy; everybody waits for the moment in which they are exchanged, and if that does
-- not come soon it is tried another time. Answers whether the stretch became smaller.
CREATE OR REPLACE FUNCTION stretch_shrink(
    p_parent text, p_number bigint, p_needed text, p_now bigint
) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    old    constant text := stretch_name(p_parent, p_number);
    copy   constant text := old || '_copy';
    bounds text;
    within text;
    rows   double precision;
    share  double precision;
    kept   bigint;
BEGIN
    SELECT pg_get_expr(relpartbound, oid), pg_get_partition_constraintdef(oid), reltuples
    INTO bounds, within, rows FROM pg_class WHERE oid = to_regclass(old);
    EXECUTE format('SELECT avg((%s)::integer) FROM %I TABLESAMPLE SYSTEM (%s)', p_needed, old,
                   least(100, 100 * 100000 / greatest(rows, 1)))
    INTO share;
    UPDATE stretches SET looked_at = p_now WHERE parent = p_parent AND number = p_number;
    IF share >= 0.5 THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %I IN SHARE MODE', old);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL, CONSTRAINT within CHECK (%s))',
                   copy, p_parent, within);
    EXECUTE format('INSERT INTO %I SELECT * FROM %I WHERE %s', copy, old, p_needed);
    GET DIAGNOSTICS kept = ROW_COUNT;
    EXECUTE format('DROP TABLE %I', old);
    IF kept = 0 THEN
        EXECUTE format('DROP TABLE %I', copy);
        DELETE FROM stretches WHERE parent = p_parent AND number = p_number;
        RETURN true;
    END IF;
    EXECUTE format('ALTER TABLE %I RENAME TO %I', copy, old);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I %s', p_parent, old, bounds);  -- within: not read
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT within', old);
    RETURN true;
END
$$;
