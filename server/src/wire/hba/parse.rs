//! The text of a `pg_hba.conf`: a rule a line, of words between blanks; what PostgreSQL 15 has and this server does not is an
//! error that names the line.

use super::{Addresses, CertificateOf, Method, Name, Rule, Transport};
use std::net::IpAddr;

/// A word of a line. What is quoted has no special meaning.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

/// The rules of a file, in its order.
pub(super) fn rules(text: &str) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let mut whole = line.to_owned();
        // A line that ends in a backslash goes on in the next one.
        while whole.ends_with('\\') {
            whole.pop();
            whole.push_str(lines.next().map_or("", |(_, line)| line));
        }
        let located = |error: String| format!("line {}: {error}", number + 1);
        let fields = fields(&whole).map_err(located)?;
        if !fields.is_empty() {
            rules.extend(rule(&fields, number + 1).map_err(located)?);
        }
    }
    Ok(rules)
}

/// The fields of a line, each a list of words with commas between.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut characters = line.chars().peekable();
    let mut goes_on = false;
    loop {
        match characters.peek() {
            None | Some('#') => return Ok(fields),
            Some(c) if c.is_whitespace() => {
                characters.next();
                continue;
            }
            // Commas count right behind a word alone.
            Some(',') => {
                characters.next();
                continue;
            }
            Some(_) => {}
        }
        let mut word = Word {
            text: String::new(),
            quoted: false,
        };
        let mut in_quotes = false;
        while let Some(&c) = characters.peek() {
            if c == '"' {
                characters.next();
                // Quotes that stand twice within quotes are one.
                if in_quotes && characters.peek() == Some(&'"') {
                    word.text.push('"');
                    characters.next();
                } else {
                    in_quotes = !in_quotes;
                    word.quoted = true;
                }
                continue;
            }
            if !in_quotes && (c.is_whitespace() || c == ',' || c == '#') {
                break;
            }
            word.text.push(c);
            characters.next();
        }
        if in_quotes {
            return Err("a quotation mark is not closed".into());
        }
        match fields.last_mut() {
            Some(last) if goes_on => last.push(word),
            _ => fields.push(vec![word]),
        }
        goes_on = characters.peek() == Some(&',');
    }
}

/// None: a line that no connection of this server can match.
fn rule(fields: &[Vec<Word>], line: usize) -> Result<Option<Rule>, String> {
    let single = |at: usize, what: &str| match fields.get(at).map(Vec::as_slice) {
        None => Err(format!("end of line before {what}")),
        Some([word]) => Ok(word),
        Some(_) => Err(format!("several values for {what}")),
    };
    let kind = single(0, "the connection type")?;
    let transport = match kind.text.as_str() {
        // There are no Unix sockets here.
        "local" => None,
        "host" | "hostnogssenc" => Some(Transport::Any),
        "hostssl" => Some(Transport::Tls),
        "hostnossl" => Some(Transport::Plain),
        // Nor is there encryption by GSSAPI.
        "hostgssenc" => None,
        other => return Err(format!("invalid connection type \"{other}\"")),
    };
    let names = |at: usize, what: &str| -> Result<Vec<Name>, String> {
        let words = fields.get(at).ok_or_else(|| format!("end of line before {what}"))?;
        words.iter().map(name).collect()
    };
    let databases = names(1, "the database")?;
    let users = names(2, "the user")?;
    let mut next = 3;
    let addresses = match kind.text.as_str() {
        "local" => Addresses::All,
        _ => {
            let word = single(3, "the address")?;
            next = 4;
            match addresses(word)? {
                Some(addresses) => addresses,
                None => {
                    next = 5;
                    masked(&word.text, &single(4, "the mask")?.text)?
                }
            }
        }
    };
    let method = &single(next, "the authentication method")?.text;
    let method = match method.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        // As in PostgreSQL, `md5` takes SCRAM verifiers by SCRAM; there are no others here.
        "scram-sha-256" | "md5" => Method::Scram,
        "cert" => Method::Certificate,
        // Known there, where connections can match that none here does.
        "peer" | "gss" if transport.is_none() => Method::Reject,
        other => {
            return Err(format!(
                "authentication method \"{other}\" is not supported: there are trust, reject, scram-sha-256 and cert"
            ));
        }
    };
    let mut certificate = None;
    for option in fields.iter().skip(next + 1).flatten() {
        match option.text.split_once('=') {
            Some(("clientcert", of)) => {
                certificate = Some(match of {
                    "verify-ca" => CertificateOf::Anybody,
                    "verify-full" => CertificateOf::User,
                    other => return Err(format!("invalid value for clientcert: \"{other}\"")),
                });
            }
            Some((name, _)) => return Err(format!("authentication option \"{name}\" is not supported")),
            None => {
                return Err(format!(
                    "authentication option not in name=value format: {}",
                    option.text
                ));
            }
        }
    }
    if method == Method::Certificate {
        if certificate == Some(CertificateOf::Anybody) {
            return Err("clientcert=verify-ca does not go with the method cert, which verifies the user".into());
        }
        certificate = Some(CertificateOf::User);
    }
    if certificate.is_some() && transport != Some(Transport::Tls) {
        return Err("client certificates are for hostssl alone".into());
    }
    Ok(transport.map(|transport| Rule {
        line,
        transport,
        databases,
        users,
        addresses,
        method,
        certificate,
    }))
}

fn name(word: &Word) -> Result<Name, String> {
    Ok(match word.text.as_str() {
        text if word.quoted => Name::Is(text.into()),
        "all" => Name::All,
        "sameuser" => Name::SameUser,
        "samerole" | "samegroup" => Name::SameRole,
        text if text.starts_with('+') => Name::MemberOf(text[1..].into()),
        text if text.starts_with('@') => {
            return Err(format!("names in a file of their own (\"{text}\") are not supported"));
        }
        text if text.starts_with('/') => return Err(format!("regular expressions (\"{text}\") are not supported")),
        text => Name::Is(text.into()),
    })
}

/// None: an address whose mask is the next word.
fn addresses(word: &Word) -> Result<Option<Addresses>, String> {
    if word.is("all") {
        return Ok(Some(Addresses::All));
    }
    if word.is("samehost") || word.is("samenet") {
        return Err(format!("\"{}\" is not supported: name the addresses", word.text));
    }
    let (address, length) = match word.text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word.text.as_str(), None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(format!(
            "\"{}\" is no IP address: host names are not supported",
            word.text
        ));
    };
    let Some(length) = length else { return Ok(None) };
    let most = if address.is_ipv4() { 32 } else { 128 };
    match length.parse::<u8>() {
        Ok(bits) if bits <= most => Ok(Some(Addresses::Network { address, bits })),
        _ => Err(format!("invalid CIDR mask in address \"{}\"", word.text)),
    }
}

/// An address and a mask such as 255.255.0.0.
fn masked(address: &str, mask: &str) -> Result<Addresses, String> {
    let invalid = || format!("invalid IP mask \"{mask}\"");
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let bits = match (address, mask.parse::<IpAddr>().map_err(|_| invalid())?) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => {
            let mask = u32::from(mask);
            (mask.leading_ones() + mask.trailing_zeros() >= 32).then_some(mask.leading_ones())
        }
        (IpAddr::V6(_), IpAddr::V6(mask)) => {
            let mask = u128::from(mask);
            (mask.leading_ones() + mask.trailing_zeros() >= 128).then_some(mask.leading_ones())
        }
        _ => return Err("IP address and mask do not match".into()),
    };
    let bits = bits.ok_or_else(invalid)? as u8;
    Ok(Addresses::Network { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_postgresql_are_read() {
        let text = "# TYPE  DATABASE        USER            ADDRESS                 METHOD\n\
                    local   all             all                                     peer\n\
                    \n\
                    host    all             all             127.0.0.1/32            trust  # here\n\
                    hostssl tenon,\"all\", x +staff,,ann      10.0.0.0 255.255.0.0    scram-sha-256 clientcert=verify-ca\n\
                    host    sameuser        \"+odd, \"\"name\" ::1/128               \\\n   md5\n\
                    hostssl all all all cert\n";
        let rules = rules(text).unwrap();
        assert_eq!(rules.len(), 4);
        assert_eq!(rules[0].line, 4);
        assert_eq!(rules[0].method, Method::Trust);
        let is = |name: &str| Name::Is(name.into());
        assert_eq!(rules[1].databases, [is("tenon"), is("all"), is("x")]);
        assert_eq!(rules[1].users, [Name::MemberOf("staff".into()), is("ann")]);
        let network = Addresses::Network {
            address: [10, 0, 0, 0].into(),
            bits: 16,
        };
        assert_eq!(rules[1].addresses, network);
        assert_eq!(rules[1].certificate, Some(CertificateOf::Anybody));
        assert_eq!(rules[2].users, [is("+odd, \"name")]);
        assert_eq!((rules[2].line, rules[2].method), (6, Method::Scram));
        assert_eq!(rules[3].certificate, Some(CertificateOf::User));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, error) in [
            ("hst all all all trust", "line 1: invalid connection type \"hst\""),
            ("\nhost all", "line 2: end of line before the user"),
            ("host all all 10.0.0.1 trust", "line 1: invalid IP mask \"trust\""),
            (
                "host all all 10.0.0.1 255.0.255.0 trust",
                "line 1: invalid IP mask \"255.0.255.0\"",
            ),
            (
                "host all all 10.0.0.1 ffff:: trust",
                "line 1: IP address and mask do not match",
            ),
            (
                "host all all 10.0.0.0/33 trust",
                "line 1: invalid CIDR mask in address \"10.0.0.0/33\"",
            ),
            ("host all all example.com trust", "host names are not supported"),
            ("host all all samenet trust", "\"samenet\" is not supported"),
            (
                "host all all all",
                "line 1: end of line before the authentication method",
            ),
            (
                "host all all all ldap",
                "authentication method \"ldap\" is not supported",
            ),
            (
                "host all all all scram-sha-256 map=x",
                "authentication option \"map\" is not supported",
            ),
            ("host all all all scram-sha-256 x", "not in name=value format: x"),
            ("host all all all cert", "client certificates are for hostssl alone"),
            (
                "hostssl all all all cert clientcert=verify-ca",
                "verify-ca does not go with the method cert",
            ),
            ("host all @admins all trust", "names in a file of their own"),
            ("host all /^a all trust", "regular expressions"),
            ("host all \"ann all trust", "a quotation mark is not closed"),
            ("host all all all,all trust", "several values for the address"),
        ] {
            let told = rules(text).unwrap_err();
            assert!(told.contains(error), "{text}: {told}");
        }
    }
}
