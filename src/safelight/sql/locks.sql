-- Every advisory lock there is, by number; all but the migrations' own (infra/migrate.py) and the
-- workers' presence (8) are let go at the end of the transaction. A transaction that needs several takes them in this order, and the
-- feed's last of all.

-- 1: an organization's feed. activity_append alone takes it.
CREATE OR REPLACE FUNCTION feed_lock(p_organization text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(1, hashtext(p_organization)) $$;

-- 2: choosing a free name in an organization.
CREATE OR REPLACE FUNCTION names_lock(p_organization text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(2, hashtext(p_organization)) $$;

CREATE OR REPLACE FUNCTION names_try_lock(p_organization text) RETURNS boolean
LANGUAGE sql AS $$ SELECT pg_try_advisory_xact_lock(2, hashtext(p_organization)) $$;

-- 3: an object's key. Everything that changes an object, or decides about one, does so under this.
CREATE OR REPLACE FUNCTION object_lock(p_key text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(3, hashtext(p_key)) $$;

CREATE OR REPLACE FUNCTION object_try_lock(p_key text) RETURNS boolean
LANGUAGE sql AS $$ SELECT pg_try_advisory_xact_lock(3, hashtext(p_key)) $$;

-- 4: the files of one shard of the built-in store; shared by puts, alone for a removal.
CREATE OR REPLACE FUNCTION shard_lock(p_shard text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(4, hashtext(p_shard)) $$;

CREATE OR REPLACE FUNCTION shard_lock_shared(p_shard text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock_shared(4, hashtext(p_shard)) $$;

-- 5: whoever looks for stuck submissions. False: somebody does.
CREATE OR REPLACE FUNCTION recovery_try_lock() RETURNS boolean
LANGUAGE sql AS $$ SELECT pg_try_advisory_xact_lock(5, 0) $$;

-- 6: counting the failed attempts of one user or address.
CREATE OR REPLACE FUNCTION sign_in_lock(p_subject text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(6, hashtext(p_subject)) $$;

-- 7: the first start, which makes what there is one of.
CREATE OR REPLACE FUNCTION first_start_lock() RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(7, 0) $$;

-- 8: a worker's presence, held by a session of its own for as long as the worker lives.
CREATE OR REPLACE FUNCTION presence_lock(p_owner text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_lock(8, hashtext(p_owner)) $$;

-- Whoever can have the lock, beside others who ask, knows that the worker is not there.
CREATE OR REPLACE FUNCTION presence_gone(p_owner text) RETURNS boolean
LANGUAGE sql AS $$ SELECT pg_try_advisory_xact_lock_shared(8, hashtext(p_owner)) $$;

-- 12: which pictures of an organization are public or ruled out; taken by whoever adds to either.
CREATE OR REPLACE FUNCTION pictures_lock(p_organization text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(12, hashtext(p_organization)) $$;

-- 13: making stretches, and going on to the next one.
CREATE OR REPLACE FUNCTION stretches_lock() RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(13, 0) $$;
