//! Who may connect from where, and by what proof: the rules of a file as PostgreSQL's `pg_hba.conf` has them. The first that
//! fits a connection decides; one that none fits is refused.

mod parse;

use anyhow::Context;
use std::net::IpAddr;
use std::path::Path;
use tenon_planner::ConnectionRule;
use tenon_planner::error::{Result, SqlError, state};

/// The rules of a file.
#[derive(Debug)]
pub struct Hba {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// In the file, from 1.
    line: usize,
    transport: Transport,
    databases: Vec<Name>,
    users: Vec<Name>,
    addresses: Addresses,
    method: Method,
    /// A certificate that the client must have, too.
    certificate: Option<CertificateOf>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Any,
    Tls,
    Plain,
}

/// What stands for databases or users.
#[derive(Clone, Debug, PartialEq)]
enum Name {
    All,
    Is(String),
    /// A database that is named as the user.
    SameUser,
    /// A database that is named as a role that the user is a member of.
    SameRole,
    /// A user that is a member of the role.
    MemberOf(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Addresses {
    All,
    Network { address: IpAddr, bits: u8 },
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    Trust,
    Reject,
    Scram,
    /// By a certificate whose common name is the user's.
    Certificate,
}

/// Whose certificate will do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CertificateOf {
    /// Of any whom the authority has signed one for.
    Anybody,
    User,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: IpAddr,
    pub tls: bool,
    /// The client's certificate, signed by the authority.
    pub certificate: Option<ClientCertificate>,
}

#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub common_name: Option<String>,
}

/// Who wants to connect, to what.
pub struct Wanted<'a> {
    pub user: &'a str,
    /// As the client named it; what it means is `tenon`.
    pub database: &'a str,
    /// Whether the user is a member of a role.
    pub is_member: &'a (dyn Fn(&str) -> bool + Sync),
}

impl Hba {
    /// Reads a file. `tls`: the server has a certificate; `authority`: it can verify those of clients.
    pub fn read(path: &Path, tls: bool, authority: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let rules = parse::rules(&text).map_err(|error| anyhow::anyhow!("{shown}, {error}"))?;
        if rules.is_empty() {
            anyhow::bail!("{shown} has no rule: nobody could connect");
        }
        for rule in &rules {
            let line = rule.line;
            if rule.certificate.is_some() && !authority {
                anyhow::bail!(
                    "{shown}, line {line}: client certificates are verified by --tls-client-ca, which is not set"
                );
            }
            if rule.transport == Transport::Tls && !tls {
                tracing::warn!("{shown}, line {line}: hostssl matches no connection without --tls-cert and --tls-key");
            }
        }
        Ok(Self { rules })
    }

    /// The rules as `pg_hba_file_rules` shows them.
    pub fn shown(&self) -> Vec<ConnectionRule> {
        self.rules.iter().map(Rule::shown).collect()
    }

    /// What a connection must prove. 28000 for who is not let in.
    pub fn method(&self, peer: &Peer, wanted: &Wanted<'_>) -> Result<Method> {
        let about = || {
            format!(
                "host \"{}\", user \"{}\", database \"{}\", {}",
                peer.address,
                wanted.user,
                wanted.database,
                if peer.tls { "SSL encryption" } else { "no encryption" }
            )
        };
        let refused = |message: String| SqlError::new(state::INVALID_AUTHORIZATION, message);
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(peer, wanted)) else {
            return Err(refused(format!("no pg_hba.conf entry for {}", about())));
        };
        tracing::debug!(user = wanted.user, "the rule in line {} decides", rule.line);
        match (rule.certificate, &peer.certificate) {
            (None, _) | (Some(CertificateOf::Anybody), Some(_)) => {}
            (Some(_), None) => return Err(refused("connection requires a valid client certificate".into())),
            (Some(CertificateOf::User), Some(certificate)) => {
                if certificate.common_name.as_deref() != Some(wanted.user) {
                    let common_name = certificate.common_name.as_deref().unwrap_or_default();
                    tracing::warn!(user = wanted.user, common_name, "a certificate of another name");
                    let message = format!("certificate authentication failed for user \"{}\"", wanted.user);
                    return Err(refused(message));
                }
            }
        }
        match rule.method {
            Method::Reject => Err(refused(format!("pg_hba.conf rejects connection for {}", about()))),
            method => Ok(method),
        }
    }
}

impl Rule {
    fn shown(&self) -> ConnectionRule {
        let shown = |names: &[Name]| names.iter().map(Name::shown).collect();
        let (address, netmask) = match self.addresses {
            Addresses::All => ("all".to_string(), None),
            Addresses::Network { address, bits } => {
                let mask: IpAddr = match address {
                    IpAddr::V4(_) => IpAddr::V4(u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0).into()),
                    IpAddr::V6(_) => IpAddr::V6(u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0).into()),
                };
                (address.to_string(), Some(mask.to_string()))
            }
        };
        let certificate = self.certificate.map(|of| match of {
            CertificateOf::Anybody => "clientcert=verify-ca".to_string(),
            CertificateOf::User => "clientcert=verify-full".to_string(),
        });
        ConnectionRule {
            line: self.line,
            kind: match self.transport {
                Transport::Any => "host",
                Transport::Tls => "hostssl",
                Transport::Plain => "hostnossl",
            },
            databases: shown(&self.databases),
            users: shown(&self.users),
            address,
            netmask,
            method: match self.method {
                Method::Trust => "trust",
                Method::Reject => "reject",
                Method::Scram => "scram-sha-256",
                Method::Certificate => "cert",
            },
            options: certificate.into_iter().collect(),
        }
    }

    fn fits(&self, peer: &Peer, wanted: &Wanted<'_>) -> bool {
        let transport = match self.transport {
            Transport::Any => true,
            Transport::Tls => peer.tls,
            Transport::Plain => !peer.tls,
        };
        transport
            && self.addresses.contains(peer.address)
            && self.databases.iter().any(|name| name.is_database(wanted))
            && self.users.iter().any(|name| name.is_user(wanted))
    }
}

impl Name {
    fn shown(&self) -> String {
        match self {
            Self::All => "all".into(),
            Self::Is(name) => name.clone(),
            Self::SameUser => "sameuser".into(),
            Self::SameRole => "samerole".into(),
            Self::MemberOf(role) => format!("+{role}"),
        }
    }

    fn is_database(&self, wanted: &Wanted<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Is(name) => name == wanted.database || name == "tenon",
            Self::SameUser => wanted.database == wanted.user,
            Self::SameRole => wanted.database == wanted.user || (wanted.is_member)(wanted.database),
            Self::MemberOf(_) => false,
        }
    }

    fn is_user(&self, wanted: &Wanted<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Is(name) => name == wanted.user,
            Self::MemberOf(role) => (wanted.is_member)(role),
            // These are words for databases, and names here.
            Self::SameUser => wanted.user == "sameuser",
            Self::SameRole => wanted.user == "samerole",
        }
    }
}

impl Addresses {
    fn contains(self, address: IpAddr) -> bool {
        let Self::Network { address: network, bits } = self else {
            return true;
        };
        // Of a shift by all bits nothing is left.
        match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = u32::from(network) ^ u32::from(address);
                differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = u128::from(network) ^ u128::from(address);
                differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(rules: &str, from: (&str, bool, Option<&str>), user: &str, database: &str) -> String {
        let rules = parse::rules(rules).unwrap();
        let (address, tls, common_name) = from;
        let certificate = common_name.map(|name| ClientCertificate {
            common_name: Some(name.into()),
        });
        let peer = Peer {
            address: address.parse().unwrap(),
            tls,
            certificate,
        };
        let is_member = |role: &str| user == "ann" && role == "staff";
        let wanted = Wanted {
            user,
            database,
            is_member: &is_member,
        };
        match (Hba { rules }).method(&peer, &wanted) {
            Ok(method) => format!("{method:?}"),
            Err(error) => {
                assert_eq!(error.state, state::INVALID_AUTHORIZATION);
                error.message.to_string()
            }
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = "hostssl all all 10.0.0.0/8 cert\n\
                     hostssl all +staff all scram-sha-256 clientcert=verify-ca\n\
                     host all bob 192.168.1.0/24 reject\n\
                     hostnossl sameuser all 192.168.0.0/16 trust\n\
                     host staff all ::1/128 trust\n\
                     host samerole all fe80::/10 trust\n\
                     host tenon ann 0.0.0.0/0 scram-sha-256\n";
        let plain = |address| (address, false, None);
        let entry = "no pg_hba.conf entry for host";
        for (from, user, database, decided) in [
            (("10.1.2.3", true, Some("ann")), "ann", "tenon", "Certificate".to_string()),
            (("10.1.2.3", true, Some("bob")), "ann", "tenon", "certificate authentication failed for user \"ann\"".into()),
            (("10.1.2.3", true, None), "ann", "tenon", "connection requires a valid client certificate".into()),
            (("11.1.2.3", true, Some("bob")), "ann", "tenon", "Scram".into()),
            (("11.1.2.3", true, None), "ann", "tenon", "connection requires a valid client certificate".into()),
            (
                plain("192.168.1.7"),
                "bob",
                "bob",
                "pg_hba.conf rejects connection for host \"192.168.1.7\", user \"bob\", database \"bob\", no encryption".into(),
            ),
            (plain("192.168.2.7"), "bob", "bob", "Trust".into()),
            (
                ("192.168.2.7", true, None),
                "bob",
                "bob",
                format!("{entry} \"192.168.2.7\", user \"bob\", database \"bob\", SSL encryption"),
            ),
            (plain("::1"), "bob", "staff", "Trust".into()),
            (plain("::2"), "bob", "staff", format!("{entry} \"::2\", user \"bob\", database \"staff\", no encryption")),
            (plain("fe80::7"), "ann", "staff", "Trust".into()),
            (plain("fe80::7"), "bob", "staff", format!("{entry} \"fe80::7\", user \"bob\", database \"staff\", no encryption")),
            (plain("1.2.3.4"), "ann", "postgres", "Scram".into()),
        ] {
            assert_eq!(decide(rules, from, user, database), decided, "{user} at {database} from {from:?}");
        }
    }

    #[test]
    fn networks_are_of_bits() {
        let contains = |network: &str, bits, address: &str| {
            let address_of = |text: &str| text.parse::<IpAddr>().unwrap();
            let network = Addresses::Network {
                address: address_of(network),
                bits,
            };
            network.contains(address_of(address))
        };
        assert!(contains("10.1.2.3", 0, "200.1.1.1") && !contains("10.1.2.3", 0, "::1"));
        assert!(contains("10.1.2.3", 32, "10.1.2.3") && !contains("10.1.2.3", 32, "10.1.2.2"));
        assert!(contains("10.1.2.3", 31, "10.1.2.2") && !contains("10.1.2.3", 9, "10.128.0.0"));
        assert!(contains("::", 0, "ff::1") && contains("ff::", 127, "ff::1") && !contains("ff::", 128, "ff::1"));
    }
}
