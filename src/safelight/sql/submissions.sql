-- In how many of 64 bits two prints differ.
CREATE OR REPLACE FUNCTION print_distance(p_one bigint, p_other bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT bit_count((p_one # p_other)::bit(64))::integer $$;
