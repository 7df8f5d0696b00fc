-- A value that is there and not past its end, by the caller's clock.
CREATE OR REPLACE FUNCTION kv_get(p_key text, p_now bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT value FROM kv WHERE key = p_key AND (expires_at IS NULL OR expires_at > p_now)
$$;
