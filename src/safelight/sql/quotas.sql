-- How long a meter counts before it begins anew, in milliseconds. NULL: it does not.
CREATE OR REPLACE FUNCTION quota_window(p_meter text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_meter LIKE '%_per_minute' THEN 60000
                WHEN p_meter LIKE '%_per_day' THEN 86400000 END
$$;

-- When the minute or day began that somebody's clock is in. One that is a little behind the clock of
-- whoever came before counts with theirs; one that was far ahead is not believed.
CREATE OR REPLACE FUNCTION quota_since(p_meter text, p_before bigint, p_now bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN quota_window(p_meter) IS NULL THEN 0
                WHEN p_before BETWEEN p_now - p_now % quota_window(p_meter)
                                  AND p_now - p_now % quota_window(p_meter) + quota_window(p_meter)
                THEN p_before ELSE p_now - p_now % quota_window(p_meter) END
$$;

-- The most an organization may use. NULL: no limit.
CREATE OR REPLACE FUNCTION quota_most(p_organization text, p_meter text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT nullif(most, 0) FROM quota_limits
            WHERE organization IN (p_organization, '') AND meter = p_meter
            ORDER BY organization DESC LIMIT 1);
END
$$;

-- Says no, with what the caller is told: SL003.
CREATE OR REPLACE FUNCTION quota_refuse(p_meter text, p_most bigint, p_since bigint, p_now bigint)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE '% is used up', p_meter USING ERRCODE = 'SL003', DETAIL = jsonb_build_object(
        'meter', p_meter, 'most', p_most,
        'seconds', ceil((p_since + quota_window(p_meter) - p_now) / 1000.0));
END
$$;

-- Uses some of a meter, or raises. The row is locked until the transaction ends, so that of many who come
-- at once none goes beyond the limit.
CREATE OR REPLACE FUNCTION quota_charge(
    p_organization text, p_meter text, p_amount bigint, p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    most constant bigint := quota_most(p_organization, p_meter);
    charged quota_usage%ROWTYPE;
BEGIN
    INSERT INTO quota_usage AS known (organization, meter, since, used)
    VALUES (p_organization, p_meter, quota_since(p_meter, NULL, p_now), p_amount)
    ON CONFLICT (organization, meter) DO UPDATE
        SET since = quota_since(p_meter, known.since, p_now),
            used = p_amount + CASE WHEN known.since = quota_since(p_meter, known.since, p_now)
                                   THEN known.used ELSE 0 END
    RETURNING * INTO charged;
    IF charged.used > most THEN
        PERFORM quota_refuse(p_meter, most, charged.since, p_now);
    END IF;
END
$$;

-- Takes note of bytes that came (an artifact, a submission's) or went (something deleted, replaced or given
-- up).
CREATE OR REPLACE FUNCTION quota_change(p_organization text, p_bytes bigint) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO quota_changes (organization, bytes)
    SELECT p_organization, p_bytes WHERE p_organization IS NOT NULL AND p_bytes <> 0
$$;

-- Adds up an organization's changes.
CREATE OR REPLACE FUNCTION quota_fold(p_organization text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM quota_changes WHERE organization = p_organization LIMIT 1;
    IF NOT FOUND THEN
        RETURN;  -- as nearly always: this is the cheaper question
    END IF;
    WITH changes AS (DELETE FROM quota_changes WHERE organization = p_organization RETURNING bytes)
    INSERT INTO quota_usage AS known (organization, meter, since, used)
    SELECT p_organization, 'stored_bytes', 0, sum(bytes) FROM changes HAVING count(*) > 0
    ON CONFLICT (organization, meter) DO UPDATE SET used = known.used + excluded.used;
END
$$;

-- Charges uploads: so many of their minute's, and their bytes. Right before the history, whose lock comes
-- last: uploads of an organization wait for each other no longer than they do for that.
CREATE OR REPLACE FUNCTION quota_uploads(
    p_organization text, p_count bigint, p_bytes bigint, p_now bigint
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    charged record;
    beyond  record;
BEGIN
    PERFORM FROM quota_changes WHERE organization = p_organization LIMIT 1;
    IF FOUND THEN
        PERFORM quota_fold(p_organization);
    END IF;
    FOR charged IN
        INSERT INTO quota_usage AS known (organization, meter, since, used)
        VALUES (p_organization, 'stored_bytes', 0, p_bytes),
               (p_organization, 'uploads_per_minute', p_now - p_now % 60000, p_count)
        ON CONFLICT (organization, meter) DO UPDATE
            SET since = quota_since(known.meter, known.since, p_now),
                used = excluded.used
                     + CASE WHEN known.since = quota_since(known.meter, known.since, p_now)
                            THEN known.used ELSE 0 END
        RETURNING meter, since, used,
                  (SELECT nullif(most, 0) FROM quota_limits AS limits
                   WHERE limits.organization IN (p_organization, '') AND limits.meter = known.meter
                   ORDER BY limits.organization DESC LIMIT 1) AS most
    LOOP
        IF charged.used > charged.most THEN
            beyond := charged;
        END IF;
    END LOOP;
    IF beyond IS NOT NULL THEN
        PERFORM quota_refuse(beyond.meter, beyond.most, beyond.since, p_now);
    END IF;
END
$$;

-- Charges one, as servers of the version before do.
CREATE OR REPLACE FUNCTION quota_upload(p_organization text, p_bytes bigint, p_now bigint) RETURNS void
LANGUAGE sql AS $$ SELECT quota_uploads(p_organization, 1, p_bytes, p_now) $$;

-- Every meter of an organization as it stands; `own` when the limit is its own.
CREATE OR REPLACE FUNCTION quota_shown(
    p_organization text, p_now bigint, OUT meter text, OUT most bigint, OUT own boolean,
    OUT used bigint, OUT resets_at bigint
) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT meters.meter, quota_most(p_organization, meters.meter),
           EXISTS (SELECT FROM quota_limits
                   WHERE organization = p_organization AND meter = meters.meter),
           greatest(0, coalesce(usage.used, 0) + changed.bytes),
           window_at.since + quota_window(meters.meter)
    FROM unnest(ARRAY['stored_bytes', 'uploads_per_minute', 'generations_per_day',
                      'submissions_per_day']) AS meters (meter)
    CROSS JOIN LATERAL (
        SELECT quota_since(meters.meter, (SELECT since FROM quota_usage
            WHERE organization = p_organization AND meter = meters.meter), p_now) AS since
    ) AS window_at
    LEFT JOIN quota_usage AS usage
           ON usage.organization = p_organization AND usage.meter = meters.meter
          AND usage.since = window_at.since
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM quota_changes
        WHERE organization = p_organization AND meters.meter = 'stored_bytes'
    ) AS changed
$$;
