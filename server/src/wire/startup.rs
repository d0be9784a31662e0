//! A connection's first packets: encryption, cancel requests, protocol version, authentication and the checks that
//! end in a session.

use super::auth::Auth;
use super::connection::Socket;
use super::failure::{Failure, Step};
use super::hba::{Method, Peer, Wanted};
use super::input::{Input, InputError};
use super::login::RoleConnection;
use super::message::{Body, Message, violation};
use super::output::{Output, Severity};
use super::tls;
use crate::serve::Server;
use bytes::Bytes;
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tenon_planner::error::{SqlError, state};
use tenon_planner::login::Login;
use tenon_planner::settings::Charset;
use tokio::io::{ReadHalf, WriteHalf};

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
/// A client has this long to read the connection's last error.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// Protocol versions are `major << 16 | minor`.
const NEWEST_PROTOCOL: u32 = 3 << 16 | 2;

/// What the startup packet said, after all checks.
pub struct Started {
    pub input: Input<ReadHalf<Socket>>,
    pub output: Output<WriteHalf<Socket>>,
    pub user: String,
    pub database: String,
    /// Settings that the client wants, in its order: those of the packet and of its `options`.
    pub settings: Vec<(String, String)>,
    /// The role of the user, if there is one, and one of its connections.
    pub login: Login,
    pub role_connection: Option<RoleConnection>,
    /// Bytes of the cancel key that the protocol version takes.
    pub secret_bytes: usize,
}

/// Runs the startup phase. `None`: the connection has done its work (a cancel request) or was told why it cannot go on.
pub async fn start(socket: Socket, address: IpAddr, server: &Arc<Server>) -> Step<Option<Started>> {
    let mut peer = Peer {
        address,
        tls: false,
        certificate: None,
    };
    let (read, write) = tokio::io::split(socket);
    let (mut input, mut output) = (Input::new(read), Output::new(write));
    loop {
        let packet = match input.startup_packet().await {
            Ok(packet) => packet,
            Err(InputError::Fatal(error) | InputError::Bad(_, error)) => return refuse(input, output, error).await,
            Err(InputError::Gone(how)) => return Err(Failure::Gone(how)),
        };
        let mut body = Body(packet, Charset::default());
        let code = body.u32()?;
        match code {
            SSL_REQUEST if !peer.tls && server.tls.is_some() => {
                output.buffer.push(b'S');
                output.flush().await?;
                // Bytes sent in the clear before the handshake would be taken for encrypted ones.
                if !input.is_drained() {
                    return refuse(input, output, violation("received unencrypted data after SSL request")).await;
                }
                let socket = input.into_socket().unsplit(output.into_socket());
                let Some(acceptor) = &server.tls else { return Ok(None) };
                let socket = acceptor.accept(socket).await?;
                let certificates = socket.get_ref().1.peer_certificates();
                peer.certificate = certificates.and_then(|chain| chain.first()).map(tls::owner);
                peer.tls = true;
                let socket: Socket = Box::new(socket);
                let (read, write) = tokio::io::split(socket);
                (input, output) = (Input::new(read), Output::new(write));
            }
            SSL_REQUEST | GSS_REQUEST => {
                output.buffer.push(b'N');
                output.flush().await?;
            }
            CANCEL_REQUEST => {
                let pid = body.u32()? as i32;
                server.backends.cancel(pid, &body.0).await;
                return Ok(None);
            }
            version => return session(input, output, server, version, body, &peer).await,
        }
    }
}

async fn session(
    mut input: Input<ReadHalf<Socket>>,
    mut output: Output<WriteHalf<Socket>>,
    server: &Arc<Server>,
    version: u32,
    mut body: Body,
    peer: &Peer,
) -> Step<Option<Started>> {
    if version >> 16 != 3 {
        let (major, minor) = (version >> 16, version & 0xffff);
        let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
        return refuse(input, output, SqlError::new(state::FEATURE_NOT_SUPPORTED, message)).await;
    }
    let (mut user, mut database, mut settings) = (None, None, Vec::new());
    let mut named = Vec::new();
    let mut unknown_options = Vec::new();
    let parameters = match parameters(&mut body) {
        Ok(parameters) => parameters,
        Err(error) => return refuse(input, output, error).await,
    };
    for (name, value) in parameters {
        match name.as_str() {
            "user" => user = Some(value),
            "database" => database = Some(value),
            "options" => match options(&value) {
                Ok(more) => settings.extend(more),
                Err(error) => return refuse(input, output, error).await,
            },
            "replication" => {
                if !matches!(value.as_str(), "false" | "off" | "no" | "0") {
                    return refuse(input, output, SqlError::unsupported("replication")).await;
                }
            }
            _ if name.starts_with("_pq_.") => unknown_options.push(name),
            _ => named.push((name, value)),
        }
    }
    // Those of `options` come first, wherever that stands: a setting's own name has the last word.
    settings.extend(named);
    if version > NEWEST_PROTOCOL || !unknown_options.is_empty() {
        let version = version.min(NEWEST_PROTOCOL) as i32;
        output.put(&NegotiateProtocolVersion::new(version, unknown_options));
    }
    let Some(user) = user.filter(|user| !user.is_empty()) else {
        let error = SqlError::new(
            state::INVALID_AUTHORIZATION,
            "no PostgreSQL user name specified in startup packet",
        );
        return refuse(input, output, error).await;
    };
    let login = server.engine.login(&user);
    // `tenon` is the one database; tools that ask for `postgres`, and psql's default of the user's own name, mean it.
    let database = database.filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
    let wanted = Wanted {
        user: &user,
        database: &database,
        is_member: &|role| server.engine.is_member(&login, role),
    };
    if let Err(failure) = authenticate(&mut input, &mut output, server, peer, (&wanted, &login)).await {
        return match failure {
            Failure::Sql(error) | Failure::Fatal(error) => refuse(input, output, error).await,
            gone => Err(gone),
        };
    }
    output.put(&Authentication::Ok);
    if database != "tenon" && database != "postgres" && database != user {
        let error = SqlError::new(
            state::INVALID_CATALOG_NAME,
            format!("database \"{database}\" does not exist"),
        );
        return refuse(
            input,
            output,
            error.hint("The database of this server is named \"tenon\"."),
        )
        .await;
    }
    let role_connection = match server.role_connections.admit(&user, &database, &login) {
        Ok(connection) => connection,
        Err(error) => return refuse(input, output, error).await,
    };
    let secret_bytes = if version >= NEWEST_PROTOCOL { 32 } else { 4 };
    input.trust();
    Ok(Some(Started {
        input,
        output,
        user,
        database: "tenon".into(),
        settings,
        login,
        role_connection,
        secret_bytes,
    }))
}

/// Tells the client why there is no session.
pub async fn refuse(
    mut input: Input<ReadHalf<Socket>>,
    mut output: Output<WriteHalf<Socket>>,
    error: SqlError,
) -> Step<Option<Started>> {
    tracing::info!("connection refused: {error}");
    part(&mut input, &mut output, &error).await;
    Ok(None)
}

/// Tells the client the connection's last error, and waits a little for it to be read.
pub async fn part(input: &mut Input<ReadHalf<Socket>>, output: &mut Output<WriteHalf<Socket>>, error: &SqlError) {
    output.error(Severity::Fatal, error);
    let farewell = async {
        output.flush().await?;
        output.shutdown().await?;
        input.drain().await;
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(FAREWELL_TIMEOUT, farewell).await;
}

/// Name and value pairs up to an empty name.
fn parameters(body: &mut Body) -> Result<Vec<(String, String)>, SqlError> {
    let layout = || violation("invalid startup packet layout: expected terminator as last byte");
    let mut found = Vec::new();
    loop {
        let name = body.string().map_err(|_| layout())?;
        if name.is_empty() {
            return if body.0.is_empty() { Ok(found) } else { Err(layout()) };
        }
        found.push((name, body.string()?));
    }
}

/// The `options` of a startup packet: `-c name=value` or `--name=value`, blanks inside a value after a backslash.
fn options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => words
                .last_mut()
                .into_iter()
                .for_each(|word| word.extend(characters.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(long), _) => Some(long.replace('-', "_")),
            (_, Some("")) => words.next(),
            (_, Some(rest)) => Some(rest.to_owned()),
            _ => None,
        };
        match setting.as_deref().and_then(|setting| setting.split_once('=')) {
            Some((name, value)) => found.push((name.to_owned(), value.to_owned())),
            None => {
                let message = format!("invalid command-line argument for server process: {word}");
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(found)
}

async fn authenticate(
    input: &mut Input<ReadHalf<Socket>>,
    output: &mut Output<WriteHalf<Socket>>,
    server: &Server,
    peer: &Peer,
    (wanted, login): (&Wanted<'_>, &Login),
) -> Step<()> {
    let user = wanted.user;
    let Auth::Scram(scram) = &server.auth else {
        return Ok(());
    };
    let method = match server.hba() {
        Some(hba) => hba.method(peer, wanted).map_err(Failure::Fatal)?,
        None => Method::Scram,
    };
    if method != Method::Scram {
        // No password says that there is such a user.
        if login.role.is_none() && !scram.has(user) {
            let message = format!("role \"{user}\" does not exist");
            return Err(Failure::Fatal(SqlError::new(state::INVALID_AUTHORIZATION, message)));
        }
        return Ok(());
    }
    let failed = |why: String| {
        tracing::warn!(user, "authentication failed: {why}");
        let message = format!("password authentication failed for user \"{user}\"");
        Failure::Fatal(SqlError::new(state::INVALID_PASSWORD, message))
    };
    let authenticator = scram.authenticator(peer.tls);
    let mut mechanisms = vec!["SCRAM-SHA-256".to_owned()];
    if authenticator.supports_channel_binding() {
        mechanisms.insert(0, "SCRAM-SHA-256-PLUS".to_owned());
    }
    output.put(&Authentication::SASL(mechanisms.clone()));
    output.flush().await?;

    // SASLInitialResponse: the mechanism, an i32 length and the client's first message.
    let mut first = Body(password(input).await?, Charset::default());
    let mechanism = first.string()?;
    let length = first.u32()? as usize;
    if !mechanisms.contains(&mechanism) || length != first.0.len() {
        return Err(violation("client selected an invalid SASL authentication mechanism").into());
    }
    let (answer, state) = authenticator
        .on_client_first_message_with_secret(&first.0, scram.secret(user, login.verifier()))
        .map_err(|e| failed(e.to_string()))?;
    output.put(&Authentication::SASLContinue(answer.into()));
    output.flush().await?;

    let last = password(input).await?;
    let answer = state
        .on_client_final_message(&last)
        .map_err(|e| failed(e.to_string()))?;
    output.put(&Authentication::SASLFinal(answer.into()));
    Ok(())
}

async fn password(input: &mut Input<ReadHalf<Socket>>) -> Step<Bytes> {
    match input.next().await? {
        Message::Password(body) => Ok(body),
        _ => Err(Failure::Fatal(violation("expected SASL response"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_libpq_sends_them() {
        let pairs = |text| options(text).unwrap();
        let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(""), []);
        assert_eq!(
            pairs("-c geqo=off -cstatement_timeout=5min --search-path=a\\ b"),
            [
                owned("geqo", "off"),
                owned("statement_timeout", "5min"),
                owned("search_path", "a b")
            ]
        );
        assert_eq!(options("nonsense").unwrap_err().state.0, "42601");
    }

    #[test]
    fn startup_parameters_must_end() {
        let parse = |bytes: &'static [u8]| parameters(&mut Body(Bytes::from_static(bytes), Charset::default()));
        assert_eq!(parse(b"user\0ann\0\0").unwrap().len(), 1);
        assert_eq!(parse(b"user\0ann\0").unwrap_err().state.0, "08P01");
        assert_eq!(parse(b"user\0ann\0\0x").unwrap_err().state.0, "08P01");
    }
}
