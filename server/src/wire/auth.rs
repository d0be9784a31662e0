//! Who may connect: anybody (loopback, or by explicit wish), or the users of a password file and the roles that have a
//! password, by SCRAM-SHA-256.

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use pgwire::api::auth::sasl::scram::{SCRAM_ITERATIONS, ScramSecret, ScramServerAuth, gen_salted_password};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use tenon_planner::error::SqlError;

/// What verifiers begin with.
const PREFIX: &str = "SCRAM-SHA-256$";

/// How clients prove who they are.
pub enum Auth {
    /// Every user name is believed.
    Trust,
    Scram(Scram),
}

/// The users of a password file.
pub struct Scram {
    users: HashMap<String, Verifier>,
    /// Keys what unknown users are answered with, so that they look like known ones.
    unknown: RandomState,
    plain: ScramServerAuth,
    /// Offers channel binding too: for TLS connections.
    bound: Option<ScramServerAuth>,
}

#[derive(Clone)]
struct Verifier {
    iterations: usize,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl From<Verifier> for ScramSecret {
    fn from(v: Verifier) -> Self {
        Self::Verifier {
            salt: v.salt,
            iterations: v.iterations,
            stored_key: v.stored_key,
            server_key: v.server_key,
        }
    }
}

impl Scram {
    /// Reads a password file: a line a user, `name:password` or `name:SCRAM-SHA-256$...` as `pg_authid` has it. Empty
    /// lines and lines that start with `#` are passed over.
    pub fn read(path: &Path, certificate_pem: Option<&[u8]>) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        warn_if_readable(path);
        let mut users = HashMap::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((user, secret)) = line.split_once(':') else {
                bail!("{}, line {}: expected name:password", path.display(), i + 1);
            };
            let verifier = match secret.strip_prefix(PREFIX) {
                Some(parts) => parse_verifier(parts)
                    .with_context(|| format!("{}, line {}: malformed SCRAM-SHA-256 verifier", path.display(), i + 1))?,
                None if secret.is_empty() => bail!("{}, line {}: empty password", path.display(), i + 1),
                None => derive_verifier(secret),
            };
            users.insert(user.to_owned(), verifier);
        }
        if users.is_empty() {
            bail!("{} holds no users", path.display());
        }
        let bound = certificate_pem.and_then(|pem| {
            let mut bound = ScramServerAuth::new();
            match bound.configure_certificate(pem) {
                Ok(()) => Some(bound),
                Err(e) => {
                    tracing::warn!("no channel binding with this certificate: {e}");
                    None
                }
            }
        });
        Ok(Self {
            users,
            unknown: RandomState::new(),
            plain: ScramServerAuth::new(),
            bound,
        })
    }

    /// The state machine for one connection.
    pub fn authenticator(&self, tls: bool) -> &ScramServerAuth {
        self.bound.as_ref().filter(|_| tls).unwrap_or(&self.plain)
    }

    /// The users of the file.
    pub fn users(&self) -> Vec<String> {
        self.users.keys().cloned().collect()
    }

    /// Whether the file has the user.
    pub fn has(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }

    /// What the proof is checked against; `kept`: the verifier of the role of that name. An unknown user gets a verifier that
    /// nothing satisfies, the same each time.
    pub fn secret(&self, user: &str, kept: Option<&str>) -> ScramSecret {
        let of_role = || parse_verifier(kept?.strip_prefix(PREFIX)?);
        match self.users.get(user).cloned().or_else(of_role) {
            Some(verifier) => verifier.into(),
            None => {
                let random = |part: u8| self.unknown.hash_one((user, part)).to_be_bytes();
                let salt = [random(0), random(1)].concat();
                let key = [random(2), random(3), random(4), random(5)].concat();
                ScramSecret::Verifier {
                    salt,
                    iterations: SCRAM_ITERATIONS,
                    stored_key: key.clone(),
                    server_key: key,
                }
            }
        }
    }
}

/// What a role keeps of a password: the password's verifier, or what is one already. PostgreSQL's older ones are kept as they
/// are, and let nobody in.
pub fn kept(password: &str) -> Result<String, SqlError> {
    let is_md5 = password.len() == 35
        && password
            .strip_prefix("md5")
            .is_some_and(|hash| hash.bytes().all(|c| c.is_ascii_hexdigit()));
    if is_md5 || password.strip_prefix(PREFIX).and_then(parse_verifier).is_some() {
        return Ok(password.to_string());
    }
    let own = derive_verifier(password);
    Ok(format!(
        "{PREFIX}{}:{}${}:{}",
        own.iterations,
        BASE64.encode(&own.salt),
        BASE64.encode(&own.stored_key),
        BASE64.encode(&own.server_key)
    ))
}

fn derive_verifier(password: &str) -> Verifier {
    let salt = uuid::Uuid::new_v4().as_bytes().to_vec();
    let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
    match ScramSecret::verifier_from_salted_password(salt.clone(), salted, SCRAM_ITERATIONS) {
        ScramSecret::Verifier {
            salt,
            iterations,
            stored_key,
            server_key,
        } => Verifier {
            iterations,
            salt,
            stored_key,
            server_key,
        },
        ScramSecret::SaltedPassword { salted_password, .. } => Verifier {
            iterations: SCRAM_ITERATIONS,
            salt,
            stored_key: salted_password.clone(),
            server_key: salted_password,
        },
    }
}

/// `<iterations>:<salt>$<stored key>:<server key>`, the last three in base64.
fn parse_verifier(parts: &str) -> Option<Verifier> {
    let (iterations_salt, keys) = parts.split_once('$')?;
    let (iterations, salt) = iterations_salt.split_once(':')?;
    let (stored, server) = keys.split_once(':')?;
    let verifier = Verifier {
        iterations: iterations.parse().ok()?,
        salt: base64(salt)?,
        stored_key: base64(stored)?,
        server_key: base64(server)?,
    };
    (verifier.stored_key.len() == 32 && verifier.server_key.len() == 32).then_some(verifier)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.trim_end()).ok()
}

#[cfg(unix)]
fn warn_if_readable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0) {
        tracing::warn!(
            "the password file {} can be read by other users: chmod 600 it",
            path.display()
        );
    }
}

#[cfg(not(unix))]
fn warn_if_readable(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Scram> {
        let path = std::env::temp_dir().join(format!("tenon-passwords-{}", uuid::Uuid::new_v4()));
        std::fs::write(&path, text).unwrap();
        let scram = Scram::read(&path, None);
        std::fs::remove_file(path).unwrap();
        scram
    }

    #[test]
    fn password_files() {
        // The verifier is PostgreSQL 15's, of the password `pencil`.
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        let scram = read(&format!("# users\n\nann:secret:with:colons\r\nbob:{verifier}\n")).unwrap();
        assert!(scram.users.contains_key("ann"));
        assert_eq!(scram.users["bob"].salt.len(), 16);
        assert_eq!(scram.users["bob"].stored_key.len(), 32);
        for (text, message) in [
            ("", "holds no users"),
            ("ann", "line 1: expected name:password"),
            ("ann:", "line 1: empty password"),
            ("ann:SCRAM-SHA-256$4096:x", "line 1: malformed"),
        ] {
            let error = format!("{:#}", read(text).err().unwrap());
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn what_roles_keep() {
        let verifier = kept("pencil").unwrap();
        assert!(verifier.starts_with(PREFIX) && !verifier.contains("pencil"));
        assert_eq!(kept(&verifier).unwrap(), verifier);
        let parsed = parse_verifier(verifier.strip_prefix(PREFIX).unwrap()).unwrap();
        assert_eq!(
            (parsed.salt.len(), parsed.stored_key.len(), parsed.server_key.len()),
            (16, 32, 32)
        );
        let md5 = format!("md5{}", "0".repeat(32));
        assert_eq!(kept(&md5).unwrap(), md5);
    }

    #[test]
    fn unknown_users_see_a_steady_salt() {
        let scram = read("ann:x").unwrap();
        let salt = |user| match scram.secret(user, None) {
            ScramSecret::Verifier { salt, .. } | ScramSecret::SaltedPassword { salt, .. } => salt,
        };
        assert_eq!(salt("nobody"), salt("nobody"));
        assert_ne!(salt("nobody"), salt("somebody"));
        assert_eq!(salt("nobody").len(), salt("ann").len());
    }
}
