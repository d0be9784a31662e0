//! The Tenon server: configuration, the PostgreSQL wire protocol, and the encoding of results.
//!
//! `serve` holds what connections share, `wire` speaks with one client, `encode` and `params` turn values into bytes and
//! back. `demo` fills the server with TPC-H; `load`, `backup` and `health` are the commands that talk to a running server; `http`
//! answers supervisors with what `metrics` counts.

mod allocator;
mod app;
mod backup;
pub mod config;
pub mod demo;
pub mod descriptors;
pub mod encode;
pub mod health;
mod http;
pub mod load;
pub mod logging;
pub mod metrics;
pub mod params;
pub mod progress;
pub mod serve;
pub mod wire;

pub use app::main_entry;
