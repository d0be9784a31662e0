CREATE FUNCTION digest(text, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT tenon_digest(convert_to($1, ''UTF8''), $2)';
CREATE FUNCTION digest(bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT tenon_digest($1, $2)';
CREATE FUNCTION hmac(text, text, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT tenon_hmac(convert_to($1, ''UTF8''), convert_to($2, ''UTF8''), $3)';
CREATE FUNCTION hmac(bytea, bytea, text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT tenon_hmac($1, $2, $3)';
CREATE FUNCTION crypt(text, text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS 'SELECT tenon_crypt($1, $2)';
CREATE FUNCTION gen_salt(text) RETURNS text LANGUAGE sql VOLATILE STRICT AS 'SELECT tenon_gen_salt($1, 0::int4)';
CREATE FUNCTION gen_salt(text, int4) RETURNS text LANGUAGE sql VOLATILE STRICT AS 'SELECT tenon_gen_salt($1, $2)';
CREATE FUNCTION gen_random_bytes(int4) RETURNS bytea LANGUAGE sql VOLATILE STRICT AS 'SELECT tenon_random_bytes($1)';
CREATE FUNCTION gen_random_uuid() RETURNS uuid LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.gen_random_uuid()';
