//! `inet_client_addr` and its like: both ends of a client's connection.

use crate::pg::settings::Ends;
use datafusion::common::ScalarValue;
use tenon_storage::network::{Address, INET_BYTES};

/// What a function of this name tells; None: there is none.
pub(super) fn value(name: &str, ends: Option<Ends>) -> Option<ScalarValue> {
    let address = |end: Option<std::net::SocketAddr>| {
        let bytes = end.map(|end| Address::of_host(end.ip()).to_bytes(false));
        ScalarValue::FixedSizeBinary(INET_BYTES as i32, bytes)
    };
    let port = |end: Option<std::net::SocketAddr>| ScalarValue::Int32(end.map(|end| i32::from(end.port())));
    let (client, server) = (ends.map(|ends| ends.client), ends.map(|ends| ends.server));
    Some(match name {
        "inet_client_addr" => address(client),
        "inet_server_addr" => address(server),
        "inet_client_port" => port(client),
        "inet_server_port" => port(server),
        _ => return None,
    })
}
