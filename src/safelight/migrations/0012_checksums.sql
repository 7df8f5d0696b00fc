-- What came with senders that ask which bytes are here already. Additive: a server of the version before runs
-- beside it.

-- ==== library ====

-- Of a checksum its first sixteen digits: they tell one picture from all others of an organization as well
-- as sixty-four, in a third of the room, and every image pays for this index.
CREATE INDEX uploads_checksum ON uploads (organization, left(checksum, 16)) WHERE checksum IS NOT NULL;
