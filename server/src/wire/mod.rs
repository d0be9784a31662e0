//! The PostgreSQL wire protocol, version 3: one task a connection, its own loop over frames.
//!
//! `input` and `output` are the two halves of a socket, `message` what clients say. `startup` ends in a session,
//! `connection` runs it, `simple` and `extended` are the two query protocols, `results` sends rows and `copy` moves
//! COPY data. `hba` are the rules of who may connect, `auth` and `tls` what proves it, `login` what the user's role says of it.
//! `cancel` is how a running statement is stopped, `aside` how long work leaves the threads of the sockets to others.

mod aside;
pub mod auth;
pub mod cancel;
pub mod connection;
mod copy;
mod extended;
mod failure;
pub mod hba;
mod input;
pub mod login;
pub(crate) mod message;
mod output;
mod results;
mod settings;
mod simple;
mod startup;
#[cfg(test)]
mod tests;
pub mod tls;
