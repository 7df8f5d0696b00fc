-- What came with credentials that servers keep in mind. Additive: a server of the version before runs
-- beside it, and whatever it changes is told to the others too.

-- ==== accounts ====

-- Says on the bus's channel, with the commit, that credentials have to be asked for again. Here and not
-- in sql/, since a trigger cannot be made before its function.
CREATE FUNCTION credentials_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('safelight', '["",[["credentials",""]]]');
    RETURN NULL;
END
$$;

-- By rows, so that a statement that changes nothing says nothing. A new user, token or session was
-- nobody's before, and who is unknown is not kept in mind; a new membership is a member's.
CREATE TRIGGER changed AFTER UPDATE ON tokens FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION credentials_changed();
CREATE TRIGGER gone AFTER DELETE ON tokens FOR EACH ROW EXECUTE FUNCTION credentials_changed();

CREATE TRIGGER changed AFTER UPDATE ON users FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION credentials_changed();
CREATE TRIGGER gone AFTER DELETE ON users FOR EACH ROW EXECUTE FUNCTION credentials_changed();

CREATE TRIGGER made AFTER INSERT ON memberships FOR EACH ROW EXECUTE FUNCTION credentials_changed();
CREATE TRIGGER changed AFTER UPDATE ON memberships FOR EACH ROW
    WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION credentials_changed();
CREATE TRIGGER gone AFTER DELETE ON memberships FOR EACH ROW EXECUTE FUNCTION credentials_changed();

-- One that was seen again lives on, which changes nothing for whoever has it in mind.
CREATE TRIGGER changed AFTER UPDATE ON sessions FOR EACH ROW
    WHEN (NEW.expires_at < OLD.expires_at
          OR to_jsonb(OLD) - '{seen_at,expires_at}'::text[]
             IS DISTINCT FROM to_jsonb(NEW) - '{seen_at,expires_at}'::text[])
    EXECUTE FUNCTION credentials_changed();
CREATE TRIGGER gone AFTER DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION credentials_changed();
