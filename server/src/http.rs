//! What supervisors ask over HTTP: `/metrics`, `/healthz` (the process answers) and `/readyz` (it takes clients).

use crate::serve::{Server, accept};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// More connections at a time are closed.
const CONNECTIONS_MAX: usize = 64;
/// A client must be through with its question after this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// What a question may take, bytes.
const HEADER_BYTES_MAX: usize = 16 << 10;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers until the server stops.
pub async fn serve(listener: TcpListener, server: Arc<Server>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let shutdown = server.shutdown.clone();
    let take = |socket: TcpStream, _| {
        let Ok(permit) = connections.clone().try_acquire_owned() else {
            return;
        };
        let server = server.clone();
        tokio::spawn(async move {
            let answering = |request: Request<Incoming>| {
                let answer = answer(&request, &server);
                async { Ok::<_, Infallible>(answer) }
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(HEADER_BYTES_MAX)
                .serve_connection(TokioIo::new(socket), service_fn(answering));
            if let Err(error) = connection.await {
                tracing::debug!("http: {error}");
            }
            drop(permit);
        });
    };
    accept(listener, shutdown, take).await;
}

fn answer(request: &Request<Incoming>, server: &Server) -> Response<Full<Bytes>> {
    let (status, kind, body) = match request.uri().path() {
        _ if ![Method::GET, Method::HEAD].contains(request.method()) => (
            StatusCode::METHOD_NOT_ALLOWED,
            PLAIN,
            "GET and HEAD are allowed\n".into(),
        ),
        "/metrics" => (StatusCode::OK, OPEN_METRICS, server.metrics.text(server)),
        "/healthz" => (StatusCode::OK, PLAIN, "ok\n".into()),
        "/readyz" if server.is_ready() => (StatusCode::OK, PLAIN, "ready\n".into()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "not ready\n".into()),
        _ => (
            StatusCode::NOT_FOUND,
            PLAIN,
            "/metrics, /healthz and /readyz are here\n".into(),
        ),
    };
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}
